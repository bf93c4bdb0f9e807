#!/usr/bin/env python3
"""A call site has the name of the program's first call, with what it called of a library behind it.
Arguments: memsight, the source of a victim in C++, the compiler's command."""
import json
import os
import re
import subprocess
import sys
import tempfile

import whole

MEMSIGHT, SOURCE = sys.argv[1:3]
COMPILER = sys.argv[3:]
NAME = os.path.basename(SOURCE)
checks = whole.Checks()


def numbered_lines():
    """The lines of the victim by the numbers behind them."""
    with open(SOURCE, encoding="utf-8") as file:
        found = [(re.search(r"// (\d+)$", text.rstrip()), line)
                 for line, text in enumerate(file, 1)]
    return {int(match[1]): line for match, line in found if match}


def rows(trace, *options):
    text = whole.run([MEMSIGHT, "report", trace, "--sites", "--format", "json", *options])
    return json.loads(text)


def expected(lines):
    """Begins of names that a site must have. The first number is that of the line."""
    at = {number: f"{NAME}:{line}" for number, line in lines.items()}
    main = " < main " + NAME
    yield f"static initialiser labels {at[1]} › map::map"
    for name in ("a = malloc(…)", "b = malloc(…)", "blocks[2] = new …"):
        yield f"fill {at[14]} {name}{main}"
    yield f"read_all {at[13]}{main}"
    for number in (15, 16):
        yield f"main {at[number]} › grab"
    for number in (17, 18):
        yield f"main {at[number]} › allocate_row"
    for number in (2, 3, 4):
        yield f"alloc_tables {at[number]}{main}"
    yield f"Index<>::add {at[5]} › map::operator[]"
    yield f"Index<>::add {at[5]} › vector::push_back"
    yield f"make_node {at[6]} › make_shared < main {at[11]}"
    yield f"read_header {at[7]} › xmalloc{main}"
    yield f"read_body {at[8]} › my_zalloc{main}"
    yield f"main {at[9]}"
    yield f"main {at[11]} › vector::push_back"
    yield f"main {at[12]} › puts"


def check(trace, level):
    found = rows(trace)
    names = [row["allocated at"] for row in found]
    for name in expected(numbered_lines()):
        checks.that(any(text.startswith(name) for text in names),
                    f"{level}: no site is called {name}: {names}")
    own = [name for name in names if NAME in name]
    for name in own:
        first = name.split(" < ")[0]
        checks.that(not re.search(r"std::|__gnu|_M_allocate\(|operator new|\bvoid ", first),
                    f"{level}: a library's name: {name}")
        checks.that("libc" not in name and "_start" not in name,
                    f"{level}: calls of the C library: {name}")
    checks.that(len(set(own)) == len(own), f"{level}: sites with one name: {sorted(own)}")


def check_numbers(trace):
    """Names apart, both kinds of names have the same rows."""
    short, full = rows(trace), rows(trace, "--full-names")
    for row in short + full:
        row["name"] = row.pop("allocated at")
    numbers = [[{k: v for k, v in row.items() if k != "name"} for row in kind]
               for kind in (short, full)]
    checks.that(numbers[0] == numbers[1], "numbers change with the names")
    checks.that(any("std::vector<" in row["name"] and "_start" in row["name"] for row in full),
                f"--full-names: {full[:3]}")


def check_export(trace):
    """Formats of other programs end in the same call."""
    text = whole.run([MEMSIGHT, "export", trace, "--format", "folded"])
    checks.that(re.search(r"(?m)^main;allocate_row 80001$", text), f"folded: {text}")


def main():
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        for level in ["-O0", "-O1", "-O2"]:
            program = os.path.join(folder, "program" + level)
            trace = program + ".mst"
            subprocess.run([*COMPILER, "-g", level, "-fno-omit-frame-pointer", "-o", program,
                            SOURCE], check=True)
            whole.run([MEMSIGHT, "record", "-q", "-o", trace, "--", program])
            check(trace, level)
            check_numbers(trace)
            check_export(trace)
    checks.end()


main()
