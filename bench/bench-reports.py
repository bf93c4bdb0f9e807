#!/usr/bin/env python3
"""Measure every report on a big database: seconds of CPU time (the machine may be busy) and of wall
time.

bench-reports.py MEMSIGHT MAKE-TRACE [BLOCKS [SAMPLES [FILE.mst]]]; by default ten million each. The
bars: 2 s each, the overview 0.3 s, with a window of time or addresses 10 s; a query of all blocks
as CSV in constant memory. A FILE that is there is used, and kept.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

PARTS = [["--sites", "--from", "1s", "--to", "2s"], ["--flat", "--from", "1s", "--to", "6s"],
         ["--peak", "--addr", "0-7fffffffffff"], ["--sites", "--process", "1001"]]


def run(command):
    """Wall seconds, CPU seconds and the peak of memory in MiB of a command."""
    started = time.monotonic()
    pid = os.posix_spawn(command[0], command, os.environ,
                         file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"bench-reports: {' '.join(command)} failed")
    return time.monotonic() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def show(name, command, bar):
    wall, cpu, mib = run(command)
    print(f"{name:40} {cpu:7.3f} s CPU  {wall:7.3f} s wall  {mib:6.0f} MiB   bar {bar} s"
          f"{'' if cpu <= bar else '   OVER'}", flush=True)
    return mib


def reports(memsight):
    text = subprocess.run([memsight, "report", "--help"], capture_output=True, text=True,
                          check=True).stdout
    section = text.split("What to show:")[1].split("\n\n")[0]
    names = re.findall(r"^ +(?:-\w, )?--([\w-]+)(?=\s|$)", section, re.MULTILINE)
    return ["--" + name for name in names if name != "fail"]


def measure(memsight, database, n_blocks):
    show("(overview)", [memsight, "report", database], 0.3)
    for name in reports(memsight):
        show(name, [memsight, "report", database, name], 2)
    for part in PARTS:
        show(" ".join(part), [memsight, "report", database, *part], 10)
    query = [memsight, "query", "--format", "csv", database, "SELECT * FROM allocation LIMIT "]
    few = show("query csv, 1/10 of the blocks", [*query[:-1], query[-1] + str(n_blocks // 10)], 60)
    all_of_them = show("query csv, all blocks", [*query[:-1], query[-1] + "-1"], 60)
    print(f"memory of a query of ten times the rows: x {all_of_them / few:.2f}")


def main():
    memsight, make_trace, *rest = sys.argv[1:]
    n_blocks, n_samples = (int(rest[i]) if len(rest) > i else 10_000_000 for i in (0, 1))
    memsight = os.path.abspath(memsight)
    with tempfile.TemporaryDirectory(prefix="memsight-bench-") as folder:
        trace = rest[2] if len(rest) > 2 else os.path.join(folder, "big.mst")
        if not os.path.exists(trace):
            subprocess.run([make_trace, "--kind", "heap", "--events", str(2 * n_blocks),
                            "--samples", str(n_samples), "--processes", "2", "--threads", "4",
                            "--live", "100000", "--stacks", "1000", "-o", trace], check=True)
        show("analyze", [memsight, "analyze", trace], 600)
        measure(memsight, trace + ".db", n_blocks)


main()
