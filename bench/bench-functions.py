#!/usr/bin/env python3
"""What a call of an empty function costs its thread: plain, by memsight, with hooks of
-finstrument-functions that count or take times, and by uftrace where it is installed. Then what a
block costs that functions of an allocator take and give, and how far the time that memsight reports
of a function is from what the function itself saw.

bench-functions.py MEMSIGHT SOURCE [ROUNDS]: SOURCE is function-calls.c. Prints ns a call above the
plain program's: the least and the median of the rounds, which take turns."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

MEMSIGHT, SOURCE = map(os.path.abspath, sys.argv[1:3])
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 5


def compiled(folder, name, *options):
    path = os.path.join(folder, name)
    subprocess.run([os.environ.get("CC", "cc"), "-O2", *options, "-o", path, SOURCE], check=True)
    return path


def ns_of(command, folder):
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
    return float(done.stdout.splitlines()[0])


def known(record, plain, ns, folder, *blocks):
    """How many ns a call are reported more than the function saw; its malloc and free are some."""
    seen = ns_of([*record, "--function-include", "^f_known$", "--", plain, str(ns), *blocks],
                 folder)
    done = subprocess.run([MEMSIGHT, "report", "calls.mst", "--functions", "--format", "json"],
                          check=True, capture_output=True, text=True, cwd=folder)
    row, = json.loads(done.stdout)
    return row["time"] / row["trips"] - seen


def main():
    with tempfile.TemporaryDirectory() as folder:
        plain = compiled(folder, "plain")
        record = [MEMSIGHT, "record", "--quiet", "--force", "-o", "calls.mst", "--source", "none"]
        empty = [*record, "--function-include", "^f_empty$"]
        ways = {
            "memsight": [*empty, "--", plain],
            "memsight, trips only": [*empty, "--trips-only", "--", plain],
            "memsight, not stored": [*empty, "--sink", "null", "--", plain],
            "-finstrument-functions, counted": [compiled(folder, "counted", "-DCOUNTED",
                                                         "-finstrument-functions")],
            "-finstrument-functions, timed": [compiled(folder, "timed", "-DCOUNTED", "-DTIMED",
                                                       "-finstrument-functions")],
        }
        if shutil.which("uftrace"):
            ways["uftrace"] = ["uftrace", "record", "--no-pager", "-d", "uftrace.data",
                               compiled(folder, "profiled", "-pg")]
        found = {name: [] for name in ways}
        base = []
        for _ in range(ROUNDS):
            base.append(ns_of([plain], folder))
            for name, command in ways.items():
                found[name].append(ns_of(command, folder))
        least = min(base)
        print(f"plain: {least:.2f} ns a call")
        for name, values in found.items():
            print(f"{name}: {min(values) - least:.1f} ns more (median"
                  f" {statistics.median(values) - least:.1f})")
        pairs = [ns_of([*record, "--alloc-function", "pool_take:size=arg2", "--alloc-function",
                        "pool_give:free=arg1", "--", plain, "pair"], folder)
                 for _ in range(ROUNDS)]
        print(f"a block by --alloc-function, taken and given: {min(pairs):.1f} ns (median"
              f" {statistics.median(pairs):.1f}), plain {ns_of([plain, 'pair'], folder):.1f}")
        for ns, *blocks in (200,), (1000,), (1000, "blocks"), (1000, "stacks"):
            errors = [known(record, plain, ns, folder, *blocks) for _ in range(ROUNDS)]
            print(f"reported of {ns} ns {' '.join(blocks)}:"
                  f" {statistics.median(errors):+.1f} ns a call (from"
                  f" {min(errors):+.1f} to {max(errors):+.1f})")


main()
