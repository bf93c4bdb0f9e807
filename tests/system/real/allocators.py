#!/usr/bin/env python3
"""Allocators other than libc's: every block of the program once, of the kind that it asked for, the
allocator's own maps no maps of the program, and the program's output its own.

Arguments: memsight, `linked` or `preloaded` or `inside`, the name of the allocator, the program."""
import os
import subprocess
import sys
import tempfile

import whole

BLOCKS = {  # size: (call, how it ended, how many)
    5001: ("malloc", "realloc", 2000),
    5002: ("realloc", "free", 2000),
    6001: ("operator new", "operator delete", 100),
    6002: ("operator new[]", "operator delete[]", 100),
    6003: ("operator new (aligned)", "operator delete", 100),
    6004: ("operator new[] (aligned)", "operator delete[]", 100),
    6005: ("operator new", "operator delete", 100),
    6006: ("calloc", "free", 100),
    6400: ("aligned_alloc", "free", 100),
    6464: ("posix_memalign", "free", 100),
    3 << 20: ("malloc", "free", 100),
}
DIES_WITHOUT_MEMORY = {"mimalloc"}


def find_library(name):
    for line in subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True,
                               check=False).stdout.splitlines():
        if line.split() and line.split()[0].startswith(f"lib{name}.so."):
            return line.split()[-1]
    return whole.skip(f"lib{name} is not installed")


def check_output(checks, memsight, command, env):
    plain = whole.Outcome(command, env)
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        traced = whole.Outcome(
            [memsight, "record", "-o",
             os.path.join(folder, "run.mst"), "--", *command], env)
    checks.that(plain.status in (3, 4), f"the program itself: {plain.status} {plain.stderr}")
    for difference in plain.differs_from(traced):
        checks.that(False, difference)
    return traced


def record(memsight, command, env):
    """Its exit status is the program's, which is not 0."""
    return whole.Recording(memsight, ["sh", "-c", '"$@"; test $? -ge 3', "sh", *command], env=env)


def check_blocks(checks, run, name):
    rows = run.ask(
        "SELECT size, born.name, died.name, count(*) FROM allocation"
        " JOIN call AS born ON born.id = call LEFT JOIN call AS died ON died.id = free_call"
        f" WHERE size IN ({','.join(map(str, BLOCKS))}) GROUP BY 1, 2, 3 ORDER BY 1")
    wanted = [(size, *block) for size, block in sorted(BLOCKS.items())]
    checks.that(rows == wanted, f"blocks {rows}, not {wanted}")
    for total in ["missed_frees", "before_trace_frees"]:
        count = run.one("SELECT value FROM total WHERE name = ?", total)
        checks.that(count == 0, f"{total}: {count}")
    own = run.ask("SELECT size, call.name FROM mapping JOIN call ON call.id = call"
                  " JOIN process ON process.id = process_id WHERE seen = 0 AND NOT is_nested"
                  " AND exe LIKE '%allocator-user%'")
    checks.that(not own, f"maps of the program, which makes none: {own}")
    checks.that(run.one("SELECT count(*) FROM module WHERE path LIKE ?", f"%lib{name}.so%") > 0,
                f"lib{name} is not there at all")
    checks.that(not run.losses(), f"losses: {run.losses()}")
    n_nested = run.one("SELECT count(*) FROM mapping WHERE seen = 0 AND is_nested")
    print(f"lib{name}: {n_nested} maps of its own")


def another_allocator(checks, memsight, how, name, program):
    env = whole.environment(
        LD_PRELOAD=find_library(name)) if how == "preloaded" else whole.environment()
    command = [program] + ([] if name in DIES_WITHOUT_MEMORY else ["huge"])
    check_output(checks, memsight, command, env)
    check_blocks(checks, record(memsight, command, env), name)


def inside(checks, memsight, program):
    """Named where a person looks: at the start, in the report, and as a loss."""
    said = check_output(checks, memsight, [program], whole.environment()).messages
    checks.that("own-malloc has a malloc of its own" in said, f"said: {said}")
    run = record(memsight, [program], whole.environment())
    lost = run.ask(
        "SELECT exe LIKE '%/own-malloc', reason FROM loss JOIN process ON process.id = process_id")
    checks.that(lost == [(1, "malloc of its own")], f"{lost}")
    checks.that(
        run.one("SELECT count(*) FROM mapping WHERE size = 16 << 20 AND NOT is_nested") == 1,
        "its pool is a mapping")
    checks.that(run.one("SELECT count(*) FROM allocation JOIN process ON process.id = process_id"
                        " WHERE exe LIKE '%/own-malloc'") == 0, "blocks that nobody can have seen")
    report = whole.run([memsight, "report", run.path])
    checks.that("brings its own malloc" in report, f"report: {report}")


def main(memsight, how, name, program):
    checks = whole.Checks()
    if how == "inside":
        inside(checks, memsight, program)
    else:
        another_allocator(checks, memsight, how, name, program)
    checks.end()


main(*sys.argv[1:])
