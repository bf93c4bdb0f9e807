#!/usr/bin/env python3
"""Who includes whom: rooms only look downwards and have at most 40 files, includes name the folder,
the own header is first. At the root lies only what is listed here."""
import re
import subprocess

import tree

MOST_FILES = 40  # directly in a folder
AT_ROOT = {".clang-format", ".dockerignore", ".editorconfig", ".gitignore", "CHANGELOG.md",
           "CONTRIBUTING.md", "Containerfile", "INSTALL.md", "LICENSE", "README.md", "meson.build",
           "meson_options.txt"}

# What runs inside other people's programs takes from common only headers that neither allocate,
# lock nor format.
COMMON_FOR_TRACEALLOC = {"common/call-filter.h", "common/cleanup.h", "common/collect-words.h",
                         "common/elf-check.h", "common/ticks.h"}


def includes_of(path):
    text = (tree.ROOT / path).read_text()
    return re.findall(r'^[ \t]*#[ \t]*include[ \t]+(["<])([^">]+)[">]', text, re.MULTILINE)


def wrong_target(path, target):
    room, folder = tree.room_of(path), tree.room_of(target)
    if "/" not in target:
        return "does not name the folder"
    if not (tree.ROOT / target).exists():
        return None if target.startswith("tests/") else "is not in the tree"
    if not tree.may_include(room, folder if folder in tree.MAY_INCLUDE else target.split("/")[0]):
        return f"{room} must not include {folder}"
    if path.parts[0] == "tracealloc" and folder == "common" and target not in COMMON_FOR_TRACEALLOC:
        return "is not for code that runs inside other programs"
    return None


def problems_of(path):
    included = includes_of(path)
    own = str(path.with_suffix(".h"))
    for quote, target in included:
        reason = wrong_target(path, target) if quote == '"' else None
        if reason:
            yield f'{path}: "{target}" {reason}'
    if path.suffix == ".c" and (tree.ROOT / own).exists() and included[:1] != [('"', own)]:
        yield f"{path}: its own header must come first"


def overfull():
    """Folders of the product that nobody can take in at a glance."""
    for folder in sorted(
        {path.parent
         for path in tree.sources(".c", ".h", ".js", folders=tree.PARTS)}):
        n = sum(path.is_file() for path in (tree.ROOT / folder).iterdir())
        if n > MOST_FILES:
            yield f"{folder}/ has {n} files, at most {MOST_FILES}: give it rooms"


def strays():
    """Files at the root that git keeps, or would with the next `git add -A`."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", tree.ROOT, "ls-files", "--cached", "--others",
         "--exclude-standard", ":(glob)*"], capture_output=True, text=True, check=False).stdout
    for name in sorted(set(listed.splitlines()) - AT_ROOT):
        if (tree.ROOT / name).exists():
            yield f"{name} at the root of the tree is not in AT_ROOT: was it meant to be there?"


def main():
    files = tree.sources(".c", ".h", folders=tree.PARTS)
    problems = [problem for path in files for problem in problems_of(path)]
    problems += [*overfull(), *strays()]
    problems += [f"{path}: no #pragma once" for path in files if path.suffix == ".h"
                 and "\n#pragma once\n" not in "\n" + (tree.ROOT / path).read_text()]
    tree.finish(problems, f"{len(files)} files")


main()
