#!/usr/bin/env python3
"""Make C strings of SQL: embed-sql.py OUTPUT.c schema.sql views.sql indexes.sql"""
import pathlib
import sys


def literal(text):
    quoted = [line.replace("\\", "\\\\").replace('"', '\\"') for line in text.splitlines()]
    return "\n".join(f'\t"{line}\\n"' for line in quoted)


def main():
    output, *paths = map(pathlib.Path, sys.argv[1:])
    text = ['#include "store/schema.h"']
    for path in paths:
        sql = path.read_text(encoding="utf-8")
        text += ["", f"const char db_{path.stem}[] =", literal(sql) + ";"]
    output.write_text("\n".join(text) + "\n", encoding="utf-8")


main()
