#!/usr/bin/env python3
"""Measure the import of a folder of Heimdallr's: events a second, beside Heimdallr's own analyzer.

bench-heimdallr.py MEMSIGHT [EVENTS]; by default a million events of 4 threads. Heimdallr's
vis/analyze.py makes 236 events a second of such logs (it commits each to SQLite).
"""
import os
import random
import resource
import subprocess
import sys
import tempfile
import time

THEIRS = 236
N_THREADS = 4


def write_logs(folder, n_events):
    """Allocations and frees in each thread, 10,000 blocks live, stacks of 4 frames."""
    rng = random.Random(1)
    stacks = ["".join(",%d+%x" % (rng.randrange(1, 9), rng.randrange(1 << 20)) for _ in range(4))
              for _ in range(1000)]
    for thread in range(N_THREADS):
        live, now = [], 10**12 + thread
        with open(f"{folder}/alloc_{thread}_{100 + thread}.log", "w", encoding="ascii") as file:
            for i in range(n_events // N_THREADS):
                now += 1000
                seconds = "%d.%09d" % divmod(now, 10**9)
                if len(live) < 2500 or i % 2:
                    address = (thread + 1) << 40 | i << 12
                    live.append(address)
                    file.write("+%s,%016x,%016x%s\n" % (seconds, address, 4096, rng.choice(stacks)))
                else:
                    address = live.pop(rng.randrange(len(live)))
                    file.write("-%s,%016x,%016x%s\n" % (seconds, address, 4096, stacks[0]))
    with open(f"{folder}/maps.log", "w", encoding="ascii") as file:
        file.writelines(f"{n}: /lib/none-{n}.so\n" for n in range(1, 9))


def main():
    memsight = os.path.abspath(sys.argv[1])
    n_events = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    with tempfile.TemporaryDirectory(prefix="memsight-bench-") as home:
        folder = home + "/bench.heimdallr.1"
        os.mkdir(folder)
        write_logs(folder, n_events)
        started = time.monotonic()
        subprocess.run([memsight, "analyze", "-o", home + "/x.db", folder], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wall = time.monotonic() - started
        told = subprocess.run([memsight, "query", "--format", "csv", home + "/x.db",
                               "SELECT value FROM total WHERE name = 'events'"], check=True,
                              capture_output=True, text=True)
        if told.stdout.split()[1] != str(n_events // N_THREADS * N_THREADS):
            sys.exit(f"bench-heimdallr: {told.stdout} is not the truth")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    rate = n_events / wall
    print(f"load average: {os.getloadavg()[0]:.1f}; {n_events:,} events in {wall:.2f} s:"
          f" {rate:,.0f} events/s, {rate / THEIRS:,.0f} times Heimdallr's analyzer; {peak:.0f} MiB")


main()
