#!/usr/bin/env python3
"""Measure analyze on synthetic traces: events per second, memory, size of the database.

bench-analyze.py MEMSIGHT MAKE-TRACE [EVENTS...]; by default one and ten million events. Prints one
line for each, and whether memory grew with the number of events.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

LIVE = 100_000


def run(command):
    """Wall seconds, CPU seconds and the peak of memory in KiB of a command."""
    started = time.monotonic()
    pid = os.posix_spawn(command[0], command, os.environ,
                         file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"bench-analyze: {' '.join(command)} failed")
    return time.monotonic() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def measure(memsight, make_trace, folder, n_events):
    trace = os.path.join(folder, f"{n_events}.mst")
    truth = os.path.join(folder, "truth.json")
    subprocess.run([make_trace, "--kind", "mixed", "--events", str(n_events), "--processes", "2",
                    "--threads", "4", "--live", str(LIVE), "--stacks", "1000", "--samples", "0",
                    "-o", trace, "--truth", truth], check=True)
    wall, cpu, kib = run([memsight, "analyze", "--force", trace])
    with open(truth, encoding="utf-8") as file:
        expected = json.load(file)
    counted = subprocess.run([memsight, "query", "--format", "csv", trace + ".db",
                              "SELECT value FROM total WHERE name IN ('allocations', 'live_bytes')"
                              " ORDER BY name"], check=True, capture_output=True, text=True)
    found = [int(line) for line in counted.stdout.split()[1:]]
    if found != [expected["heap"]["births"], expected["heap"]["live_bytes"]]:
        sys.exit(f"bench-analyze: {found} is not the truth")
    size = os.path.getsize(trace + ".db")
    os.remove(trace)
    os.remove(trace + ".db")
    print(f"{n_events:>11,} events  {n_events / wall / 1e6:5.2f} M/s of wall time"
          f"  {n_events / cpu / 1e6:5.2f} M/s of CPU time"
          f"  {kib / 1024:6.0f} MiB  {size / n_events:5.1f} B of database per event", flush=True)
    return kib


def main():
    memsight, make_trace, *counts = sys.argv[1:]
    counts = [int(count) for count in counts] or [1_000_000, 10_000_000]
    print(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory(prefix="memsight-bench-") as folder:
        peaks = [measure(os.path.abspath(memsight), make_trace, folder, n) for n in counts]
    print(f"memory from the first to the last: x {peaks[-1] / peaks[0]:.2f}")


resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
main()
