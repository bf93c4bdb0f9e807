#!/usr/bin/env python3
"""Call stacks of samples: three quarters of the time are called by one function, a quarter by
another; by frame pointers in a program that has them, by unwind tables in one that has none; and by
tables in each instruction of a prologue or an epilogue. Arguments: memsight, the victim with frame
pointers, the one without, recursive victims."""
import csv
import io
import re
import sys

from whole import Checks, Recording, run

CHAIN = """WITH RECURSIVE up(sample, id, text) AS (
      SELECT sample.id, stack_id, '' FROM sample JOIN source ON source.id = source_id WHERE name =
          'clock'
      UNION ALL SELECT sample, stack.parent_id, coalesce(frame.function, '?') || ' ' || text
      FROM up JOIN stack ON stack.id = up.id JOIN frame ON frame.id = stack.frame_id)
    SELECT text, count(*) FROM up WHERE id IS NULL GROUP BY text"""


def check_part(checks, memsight, recording):
    """Of a part of the time only its own samples count."""
    half = recording.one("SELECT duration_ns / 2 FROM run")
    wanted = recording.one("SELECT sum(weight) FROM sample JOIN source ON source.id = source_id"
                           " WHERE name = 'clock' AND stack_id IS NOT NULL AND time_ns < ?", half)
    text = run([
        memsight, "report", "--flat", "--by", "time", "--to", f"{half}ns", "--limit", "0",
        "--format", "csv", recording.path
    ])
    rows = list(csv.DictReader(io.StringIO(text)))
    found = sum(int(row["self"]) for row in rows)
    checks.that(found == wanted, f"{found} ns of the first half are told, {wanted} were sampled")
    checks.that(
        max(float(row["total %"]) for row in rows) <= 1 + 1e-9, f"more than all of it: {text}")


def check(checks, memsight, victim, how, whole):
    recording = Recording(memsight, [victim],
                          ["--no-alloc", "--source", "clock", "--sample-stacks", how])
    recording.need_source("clock")
    n, n_with = recording.ask(
        "SELECT count(*), count(stack_id) FROM sample JOIN source ON source.id = source_id"
        " WHERE name = 'clock'")[0]
    checks.that(n_with >= 0.99 * n, f"{how}: {n_with} of {n} samples have a call stack")
    chains = dict(recording.ask(CHAIN))
    inside = {name: sum(count for text, count in chains.items() if f" {name} " in f" {text}")
              for name in ("take_three", "take_one")}
    if whole:
        n_whole = sum(count for text, count in chains.items()
                      if re.search(r"main (take_three|take_one) take (work )?$", text))
        checks.that(n_whole >= 0.97 * n, f"{how}: {n_whole} of {n} stacks are whole: {chains}")
    check_part(checks, memsight, recording)
    found = {}
    text = run([memsight, "report", "--flat", "--by", "time", "--format", "csv", recording.path])
    for row in csv.DictReader(io.StringIO(text)):
        if row["total %"]:
            share, low, high = (100 * float(row[name])
                                for name in ("total %", "total low", "total high"))
            found[row["function"]] = share, max(share - low, high - share)
    print(how, n, "samples", inside, found)
    # Twice the 95 % interval: one run in 15,000 is outside of it.
    for name, true in (("take_three", 75), ("take_one", 25)):
        total, half = found.get(name, (-1, 0))
        checks.that(
            abs(total - true) <= 2 * half + 1,
            f"{how}: {name} {total:.1f} ±{half:.1f}, in truth {true}")


def check_recursion(checks, memsight, victim):
    """Whatever instruction is hit, the way out is known up to main, and no call of it is missed."""
    recording = Recording(memsight, [victim],
                          ["--no-alloc", "--source", "clock", "--sample-stacks", "dwarf"])
    recording.need_source("clock")
    n = recording.one(
        "SELECT count(*) FROM sample JOIN source ON source.id = source_id WHERE name = 'clock'")
    chains = recording.ask(CHAIN)
    n_inside = sum(count for text, count in chains if "tree " in text)
    n_whole = sum(count for text, count in chains if re.search(r"(^| )main( tree){1,13} $", text))
    print(victim, n, "samples", n_inside, "inside", n_whole, "whole")
    checks.that(n > 100 and n_inside >= 0.9 * n,
                f"{victim}: {n_inside} of {n} stacks are of the recursion")
    checks.that(n_whole >= 0.995 * n_inside, f"{victim}: {n_whole} of {n_inside} stacks reach main")


def main():
    checks = Checks()
    memsight, with_pointers, without, *recursive = sys.argv[1:]
    check(checks, memsight, with_pointers, "fp", False)
    check(checks, memsight, with_pointers, "dwarf", True)
    check(checks, memsight, without, "dwarf", True)
    for victim in recursive:
        check_recursion(checks, memsight, victim)
    checks.end()


main()
