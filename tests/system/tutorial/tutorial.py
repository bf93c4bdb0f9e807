#!/usr/bin/env python3
"""The commands of a page of docs/tutorial do what the page shows. Arguments: build folder, source
folder, page.

A block ```console has commands behind `$ ' and the output of the last one. Behind it stand
    <!-- finds: REGEX -->    is in the output: in the page's, and in that of the command here. Both
                             with one blank for each space between words. Groups must be equal in
                             both; one named over_N or under_N is a number above or below N.
    <!-- status: N -->       exit status of the last command, without it 0
    <!-- needs: N CPUs -->   else the page cannot be tried
What is looked for is in the first ten lines, and no more than two commands behind a recording.
"""
import os
import re
import subprocess
import sys
import tempfile

import whole

BUILD, SOURCE, PAGE = sys.argv[1:4]
ROWS = 10
MOST_COMMANDS = 2
checks = whole.Checks()


class Block:
    """Commands, the output that the page shows for the last one, and what must be in it."""

    def __init__(self, text, notes):
        lines = text.splitlines()
        last = max(i for i, line in enumerate(lines) if line.startswith("$ "))
        self.commands = [line[2:] for line in lines if line.startswith("$ ")]
        self.shown = lines[last + 1:]
        self.patterns = [" ".join(pattern.split())
                         for pattern in re.findall(r"<!-- finds: (.*?) -->", notes, re.DOTALL)]
        self.status = int((re.findall(r"<!-- status: (\d+) -->", notes) or ["0"])[0])
        self.n_cpus = int((re.findall(r"<!-- needs: (\d+) CPUs -->", notes) or ["1"])[0])


def blocks_of(page):
    parts = re.findall(r"```console\n(.*?)```\n((?:\s*<!--.*?-->\n)*)", page, re.DOTALL)
    return [Block(*part) for part in parts]


def squeeze(lines):
    return " ".join(" ".join(lines[:ROWS]).split())


def is_recording(command):
    return re.search(r"memsight (record|run|attach) ", command) is not None


def run(command, folder):
    env = whole.environment(COLUMNS="100")
    return subprocess.run(command, shell=True, cwd=folder, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def is_within(name, number):
    bound, limit = name.split("_")
    number, limit = float(number), float(limit)
    return number > limit if bound == "over" else number < limit


def compare(command, pattern, shown, given):
    """What the page shows, and what came out, fit the pattern and agree in its groups."""
    found = [re.search(pattern, text) for text in (shown, given)]
    checks.that(found[0], f"{command}: the page does not show {pattern} in {shown}")
    checks.that(found[1], f"{command}: there is no {pattern} in {given}")
    if not all(found):
        return
    for name, number in [pair for match in found for pair in match.groupdict().items()]:
        checks.that(is_within(name, number), f"{command}: {number} is not {name}")
    named = set(re.compile(pattern).groupindex.values())
    for i in range(1, re.compile(pattern).groups + 1):
        checks.that(i in named or found[0].group(i) == found[1].group(i),
                    f"{command}: the page shows {found[0].group(i)}, here is {found[1].group(i)}")


def follow(block, folder, n_behind):
    """Run the commands of a block. Returns how many came behind the last recording."""
    for command in block.commands:
        done = run(command, folder)
        n_behind = 0 if is_recording(command) else n_behind + 1
        is_last = command == block.commands[-1]
        checks.that(done.returncode == (block.status if is_last else 0),
                    f"{command}: status {done.returncode}: {done.stdout[-500:]}{done.stderr}")
    for pattern in block.patterns:
        compare(block.commands[-1], pattern, squeeze(block.shown),
                squeeze(done.stdout.splitlines()))
        checks.that(n_behind <= MOST_COMMANDS,
                    f"{block.commands[-1]}: {n_behind} commands behind the recording")
    return n_behind


def main():
    with open(PAGE, encoding="utf-8") as file:
        blocks = blocks_of(file.read())
    checks.that(any(block.patterns for block in blocks), f"{PAGE} finds nothing")
    n_cpus = max(block.n_cpus for block in blocks)
    if len(os.sched_getaffinity(0)) < n_cpus:
        whole.skip(f"it takes {n_cpus} CPUs")
    n_behind = 0
    with tempfile.TemporaryDirectory(prefix="memsight-tutorial-") as folder:
        os.chmod(folder, 0o755)
        os.symlink(BUILD, os.path.join(folder, "build"))
        os.symlink(os.path.join(SOURCE, "examples"), os.path.join(folder, "examples"))
        for block in blocks:
            n_behind = follow(block, folder, n_behind)
    checks.end()


main()
