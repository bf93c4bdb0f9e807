#!/usr/bin/env python3
"""Blocks that are counted: each ends with its last reference. Arguments: memsight, then the
victims; one of GLib has "boxes" in its name."""
import os
import sys
import tempfile

import whole

FREED, ALIVE = 1, 0
RULES = ["object_new:size=arg1", "object_ref:ref=arg1", "object_unref(_full)?:unref=arg1",
         "object_release:unref=arg1,left=ret"]
EXPECTED = {(104, FREED): 100, (112, ALIVE): 100, (120, FREED): 50, (128, FREED): 50,
            (136, FREED): 100, (144, FREED): 10, (152, FREED): 30, (152, ALIVE): 10}
BOXES = {(1000, FREED): 300, (1000, ALIVE): 100, (22, FREED): 150, (22, ALIVE): 50}


def equal(checks, found, expected, what):
    checks.that(found == expected, f"{what}: {found}, not {expected}")


def record(checks, memsight, folder, victim, options):
    trace, database = os.path.join(folder, "run.mst"), os.path.join(folder, "run.db")
    outcome = whole.Outcome([memsight, "record", "--quiet", "--force", "--source", "none", "-o",
                             trace, *options, "--", victim])
    for difference in outcome.differs_from(whole.Outcome([victim])):
        checks.that(False, f"{victim}: {difference}")
    if os.path.exists(database):
        os.unlink(database)
    whole.run([memsight, "analyze", "-o", database, trace])
    database = whole.Database(database)
    return database, {row[:-1]: row[-1] for row in database.ask(
        "SELECT size, end_kind, count(*) FROM allocation WHERE pool_id IS NOT NULL"
        " GROUP BY 1, 2")}


def check_objects(checks, memsight, folder, victim):
    options = [word for rule in RULES for word in ("--alloc-function", rule)]
    # Without the function that frees, one that was given back unseen lives on.
    database, found = record(checks, memsight, folder, victim, options)
    equal(checks, found, EXPECTED | {(160, ALIVE): 20}, f"{victim}: blocks by size and end")
    equal(checks, database.losses(), {}, f"{victim}: losses")
    database, found = record(checks, memsight, folder, victim,
                             options + ["--alloc-function", "object_dispose:free=arg1"])
    equal(checks, found, EXPECTED | {(160, FREED): 20}, f"{victim}: with what frees")
    equal(checks, database.losses(), {}, f"{victim}: losses with what frees")
    # Without the function that makes them no reference is to a block; what destructors take is of
    # the call around it.
    database, found = record(checks, memsight, folder, victim, options[2:6])
    equal(checks, (found, database.losses()), ({}, {
        ("own allocators", "references to blocks whose begin was not seen"): 9210}),
          f"{victim}: without what makes blocks")


def check_boxes(checks, memsight, folder, victim):
    database, found = record(checks, memsight, folder, victim, ["--allocators", "glib"])
    equal(checks, {key: n for key, n in found.items() if key[0] in (1000, 22)}, BOXES,
                 "boxes by size and end")
    equal(checks, database.losses(), {}, "losses")
    # What they lie in says the same.
    equal(checks, database.ask(
        "SELECT count(*) FROM allocation AS box JOIN allocation AS chunk ON chunk.id ="
        " box.within_id WHERE box.size IN (1000, 22) AND (box.end_kind = 0) = (chunk.end_kind ="
        " 0)"), [(600,)], "blocks of malloc around them that end when they do")


def main():
    memsight, *victims = sys.argv[1:]
    checks = whole.Checks()
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        for victim in victims:
            check = check_boxes if "boxes" in os.path.basename(victim) else check_objects
            check(checks, memsight, folder, os.path.abspath(victim))
    checks.end()


main()
