#!/usr/bin/env python3
"""What a call of an empty function costs its thread: plain, by memsight, with hooks of
-finstrument-functions that count or take times, and by uftrace where it is installed.

bench-functions.py MEMSIGHT SOURCE [ROUNDS]: SOURCE is function-calls.c. Prints ns a call above the
plain program's: the least and the median of the rounds, which take turns."""
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


def main():
    with tempfile.TemporaryDirectory() as folder:
        plain = compiled(folder, "plain")
        record = [MEMSIGHT, "record", "--quiet", "--force", "-o", "calls.mst", "--source", "none",
                  "--function-include", "^f_empty$"]
        ways = {
            "memsight": [*record, "--", plain],
            "memsight, not stored": [*record, "--sink", "null", "--", plain],
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


main()
