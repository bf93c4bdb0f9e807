#!/usr/bin/env python3
"""Who forked whom is known exactly, and what a child shares with its parent, whether perf tells of
forks or not. Arguments: memsight, the victim."""
import sys

from whole import Checks, Recording

N_CHILDREN = 60
N_BLOCKS = 40

N_CHURNING = N_CHILDREN * 2 // 3

# One in the handler of each child; in churn() of the parent, once and for each child, and of two in
# three children.
N_BORN = N_CHILDREN + N_BLOCKS * (1 + N_CHILDREN + N_CHURNING)

# As the report counts: a process is what it became by exec.
PROCESSES = """
SELECT count(*) FROM process WHERE NOT EXISTS (SELECT 1 FROM process AS next
    WHERE next.parent_id = process.id AND next.pid = process.pid AND next.birth = 'exec')"""

ORPHANS = "SELECT count(*) FROM process WHERE parent_id IS NULL AND number > 1"


def check(checks, recording, what):
    checks.that(recording.output == f"{N_CHILDREN}\n", f"the program worked: {recording.output!r}")
    for name, sql, right in [
        ("processes", PROCESSES, N_CHILDREN + 1), ("processes of nobody", ORPHANS, 0),
        ("processes whose number is not known", "SELECT count(*) FROM process WHERE pid = 0", 0),
        ("blocks", "SELECT count(*) FROM allocation WHERE size IN (48, 64, 100)", N_BORN),
        ("frees of a parent's blocks in a child",
         "SELECT value FROM total WHERE name = 'inherited_frees'", N_BLOCKS * N_CHURNING),
        ("images that were not traced", "SELECT count(*) FROM process WHERE NOT traced", 0),
        ("missed frees", "SELECT value FROM total WHERE name = 'missed_frees'", 0),
        ("frees of blocks that nobody saw being born",
         "SELECT value FROM total WHERE name = 'before_trace_frees'", 0)
    ]:
        found = recording.one(sql)
        print(f"{what}: {name}: {found}")
        checks.that(found == right, f"{what}: {right} {name}, not {found}")
    checks.that(recording.losses() == {}, f"{what}: nothing is lost: {recording.losses()}")


def main():
    memsight, victim = sys.argv[1:]
    checks = Checks()
    for what, options in [("all sources", []), ("allocations alone", ["--source", "none"])]:
        check(checks, Recording(memsight, [victim], options), what)
    checks.end()


main()
