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


ONE_LINE = """#include <stdlib.h>
char *volatile a, *volatile b, *volatile c;
int main(int argc, char **argv)
{
%s a = malloc(%d); b = malloc(%d); c = malloc(%d);
	return 0;
}
"""


def check_one_line(folder):
    """Calls on one line are rows of their own, also where the line moved and is indented anew."""
    if not shutil.which("gcc"):
        print("not checked: calls on one line; no gcc")
        return

    def recorded(name, *parts):
        source, program = (os.path.join(folder, "one-line-" + name + end) for end in (".c", ""))
        with open(source, "w", encoding="utf-8") as file:
            file.write(ONE_LINE % parts)
        whole.run(["gcc", "-g", "-O0", "-o", program, source])
        return whole.Recording(MEMSIGHT, [program], ["-q", "--source", "none"])

    base = recorded("base", "", 1000, 2000, 3000)
    moved = recorded("moved", "\n\t\t", 1000, 2000, 3000)
    checks.that(diff(base.path, moved.path) == [], f"moved: {diff(base.path, moved.path)}")
    more = recorded("grown", "\n\t\t", 1000, 2500, 3000)
    grown = diff(base.path, more.path)
    checks.that([(row["before"], row["after"]) for row in grown] == [(2000, 2500)] and
                "b = malloc" in grown[0]["allocated at"], f"one of one line: {grown}")


REFACTORED = {
    "main.c": """#include <stdlib.h>
#include "parts.h"
char *volatile kept[64];
int n_kept;
__attribute__((noinline)) static void *hold(char *block)
{
	kept[n_kept++ % 64] = block;
	return block;
}
__attribute__((noinline)) static void fill_rows(int n)
{
	hold(malloc(1000 + n));
	hold(calloc(20, 100 + n));
}
__attribute__((noinline)) static void build(int n)
{
	fill_rows(n);
	hold(malloc(50000));
	free(read_part(3 + n));
}
int main(void)
{
	build(1);
	build(2);
	build_other(7);
	return 0;
}
""",
    "parts.c": """#include <stdlib.h>
#include "parts.h"
__attribute__((noinline)) char *read_part(int n)
{
	char *part = malloc(700 * n);
	part[0] = 1;
	return part;
}
__attribute__((noinline)) void build_other(int n)
{
	char *block = realloc(malloc(10), 3000 + n);
	block[0] = 1;
	free(read_part(n));
	kept[n_kept++ % 64] = block;
}
""",
    "parts.h": """extern char *volatile kept[64];
extern int n_kept;
char *read_part(int n);
void build_other(int n);
""",
}


def comment(files):
    files["main.c"] = "/* one */\n" + files["main.c"].replace("{\n", "{\n\t/* another */\n")


def rename(files):
    """A function in the middle, one that allocates itself, and one that does both."""
    for name, text in files.items():
        text = text.replace("fill_rows", "make_rows").replace("read_part", "load_chunk")
        files[name] = text.replace("build(", "construct(")


def move(files):
    """To another file, which is another library."""
    at = files["parts.c"].index("__attribute__((noinline)) void build_other")
    files["more.c"] = '#include <stdlib.h>\n#include "parts.h"\n' + files["parts.c"][at:]
    files["parts.c"] = files["parts.c"][:at]


def extract(files):
    """A helper between, and one that allocates what its caller did."""
    text = files["main.c"].replace("\tfill_rows(n);\n\thold(malloc(50000));\n", "\tprepare(n);\n")
    before = "__attribute__((noinline)) static void "
    files["main.c"] = text.replace(before + "build(", before + """prepare(int n)
{
	fill_rows(n);
	hold(malloc(50000));
}
""" + before + "build(")


def refactored(folder, name, *changes):
    """The program with changes to its source, under a name of its own."""
    files = dict(REFACTORED)
    for change in changes:
        change(files)
    place = os.path.join(folder, "refactored-" + name)
    os.makedirs(place)
    for file, text in files.items():
        with open(os.path.join(place, file), "w", encoding="utf-8") as out:
            out.write(text)
    program = os.path.join(place, "program-" + name)
    libraries = []
    for file in sorted(files):
        if file.endswith(".c") and file != "main.c":
            library = os.path.join(place, f"lib{file[:-2]}-{name}.so")
            whole.run(["gcc", "-g", "-O1", "-fno-omit-frame-pointer", "-shared", "-fPIC", "-o",
                       library, os.path.join(place, file)])
            libraries.append(library)
    whole.run(["gcc", "-g", "-O1", "-fno-omit-frame-pointer", "-rdynamic", "-o", program,
               os.path.join(place, "main.c"), *libraries, f"-Wl,-rpath,{place}"])
    return whole.Recording(MEMSIGHT, [program], ["-q", "--source", "none"])


def check_refactored(folder):
    """What a refactoring leaves as it was is no difference; what it changes is just that."""
    if not shutil.which("gcc"):
        print("not checked: refactored programs; no gcc")
        return
    base = refactored(folder, "base")
    n_sites = base.one("SELECT count(*) FROM site")
    checks.that(n_sites >= 10, f"sites: {n_sites}")
    for name, changes in [("comment", [comment]), ("rename", [rename]), ("move", [move]),
                          ("extract", [extract]), ("all", [move, extract, rename, comment])]:
        other = refactored(folder, name, *changes)
        for before, after in [(base, other), (other, base)]:
            for by in METRICS:
                rows = diff(before.path, after.path, "--by", by)
                checks.that(rows == [], f"{name} differs by {by}: {rows}")

    def grow(files):
        rename(files)
        files["main.c"] = files["main.c"].replace("50000", "60000").replace("calloc(20",
                                                                            "calloc(30")
    other = refactored(folder, "grown", grow)
    grown = diff(base.path, other.path)
    # Twice 10,000 more, and ten more of 101 and of 102 bytes.
    checks.that([row["change"] for row in grown] == [10000, 10000, 1020, 1010], f"grown: {grown}")
    checks.that(all(row["before"] and row["after"] for row in grown), f"grown, not new: {grown}")
    checks.that(any("(was fill_rows)" in row["allocated at"] for row in grown),
                f"nothing says what it was called: {grown}")

    def replace(files):
        """Something else, of another size, in place of what is gone."""
        text = files["main.c"].replace("fill_rows", "open_tables")
        files["main.c"] = text.replace("hold(malloc(1000 + n));", "").replace(
            "hold(calloc(20, 100 + n));", "hold(malloc(77777));")
    other = refactored(folder, "replaced", replace)
    replaced = diff(base.path, other.path)
    checks.that(all(not row["before"] or not row["after"] for row in replaced) and
                sum(row["after"] for row in replaced) == 2 * 77777,
                f"what is gone and what is new are no pair: {replaced}")
    text = text_of(base.path, other.path, "--label", "old", "--label", "huge pages")
    checks.that("old 117 KiB (1 run) -> huge pages 263 KiB" in text and "of old" in text,
                f"--label: {text}")
    refused = whole.Outcome([MEMSIGHT, "diff", base.path, base.path, "--label", "one"])
    checks.that(refused.status == 2 and "--label" in refused.messages, refused.messages)


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
    check_one_line(first.folder.name)
    check_refactored(first.folder.name)
    checks.end()


main()
