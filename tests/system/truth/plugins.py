#!/usr/bin/env python3
"""Libraries that follow each other at the same address: every block has its own allocating
function. Arguments: memsight, the victim, its two libraries."""
import os
import sys

from whole import Checks, Recording

BLOCKS = """
SELECT allocation.size, frame.function, frame.path, count(*)
FROM allocation JOIN stack ON stack.id = stack_id JOIN frame ON frame.id = stack.frame_id
WHERE allocation.size IN (4001, 4002) GROUP BY 1, 2, 3 ORDER BY 1"""


def main():
    memsight, *victim = sys.argv[1:]
    recording = Recording(memsight, victim)
    n_rounds, n_same = (int(word) for word in recording.output.split())
    rows = [(size, function, os.path.basename(path), n)
            for size, function, path, n in recording.ask(BLOCKS)]
    print("%d of %d times at the same address:" % (n_same, n_rounds), rows)
    checks = Checks()
    checks.that(rows == [(4001, "allocate_in_a", "plugin-a.so", n_rounds),
                         (4002, "allocate_in_b", "plugin-b.so", n_rounds)],
                "each library's blocks come from its own function")
    n_modules = recording.one("SELECT count(*) FROM module WHERE path LIKE '%plugin-_.so'"
                              " AND unload_ns IS NOT NULL")
    checks.that(n_modules == 2 * n_rounds, "%d modules were unloaded" % n_modules)
    checks.end()


main()
