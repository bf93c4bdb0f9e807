#!/usr/bin/env python3
"""The faults of a victim that touches known pages of each kind of memory: each page once, with its
owner. Arguments: memsight, the victim."""
import sys

from whole import Checks, Recording

# Which owner the pages must have, and what the owner must be called or hold.
OWNERS = {
    "heap": ("heap", "SELECT address <= :start AND address + size >= :end FROM allocation"
                     " WHERE id = :id"),
    "global": ("global", "SELECT name = 'victim_global' FROM symbol WHERE id = :id"),
    "stack": ("stack", "SELECT is_main = 1 FROM thread WHERE id = :id"),
    "thread-stack": ("stack", "SELECT is_main = 0 FROM thread WHERE id = :id"),
    "tls": ("tls", "SELECT is_main = 1 FROM thread WHERE id = :id"),
    "mapping": ("mapping", "SELECT address <= :start AND address + size >= :end FROM mapping"
                           " WHERE id = :id"),
    "raw-mapping": ("mapping", "SELECT address <= :start AND address + size >= :end AND seen = 2"
                               " FROM mapping WHERE id = :id"),
}

FAULTS = """
SELECT touch.address / 4096, owner.name, owner_id, phase, share, weight
FROM touch JOIN sample ON sample.id = sample_id JOIN owner ON owner.id = owner_kind
JOIN frame ON frame.id = touch.frame_id
WHERE role = 3 AND address >= ? AND address < ? AND frame.function = 'touch_pages'"""


def check_region(checks, recording, kind, start, end, n_pages):
    name, question = OWNERS[kind]
    rows = recording.ask(FAULTS, start, end)
    owners = {row[1:4] for row in rows}
    print("%-12s %4d of %4d pages" % (kind, len(rows), n_pages), sorted(owners))
    checks.that(len(rows) == n_pages, "%s: %d faults on %d pages" % (kind, len(rows), n_pages))
    checks.that(len({row[0] for row in rows}) == n_pages, kind + ": not each page once")
    checks.that(len(owners) == 1, kind + ": one owner")
    checks.that(all(row[4:] == (1, 1) for row in rows), kind + ": share and weight are 1")
    for owner, identity, phase in owners:
        checks.that(owner == name, "%s: owner %s" % (kind, owner))
        checks.that(phase == 0, kind + ": in use")
        named = dict(id=identity, start=start, end=end)
        found = recording.database.execute(question, named).fetchall()
        checks.that(found == [(1,)], "%s: the owner's row %s" % (kind, found))


def main():
    memsight, victim = sys.argv[1:]
    recording = Recording(memsight, [victim])
    recording.need_source("faults")
    checks = Checks()
    seen = set()
    for line in recording.output.splitlines():
        kind, start, end, n_pages = line.split()
        seen.add(kind)
        check_region(checks, recording, kind, int(start), int(end), int(n_pages))
    checks.that(seen == set(OWNERS), "the victim touched all kinds of memory")

    total = recording.one("SELECT n_samples FROM source WHERE name = 'faults'")
    shares = recording.one("SELECT sum(n) FROM owner_share WHERE role = 3")
    checks.that(total == shares, "all %s faults have an owner: %s" % (total, shares))
    checks.end()


main()
