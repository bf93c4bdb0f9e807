#!/usr/bin/env python3
"""docs/database.md names every table and view, and its queries run."""
import re
import sqlite3

import tree


def make_database():
    db = sqlite3.connect(":memory:")
    migrations = sorted((tree.ROOT / "schemas").glob("[0-9]*.sql"))
    for path in [*migrations, tree.ROOT / "schemas/views.sql"]:
        db.executescript(path.read_text())
    return db


def main():
    db = make_database()
    text = (tree.ROOT / "docs/database.md").read_text()
    names = [name for (name,) in db.execute(
        "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'")]
    problems = [f"docs/database.md does not name {name}" for name in names if f"`{name}`" not in text]
    queries = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    for query in queries:
        try:
            db.execute(query)
        except sqlite3.Error as error:
            problems.append(f"{error} in: {query}")
    if not queries:
        problems.append("no queries found")
    tree.finish(problems, f"{len(names)} tables and views, {len(queries)} queries")


main()
