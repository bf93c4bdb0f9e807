#!/usr/bin/env python3
"""record --dump-signal: what a signal to the program makes. Arguments: memsight, the victim, and
where there is one the victim as a static program."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import whole

MEMSIGHT, VICTIM, *STATIC = map(os.path.abspath, sys.argv[1:])
checks = whole.Checks()
N_BLOCKS = 100
USR2 = str(int(signal.SIGUSR2))


def numbered(trace, number="%d"):
    return trace.replace(".mst", f"-{number}.mst")


def record(folder, name, what, n, *options, number=USR2, named="USR2", path=None):
    """The outcome of a recorded victim, and its trace."""
    trace = os.path.join(folder, name + ".mst")
    outcome = whole.Outcome([MEMSIGHT, "record", "-q", "-s", "none", "-o", trace,
                             "--dump-signal", named, *options, "--", VICTIM, number, what, str(n),
                             path or numbered(trace)])
    checks.that(outcome.status == 0, f"{what}: {outcome.status} {outcome.messages}")
    return outcome, trace


def analysed(trace):
    whole.run([MEMSIGHT, "analyze", "-f", trace])
    return whole.Database(trace + ".db")


def rounds(database, where="1"):
    """How many of the victim's blocks there are of each round; 0 is what stands behind them."""
    return dict(database.ask("SELECT size - 1000, count(*) FROM allocation WHERE size BETWEEN 1000"
                             f" AND 1099 AND {where} GROUP BY 1"))


def check_snapshots(folder):
    """Each signal makes a whole trace of all up to it; the last one has everything."""
    outcome, trace = record(folder, "plain", "raise", 3)
    checks.that(outcome.stdout == b"DFL\n" + b"errno 77\n" * 3, f"it saw {outcome.stdout}")
    for number in (1, 2, 3):
        path = numbered(trace, number)
        database = analysed(path)
        checks.that(rounds(database) == {i: N_BLOCKS for i in range(1, number + 1)},
                    f"snapshot {number}: {rounds(database)}")
        checks.that(database.one("SELECT ended_cleanly FROM run") == 1 and not database.losses(),
                    f"snapshot {number} is not whole: {database.losses()}")
        checks.that(f"--dump-signal USR2: snapshot {path}\n" in outcome.messages,
                    f"not said: {outcome.messages}")
    database = analysed(trace)
    checks.that(rounds(database) == {i: N_BLOCKS for i in range(4)}, f"all: {rounds(database)}")
    marks = [row[0] for row in database.ask("SELECT name FROM mark")]
    checks.that(marks == ["dump-signal USR2"] * 3, f"marks {marks}")
    counts = dict(database.ask("SELECT name, value FROM counter WHERE name LIKE '%dump signal%'"))
    checks.that(counts == {"dump signals": 3, "snapshots of dump signals": 3}, f"{counts}")


def check_reset(folder):
    """The windows between snapshots have each block once."""
    trace = record(folder, "reset", "raise", 3, "--dump-reset")[1]
    for path, n in ((numbered(trace, 2), 3), (trace, 4)):
        database = analysed(path)
        windows = database.ask("SELECT number, start_ns, end_ns, cause FROM window ORDER BY number")
        checks.that([row[0] for row in windows] == list(range(1, n + 1)) and
                    [row[3] for row in windows] == ["start"] + ["dump-signal USR2"] * (n - 1) and
                    all(a[2] == b[1] for a, b in zip(windows, windows[1:])), f"windows {windows}")
        for number, begin, end, _ in windows:
            found = rounds(database, f"allocated_ns >= {begin} AND allocated_ns < {end}")
            if path != trace and number == n:
                continue  # it had begun when the snapshot was taken
            checks.that(found == {number if number < 4 else 0: N_BLOCKS},
                        f"window {number} of {path}: {found}")


def check_own_handler(folder):
    """The program's handler is its own; with the default the signal is ours again."""
    ready = os.path.join(folder, "own-1.mst")
    outcome = record(folder, "own", "own", 1)[0]
    checks.that(outcome.stdout == b"DFL\nwas DFL\nown, 1 calls\nwas own, DFL\nerrno 77\n",
                f"it saw {outcome.stdout}")
    checks.that(os.path.exists(ready) and not os.path.exists(numbered(ready, 2)),
                "one snapshot of two signals")
    command = [MEMSIGHT, "record", "-q", "-s", "none", "-o", os.path.join(folder, "ignore.mst"),
               "--dump-signal", "SIGUSR2", "--", VICTIM, USR2, "ignore", "0", ready + ".go"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=whole.environment()) as process:
        said = process.stderr.readline()
        with open(ready + ".go", "w", encoding="ascii"):
            pass
        out, more = process.communicate()
    checks.that("handles or ignores the signal itself" in said and not more and
                out == "DFL\nIGN\n", f"ignored: {out!r} {said!r} {more!r}")
    checks.that(not os.path.exists(os.path.join(folder, "ignore-1.mst")), "a snapshot of nothing")


def check_blocked(folder):
    """While it is blocked that is said; the snapshot comes when it is let through."""
    go = os.path.join(folder, "go")
    trace = os.path.join(folder, "block.mst")
    command = [MEMSIGHT, "record", "-q", "-s", "none", "-o", trace, "--dump-signal", USR2, "--",
               VICTIM, USR2, "block", "0", go]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=whole.environment()) as process:
        said = process.stderr.readline()
        early = os.path.exists(numbered(trace, 1))
        with open(go, "w", encoding="ascii"):
            pass
        more = process.communicate()[1]
    checks.that("blocks the signal" in said and not early, f"blocked: {said!r}")
    checks.that(f"snapshot {numbered(trace, 1)}" in more and os.path.exists(numbered(trace, 1)),
                f"let through at the end: {more!r}")


def check_processes(folder):
    """Children of fork and exec are asked as well; nothing is overwritten."""
    taken = os.path.join(folder, "fork-1.mst")
    with open(taken, "w", encoding="ascii") as file:
        file.write("not ours")
    trace = record(folder, "fork", "fork", 1, path=os.path.join(folder, "fork-2.mst"))[1]
    with open(taken, encoding="ascii") as file:
        checks.that(file.read() == "not ours", "a snapshot was written over")
    checks.that(rounds(analysed(numbered(trace, 2))) == {1: N_BLOCKS}, "snapshot of a child")
    trace = record(folder, "exec", "exec", 1, named="RTMIN+3",
                   number=str(signal.SIGRTMIN + 3))[1]
    checks.that(rounds(analysed(numbered(trace, 1))) == {1: N_BLOCKS}, "behind an exec")


def check_burst(folder):
    """Signals of others, as fast as they come: each is counted, and what is said is there."""
    trace = os.path.join(folder, "burst.mst")
    command = [MEMSIGHT, "record", "-q", "-s", "none", "-o", trace, "--dump-signal", "40", "--",
               VICTIM, "40", "block", "0", os.path.join(folder, "burst.go")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=whole.environment()) as process:
        process.stdout.readline()
        while not blocked(process.pid):
            time.sleep(0.01)
        for _ in range(99):  # and one of its own
            os.kill(int(victim_of(process.pid)), 40)
        with open(os.path.join(folder, "burst.go"), "w", encoding="ascii"):
            pass
        said = process.communicate()[1]
    database = analysed(trace)
    counts = dict(database.ask("SELECT name, value FROM counter WHERE name LIKE '%dump signal%'"))
    n_files = len([name for name in os.listdir(folder) if name.startswith("burst-")])
    checks.that(counts.get("dump signals") == 100 and
                n_files == counts["snapshots of dump signals"] == said.count("snapshot /") < 100,
                f"{counts}, {n_files} files, {said}")


def victim_of(recorder):
    with open(f"/proc/{recorder}/task/{recorder}/children", encoding="ascii") as file:
        return file.read().split()[0]


def blocked(recorder):
    with open(f"/proc/{victim_of(recorder)}/status", encoding="ascii") as file:
        mask = [line.split()[1] for line in file if line.startswith("SigBlk:")][0]
    return int(mask, 16) >> 39 & 1


def check_forwarded(folder):
    """What is sent to memsight is the program's, as all signals are: also of a shell."""
    trace = os.path.join(folder, "shell.mst")
    with subprocess.Popen([MEMSIGHT, "record", "-q", "-s", "none", "-o", trace, "--dump-signal",
                           "USR1", "--", "/bin/sh", "-c",
                           "echo ready; while ! test -e $0; do sleep 0.05; done",
                           numbered(trace, 1)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=whole.environment()) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGUSR1)
        said = process.communicate(timeout=60)[1]
    checks.that(process.returncode == 0 and f"snapshot {numbered(trace, 1)}" in said,
                f"forwarded: {process.returncode} {said}")


def check_bad_input():
    for options, text in (
            (["--dump-signal", "KILL"], "cannot be handled"),
            (["--dump-signal", "19"], "STOP cannot be handled"),
            (["--dump-signal", "SIGSEGV"], "is how programs crash"),
            (["--dump-signal", "TERM"], "ends programs"),
            (["--dump-signal", "CHLD"], "sent by the kernel"),
            (["--dump-signal", "61"], "the signal of --source signal"),
            (["--dump-signal", "33"], "C library's own"),
            (["--dump-signal", "USR"], "is USR1 meant?"),
            (["--dump-signal", "0"], "is no signal"),
            (["--dump-signal", "65"], "is no signal"),
            (["--dump-signal", "-1"], "is no signal"),
            (["--dump-signal", "RTMIN+40"], "is no signal"),
            (["--dump-signal", ""], "is empty"),
            (["--dump-signal", "USR1", "--no-alloc"], "which --no-alloc leaves out"),
            (["--dump-reset"], "needs a --dump-signal")):
        done = subprocess.run([MEMSIGHT, "record", *options, "true"], text=True,
                              stderr=subprocess.PIPE, check=False, env=whole.environment())
        checks.that(done.returncode == 2 and text in done.stderr and
                    len(done.stderr.splitlines()) == 1, f"{options}: {done.stderr}")


def check_stripped(folder, program):
    """A static program without names meets no handler of ours; that is said."""
    stripped = os.path.join(folder, "stripped")
    whole.run(["strip", "-o", stripped, program])
    outcome = whole.Outcome([MEMSIGHT, "record", "-q", "-s", "signal", "-o", stripped + ".mst",
                             "--dump-signal", "USR2", "--", stripped, USR2, "own", "1", "none"])
    checks.that(outcome.stdout == b"DFL\nwas DFL\nown, 1 calls\nwas own, DFL\n" and
                outcome.status == 128 + signal.SIGUSR2, f"it saw {outcome.stdout}")
    for option, text in (("--dump-signal", "has no handler of ours"),
                         ("--source signal", "was not sampled")):
        checks.that(any(line.startswith(f"memsight: {option}: ") and text in line
                        for line in outcome.messages.splitlines()), outcome.messages)


with tempfile.TemporaryDirectory(prefix="memsight-test-") as place:
    for number, VICTIM in enumerate(STATIC):
        inside = os.path.join(place, str(number))
        os.mkdir(inside)
        check_snapshots(inside)
        check_own_handler(inside)
        check_blocked(inside)
        if shutil.which("strip"):
            check_stripped(inside, VICTIM)
    VICTIM = os.path.abspath(sys.argv[2])
    check_bad_input()
    check_snapshots(place)
    check_reset(place)
    check_own_handler(place)
    check_blocked(place)
    check_processes(place)
    check_burst(place)
    check_forwarded(place)
checks.end()
