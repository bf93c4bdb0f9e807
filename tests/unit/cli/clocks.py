#!/usr/bin/env python3
"""record --windows by a clock of CPU time: whose time counts; and one that never begins. Arguments:
memsight, the victim."""
import os
import subprocess
import sys
import tempfile
import time

import whole

MEMSIGHT, VICTIM = map(os.path.abspath, sys.argv[1:3])
checks = whole.Checks()
USED_MS = 100  # in each of child, thread and main
DELAY = "80ms"

# A clock, in whose part its window begins, and the marks before and behind that.
PARTS = (("cpu", "child", None, "child"), ("process", "thread", "child", "thread"),
         ("thread", "main", "thread", "main"))


def state_of(trace):
    done = subprocess.run([MEMSIGHT, "ctl", trace, "status"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False,
                          env=whole.environment())
    return next((line.split()[1] for line in done.stdout.splitlines()
                 if line.startswith("state")), None)


def check_clock(folder, clock, part, before, behind):
    """The part goes on until the window is there, however late the recorder is."""
    trace, go = os.path.join(folder, clock + ".mst"), os.path.join(folder, clock + ".go")
    command = [MEMSIGHT, "record", "-q", "-s", "none", "-o", trace, "--windows",
               f"{clock}:{DELAY}", "--", VICTIM, str(USED_MS), part, go]
    with subprocess.Popen(command, env=whole.environment()) as process:
        while process.poll() is None and state_of(trace) != "recording":
            time.sleep(0.02)
        with open(go, "w", encoding="ascii"):
            pass
    checks.that(process.returncode == 0, f"{clock}: status {process.returncode}")
    whole.run([MEMSIGHT, "analyze", "-f", trace])
    database = whole.Database(trace + ".db")
    found = database.ask("SELECT start_ns, cause FROM window")
    marks = dict(database.ask("SELECT name, time_ns FROM mark"))
    checks.that(len(found) == 1 and found[0][1] == f"{clock}:{DELAY}", f"{clock}: {found}")
    checks.that(marks.get(before, 0) <= found[0][0] <= marks[behind],
                f"{clock}: window from {found}, marks {marks}")
    checks.that(database.one("SELECT count(*) FROM allocation WHERE size = 1000") == 10,
                f"{clock}: not all of the window's blocks")


def check_never(folder):
    """A window that the program did not live to see is said."""
    done = subprocess.run([MEMSIGHT, "record", "-q", "-s", "none", "-o",
                           os.path.join(folder, "never.mst"), "--windows", "1h:1s", "--", "true"],
                          stderr=subprocess.PIPE, text=True, check=False, env=whole.environment())
    checks.that(done.returncode == 0 and done.stderr.count("before the first window began") == 1,
                f"no window: {done.returncode} {done.stderr!r}")


with tempfile.TemporaryDirectory(prefix="memsight-test-") as place:
    for case in PARTS:
        check_clock(place, *case)
    check_never(place)
checks.end()
