#!/usr/bin/env python3
"""Make C of the page's files: embed-web.py OUTPUT.c DEPFILE FOLDER"""
import pathlib
import sys

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
LINE = 96
SCRIPT = ".iife.min.js"  # of a library, minified as a script only: it sets a variable of its name


def read(path):
    """The file as it is served: what sets a variable becomes a module that gives it."""
    data = path.read_bytes()
    if not path.name.endswith(SCRIPT):
        return data
    return data + f"\nexport default {path.name.removesuffix(SCRIPT)};\n".encode()


def character(byte):
    return chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}"
def literal(data):
    """Bytes as C strings: octal escapes of three digits swallow nothing that follows."""
    lines = []
    for start in range(0, len(data), LINE):
        text = "".join(character(byte) for byte in data[start:start + LINE])
        lines.append(f'\t"{text}"')
    return "\n".join(lines) or '\t""'


def main():
    output, depfile, folder = (pathlib.Path(argument) for argument in sys.argv[1:])
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix in TYPES)
    text = ['#include "view/server/page-files.h"', "", "const struct view_file view_files[] = {"]
    for path in files:
        data = read(path)
        text += [f'\t{{ "{path.relative_to(folder).as_posix()}", "{TYPES[path.suffix]}",',
                 literal(data) + f", {len(data)} }},"]
    output.write_text("\n".join([*text, "\t{ 0 },", "};"]) + "\n", encoding="utf-8")
    inputs = [*files, folder, *(path for path in folder.rglob("*") if path.is_dir())]
    depfile.write_text(f"{output}: {' '.join(map(str, inputs))}\n", encoding="utf-8")


main()
