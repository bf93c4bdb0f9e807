#!/usr/bin/env python3
"""Every form of a database answers the same, to the last digit: that which is made beside a trace,
with what it leaves until it is asked for, that of `analyze -o`, and those of an older memsight.
Arguments: memsight, make-trace, example program word-index, a folder for it to read. By hand, with
traces of one's own: same-answers.py --old OLD-MEMSIGHT MEMSIGHT TRACE..."""
import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import whole

EXPORTS = ["folded", "pprof", "chrome", "callgrind", "heaptrack-csv", "csv", "json"]
WITHIN = [
    "sites", "peak", "leaks", "timeline", "objects", "threads", "flat", "hot", "sharing",
    "histogram", "heatmap"
]
ROWS = {  # of all rows, of which the tables may be virtual
    "allocation": "id, process_id, thread_id, address, size, allocated_ns, freed_ns, "
                  "freed_thread_id, stack_id, call, end_kind,"
                  " previous_allocation_id, free_call, kind",
    "sample": "*", "touch": "*", "mapping": "*", "mapping_event": "*", "site": "*", "total": "*",
    "timeline": "*",
    "loss": "*",
}


def reports(memsight):
    """The names of all reports, from the help of the command."""
    section = whole.run([memsight, "report", "--help"]).split("What to show:")[1].split("\n\n")[0]
    names = re.findall(r"^ +(?:-\w, )?--([\w-]+)(?=\s|$)", section, re.MULTILINE)
    return [name for name in names if name not in ("fail", "full", "full-names")]


def query(memsight, path, sql):
    return json.loads(whole.run([memsight, "query", "--format", "json", path, sql]))


def windows(memsight, path):
    """Options that select a part: of time, of addresses, of processes and threads."""
    row = query(memsight, path, "SELECT duration_ns AS n, (SELECT max(pid) FROM process) AS pid,"
                                " (SELECT max(tid) FROM thread) AS tid FROM run")[0]
    area = query(memsight, path,
                 "SELECT min(address) AS low, max(address) AS high FROM allocation")[0]
    low, high = area["low"] or 0, area["high"] or 1
    span = ["--from", f"{row['n'] // 3}ns", "--to", f"{row['n'] // 2}ns"]
    return [
        span, ["--to", f"{row['n'] // 7}ns"], ["--process", str(row["pid"])],
        ["--thread", str(row["tid"]), *span],
        ["--addr", f"{low + (high - low) // 4:x}-{high + 1:x}"]
    ]


def questions(memsight, path):
    """Each as arguments, where PATH is the database or trace, and OUT a file that is written."""
    names = reports(memsight)
    yield ["report", "PATH"]
    for name in names:
        yield ["report", "PATH", "--" + name]
        yield ["report", "PATH", "--" + name, "--limit", "0", "--format", "json"]
    for metric in ["blocks", "peak", "leaked", "time", "faults"]:
        for name in ["flat", "hierarchical"]:
            yield ["report", "PATH", "--" + name, "--by", metric, "--limit", "0", "--format", "csv"]
    for window in windows(memsight, path):
        for name in WITHIN:
            if name != "heatmap" or "--thread" not in window:
                yield ["report", "PATH", "--" + name, "--limit", "0", "--format", "json", *window]
        if "--thread" not in window:
            yield ["plot", "PATH", "--kind", "heatmap", "-f", "-o", "OUT.svg", *window]
    yield ["plot", "PATH", "--kind", "heatmap", "-f", "-o", "OUT.svg"]
    yield ["plot", "PATH", "--kind", "timeline", "-f", "-o", "OUT.svg"]
    for form in EXPORTS:
        yield ["export", "PATH", "--format", form, "-f", "-o", "OUT.out"]
    for table, columns in ROWS.items():
        yield ["query", "PATH", "--format", "csv", f"SELECT {columns} FROM {table} ORDER BY 1, 2"]


class Form:
    """One way to make a database of a trace, and its answers."""

    def __init__(self, name, memsight, folder, trace, beside):
        self.name, self.memsight, self.folder = name, memsight, os.path.join(folder, name)
        os.mkdir(self.folder)
        self.path = "t.mst" if beside else "t.db"
        if beside:
            shutil.copyfile(trace, os.path.join(self.folder, "t.mst"))
        else:
            whole.run([memsight, "analyze", "-o", os.path.join(self.folder, "t.db"), trace])

    def ask(self, question):
        """What is told, and a digest of what is written. Names of the file itself do not count."""
        words = [{"PATH": self.path}.get(word, word.replace("OUT", "out")) for word in question]
        done = subprocess.run([self.memsight, *words], cwd=self.folder, capture_output=True,
                              check=False, env=whole.environment())
        told = re.sub(rb"\bt\.(mst\.db|mst|db)", b"TRACE", done.stdout)
        written = b""
        for name in sorted(os.listdir(self.folder)):
            if name.startswith("out"):
                path = os.path.join(self.folder, name)
                with open(path, "rb") as file:
                    written += re.sub(rb"[^\s\"/>]*\bt\.(mst\.db|mst|db)", b"TRACE", file.read())
                os.remove(path)
        return done.returncode, told, hashlib.sha256(written).hexdigest()


def difference(question, old, new):
    lines = [(a, b) for a, b in zip(old[1].splitlines(), new[1].splitlines()) if a != b][:2]
    return (f"{' '.join(question)}: status {old[0]} and {new[0]},"
            f" {len(old[1])} and {len(new[1])} bytes,"
            f" {'other' if old[2] != new[2] else 'same'} file; first lines that differ: {lines}")


def compare(checks, trace, old, memsight):
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        first = Form("old", old, folder, trace, False)
        others = [Form("beside", memsight, folder, trace, True)]
        if old != memsight:
            others.append(Form("plain", memsight, folder, trace, False))
        n = 0
        for question in questions(old, os.path.join(first.folder, first.path)):
            expected = first.ask(question)
            n += expected[0] == 0
            for form in others:
                found = form.ask(question)
                checks.that(found == expected, f"{os.path.basename(trace)}: {form.name}: " +
                            difference(question, expected, found) if found != expected else "")
        checks.that(n > 60, f"only {n} questions have an answer")
        print(f"{os.path.basename(trace)}: {n} answers compared")


def made_up(make_trace, folder):
    """Traces of several processes, with samples, of more events than a chunk has."""
    for seed, kind, n_events, n_samples in [(1, "mixed", 200000, 30000),
                                            (2, "realloc", 20000, 2000)]:
        path = os.path.join(folder, f"{kind}.mst")
        whole.run([
            make_trace, "--kind", kind, "--seed",
            str(seed), "--events",
            str(n_events), "--samples",
            str(n_samples), "--processes", "2", "--threads", "3", "--live", "2000", "-o", path
        ])
        yield path


def recorded(memsight, example, tree, folder):
    path = os.path.join(folder, "recorded.mst")
    whole.run([memsight, "record", "-q", "-o", path, example, tree, "1000000"])
    yield path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--old")
    parser.add_argument("memsight")
    parser.add_argument("rest", nargs="+")
    arguments = parser.parse_args()
    checks = whole.Checks()
    memsight = os.path.abspath(arguments.memsight)
    if arguments.old:
        for trace in arguments.rest:
            compare(checks, trace, os.path.abspath(arguments.old), memsight)
        checks.end()
    make_trace, example, tree = arguments.rest
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        for trace in [*made_up(make_trace, folder), *recorded(memsight, example, tree, folder)]:
            compare(checks, trace, memsight, memsight)
    checks.end()


if __name__ == "__main__":
    main()
