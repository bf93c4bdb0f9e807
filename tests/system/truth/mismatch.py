#!/usr/bin/env python3
"""Blocks that another family of functions gave back are counted, named, and told. Arguments:
memsight, victim."""
import sys

import whole

WANTED = [(8001, "operator new", "free", 3), (8002, "operator new[]", "operator delete", 2),
          (8003, "malloc", "operator delete[]", 1)]


def main(memsight, victim):
    checks = whole.Checks()
    run = whole.Recording(memsight, [victim], ["--source", "none"])
    found = run.ask(
        "SELECT size, born_by, freed_by, count(*) FROM mismatched_free GROUP BY 1, 2, 3")
    print(found)
    checks.that(found == WANTED, f"the view has {found}, not {WANTED}")
    total = run.one("SELECT value FROM total WHERE name = 'mismatched_frees'")
    checks.that(total == 6, f"the total is {total}")
    report = whole.run([memsight, "report", run.path])
    checks.that("6 blocks were given back by another family" in report, report)
    checks.that(
        run.one("SELECT count(*) FROM allocation WHERE size = 8004") == 20,
        "20 are as they should be")
    checks.end()


main(*sys.argv[1:])
