#!/usr/bin/env python3
"""record --mode: whether pauses of the program steer its functions. Arguments: memsight, victim."""
import os
import sys
import tempfile

import whole

MEMSIGHT, VICTIM = map(os.path.abspath, sys.argv[1:3])
checks = whole.Checks()


def record(folder, *options):
    trace = os.path.join(folder, "a.mst")
    whole.run([MEMSIGHT, "record", "-q", "-f", "-o", trace, *options, "--", VICTIM])
    whole.run([MEMSIGHT, "analyze", "-f", trace])
    database = whole.Database(trace + ".db")
    return {name: (trips, left) for name, trips, left in database.ask(
        "SELECT name, sum(n_trips), sum(n_left_open) FROM region_total GROUP BY name")}


def main():
    chosen = ("--function-include", "^f_")
    with tempfile.TemporaryDirectory() as folder:
        for options in ((), ("--mode", "trace")):
            found = record(folder, *chosen, *options)
            checks.that(found == {"f_called": (10 + 70 + 100 + 1, 0), "f_pauses": (10, 0)},
                        f"{options}: {found}")
        found = record(folder, *chosen, "--mode", "region")
        checks.that(found == {"f_called": (10 + 10 + 1, 0), "f_pauses": (10, 0)},
                    f"--mode region: {found}")
    for options, words in ((("--mode", "region"), "--mode is for functions that are chosen"),
                           (("--mode", "region", "--trips-only", *chosen), "exclude each other")):
        outcome = whole.Outcome([MEMSIGHT, "record", *options, "--", VICTIM])
        checks.that(outcome.status == 2 and words in outcome.messages,
                    f"{options}: {outcome.status} {outcome.messages}")
    checks.end()


if __name__ == "__main__":
    main()
