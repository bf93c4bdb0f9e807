#!/usr/bin/env python3
"""Make C of the page's files: embed-web.py OUTPUT.c DEPFILE FOLDER"""
import pathlib
import sys

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
LINE = 96
SCRIPT = ".iife.min.js"  # of a library that is minified as a script only: it sets a variable called as the file


def read(path):
    """The file as it is served: what sets a variable becomes a module that gives it."""
    data = path.read_bytes()
    return data + f"\nexport default {path.name.removesuffix(SCRIPT)};\n".encode() if path.name.endswith(SCRIPT) else data


def literal(data):
    """Bytes as C strings: octal escapes of three digits swallow nothing that follows."""
    lines = []
    for start in range(0, len(data), LINE):
        text = "".join(chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
                       for byte in data[start:start + LINE])
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
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    depfile.write_text(f"{output}: " + " ".join(str(path) for path in [*files, *folders]) + "\n", encoding="utf-8")


main()
