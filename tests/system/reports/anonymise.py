#!/usr/bin/env python3
"""A database without names: none of them is in its bytes, and reports give the same numbers.
Arguments: memsight, example program word-index, a folder for it to read."""
import getpass
import json
import os
import re
import shutil
import sqlite3
import sys

import whole

MEMSIGHT, EXAMPLE, TREE = sys.argv[1:4]
checks = whole.Checks()

# Words of memsight itself, whatever was recorded: they may be in the file.
OURS = [
    "call.name", "owner.name", "owner.meaning", "source.name", "source.unit", "source.remedy",
    "total.name", "counter.name", "counter.unit", "loss.source", "loss.reason", "fact.key",
    "stack.stop", "process.birth", "process.why_not", "module.debug_info", "heap_kind.name",
    "withheld.classes", "process_sample.node_bytes", "run.detail", "source.event", "source.note",
    "loop.method", "band.kind", "timeline_level.level", "picture_category.colour",
    "picture_category.name", "picture_tile.colour"
]
REPORTS = [
    "heatmap", "sites", "objects", "flat", "hierarchical", "threads", "timeline", "peak", "leaks",
    "temporary", "histogram", "hot", "cold", "unused", "watched", "access-mix", "mappings",
    "processes", "losses", "regions", "marks", "list"
]


def text_columns(database):
    return database.execute(
        "SELECT tables.name, columns.name FROM sqlite_master AS tables, "
        "pragma_table_info(tables.name) AS columns"
        " WHERE tables.type = 'table' AND tables.name NOT GLOB 'sqlite_*' AND tables.sql NOT LIKE "
        "'CREATE VIRTUAL%'"
        " AND columns.type = 'TEXT'").fetchall()


def texts(database):
    """All texts of a database: those of ours, and those of the program."""
    ours, theirs = [], set()
    for table, column in text_columns(database):
        values = [
            value for (value,) in database.execute(f'SELECT DISTINCT "{column}" FROM "{table}"')
            if value
        ]
        if f"{table}.{column}" in OURS:
            ours += values
        else:
            theirs.update(str(value) for value in values)
    ours += [
        sql for (sql,) in database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
    ]
    return "\n".join(ours), theirs


def names_of(theirs):
    """What must not be read back: whole texts, parts of paths, words of functions and commands."""
    names = set(theirs)
    for text in theirs:
        names.update(re.split(r"[/ ,:;()<>\[\]=&*]+", text))
    names.update(
        [os.uname().nodename,
         getpass.getuser(),
         os.path.basename(EXAMPLE), "read_text", "main.c"])
    return {
        name
        for name in names
        if len(name) >= 6 and not name.isdigit() and not re.fullmatch(r"[\d.]+", name)
    }


def numbers(rows):
    """The numbers of a report, by row; texts are others."""
    return sorted(
        json.dumps({key: value
                    for key, value in row.items()
                    if isinstance(value, (int, float))}, sort_keys=True) for row in rows)


def check_reports(before, after):
    for name in REPORTS:
        found = [
            json.loads(
                whole.run([
                    MEMSIGHT, "report", path, "--" + name, "--full", "--limit", "0", "--format",
                    "json"
                ])) for path in (before, after)
        ]
        checks.that(numbers(found[0]) == numbers(found[1]), f"--{name} has other numbers")
        checks.that(
            len(found[0]) == len(found[1]),
            f"--{name} has {len(found[1])} rows, not {len(found[0])}")
    whole.run([MEMSIGHT, "report", after])
    whole.run([MEMSIGHT, "export", after, "--format", "folded"])


def main():
    db = whole.Recording(MEMSIGHT, [EXAMPLE, TREE, "100000"], ["-q"], env=whole.environment(
        OMP_NUM_THREADS="secretive thread count"))
    copy = os.path.join(db.folder.name, "copy.db")
    whole.run([MEMSIGHT, "export", db.path, "--anonymise", "-o", copy])
    checks.that(os.stat(copy).st_mode & 0o077 == 0, "others may read it")
    checks.that(
        sorted(os.listdir(db.folder.name)) == ["copy.db", "run.db", "run.mst"],
        os.listdir(db.folder.name))

    ours, theirs = texts(db.database)
    names = {name for name in names_of(theirs) if name not in ours}
    checks.that(
        len(names) > 100 and os.path.basename(EXAMPLE) in names and "read_text" in names,
        f"{len(names)} names")
    with open(copy, "rb") as file:
        content = file.read()
    found = sorted(name for name in names if name.encode() in content)
    # The words of the fixed vocabulary that stay: operator new, [unknown] ...
    stay = re.compile(
        r"\[?\.?(unknown|module|data|rodata|bss|heap|stack|vdso|vvar|vsyscall)\]?|operator( "
        r"(new|delete).*)?"
        r"|default|x86_64|heap,mmap,brk,shm,threads,regions|threads|regions")
    found = [name for name in found if not stay.fullmatch(name)]
    checks.that(not found, f"{len(found)} names can be read back: {found[:10]}")
    checks.that(any(name.encode() in open(db.path, "rb").read() for name in names),
                "not even the original has them")

    check_reports(db.path, copy)
    other = sqlite3.connect(copy)
    checks.that(other.execute("PRAGMA integrity_check").fetchone()[0] == "ok", "integrity")
    pairs = [
        database.execute(
            "SELECT count(DISTINCT function), count(DISTINCT path), count(DISTINCT object) FROM "
            "frame"
        ).fetchone() for database in (db.database, other)
    ]
    checks.that(pairs[0] == pairs[1], f"equal names are equal: {pairs}")
    diff = whole.run([MEMSIGHT, "diff", copy, copy, "--format", "json"])
    checks.that(json.loads(diff) == [], "a diff of the copy with itself")

    for arguments, status, words in [
            ([db.path, "--anonymise"], 2, "name it with --output"),
            ([db.path, "--anonymise", "-o", copy], 1, "is there already"),
            ([copy, "--anonymise", "-o", copy + "2"], 1, "has no names any more"),
            ([db.path, "--anonymise", "-o", "/nowhere/x.db"], 1, "cannot write /nowhere/x.db")]:
        outcome = whole.Outcome([MEMSIGHT, "export", *arguments])
        checks.that(outcome.status == status and words in outcome.messages,
                    f"{arguments}: {outcome.messages}")
    compact = copy + ".compact"
    whole.run([MEMSIGHT, "analyze", "--no-plain", "-o", compact, db.trace])
    whole.run([MEMSIGHT, "export", compact, "--anonymise", "-o", compact + "2"])
    with open(compact + "2", "rb") as file:
        content = file.read()
    left = sorted(name for name in names if name.encode() in content and not stay.fullmatch(name))
    checks.that(not left, f"compact: {len(left)} names can be read back: {left[:10]}")
    sums = [
        whole.run([
            MEMSIGHT, "query", path, "--format", "csv", "SELECT count(*), sum(size),"
            " sum(allocated_ns) FROM allocation"
        ]) for path in (compact, compact + "2")
    ]
    checks.that(sums[0] == sums[1], f"compact: {sums}")
    # A text column that a later version adds is replaced as long as nobody decides otherwise.
    shutil.copy(db.path, copy + ".new")
    with sqlite3.connect(copy + ".new") as new:
        new.execute("CREATE TABLE later (id INTEGER PRIMARY KEY, word TEXT)")
        new.execute("INSERT INTO later VALUES (1, 'surprising')")
    whole.run([MEMSIGHT, "export", copy + ".new", "--anonymise", "-o", copy + "3"])
    with open(copy + "3", "rb") as file:
        checks.that(b"surprising" not in file.read(), "a column of a later version")
    checks.end()


main()
