#!/usr/bin/env python3
"""The queries of docs/database.md on a real recording: each gives the columns that the page says,
and rows. Arguments: memsight, the program victim-questions, docs/database.md."""
import csv
import io
import re
import sys

import whole

MEMSIGHT, VICTIM, PAGE = sys.argv[1:4]
checks = whole.Checks()


def queries():
    """(title, SQL, whether a run may have no such row, columns)"""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read().split("## Queries")[1].split("## Changes")[0]
    for part in re.split(r"^### ", text, flags=re.M)[1:]:
        sql = re.findall(r"```sql\n(.*?)```", part, re.S)
        gives = re.search(r"^Gives( any)?: (.*)\.$", part, re.M)
        title = part.split("\n")[0]
        checks.that(len(sql) == 1 and gives, f"{title}: one query, and what it gives")
        if len(sql) == 1 and gives:
            yield title, sql[0], bool(gives[1]), re.findall(r"`(\w+)`", gives[2])


def main():
    traced = whole.Recording(MEMSIGHT, [VICTIM, "0.4"], ["-q", "-F", "2999"])
    traced.need_source("clock")
    traced.need_source("faults")
    found = list(queries())
    checks.that(len(found) >= 20, f"{len(found)} queries")
    n_rows = {}
    for title, sql, may_be_empty, columns in found:
        cursor = traced.database.execute(sql)
        rows = cursor.fetchall()
        n_rows[title] = len(rows)
        checks.that(
            [column[0] for column in cursor.description] == columns,
            f"{title}: columns {[column[0] for column in cursor.description]}, not {columns}")
        checks.that(rows or may_be_empty, f"{title}: no rows")
        text = whole.run([MEMSIGHT, "query", traced.path, sql, "--format", "csv"])
        told = list(csv.reader(io.StringIO(text)))
        checks.that(told[0] == columns and len(told) == len(rows) + 1,
                    f"{title}: by `memsight query`")
    # Of this program all of them have something to say, but for what was lost.
    for title, n in n_rows.items():
        checks.that(n > 0 or "not recorded" in title,
                    f"{title}: nothing about a program that does this")
    checks.end()


main()
