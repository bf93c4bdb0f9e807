#!/usr/bin/env python3
"""Modules of interpreters (examples/allocator-*.c): what lives and ends is what their statistics
say. What is made while the module is loaded is in one of the two alone, so runs of two lengths are
compared. Arguments: memsight, ruby or luajit, a script, the module."""
import os
import shutil
import sys
import tempfile

import whole

LENGTHS = 2000, 6000
UNSEEN = ("own allocators", "ends of blocks whose begin was not seen")


def record(memsight, folder, command, module):
    trace, path = os.path.join(folder, "run.mst"), os.path.join(folder, "run.db")
    variables = {"LUA_CPATH": os.path.join(os.path.dirname(module), "?.so")}
    output = whole.run([memsight, "record", "--quiet", "--force", "--source", "none", "-o", trace,
                        "--", *command], env=whole.environment(**variables))
    whole.run([memsight, "analyze", "--force", "-o", path, trace])
    database = whole.Database(path)
    said = [int(word) for word in output.split()]
    blocks, ends, live = database.ask("SELECT count(*), sum(end_kind = 1), sum(size *"
                                      " (end_kind = 0)) FROM allocation WHERE pool_id NOT NULL")[0]
    unseen = database.losses().get(UNSEEN, 0)
    os.unlink(path)
    return said, {"blocks": blocks, "ends": ends + unseen, "live": live}


def main():
    memsight, program, script, module = sys.argv[1:]
    if not shutil.which(program):
        whole.skip(f"there is no {program}")
    checks = whole.Checks()
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        arguments = [os.path.abspath(module)] if program == "ruby" else []
        (said, found), (said_more, found_more) = [
            record(memsight, folder, [program, script, *arguments, str(n)], os.path.abspath(module))
            for n in LENGTHS]
        of = ["blocks", "ends"] if program == "ruby" else ["live"]
        for name, less, more in zip(of, said, said_more):
            grown = found_more[name] - found[name]
            checks.that(grown == more - less > 0, f"{name}: {grown} more, not {more - less}")
        if program == "ruby":
            checks.that([found["ends"], found_more["ends"]] == [said[1], said_more[1]],
                        f"ends: {found}, {found_more}, not {said}, {said_more}")
        print(said, found, said_more, found_more)
    checks.end()


main()
