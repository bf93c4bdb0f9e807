#!/usr/bin/env python3
"""How many instructions of the program an event costs, and in which functions of libtracealloc.so.

usage: bench-instructions.py MEMSIGHT CHURN [--events N] [--markdown]

churn runs under valgrind's callgrind, recorded and not; each case twice, with N and with 2 N
events, and the difference counts: what happens once does not. An event is a malloc or a free, half
of each. Instructions are no time: a time stamp is one of them and takes 5 to 10 ns. The collector
is another process and not in it.
"""
import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Name, options of memsight (None: not recorded), arguments of churn.
CASES = [
    ("untraced, 4 frames", None, ["-d", "4"]),
    ("paused", [], ["-d", "4", "-p"]),
    ("no stacks", ["--stacks", "none"], ["-d", "4"]),
    ("4 frames", [], ["-d", "4"]),
    ("16 frames", [], ["-d", "16"]),
    ("1,000 stacks of 4 to 40", [], ["-s", "1000"]),
    ("4 frames, null sink", ["--sink", "null"], ["-d", "4"]),
]
LINE = re.compile(r"^\s*([\d,]+) \([^)]*\)\s+(\S+):(\S+)")
# What the compiler has split off belongs to its function.
SUFFIX = re.compile(r"(\.(part|constprop|isra|cold)\.?\d*|'\d+)+$")


def count(args, options, arguments, folder):
    """Instructions by (is ours, function) of one run."""
    out = os.path.join(folder, "callgrind.out")
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", args.churn,
               *arguments]
    if options is not None:
        command = [args.memsight, "record", "--quiet", "--force", "--source", "none", "-o",
                   os.path.join(folder, "x.mst"), *options, "--", *command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}")
    text = subprocess.run(["callgrind_annotate", "--threshold=100", out], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    counts = collections.Counter()
    for line in text.splitlines():
        found = LINE.match(line)
        if found:
            number, path, function = found.groups()
            counts["tracealloc/" in path, SUFFIX.sub("", function)] += int(number.replace(",", ""))
    return counts


def measure(args, options, arguments, folder):
    """Instructions per event: of the whole program, and of our functions by name."""
    once, twice = (count(args, options, [*arguments, "-n", str(n)], folder)
                   for n in (args.events, 2 * args.events))
    per_event = {key: (twice[key] - once[key]) / args.events for key in twice}
    total = sum(per_event.values())
    ours = {name: n for (is_ours, name), n in per_event.items() if is_ours and n >= 0.5}
    return total, dict(sorted(ours.items(), key=lambda item: -item[1]))


def show(is_markdown, name, total, ours):
    parts = ", ".join(f"{function} {n:.0f}" for function, n in ours.items())
    line = (name, f"{total:.0f}", f"{sum(ours.values()):.0f}", parts)
    if is_markdown:
        print("| " + " | ".join(line) + " |", flush=True)
    else:
        print(f"{line[0]:26} {line[1]:>8} {line[2]:>8}  {parts}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memsight")
    parser.add_argument("churn")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    if not shutil.which("valgrind"):
        print("valgrind: not installed")
        return 77
    if args.markdown:
        print("| churn | all | ours | of them in |\n| --- | --- | --- | --- |")
    else:
        print(f"{'instructions per event':26} {'all':>8} {'ours':>8}  of them in")
    with tempfile.TemporaryDirectory(prefix="memsight-bench-") as folder:
        for name, options, arguments in CASES:
            total, ours = measure(args, options, arguments, folder)
            show(args.markdown, name, total, ours)
    return 0


if __name__ == "__main__":
    sys.exit(main())
