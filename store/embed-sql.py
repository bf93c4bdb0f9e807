#!/usr/bin/env python3
"""Make C strings of the schema: embed-sql.py OUTPUT.c 0001-*.sql ... views.sql indexes.sql"""
import pathlib
import sys


def literal(path):
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    quoted = [line.replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    return "\n".join(f'\t"{line}\\n"' for line in quoted)


def main():
    output, *paths = sys.argv[1:]
    migrations = sorted(path for path in paths if pathlib.Path(path).name[:4].isdigit())
    text = ['#include "store/schema.h"', "", "const char *const db_migrations[] = {"]
    text += [literal(path) + "," for path in migrations]
    text += ["};", "", f"const int db_n_migrations = {len(migrations)};"]
    for path in paths:
        if path not in migrations:
            name = pathlib.Path(path).stem
            text += ["", f"const char db_{name}[] =", literal(path) + ";"]
    pathlib.Path(output).write_text("\n".join(text) + "\n", encoding="utf-8")


main()
