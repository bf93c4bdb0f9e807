#!/usr/bin/env python3
"""Two runs compared: nothing where nothing differs, and the exact difference where something does.
Arguments: memsight, example program word-index, a folder for it to read."""
import json
import os
import shutil
import sys

import whole

MEMSIGHT, EXAMPLE, TREE = sys.argv[1:4]
METRICS = ["bytes", "blocks", "peak", "leaked", "faults"]
checks = whole.Checks()


def diff(before, after, *options):
    return json.loads(whole.run([MEMSIGHT, "diff", before, after, "--limit", "0", "--format", "json",
                                 *options]))


def record(program, folder):
    return whole.Recording(MEMSIGHT, [program, folder, "100000"], ["-q", "--source", "none"])


def text_of(before, after, *options):
    return whole.run([MEMSIGHT, "diff", before, after, *options])


def check_same(first, second):
    for by in [*METRICS, "time"]:
        checks.that(diff(first.path, first.path, "--by", by) == [], f"a run differs from itself by {by}")
    starts = [{row for row in db.ask("SELECT start FROM module")} for db in (first, second)]
    checks.that(starts[0] != starts[1], "both runs were loaded at the same addresses: nothing is proved")
    paths = [db.one("SELECT exe FROM process") for db in (first, second)]
    checks.that(paths[0] != paths[1], "both runs have the same path: nothing is proved")
    for by in METRICS[:4]:
        rows = diff(first.path, second.path, "--by", by)
        checks.that(rows == [], f"other addresses and another folder differ by {by}: {rows[:3]}")
    checks.that("No call site differs." in text_of(first.path, second.path), "no word about no difference")


def check_other(first, other):
    for by, column in [("bytes", "bytes"), ("blocks", "n_blocks"), ("leaked", "live_bytes")]:
        rows = diff(first.path, other.path, "--by", by)
        before, after = (db.one(f"SELECT sum({column}) FROM site") for db in (first, other))
        checks.that(sum(row["change"] for row in rows) == after - before, f"changes by {by} do not add up")
        checks.that(all(row["change"] == row["after"] - row["before"] != 0 for row in rows), f"a row by {by}")
        sizes = [abs(row["change"]) for row in rows]
        checks.that(sizes == sorted(sizes, reverse=True) and sizes, f"the order by {by}")
        back = diff(other.path, first.path, "--by", by)
        checks.that(sum(row["change"] for row in back) == before - after, f"the way back by {by}")


def check_repetitions(first, second, other):
    path = os.path.join(first.folder.name, "all.db")
    whole.run([MEMSIGHT, "analyze", "-o", path, first.trace, second.trace, other.trace])
    program = os.path.basename(EXAMPLE)
    checks.that("(3 runs, mean)" in text_of(path + ":" + program, path + ":1"), "all repetitions are meant")
    checks.that(diff(path + ":1", path + ":2") == [], "two runs of one database")
    rows = diff(path, path)
    checks.that(rows == [], "repetitions differ from themselves")
    pair = os.path.join(first.folder.name, "pair.db")
    whole.run([MEMSIGHT, "analyze", "-o", pair, first.trace, second.trace])
    rows = diff(pair, path)
    checks.that(rows and all(row["±95 %"] is not None for row in rows), "means without their interval")
    for row in rows:
        # Two equal runs, and a mean with one run of three that differs: never sure.
        checks.that(row["significant"] == "no", f"significant: {row}")
    checks.that("differ by less than their 95 % interval" in text_of(pair, path), "noise is not counted")
    refused = whole.Outcome([MEMSIGHT, "diff", path + ":none", path])
    checks.that(refused.status == 1 and "no run is called none" in refused.messages, refused.messages)


def main():
    first = record(EXAMPLE, TREE)
    copy = os.path.join(first.folder.name, os.path.basename(EXAMPLE))
    shutil.copy(EXAMPLE, copy)
    second = record(copy, TREE)
    few = os.path.join(first.folder.name, "few")
    shutil.copytree(os.path.join(TREE, "..", "schemas"), few)
    other = record(EXAMPLE, few)
    check_same(first, second)
    check_other(first, other)
    check_repetitions(first, second, other)
    checks.end()


main()
