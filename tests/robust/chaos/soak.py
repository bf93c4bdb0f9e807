#!/usr/bin/env python3
"""A long recording: after its first tenth the recorder's memory grows by no more than 1 MiB, and
the trace stays within --max-size.

usage: soak.py MEMSIGHT CHURN [EVENTS [MAX-SIZE-IN-MIB]]
"""
import os
import re
import subprocess
import sys
import tempfile
import time

from whole import Checks, environment

MIB = 1 << 20


def memory_of(pid):
    """Resident memory of its own, in bytes: without the pool, whose size is --buffer-size."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        found = dict(re.findall(r"^(RssAnon|RssFile):\s+(\d+) kB", file.read(), re.MULTILINE))
    return sum(map(int, found.values())) * 1024


def sizes_over_time(recorder, trace):
    """(memory, size of the trace) each half second while it runs."""
    found = []
    while recorder.poll() is None:
        try:
            path = trace if os.path.exists(trace) else trace + ".partial"
            found.append((memory_of(recorder.pid), os.path.getsize(path)))
        except (OSError, ValueError):
            pass
        time.sleep(0.5)
    return found


def main(memsight, churn, n_events="2000000000", most_mib="4096"):
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="memsight-soak-") as folder:
        trace = os.path.join(folder, "soak.mst")
        with open(os.path.join(folder, "out"), "w+", encoding="ascii") as out:
            began = time.monotonic()
            recorder = subprocess.Popen([
                memsight, "record", "-o", trace, "--max-size", most_mib + "M", "--", churn, "-t",
                "1", "-d", "4", "-n", n_events
            ], stdout=out, env=environment())
            found = sizes_over_time(recorder, trace)
            seconds = time.monotonic() - began
            out.seek(0)
            print(out.read().strip())
        checks.that(recorder.returncode == 0, f"status {recorder.returncode}")
        checks.that(len(found) >= 20, f"{len(found)} looks: too short to tell")
        warm = found[len(found) // 10:]
        memory = [memory for memory, _ in warm]
        most_bytes = max(size for _, size in found)
        print(
            f"{int(n_events):,} events in {seconds:.0f} s; recorder {min(memory) // 1024} to "
            f"{max(memory) // 1024} KiB"
            f" after warm-up; trace at most {most_bytes / MIB:.1f} MiB of {most_mib}")
        checks.that(
            max(memory) - memory[0] <= MIB, f"memory grew by {max(memory) - memory[0]} bytes")
        checks.that(most_bytes <= int(most_mib) * MIB, f"the trace grew to {most_bytes} bytes")
        size = os.path.getsize(trace)
        checks.that(size <= int(most_mib) * MIB, f"the trace has {size} bytes")
    checks.end()


main(*map(str, sys.argv[1:]))
