#!/usr/bin/env python3
"""A program whose own malloc maps memory with its lock held must not be asked for memory then.
Arguments: memsight, the victim."""
import os
import sys
import tempfile

from whole import Checks, Outcome


def main():
    memsight, victim = sys.argv[1:]
    checks = Checks()
    plain = Outcome([victim])
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "run.mst")
        traced = Outcome([memsight, "record", "-o", trace, "--", victim], timeout=120)
        checks.that((plain.status, plain.stdout) == (6, b"1\n"),
                    f"the victim works: {plain.stdout}")
        for difference in plain.differs_from(traced):
            checks.that(False, difference)
        checks.that(" 1 process," in traced.messages, traced.messages)
    checks.end()


main()
