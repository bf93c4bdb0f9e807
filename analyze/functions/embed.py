#!/usr/bin/env python3
"""Make tables of the lists of functions: embed.py OUTPUT.c NAME.txt..."""
import pathlib
import sys


def main():
    output, *lists = map(pathlib.Path, sys.argv[1:])
    text = ['#include "analyze/functions/collections.h"']
    for path in lists:
        lines = [line.split("#")[0].strip() for line in path.read_text("utf-8").splitlines()]
        text += ["", f"static const char *const {path.stem}_lines[] = {{",
                 *(f'\t"{line}",' for line in lines if line), "\tNULL,", "};"]
    text += ["", "const struct function_collection function_collections[] = {",
             *(f'\t{{ "{path.stem}", {path.stem}_lines }},' for path in lists), "};",
             f"const size_t n_function_collections = {len(lists)};"]
    output.write_text("\n".join(text) + "\n", encoding="utf-8")


main()
