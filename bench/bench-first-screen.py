#!/usr/bin/env python3
"""How long a person waits for the first screen: `memsight report X.mst` from nothing, beside
heaptrack_print of the same command where heaptrack is installed, and beside another memsight
(--old). One after the other, in turns; medians of the seconds until all is printed and until the
command ends, of CPU seconds, the most memory, the size of what is left on disk, and ratios of what
the first screens took.

bench-first-screen.py [--rounds N] [--old MEMSIGHT] [--trace X.mst] MEMSIGHT
Without --trace python3 with PYTHONMALLOC=malloc is recorded: json of 60,000 objects, 26 M
events. Then also with --report-on-exit, analysed after the recording and beside it: the seconds
from the end of the program's work to the last output, and those that its work took; the same of a
program that pauses."""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

WORK = """
import json, random
random.seed(1)
d = [{"id": i, "name": "n%d" % i, "v": [random.random() for _ in range(6)],
      "t": {"a": str(i), "b": [i, i + 1]}} for i in range(60000)]
for k in range(3):
    e = json.loads(json.dumps(d))
"""
PAUSES = """
import time
kept = []
for turn in range(30):
    kept.append([str(i) for i in range(20000)])
    time.sleep(0.1)
"""
# Behind other work: when it began and ended.
TIMED = """import time as clock
begin_of_work = clock.monotonic()
%s
print(begin_of_work, clock.monotonic())
"""
COMMAND = ["/usr/bin/python3", "-c", WORK]
ENVIRONMENT = {**os.environ, "PYTHONMALLOC": "malloc"}


def run(command, **options):
    """Wall seconds to the last output and to the end, CPU seconds and the peak of memory in KiB."""
    started = printed = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **options)
    while os.read(child.stdout.fileno(), 1 << 16):
        printed = time.monotonic()
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"bench-first-screen: {' '.join(command)[:200]} failed")
    return (printed - started, time.monotonic() - started, usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss)


class Reader:
    """One way to the first screen."""

    def __init__(self, name, command, makes=None):
        self.name, self.command, self.makes = name, command, makes
        self.rounds = []
        self.size = 0

    def read(self):
        if self.makes and os.path.exists(self.makes):
            os.remove(self.makes)
        self.rounds.append(run(self.command))
        self.size = os.path.getsize(self.makes) if self.makes else 0

    def line(self, first):
        printed, wall, cpu, kib = (statistics.median(column) for column in zip(*self.rounds))
        ratios = [theirs[0] / ours[0] for ours, theirs in zip(first.rounds, self.rounds)]
        return (f"{self.name:24} {printed:8.2f} s  ends {wall:8.2f} s  {cpu:8.2f} s CPU"
                f"  {kib / 1024:7.0f} MiB  {self.size / 1e6:7.0f} MB on disk"
                f"  {statistics.median(ratios):6.2f} times the first")


def readers(arguments, folder):
    """memsight first; all of the same program."""
    trace = os.path.join(folder, "x.mst")
    if arguments.trace:
        shutil.copyfile(arguments.trace, trace)
    else:
        _, wall, _, _ = run([arguments.memsight, "record", "-q", "-o", trace, "--", *COMMAND],
                         env=ENVIRONMENT)
        print(f"recorded by memsight in {wall:.2f} s")
    found = [Reader("memsight", [arguments.memsight, "report", trace], trace + ".db")]
    if arguments.old:
        found.append(Reader("the older memsight", [arguments.old, "report", trace], trace + ".db"))
    if shutil.which("heaptrack") and not arguments.trace:
        name = os.path.join(folder, "heap")
        _, wall, _, _ = run(["heaptrack", "-o", name, *COMMAND], env=ENVIRONMENT)
        print(f"recorded by heaptrack in {wall:.2f} s")
        file = next(path for path in os.listdir(folder) if path.startswith("heap"))
        found.append(Reader("heaptrack_print", ["heaptrack_print", os.path.join(folder, file)]))
    return found


def wait_at_the_end(arguments, folder, work, when):
    """Seconds behind the end of the work, and those that it took."""
    trace = os.path.join(folder, "wait.mst")
    done = subprocess.run(
        [arguments.memsight, "record", "-q", "-f", "--analyze=" + when, "--report-on-exit", "-o",
         trace, "--", "/usr/bin/python3", "-c", TIMED % work], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, env=ENVIRONMENT, check=True, text=True)
    ended = time.monotonic()
    begin, end = map(float, done.stdout.split())
    return ended - end, end - begin


def measure_waits(arguments, folder):
    for name, work in (("json", WORK), ("one that pauses", PAUSES)):
        rounds = {"after": [], "beside": []}
        for _ in range(arguments.rounds):
            for when, found in rounds.items():
                found.append(wait_at_the_end(arguments, folder, work, when))
        for when, found in rounds.items():
            wait, took = (statistics.median(column) for column in zip(*found))
            print(f"{name}, analysed {when:6} {wait:8.2f} s behind its end, its work {took:8.2f} s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--old")
    parser.add_argument("--trace")
    parser.add_argument("memsight")
    arguments = parser.parse_args()
    arguments.memsight = os.path.abspath(arguments.memsight)
    with tempfile.TemporaryDirectory(prefix="memsight-bench-") as folder:
        found = readers(arguments, folder)
        for _ in range(arguments.rounds):
            for reader in found:
                reader.read()
        for reader in found:
            print(reader.line(found[0]))
        if not arguments.trace:
            measure_waits(arguments, folder)


main()
