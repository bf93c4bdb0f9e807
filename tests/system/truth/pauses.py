#!/usr/bin/env python3
"""What is born and freed within one pause leaves no trace. Arguments: memsight, the victim."""
import sys

from whole import Checks, Recording


def main():
    memsight, victim = sys.argv[1:]
    recording = Recording(memsight, [victim], ["--source", "none"])
    checks = Checks()
    for name in ["unrecorded_frees", "before_trace_frees"]:
        n = recording.one("SELECT value FROM total WHERE name = ?", name)
        print(name, n)
        checks.that(not n, "%s: %s" % (name, n))
    checks.end()


main()
