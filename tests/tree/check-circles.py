#!/usr/bin/env python3
"""No files need each other in a circle, and no call goes against the direction of rooms: what the
objects that were built define and need says so. check-circles.py BUILD [FILE...]: with files, which
symbol each needs of which."""
import json
import pathlib
import re
import shutil
import subprocess
import sys

import tree

# Built apart. The agent has some files of tracealloc once more, and stand-ins for others.
APART = ("tests/", "bench/", "libmemsight_agent.so.p/")
# Preloaded, each linked by itself. What they define under libc's names, as the map says, is libc's
# to whoever calls it.
PRELOADED = {"tracealloc": "tracealloc/tracealloc.map", "heap": "heap/heap.map"}


def objects_of(build):
    """The object of each source file of the product: file name -> path."""
    found = {}
    for command in json.loads((build / "compile_commands.json").read_text()):
        source = (build / command["file"]).resolve()
        output = build / command["output"]
        if source.is_relative_to(tree.ROOT) and output.exists():
            name = str(source.relative_to(tree.ROOT))
            if name.split("/")[0] in tree.PARTS and not command["output"].startswith(APART):
                found.setdefault(name, output)
    return found


def symbols_of(objects):
    """What each file defines and needs: file name -> two sets of names."""
    text = subprocess.run(["nm", "-A", "-P", *map(str, objects.values())], capture_output=True,
                          text=True, check=True).stdout
    names = {str(path): name for name, path in objects.items()}
    found = {name: (set(), set()) for name in objects}
    for line in text.splitlines():
        path, symbol, kind = line.split()[:3]
        if kind.isupper() or kind in "wv":
            found[names[path.rstrip(":")]][kind in "Uwv"].add(symbol)
    return found


def is_seen(user, definer):
    """Whether a file can be linked to the other one."""
    return definer.split("/")[0] not in PRELOADED or definer.split("/")[0] == user.split("/")[0]


def names_of_others():
    """What preloaded libraries define for libc."""
    return {
        name
        for path in PRELOADED.values()
        for name in re.findall(r"^\s*([A-Za-z_]\w*);", (tree.ROOT / path).read_text(), re.MULTILINE)
    }


def needs_of(symbols):
    """Which file needs which other ones, and what of them: user -> definer -> names."""
    definers, of_others = {}, names_of_others()
    for name, (defined, _) in symbols.items():
        for symbol in defined - of_others:
            definers.setdefault(symbol, []).append(name)
    found = {name: {} for name in symbols}
    for name, (_, needed) in symbols.items():
        for symbol in sorted(needed):
            for definer in definers.get(symbol, ()):
                if definer != name and is_seen(name, definer):
                    found[name].setdefault(definer, []).append(symbol)
    return found


def circles_of(needs):
    """Sets of files that all need each other (Tarjan's strongly connected components of more than
    one)."""
    order, low, stack, found = {}, {}, [], []

    def visit(name):
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in needs[name]:
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(tuple(sorted(stack[at:])))
            del stack[at:]

    for name in needs:
        if name not in order:
            visit(name)
    return sorted(found)


def problems_of(needs):
    for circle in circles_of(needs):
        yield f"{len(circle)} files need each other: {' '.join(circle)}"
    for name, definers in needs.items():
        for definer, symbols in definers.items():
            room, other = tree.room_of(name), tree.room_of(definer)
            if not tree.may_include(room, other):
                yield f"{name}: {room} must not call {other}: {' '.join(symbols)} of {definer}"


def main():
    build, files = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    if not shutil.which("nm"):
        tree.skip("nm is not installed")
    sys.setrecursionlimit(10000)
    needs = needs_of(symbols_of(objects_of(build)))
    for name in files:
        for definer, symbols in needs[name].items():
            if definer in files:
                print(f"{name} -> {definer}: {' '.join(symbols)}")
    if not files:
        tree.finish([*problems_of(needs)], f"{len(needs)} files")


main()
