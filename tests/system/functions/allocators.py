#!/usr/bin/env python3
"""Allocators of programs, by their functions: each block that they hand out is one, of the size and
pool that it is, and what the program does is as without us. Arguments: memsight, victims."""
import json
import os
import sys
import tempfile

import whole

MEMSIGHT = os.path.abspath(sys.argv[1])
checks = whole.Checks()
FREED, REALLOC, RESET, CUT, ALIVE = 1, 2, 5, 6, 0
RULES = [
    "pool_take:size=arg2,pool=arg1", "pool_take_zeros|pool_or_jump:size=arg2,ret=ptr,pool=arg1",
    "pool_take_array:size=int1*int2,pool=arg3", "pool_get:size=arg2,ptr=*arg1,pool=arg7",
    "pool_grow:size=arg4,old=arg2", "pool_give:free=arg2", "pool_clear:reset=arg1",
    "pool_give_list:free=arg2,next=arg3", "pool_make:create=ret,name=maker",
    "pool_step:size=114,pool=arg1", "pool_take_more:size=arg2,pool=arg1,name=more"]


def equal(found, expected, what):
    checks.that(found == expected, f"{what}: {found}, not {expected}")


def record(folder, command, *options):
    trace = os.path.join(folder, "run.mst")
    outcome = whole.Outcome([MEMSIGHT, "record", "--quiet", "--force", "--source", "none", "-o",
                             trace, *options, "--", *command])
    database = os.path.join(folder, "run.db")
    if os.path.exists(database):
        os.unlink(database)
    whole.run([MEMSIGHT, "analyze", "-o", database, trace])
    for difference in outcome.differs_from(whole.Outcome(command)):
        checks.that(False, f"{command}: {difference}")
    return whole.Database(database)


def ends(database, *columns):
    names = ", ".join(columns)
    return {row[:-1]: row[-1] for row in database.ask(
        f"SELECT {names}, count(*) FROM allocation JOIN pool ON pool.id = pool_id"
        f" GROUP BY {names}")}


BLOCKS = {
    (101, ALIVE): 100, (102, ALIVE): 100, (103, ALIVE): 100, (104, ALIVE): 100,
    (105, ALIVE): 100, (107, REALLOC): 100, (108, FREED): 100, (109, ALIVE): 50,
    (110, ALIVE): 1, (111, FREED): 200, (112, RESET): 1000, (113, CUT): 10,
    (114, ALIVE): 15}


def check_stripped(folder, victim):
    """The same functions, by their addresses in a copy without names."""
    found = json.loads(whole.run([MEMSIGHT, "record", "--quiet", "--functions-dry-run",
                                  "--function-include", "^pool_", "--format", "json", victim]))
    places = {row["function"]: row["address"] for row in found}
    stripped = os.path.join(folder, "stripped")
    whole.run(["strip", "-o", stripped, victim])
    options = []
    for rule in RULES:
        names, keys = rule.split(":")
        for name in names.split("|"):
            options += ["--alloc-function", f"stripped!{places[name]}:{keys}"]
    database = record(folder, [stripped], *options)
    equal(ends(database, "size", "end_kind"), BLOCKS, f"{victim}, stripped: blocks")
    equal(database.losses(), {}, f"{victim}, stripped: losses")
    inside = f"stripped!{int(places['pool_take'], 16) + 1:#x}"
    for option in ("--alloc-function", inside + ":size=arg2"), ("--function-include", inside):
        outcome = whole.Outcome([MEMSIGHT, "record", "--functions-dry-run", *option, stripped])
        checks.that(outcome.status == 1 and f"is {places['pool_take']} meant?" in outcome.messages,
                    f"{option}: {outcome.status}, {outcome.messages}")


def check_victim(folder, victim):
    options = [word for rule in RULES for word in ("--alloc-function", rule)]
    for stacks in ("dwarf", "fp"):
        database = record(folder, [victim], *options, "--stacks", stacks)
        equal(ends(database, "size", "end_kind"), BLOCKS,
              f"{victim}, {stacks}: blocks by size and end")
        equal(database.losses(), {}, f"{victim}, {stacks}: losses")
        equal(database.ask("SELECT n_blocks, live_blocks FROM pool WHERE address <> 0 ORDER BY"
                           " n_blocks"), [(966, 566), (1010, 0)], f"{victim}, {stacks}: pools")
        equal(database.ask("SELECT count(*) FROM allocation WHERE pool_id IS NOT NULL AND"
                           " within_id IS NULL"), [(0,)], "each lies in its chunk")
        named = database.ask(
            "SELECT DISTINCT function FROM allocation JOIN stack ON stack.id = stack_id JOIN frame"
            " ON frame.id = frame_id WHERE pool_id IS NOT NULL AND size IN (101, 109, 112)"
            " ORDER BY 1")
        equal(named, [("all_kinds",), ("deeper",), ("in_thread",)], f"{victim}, {stacks}: callers")
    rows = json.loads(whole.run([MEMSIGHT, "report", database.path, "--pools", "--format", "json"]))
    equal(sorted(row["blocks"] for row in rows), [966, 1010], "--pools")


def main():
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        for victim in sys.argv[2:]:
            check_victim(folder, os.path.abspath(victim))
            check_stripped(folder, os.path.abspath(victim))
    checks.end()


main()
