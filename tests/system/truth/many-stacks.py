#!/usr/bin/env python3
"""2^17 call stacks, each met twice, are 2^17 rows, although the program's table of nodes does not
hold them all and tells some again under other ids. Arguments: memsight, the victim."""
import sys

from whole import Checks, Recording

N_STACKS = 1 << 17

MET = """
SELECT n, count(*) FROM (SELECT stack_id, count(*) AS n FROM allocation WHERE size = 1717 GROUP BY
    1)
GROUP BY 1"""

DEPTHS = """
SELECT min(depth), max(depth), count(*) FROM stack
WHERE id IN (SELECT stack_id FROM allocation WHERE size = 1717)"""


def main():
    memsight, victim = sys.argv[1:]
    recording = Recording(memsight, [victim, "many-stacks-twice"], ["--source", "none"])
    checks = Checks()
    losses = recording.losses()
    n_lost = sum(losses.values())
    met = recording.ask(MET)
    least, most, n_rows = recording.ask(DEPTHS)[0]
    n_displaced = recording.one(
        "SELECT sum(value) FROM counter WHERE name = 'stack nodes displaced'") or 0
    print(f"blocks met by (times, stacks): {met}; {n_rows:,} rows, depth {least} to {most}; "
          f"{n_displaced:,} nodes displaced; lost: {losses or 'nothing'}")
    checks.that(n_rows <= N_STACKS, "a stack is one row")
    checks.that(n_displaced > 0, "the table was full")
    checks.that(least == most, "all of them have the same depth")
    if n_lost == 0:
        checks.that(met == [(2, N_STACKS)], "each stack was met twice")
    else:
        checks.that(
            sum(n * count for n, count in met) + n_lost >= 2 * N_STACKS, "losses are counted")
    checks.end()


main()
