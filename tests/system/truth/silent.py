#!/usr/bin/env python3
"""A thread that allocates nothing has a stack: what it touches there is the stack's, in time and
faults, decoded by analyze or by the recorder (--private). A stack that the program gave a thread
from a block is the block's. Arguments: memsight, the victim."""
import sys

import whole

WAYS = [[], ["--private"], ["--no-alloc"]]


def owners_at(run, start, end):
    """(owner, tid of the stack's thread) of all touches between two addresses, and how many."""
    return {
        (kind, tid): n
        for kind, tid, n in run.ask(
            "SELECT owner_kind, (SELECT tid FROM thread WHERE id = owner_id AND owner_kind = 5), "
            "count(*)"
            " FROM touch WHERE address >= ? AND address < ? AND role IN (1, 3) GROUP BY 1, 2",
            start, end)
    }


def check_way(checks, memsight, victim, options):
    run = whole.Recording(memsight, [victim], options)
    run.need_source("clock")
    lines = [line.split() for line in run.output.splitlines()]
    threads = [(int(tid), int(start, 16), int(end, 16)) for tid, start, end in lines]
    for tid, start, end in threads[:-1]:
        found = owners_at(run, start, end)
        checks.that(set(found) == {(5, tid)}, f"{options}: stack of {tid}: {found}")
        checks.that(sum(found.values()) >= 50, f"{options}: only {found} at the stack of {tid}")
    if "--no-alloc" not in options:
        found = owners_at(run, *threads[-1][1:])
        checks.that({kind for kind, _ in found} == {1}, f"{options}: a block as a stack: {found}")


def main(memsight, victim):
    checks = whole.Checks()
    for options in WAYS:
        check_way(checks, memsight, victim, options)
    checks.end()


main(*sys.argv[1:])
