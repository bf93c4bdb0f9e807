#!/usr/bin/env python3
"""A forked child touches what it inherited: each page once, in the child, with the owner that the
parent made. Arguments: memsight, the victim."""
import sys

from whole import Checks, Recording

FAULTS = """
SELECT touch.address / 4096, owner.name, owner_id, process.birth, process.parent_id
FROM touch JOIN sample ON sample.id = sample_id JOIN owner ON owner.id = owner_kind
JOIN process ON process.id = sample.process_id
WHERE role = 3 AND touch.address >= ? AND touch.address < ? AND process.birth = 'fork'"""

# The owner's row was made by the parent (heap, mapping), or is the variable.
QUESTIONS = {
    "heap": "SELECT process_id = :parent FROM allocation WHERE id = :id",
    "mapping": "SELECT process_id = :parent FROM mapping WHERE id = :id",
    "global": "SELECT name = 'victim_global' FROM symbol WHERE id = :id",
}


def main():
    memsight, victim = sys.argv[1:]
    recording = Recording(memsight, [victim])
    recording.need_source("faults")
    checks = Checks()
    for line in recording.output.splitlines():
        kind, start, end, n_pages = line.split()
        rows = recording.ask(FAULTS, int(start), int(end))
        owners = {row[1:] for row in rows}
        print("%-8s %d of %s pages" % (kind, len(rows), n_pages), sorted(owners))
        checks.that(len(rows) == len({row[0] for row in rows}) == int(n_pages),
                    kind + ": each page once")
        checks.that(len(owners) == 1, kind + ": one owner")
        for name, identity, birth, parent in owners:
            checks.that(name == kind and birth == "fork", "%s: %s in %s" % (kind, name, birth))
            found = recording.database.execute(
                QUESTIONS[kind], dict(id=identity, parent=parent)).fetchall()
            checks.that(found == [(1,)], "%s: the owner's row %s" % (kind, found))
    checks.end()


main()
