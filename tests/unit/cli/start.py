#!/usr/bin/env python3
"""record --start-after a function. Arguments: memsight, the victim, and where there is one the
victim as a static program."""
import os
import platform
import subprocess
import sys
import tempfile

import whole

MEMSIGHT, VICTIM, *STATIC = map(os.path.abspath, sys.argv[1:])
checks = whole.Checks()
N_THREADS, N_BLOCKS = 8, 100
IN_THREADS = {2000 + t: 1 for t in range(N_THREADS)}
BEHIND = {3000 + i: 1 for i in range(N_BLOCKS)}


def record(folder, name, what="plain", *options):
    """The outcome, and the database. The program's own output must be as without us."""
    trace = os.path.join(folder, "start.mst")
    command = [VICTIM, str(N_THREADS), what]
    plain = whole.Outcome(command)
    outcome = whole.Outcome([MEMSIGHT, "record", "-q", "-f", "-s", "none", "-o", trace,
                             "--start-after", name, *options, "--", *command])
    checks.that(not outcome.differs_from(plain), f"{name}: {outcome.differs_from(plain)}")
    whole.run([MEMSIGHT, "analyze", "-f", trace])
    return outcome, whole.Database(trace + ".db")


def blocks(database):
    """How many there are of each size of the victim's own."""
    return dict(database.ask("SELECT size, count(*) FROM allocation WHERE size BETWEEN 1000 AND"
                             " 1099 OR size BETWEEN 2000 AND 2099 OR size BETWEEN 3000 AND 3099"
                             " GROUP BY 1"))


def twice(sizes):
    return {size: 2 * n for size, n in sizes.items()}


def check_exact(folder):
    """All from the first entry on and nothing before, where eight threads come there at once."""
    for name in ("function:begin_here", "begin_here",
                 os.path.basename(VICTIM) + "!begin_here", VICTIM + "!begin_here"):
        outcome, database = record(folder, name)
        checks.that(blocks(database) == {**twice(IN_THREADS), **BEHIND},
                    f"{name}: {blocks(database)}")
        checks.that(not outcome.messages, f"{name}: {outcome.messages}")
        windows = database.ask("SELECT number, cause FROM window")
        checks.that(windows == [(1, "after " + name.replace("function:", ""))], f"{windows}")
        checks.that(not database.losses(), f"{database.losses()}")


def check_library(folder):
    """The program's own before the call are missing, those of its threads are not."""
    for name in ("function:srand48", "libc!srand48"):
        database = record(folder, name)[1]
        checks.that(blocks(database) == {**twice(IN_THREADS), **BEHIND},
                    f"{name}: {blocks(database)}")


def check_processes(folder):
    """A child of fork that comes there first begins it for all; another program does, too."""
    database = record(folder, "function:begin_here", "fork")[1]
    checks.that(blocks(database) == {**{size: 3 for size in IN_THREADS}, **BEHIND},
                f"fork: {blocks(database)}")
    database = record(folder, "function:begin_here", "exec")[1]
    checks.that(blocks(database) == {**twice(IN_THREADS), **BEHIND}, f"exec: {blocks(database)}")


def check_windows(folder):
    """Times of --windows count from there."""
    database = record(folder, "begin_here", "plain", "--windows", "0:1h")[1]
    checks.that(blocks(database) == {**twice(IN_THREADS), **BEHIND}, f"{blocks(database)}")


def check_refused(folder):
    """What cannot be had is said, the program goes on, and nothing is recorded."""
    for name, what, text in (
            ("function:begin_hare", "plain", "is begin_here meant?"),
            ("function:no_such_thing_at_all", "plain", "no function no_such_thing_at_all"),
            ("libnone.so!x", "plain", "libnone.so is not loaded"),
            ("function:too_short", "plain", "fewer than 5 bytes"),
            ("function:begin_here", "never", "no program came to it"),
            ("begin_hare", "plain", "is function:NAME")):
        outcome, database = record(folder, name, what)
        checks.that(text in outcome.messages and "no program came to it" in outcome.messages,
                    f"{name}: {outcome.messages}")
        checks.that(not blocks(database), f"{name}: {blocks(database)}")


def check_forbidden(folder):
    """A program that may not make code of its own goes on unchanged; that is said."""
    trace = os.path.join(folder, "forbidden.mst")
    begin = ("import ctypes, os, sys\nif ctypes.CDLL(None).prctl(65, 1, 0, 0, 0): sys.exit(77)\n"
             "os.execv(sys.argv[1], sys.argv[1:])")  # PR_SET_MDWE
    outcome = whole.Outcome([MEMSIGHT, "record", "-q", "-s", "none", "-o", trace, "--start-after",
                             "function:begin_here", "--", "/usr/bin/env", "python3", "-c", begin,
                             VICTIM, str(N_THREADS), "plain"])
    if outcome.status == 77:
        return  # before Linux 6.3
    checks.that(outcome.status == 0 and len(outcome.stdout.splitlines()) == 2 * N_THREADS,
                f"forbidden: {outcome.status} {outcome.stderr}")
    checks.that("may not be changed" in outcome.messages, f"forbidden: {outcome.messages}")


def check_bad_input():
    for options, text in (
            (["--start-after", "function:"], "needs the name of a function"),
            (["--start-after", "!x"], "MODULE!SYMBOL"),
            (["--start-after", "libc!"], "MODULE!SYMBOL"),
            (["--start-after", "function:x", "--no-alloc"], "which --no-alloc leaves out")):
        done = subprocess.run([MEMSIGHT, "record", *options, "true"], text=True,
                              stderr=subprocess.PIPE, check=False, env=whole.environment())
        checks.that(done.returncode == 2 and text in done.stderr and
                    len(done.stderr.splitlines()) == 1, f"{options}: {done.stderr}")
    done = subprocess.run([MEMSIGHT, "attach", "--start-after", "function:x", str(os.getpid())],
                          text=True, stderr=subprocess.PIPE, check=False,
                          env=whole.environment())
    checks.that(done.returncode == 2 and "that memsight starts" in done.stderr, done.stderr)


if platform.machine() != "x86_64":
    whole.skip("a function to begin at is for x86-64")
with tempfile.TemporaryDirectory(prefix="memsight-test-") as place:
    check_bad_input()
    check_exact(place)
    check_library(place)
    check_processes(place)
    check_windows(place)
    check_refused(place)
    check_forbidden(place)
    for VICTIM in STATIC:
        check_exact(place)
        check_processes(place)
        check_windows(place)
checks.end()
