#!/usr/bin/env python3
"""--sharing finds the line that two threads write to at different bytes, tells it from the one
where they write to the same bytes, though another thread had filled both before, and does not list
lines of one thread, of readers, and of threads that come one after the other. Arguments: memsight,
the victim."""
import json
import sys

from whole import Checks, Recording, run


def main():
    memsight, victim = sys.argv[1:]
    checks = Checks()
    recording = Recording(memsight, [victim], ["-q"])
    recording.need_source("clock")
    apart, same, *own = [int(address, 16) for address in recording.output.split()]
    rows = json.loads(
        run([memsight, "report", recording.path, "--sharing", "--limit", "0", "--format", "json"]))
    lines = {int(row["line"], 16): row for row in rows}
    whole = recording.one(
        "SELECT sum(weight) FROM sample JOIN source ON source.id = source_id WHERE name = 'clock'")
    checks.that(len(lines) == len(rows), f"the main thread shares a line with a worker: {rows}")
    for address, sharing in [(apart, "different bytes"), (same, "same bytes")]:
        row = lines.get(address)
        checks.that(row and row["sharing"] == sharing, f"the line with {sharing}: {row}")
        # A third of a second of both threads, at about 1 kHz; a busy machine may lose most of it.
        checks.that(row and row["touches"] >= 20 and row["writes"] > 0,
                    f"touches of {sharing}: {row}")
        # Samples stand for periods that differ: a share is one of time, not of their number.
        checks.that(row and abs(row["of time"] - row["time"] / whole) < 1e-6,
                    f"time of {sharing}: {row}, of {whole} ns")
        checks.that(row and "main" in row["object"], f"who allocated it: {row}")
    for address in own:
        checks.that(address not in lines,
                    f"a line that nobody shares is listed: {lines.get(address)}")
    print(f"{len(rows)} lines; {lines.get(apart)}")
    checks.end()


main()
