#!/usr/bin/env python3
"""Nothing is marked as unfinished, and every source file belongs to a target."""
import re

import tree

MARKS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")


def main():
    files = tree.sources(".c", ".h", ".py", ".sh", ".sql", ".def")
    problems = []
    for path in files:
        for number, line in enumerate((tree.ROOT / path).read_text().split("\n"), 1):
            if MARKS.search(line):
                problems.append(f"{path}:{number}: {line.strip()}")
    for path in tree.sources(".c", folders=(*tree.PARTS, "tests")):
        builds = [parent / "meson.build" for parent in (tree.ROOT / path).parents
                  if parent == tree.ROOT or tree.ROOT in parent.parents]
        text = "".join(build.read_text() for build in builds if build.exists())
        # Tests may be listed by their noun, in a loop.
        stem = path.stem.removeprefix("test-")
        if not re.search(rf"\b{re.escape(stem)}\b", text):
            problems.append(f"{path}: no meson.build names it")
    tree.finish(problems, f"{len(files)} files")


main()
