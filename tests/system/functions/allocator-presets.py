#!/usr/bin/env python3
"""The functions of allocators that memsight knows: blocks as the victim made them. Arguments:
memsight, the allocator, the victim."""
import os
import sys
import tempfile

import whole

FREED, RESET, ALIVE = 1, 5, 0
# Of these sizes, by how they ended.
EXPECTED = {
    "glib": {(104, FREED): 701, (104, ALIVE): 300, (24, FREED): 250},
    "apr": {(1016, RESET): 300, (2040, RESET): 1000, (3064, RESET): 500, (10, RESET): 1,
            (4088, ALIVE): 7},
}


def main():
    memsight, allocator, victim = sys.argv[1:]
    checks = whole.Checks()
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        trace, database = os.path.join(folder, "run.mst"), os.path.join(folder, "run.db")
        outcome = whole.Outcome([memsight, "record", "--quiet", "--source", "none", "-o", trace,
                                 "--allocators", allocator, "--", victim])
        for difference in outcome.differs_from(whole.Outcome([victim])):
            checks.that(False, difference)
        whole.run([memsight, "analyze", "-o", database, trace])
        rows = whole.Database(database).ask(
            "SELECT size, end_kind, count(*) FROM allocation JOIN pool ON pool.id = pool_id WHERE"
            " allocator = ? GROUP BY 1, 2", allocator)
        found = {(size, end): n for size, end, n in rows}
        if allocator == "glib" and not found:
            whole.skip("slices of this GLib are blocks of malloc")
        expected = EXPECTED[allocator]
        sizes = {size for size, _ in expected}
        found = {key: n for key, n in found.items() if key[0] in sizes}
        checks.that(found == expected, f"{found}, not {expected}")
        print(found)
    checks.end()


main()
