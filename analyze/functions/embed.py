#!/usr/bin/env python3
"""Make tables of the lists of functions: embed.py OUTPUT.c FOLDER/NAME.txt..."""
import itertools
import pathlib
import sys


def main():
    output, *lists = map(pathlib.Path, sys.argv[1:])
    text = ['#include "analyze/functions/collections.h"']
    for folder, group in itertools.groupby(lists, lambda path: path.parent.name):
        paths = list(group)
        for path in paths:
            lines = [line.split("#")[0].strip() for line in path.read_text("utf-8").splitlines()]
            text += ["", f"static const char *const {path.stem}_{folder}[] = {{",
                     *(f'\t"{line}",' for line in lines if line), "\tNULL,", "};"]
        text += ["", f"const struct function_collection function_{folder}[] = {{",
                 *(f'\t{{ "{path.stem}", {path.stem}_{folder} }},' for path in paths), "};",
                 f"const size_t n_function_{folder} = {len(paths)};"]
    output.write_text("\n".join(text) + "\n", encoding="utf-8")


main()
