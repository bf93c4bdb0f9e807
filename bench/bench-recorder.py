#!/usr/bin/env python3
"""What a sample costs the recorder, by kind of code, beside another memsight where one is given:
its CPU time in a long run less that in a short one, so that start and end, and what is found out
of new code, are not in it; that of the short one; and bytes of the trace. Versions take turns,
medians over rounds.

Arguments: memsight, the victim of bench/accuracy, rounds, [memsight of another version].
"""
import collections
import os
import shutil
import statistics
import sys
import tempfile

from measure import Failed, run

RATE = 4999
SHORT, LONG = 0.5, 2.5  # seconds
PYTHON = """import json, time
end = time.process_time() + %g
rows = [{'a': [i, str(i)]} for i in range(%d)]
while time.process_time() < end: json.loads(json.dumps(rows))"""
# Lists of the second one are so long that arenas come and go in each turn.
PYTHONS = {"python": 20, "python, large lists": 2000}
KINDS = ("mix", *PYTHONS, "list", "search", "indexed", "gather")


def command(victim, kind, seconds):
    if kind in PYTHONS:
        return ["/usr/bin/python3", "-c", PYTHON % (seconds, PYTHONS[kind])]
    return [victim, kind, "%d" % (seconds * 1000), "1"]


class Recorder:
    def __init__(self, memsight, folder):
        self.memsight, self.folder = memsight, folder
        self.first = []
        if os.geteuid() == 0 and shutil.which("chrt"):
            self.first = ["chrt", "-r", "5"]  # before other work, where we may

    def measure(self, load):
        """CPU us of the recorder, samples, bytes of the trace."""
        trace, database = (os.path.join(self.folder, name) for name in ("a.mst", "a.db"))
        run([*self.first, self.memsight, "record", "-q", "-f", "--no-alloc", "-o", trace,
             "--source", f"clock@{RATE}", "--", *load])
        run([self.memsight, "analyze", "-o", database, trace])
        _, _, output = run([self.memsight, "query", "--format", "csv", database,
                            "SELECT collector_cpu_ns / 1e3, sum(n_taken) FROM run, source_ledger"])
        os.remove(database)
        cpu, n = (float(each) for each in output.splitlines()[1].split(","))
        return cpu, n, os.path.getsize(trace)

    def cost(self, victim, kind):
        """Us and bytes of a sample more, and us of a sample of the short run."""
        few, many = (self.measure(command(victim, kind, seconds)) for seconds in (SHORT, LONG))
        n = many[1] - few[1]
        return (many[0] - few[0]) / n, (many[2] - few[2]) / n, few[0] / few[1]


def main():
    victim, n_rounds = sys.argv[2], int(sys.argv[3])
    others = sys.argv[4:]
    print("| code | us a sample | bytes a sample | us a sample of the first %g s |\n%s|" % (
        SHORT, "| --- " * 4))
    with tempfile.TemporaryDirectory(prefix="memsight-bench-") as folder:
        recorders = [Recorder(memsight, folder) for memsight in (*others, sys.argv[1])]
        for kind in KINDS:
            found = collections.defaultdict(list)
            for _ in range(n_rounds):
                for recorder in recorders:
                    found[recorder].append(recorder.cost(victim, kind))
            cells = [", now ".join("%.*f" % (2 - i % 2 * 2, statistics.median(
                row[i] for row in found[recorder])) for recorder in recorders) for i in range(3)]
            print("| %s | %s |" % (kind, " | ".join(cells)), flush=True)


try:
    main()
except Failed as failure:
    sys.exit(str(failure))
