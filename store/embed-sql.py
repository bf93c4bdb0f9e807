#!/usr/bin/env python3
"""Make C strings of the schema: embed-sql.py OUTPUT.c schema.sql views.sql indexes.sql"""
import pathlib
import re
import sys


def literal(text):
    quoted = [line.replace("\\", "\\\\").replace('"', '\\"') for line in text.splitlines()]
    return "\n".join(f'\t"{line}\\n"' for line in quoted)


def main():
    output, schema, *others = map(pathlib.Path, sys.argv[1:])
    _, *groups = re.split(r"^-- ## (.*)\n", schema.read_text(encoding="utf-8"), flags=re.M)
    text = ['#include "store/schema.h"', "", "const struct db_group db_groups[] = {"]
    text += [f'{{ "{heading}",\n{literal(sql)} }},'
             for heading, sql in zip(groups[::2], groups[1::2])]
    text += ["};", "", f"const int db_n_groups = {len(groups) // 2};"]
    for path in others:
        sql = path.read_text(encoding="utf-8")
        text += ["", f"const char db_{path.stem}[] =", literal(sql) + ";"]
    output.write_text("\n".join(text) + "\n", encoding="utf-8")


main()
