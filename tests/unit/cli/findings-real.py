#!/usr/bin/env python3
"""Programs of the system that waste nothing have no findings, and names that are not there get the
nearest one. Arguments: memsight, a folder of text files."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import whole

MEMSIGHT, FOLDER = map(os.path.abspath, sys.argv[1:3])
checks = whole.Checks()
LINES = "".join(f"line {i} of the text, {i * 7919 % 10007}\n" for i in range(4000))

# Of a program that gives its memory back, or holds next to nothing.
PROGRAMS = [
    ["grep", "-c", "of.*9", "text"], ["gzip", "-c", "text"], ["diff", "text", "other"],
    ["tar", "cf", "-", FOLDER], ["find", FOLDER, "-name", "*.c"], ["ls", "-lR", FOLDER],
    ["md5sum", "text", "other"], ["tac", "text"], ["uniq", "-c", "text"],
    ["sqlite3", ":memory:", "CREATE TABLE t(a); WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1"
     " FROM n LIMIT 3000) INSERT INTO t SELECT i FROM n; SELECT sum(a) FROM t"],
    ["git", "--no-pager", "diff", "--no-index", "--stat", "text", "other"],
]

# These ask for buffers of a fixed size and hardly touch them for a small text. That it is true was
# seen from outside: /proc/PID/pagemap under gdb, at the munmap or exit of a run with 60 KiB of
# text, has 1 page of 3.4 MiB of bzip2 (twice), 1 of 8.1 MiB of sort, and 14 of the 93 MiB around
# the 64 MiB of xz. A run so short need not have a look at its pages: then nothing is found.
TRUE_FINDINGS = [["sort", "text"], ["bzip2", "-c", "text"], ["xz", "-c", "text"]]


def findings_of(folder, number, command):
    trace = os.path.join(folder, f"{number}.mst")
    done = subprocess.run([MEMSIGHT, "record", "-q", "-o", trace, "--", *command],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=folder,
                          env=whole.environment(), check=False)
    checks.that(done.returncode in (0, 1), f"{command}: {done.stderr}")
    return trace, json.loads(
        whole.run([MEMSIGHT, "report", trace, "--findings", "--format", "json"]))


def check_true(folder, number, command):
    rows = findings_of(folder, number, command)[1]
    checks.that(all(row["rule"] == "never touched" and row["size"] >= 1 << 20 for row in rows),
                f"{command}: {rows}")


def check_program(folder, number, command):
    trace, rows = findings_of(folder, number, command)
    checks.that(rows == [], f"{command}: {rows}")
    blocks = json.loads(whole.run([MEMSIGHT, "query", "--format", "json", trace,
                                   "SELECT value FROM total WHERE name = 'allocations'"]))
    return blocks[0]["value"] if blocks else 0


def check_names(trace):
    for sql, says in [
        ("SELECT * FROM sits", "no such table: sits; did you mean site?"),
        ("SELECT site.n_block FROM site", "no such column: site.n_block; did you mean n_blocks?"),
        ("SELECT process_id FROM process", "no such column: process_id; docs/database.md lists"),
        ("SELECT bytes_tex(1)", "no such function: bytes_tex; did you mean bytes_text?"),
        ("SELECT xyzzy FROM site", "no such column: xyzzy; docs/database.md lists"),
    ]:
        done = subprocess.run([MEMSIGHT, "query", trace, sql], stderr=subprocess.PIPE, text=True,
                              env=whole.environment(), check=False)
        checks.that(done.returncode == 1 and says in done.stderr, f"{sql}: {done.stderr}")
    for words, says in [
        (["export", trace, "--format", "csv", "--view", "timelin"], "did you mean timeline?"),
        (["report", trace, "--run", "gerp.default"], "did you mean grep.default?"),
    ]:
        done = whole.Outcome([MEMSIGHT, *words])
        checks.that(done.status == 1 and says in done.messages, f"{words}: {done.messages}")


def main():
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        for name, text in [("text", LINES), ("other", LINES.replace("17", "71"))]:
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        there = [command for command in PROGRAMS if shutil.which(command[0])]
        counts = [check_program(folder, i, command) for i, command in enumerate(there)]
        checks.that(sum(counts) > 5000, f"hardly any block was recorded: {counts}")
        for i, command in enumerate(TRUE_FINDINGS):
            if shutil.which(command[0]):
                check_true(folder, f"true-{i}", command)
        check_names(os.path.join(folder, "0.mst"))
    if len(there) < 10:
        whole.skip(f"only {len(there)} of {len(PROGRAMS)} programs are there")
    checks.end()


main()
