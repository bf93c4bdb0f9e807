#!/usr/bin/env python3
"""The examples with memsight.h: the same output with and without a recorder, and regions and names
as they tell them. Arguments: memsight, the example programs that could be built."""
import os
import re
import subprocess
import sys
import tempfile

from whole import Checks, Recording, run

REGIONS = """
WITH RECURSIVE path(id, text) AS (
    SELECT id, name FROM region_total WHERE parent_id IS NULL
    UNION ALL SELECT part.id, text || ' / ' || name
    FROM path JOIN region_total AS part ON parent_id = path.id)
SELECT text, n_trips, n_left_open FROM path JOIN region_total USING (id)"""

checks = Checks()


def recorded(memsight, command):
    """A recording of a command whose output is the same without one."""
    plain = run(command)
    recording = Recording(memsight, command)
    checks.that(recording.output == plain, f"{command}: {recording.output!r} and {plain!r}")
    checks.that(recording.losses() == {}, f"{command}: {recording.losses()}")
    return recording


def regions(recording):
    return {text: counts for text, *counts in recording.ask(REGIONS)}


def names(recording):
    return dict(recording.ask("SELECT name, size FROM object_name"))


def check_word_index(memsight, program):
    with tempfile.TemporaryDirectory() as folder:
        for i in range(3):
            with open(os.path.join(folder, str(i)), "w", encoding="utf-8") as text:
                text.write("some words and some more words\n" * 100)
        recording = recorded(memsight, [program, folder, "1000"])
        checks.that(regions(recording) == {"read": [1, 0], "index": [3, 0], "look up": [1, 0]},
                    f"word-index: {regions(recording)}")
        # A copy of each text; and a block for each of the four words, when it is met first.
        checks.that(
            recording.one("SELECT all_blocks FROM region_total WHERE name = 'index'") == 3 + 4,
            "blocks of the region index")


def check_matrix(memsight, program):
    recording = recorded(memsight, [program, "100", "4"])
    checks.that(
        regions(recording) == {"assemble": [1, 0], "solve": [4, 0], "solve / step": [120, 0]},
        f"matrix: {regions(recording)}")
    checks.that(
        names(recording) == {"matrix": 80000, "right side": 800}, f"matrix: {names(recording)}")
    blocks = recording.ask(
        "SELECT name, own_blocks, own_bytes FROM region_total WHERE name <> 'assemble'")
    checks.that(sorted(blocks) == [("solve", 4, 3200), ("step", 120, 96000)], f"matrix: {blocks}")


def check_heat(memsight, program):
    recording = recorded(memsight, [program])
    checks.that(regions(recording) == {"spread": [1, 0], "spread / step": [200, 0]},
                f"heat: {regions(recording)}")
    checks.that(
        names(recording) == {"plate": 1280000, "next plate": 1280000}, f"heat: {names(recording)}")
    checks.that(recording.one("SELECT all_blocks FROM region_total WHERE name = 'spread'") == 0,
                "heat: telling names allocates nothing")


def check_package(folder):
    """What pkg-config tells those who build against us, from what meson will install."""
    environment = {**os.environ, "PKG_CONFIG_PATH": folder}
    done = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "--variable=fortran_module", "memsight"],
        env=environment, stdout=subprocess.PIPE, text=True, check=False)
    path = os.path.join(folder, "memsight.pc")
    text = open(path, encoding="utf-8").read()
    checks.that(re.search(r"^Libs: .*-lmemsight$", text, re.MULTILINE) and
                re.search(r"^Cflags: -I\$\{includedir\}$", text, re.MULTILINE), text)
    checks.that(done.returncode == 0, "pkg-config reads it")


def main():
    memsight, folder, *programs = sys.argv[1:]
    check_package(folder)
    known = {"word-index": check_word_index, "matrix": check_matrix, "heat": check_heat}
    for program in programs:
        name = os.path.basename(program)
        print("example", name)
        known.pop(name)(memsight, program)
    for name in known:
        print("not built here:", name)
    checks.end()


main()
