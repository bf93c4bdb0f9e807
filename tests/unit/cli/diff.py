#!/usr/bin/env python3
"""Two runs compared: nothing where nothing differs, and the exact difference where something does.
Arguments: memsight, example program word-index, a folder for it to read."""
import json
import os
import re
import shutil
import sys

import whole

MEMSIGHT, EXAMPLE, TREE = sys.argv[1:4]
METRICS = ["bytes", "blocks", "peak", "leaked"]
checks = whole.Checks()


def diff(before, after, *options):
    return json.loads(
        whole.run([MEMSIGHT, "diff", before, after, "--limit", "0", "--format", "json", *options]))


def record(program, folder):
    return whole.Recording(MEMSIGHT, [program, folder, "100000"], ["-q", "--source", "none"])


def text_of(before, after, *options):
    return whole.run([MEMSIGHT, "diff", before, after, *options])


def check_same(first, second):
    for by in METRICS:
        checks.that(
            diff(first.path, first.path, "--by", by) == [], f"a run differs from itself by {by}")
    starts = [{row for row in db.ask("SELECT start FROM module")} for db in (first, second)]
    checks.that(starts[0] != starts[1],
                "both runs were loaded at the same addresses: nothing is proved")
    paths = [db.one("SELECT exe FROM process") for db in (first, second)]
    checks.that(paths[0] != paths[1], "both runs have the same path: nothing is proved")
    for by in METRICS:
        rows = diff(first.path, second.path, "--by", by)
        checks.that(rows == [], f"other addresses and another folder differ by {by}: {rows[:3]}")
    checks.that("No call site differs." in text_of(first.path, second.path),
                "no word about no difference")


def check_other(first, other):
    for by, column in [("bytes", "bytes"), ("blocks", "n_blocks"), ("leaked", "live_bytes")]:
        rows = diff(first.path, other.path, "--by", by)
        before, after = (db.one(f"SELECT sum({column}) FROM site") for db in (first, other))
        checks.that(
            sum(row["change"] for row in rows) == after - before, f"changes by {by} do not add up")
        checks.that(all(row["change"] == row["after"] - row["before"] != 0 for row in rows),
                    f"a row by {by}")
        sizes = [abs(row["change"]) for row in rows]
        checks.that(sizes == sorted(sizes, reverse=True) and sizes, f"the order by {by}")
        back = diff(other.path, first.path, "--by", by)
        checks.that(sum(row["change"] for row in back) == before - after, f"the way back by {by}")
    checks.that("not known from one run on each side" in text_of(first.path, other.path),
                "nothing says why there is no interval")


def check_repetitions(first, second, other):
    path = os.path.join(first.folder.name, "all.db")
    whole.run([MEMSIGHT, "analyze", "-o", path, first.trace, second.trace, other.trace])
    program = os.path.basename(EXAMPLE)
    checks.that("(3 runs, mean)" in text_of(path + ":" + program, path + ":1"),
                "all repetitions are meant")
    checks.that(diff(path + ":1", path + ":2") == [], "two runs of one database")
    rows = diff(path, path)
    checks.that(rows == [], "repetitions differ from themselves")
    pair = os.path.join(first.folder.name, "pair.db")
    whole.run([MEMSIGHT, "analyze", "-o", pair, first.trace, second.trace])
    check_taken(pair, first, second)
    rows = diff(pair, path)
    checks.that(rows and all(row["±95 %"] is not None for row in rows),
                "means without their interval")
    for row in rows:
        # Two equal runs, and a mean with one run of three that differs: never sure.
        checks.that(row["significant"] == "no", f"significant: {row}")
    checks.that("differ by less than their 95 % interval" in text_of(pair, path),
                "noise is not counted")
    checks.that("from one run" not in text_of(pair, path), "two runs and three are not one")
    refused = whole.Outcome([MEMSIGHT, "diff", path + ":none", path])
    checks.that(refused.status == 1 and "no run is called none" in refused.messages,
                refused.messages)


def check_taken(pair, first, second):
    """What the runs took stands first: means, as the database has them."""
    lines = text_of(pair + ":1", pair + ":2").splitlines()
    checks.that(lines[0].split() == ["before", "after", "change", "±95", "%"], lines[0])
    for line, column in zip(lines[1:4], ["duration_ns", "user_ns + system_ns", "max_rss"]):
        before, after = (db.one(f"SELECT {column} FROM run") for db in (first, second))
        change = float(re.search(r"([-+][\d.]+) %", line).group(1))
        checks.that(abs(change - 100 * (after - before) / before) < 0.06 and line.endswith("-"),
                    f"{line}: {before} to {after}")
    checks.that("wall time" not in text_of(pair + ":1", pair + ":1"), "a run beside itself")
    line = text_of(pair, pair).splitlines()[1]
    checks.that(re.search(r"\+0\.0 % +[\d.]+ %  within chance$", line), line)


SOURCE = """%s
#include <stdlib.h>
static char *volatile kept;
__attribute__((noinline)) static void fill(int n)
{
	kept = malloc(100 + n);
%s	kept = malloc(2000 + n);
	kept = malloc(30000 + n);
}
int main(int argc, char **argv)
{
	if (argc < 3)
		fill(1);
	if (argc < 2)
		fill(2);
	else
		fill(3);
	return 0;
}
"""


def check_moved(folder):
    """A line that was added moves those below it, and is no difference; a site that was added is
    one."""
    if not shutil.which("gcc"):
        print("not checked: moved lines; no gcc")
        return
    def build(name, *parts):
        os.makedirs(os.path.join(folder, name))
        source, program = (os.path.join(folder, name, file) for file in ("prog.c", "prog"))
        with open(source, "w", encoding="utf-8") as file:
            file.write(SOURCE % parts)
        whole.run(["gcc", "-g", "-O0", "-o", program, source])
        return program
    def trace(program, *arguments):
        return whole.Recording(MEMSIGHT, [program, *arguments], ["-q", "--source", "none"])
    old = build("old", "", "")
    first, same = trace(old), trace(old, "1")
    moved = trace(build("moved", "/* a comment */", ""))
    more = trace(build("more", "/* a comment */\n/* another */", "\tkept = malloc(444);\n"))
    fewer = more, first
    for by in METRICS:
        checks.that(
            diff(first.path, moved.path, "--by", by) == [],
            f"a comment differs by {by}: {diff(first.path, moved.path)}")
    checks.that([row["change"] for row in diff(first.path, more.path)] == [444, 444],
                f"a site more: {diff(first.path, more.path)}")
    checks.that([row["change"] for row in diff(fewer[0].path, fewer[1].path)] == [-444, -444],
                "a site less")
    # One build: the second call is another one, of another line, and not the first one moved.
    changes = sorted((row["before"] != 0, row["after"] != 0) for row in diff(first.path, same.path))
    checks.that(changes == [(False, True)] * 3 + [(True, False)] * 3,
                f"lines of one build: {changes}")
    both = os.path.join(folder, "both.db")
    whole.run([MEMSIGHT, "analyze", "-o", both, first.trace, moved.trace])
    checks.that(diff(both + ":1", both + ":2") == [], "two builds of one database")


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
    check_moved(first.folder.name)
    checks.end()


main()
