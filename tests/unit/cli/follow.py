#!/usr/bin/env python3
"""The analysis beside a recording: it makes the database that an analysis afterwards makes, or
none, and the recording is as it would be. Arguments: memsight, follow-trace, victim-live."""
import errno
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import whole

MEMSIGHT, FOLLOW, LIVE = map(os.path.abspath, sys.argv[1:4])
PYTHON = "/usr/bin/python3"

# Blocks over some segments, peaks, and what loads addresses.
WORK = """
import time
kept = {}
for turn in range(3):
    for i in range(1500):
        kept[str(i * 7919 % 50021)] = [str(j) for j in range(i % 5 + turn)]
    time.sleep(0.15)
"""
FORKS = """
import os
for turn in range(2):
    pid = os.fork()
    lists = [[turn] * (i % 50) for i in range(1500)]
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
"""
MALLOC = whole.environment(PYTHONMALLOC="malloc")


class Case(whole.Checks):
    def __init__(self, folder):
        super().__init__()
        os.chdir(folder)

    def same(self, one, other, what):
        for table in sorted(one.keys() | other.keys()):
            left, right = one.get(table, set()), other.get(table, set())
            rows = str(sorted(map(str, left ^ right)))[:500]
            self.that(left == right, f"{what}: {table}: {rows}")


def contents(trace):
    """All rows of all tables; those in chunks, which threads cut as they come, decoded."""
    database = sqlite3.connect(f"file:{trace}.db?mode=ro", uri=True)
    tables = [name for name, in database.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        " AND name NOT GLOB '*_chunk' AND name NOT GLOB '*_column'")]
    rows = {table: set(database.execute(f'SELECT * FROM "{table}"')) for table in tables}
    for table in ("allocation", "sample", "touch"):
        rows[table] = set(whole.run([MEMSIGHT, "query", "--format", "csv", trace,
                                     f"SELECT * FROM {table}"]).splitlines())
    return rows


def analysed(trace):
    """The same of a database that is made now."""
    os.remove(trace + ".db")
    whole.run([MEMSIGHT, "report", trace])
    return contents(trace)


def record(*options, command=(PYTHON, "-c", WORK), status=0, env=MALLOC):
    done = whole.Outcome([MEMSIGHT, "record", "-o", "run.mst", *options, "--", *command], env=env)
    if done.status != status:
        raise SystemExit(f"record {options}: {done.status}: {done.messages}")
    return done


def others():
    return {name for name in os.listdir(".") if name != "run.mst"}


def a_trace_that_grows_makes_the_same_database(case):
    for what, options, command in [
            ("samples", ("--pages", "50ms"), (PYTHON, "-c", WORK)),
            ("forks", (), (PYTHON, "-c", FORKS)),
            ("private", ("--private", ), (PYTHON, "-c", WORK))]:
        record("-f", *options, command=command)
        if what == "samples":
            shutil.copyfile("run.mst", "cut.mst")
        whole.run([FOLLOW, "run.mst", "5000"])
        first = contents("run.mst")
        case.same(first, analysed("run.mst"), f"{what}, afterwards")
        case.that(len(first["allocation"]) > 1500, f"{what}: {len(first['allocation'])} blocks")
    os.truncate("cut.mst", os.path.getsize("cut.mst") * 2 // 3)
    whole.run([FOLLOW, "cut.mst", "5000"])
    case.same(contents("cut.mst"), analysed("cut.mst"), "one that was cut off")


def what_record_makes_is_up_to_date(case):
    for option in ("--analyze=beside", "--report-on-exit"):
        done = record("-f", option, "--analyze")
        case.that(others() == {"run.mst.db"}, f"{option} left {others()}")
        made = os.stat("run.mst.db")
        first = contents("run.mst")
        text = whole.run([MEMSIGHT, "report", "run.mst"])
        now = os.stat("run.mst.db")
        case.that((made.st_ino, made.st_mtime_ns) == (now.st_ino, now.st_mtime_ns),
                  f"{option}: the database was made again")
        case.that(made.st_mode & 0o777 == os.stat("run.mst").st_mode & 0o777,
                  f"{option}: mode {made.st_mode:o}")
        case.same(first, analysed("run.mst"), option)
        case.that(option != "--report-on-exit" or text.splitlines()[1] in done.stderr.decode(),
                  f"{done.stderr}, and not {text}")
    for _ in range(5):  # over before anybody has looked
        done = record("-f", "--analyze", command=("/bin/true", ))
        case.that("failed" not in done.messages, done.messages)
    record("-f", "--analyze=no")
    case.that(not [name for name in others() if name != "run.mst.db"], f"left {others()}")


def what_cannot_be_followed_is_said(case):
    for option, words in [("--last=1h", "--last: the trace is cut"),
                          ("--archive", "--archive: symbols are packed")]:
        done = record("-f", "--analyze", option, command=("/bin/true", ))
        case.that(words in done.messages and os.path.exists("run.mst.db"),
                  f"{option}: {done.messages}, {others()}")
    done = record("-f", "--analyze=soon", status=2)
    case.that("'soon' is not one of [beside|after|no]" in done.messages, done.messages)
    done = record("-f", "--analyze", command=("./nothing", ), status=127)
    case.that(not [name for name in others() if "partial" in name], f"left {others()}")


def the_program_sees_nothing_of_it(case):
    look = """if True:
        import os
        print(os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))
        print(open("/proc/self/oom_score_adj").read())
        print(sorted(os.listdir("/proc/self/fd")), open("/proc/self/task/%d/children" %
            os.getpid()).read())"""
    seen = [record("-f", *options, command=(PYTHON, "-c", look))
            for options in ((), ("--analyze", ))]
    case.that(not seen[1].differs_from(seen[0]), f"{seen[1].differs_from(seen[0])}")


class Begun:
    """A recording under way, and the process that follows it."""

    def __init__(self):
        self.process = subprocess.Popen(
            [MEMSIGHT, "record", "-s", "none", "--analyze", "-o", "run.mst", "--", "/bin/sh", "-c",
             f"{PYTHON} -c '{WORK}'; echo ready; read line"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=MALLOC)
        self.process.stdout.readline()
        self.follower = next(pid for pid in self.children()
                             if self.name(pid) == "memsight-follow")

    def children(self):
        number = self.process.pid
        with open(f"/proc/{number}/task/{number}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]

    @staticmethod
    def name(pid):
        with open(f"/proc/{pid}/comm", encoding="ascii") as file:
            return file.read().strip()


def wait_until(is_true):
    for _ in range(3000):
        if is_true():
            return True
        time.sleep(0.01)
    return False


def one_that_is_killed_costs_nothing(case):
    begun = Begun()
    case.that(wait_until(lambda: os.path.exists("run.mst.db.partial")), "nothing is made")
    os.kill(begun.follower, signal.SIGKILL)
    _, said = begun.process.communicate("\n")
    case.that(begun.process.returncode == 0, f"status {begun.process.returncode}")
    case.that("was ended by a signal: it is done now" in said, said)
    case.that(others() == {"run.mst.db"}, f"left {others()}")
    case.that(len(contents("run.mst")["allocation"]) > 1000, "no blocks")


def signals_of_the_terminal_are_the_programs(case):
    begun = Begun()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP):
        os.kill(begun.follower, number)
    _, said = begun.process.communicate("\n")
    case.that(begun.process.returncode == 0 and "analysis beside" not in said, said)
    case.that(others() == {"run.mst.db"}, f"left {others()}")


def a_killed_recorder_leaves_its_trace_only(case):
    begun = Begun()
    wait_until(lambda: os.path.exists("run.mst.db.partial"))
    begun.process.kill()
    begun.process.communicate()
    gone = wait_until(lambda: not os.path.exists(f"/proc/{begun.follower}"))
    case.that(gone, "the process that follows lives on")
    case.that(others() == {"run.mst.partial"}, f"left {others()}")
    case.that("cut off" in whole.run([MEMSIGHT, "analyze", "run.mst.partial"]), "not cut off")


def code_that_changes_is_analysed_afterwards(case):
    jit = """if True:
        import ctypes, mmap, time
        memory = mmap.mmap(-1, 4096, prot=7)
        call = ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
        end = time.monotonic() + 0.8
        turn = 0
        while time.monotonic() < end:
            turn += 1
            memory[:11] = (b"\\xb8" + (20000000 + turn).to_bytes(4, "little") +
                           b"\\xff\\xc8\\x75\\xfc\\xc3\\x90")
            call()"""
    done = record("-f", "--analyze", command=(PYTHON, "-c", jit))
    case.that(len(contents("run.mst")["sample"]) > 1, "no samples")
    case.that(others() == {"run.mst.db"}, f"left {others()}")
    if "makes code" not in done.messages:
        whole.skip("no code was seen to change")


def a_disk_that_fills_is_the_recordings(case):
    os.mkdir("disk")
    rights = ["-m"] if os.geteuid() == 0 else ["-rm"]
    script = (f"mount -t tmpfs -o size=40m none disk && cd disk && fallocate -l 37m fill &&"
              f" {MEMSIGHT} record -s none --analyze -o run.mst -- {LIVE} 2 1000 20;"
              " echo $?; rm fill; ls")
    done = subprocess.run(["unshare", *rights, "sh", "-c", script], capture_output=True, text=True,
                          env=whole.environment(TMPDIR=os.getcwd()), check=False)
    if "mount" in done.stderr or done.stdout == "":
        whole.skip("a small disk cannot be mounted here")
    case.that(f"beside the recording has failed ({os.strerror(errno.ENOSPC)})" in done.stderr,
              done.stderr)
    case.that(done.stdout.split()[-2:] == ["run.mst", "run.mst.db"], done.stdout + done.stderr)
    case.that(not re.search("trace ends early|has stopped", done.stderr), done.stderr)


whole.run_cases([a_trace_that_grows_makes_the_same_database, what_record_makes_is_up_to_date,
                 what_cannot_be_followed_is_said, the_program_sees_nothing_of_it,
                 one_that_is_killed_costs_nothing, signals_of_the_terminal_are_the_programs,
                 a_killed_recorder_leaves_its_trace_only, code_that_changes_is_analysed_afterwards,
                 a_disk_that_fills_is_the_recordings], Case)
