#!/usr/bin/env python3
"""docs/database.md is what schema.sql says of tables; it has every view and column with its unit;
its queries run."""
import re
import sqlite3
import subprocess
import sys

import tree

# Views that have the columns of a table and some names; the page says so in a sentence.
SHORT_VIEWS = {
    "region_net": ["gross_ns", "net_ns"],
    "not_freed": ["function", "file", "line"], "mismatched_free": ["born_by", "freed_by"],
    "mapping_kind": ["mapping_id", "kind"]
}


def make_database():
    db = sqlite3.connect(":memory:")
    for name in ("schema.sql", "views.sql"):
        db.executescript((tree.ROOT / "schemas" / name).read_text())
    return db


def sections(text):
    """Of each heading #### `name`: its text."""
    parts = re.split(r"^#### `(\w+)`\n", text, flags=re.M)
    return {
        name: re.split(r"^##", body, flags=re.M)[0]
        for name, body in zip(parts[1::2], parts[2::2])
    }


def check_columns(name, is_table, body, columns):
    """What is wrong with the section of a table or view."""
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \| (.*) \|$", body, re.M)
    told = [column for column, _, _ in rows]
    for column in columns:
        if told.count(column) != 1:
            yield (f"{name}.{column} is told {told.count(column)} times: a row `| `{column}` | "
                   "unit "
                   "| meaning |'")
    for column, unit, meaning in rows:
        if column not in columns:
            yield f"{name}.{column} is no column"
        if not unit.strip() or not meaning.strip():
            yield f"{name}.{column} has no unit (- for none) or no meaning"
    if is_table and not re.search(r"\*[^*]+\?\*", body):
        yield f"{name}: no question that it answers (*Which ...?*)"


def main():
    db = make_database()
    text = (tree.ROOT / "docs/database.md").read_text()
    found = sections(text)
    problems = []
    if text != subprocess.check_output(
        [sys.executable, tree.ROOT / "scripts/database-page", "--print"], text=True):
        problems.append(
            "docs/database.md is not what schemas/schema.sql says: run scripts/database-page")
    names = db.execute(
        "select name, type = 'table' from sqlite_master where type in ('table', 'view')"
        " and name not like 'sqlite_%'").fetchall()
    for name, is_table in names:
        columns = [row[1] for row in db.execute(f"pragma table_info({name})")]
        if name in SHORT_VIEWS:
            problems += [
                f"docs/database.md does not name {name} or its {column}"
                for column in SHORT_VIEWS[name]
                if f"`{column}`" not in text or f"`{name}`" not in text
            ]
        elif name not in found:
            problems.append(f"docs/database.md has no section #### `{name}`")
        else:
            problems += check_columns(name, is_table, found[name], columns)
    problems += [f"docs/database.md tells of {name}, which is not in the schema" for name in found
                 if name not in dict(names)]
    queries = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    for query in queries:
        try:
            db.execute(query)
        except sqlite3.Error as error:
            problems.append(f"{error} in: {query}")
    if len(queries) < 20:
        problems.append(f"{len(queries)} queries")
    tree.finish(problems, f"{len(names)} tables and views, {len(queries)} queries")


main()
