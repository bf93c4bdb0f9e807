#!/usr/bin/env python3
"""Folders that Heimdallr's runs.sh leaves: every line of them is made here, so that the truth is
known. Arguments: memsight, example program word-index (for names of functions), victim-traced."""
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import json_schema
import whole

MEMSIGHT, EXAMPLE, TRACED = sys.argv[1], os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3])
START = 1000 * 10**9 + 5
checks = whole.Checks()
TIME = ("1.50user 0.25system %selapsed 99%%CPU (0avgtext+0avgdata 4088maxresident)k\n"
        "8784inputs+0outputs (3major+180minor)pagefaults 0swaps\n")


def line(sign, at, address, size, frames=()):
    at += START
    return "%s%d.%09d,%016x,%016x%s\n" % (sign, at // 10**9, at % 10**9, address, size,
                                         "".join(",%d+%x" % frame for frame in frames))


class Folder:
    """A run folder in the making; .analyze() gives its database and what was printed."""

    def __init__(self, home, name="lu.A.hms.1"):
        self.path = os.path.join(home, name)
        os.makedirs(self.path, exist_ok=True)

    def write(self, name, text):
        with open(os.path.join(self.path, name), "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return self

    def analyze(self):
        path = self.path + ".db"
        self.outcome = whole.Outcome([MEMSIGHT, "analyze", "-o", path, self.path])
        checks.that(self.outcome.status == 0, self.outcome.messages)
        return whole.Database(path)


def check_truth(home):
    """Allocations, frees and sizes to the row; who frees what; what was live at exit."""
    folder = Folder(home)
    folder.write("alloc_0_100.log", "".join([
        line("+", 0, 0x10000, 4096), line("+", 100, 0x20000, 8192), line("-", 1000, 0x10000, 4096),
        line("+", 5000, 0x30000, 4096), line("-", 6000, 0x50000, 4096),
        line("-", 9000, 0x20000, 8192), line("-", 9010, 0x30000, 4096)]))
    # Another thread gets the address before its free is logged: Heimdallr logs frees after they
    # happened.
    folder.write("alloc_1_101.log", "".join([
        line("+", 900, 0x10000, 64), line("-", 2000, 0x10000, 64), line("+", 3000, 0x50000, 4096),
        line("+", 4000, 0x60000, 16), line("-", 9020, 0x60000, 16)]))
    folder.write("time.log", TIME % "1:02:03")
    folder.write(
        "cmd.log", "numactl --membind=1 time -o /x/time.log env LD_PRELOAD=/x/libtracealloc.so"
        " TRAC_LOGPATH=/x TRAC_THRESHOLD=0x1000 /opt/npb/lu.A -n 3\n")
    db = folder.analyze()
    rows = db.ask("SELECT from_ns, to_ns, base, size FROM allocs ORDER BY from_ns")
    checks.that(
        rows == [(0, 900, 0x10000, 4096), (100, None, 0x20000, 8192), (900, 2000, 0x10000, 64),
                 (3000, 6000, 0x50000, 4096), (4000, None, 0x60000, 16),
                 (5000, None, 0x30000, 4096)], f"blocks: {rows}")
    totals = dict(db.ask("SELECT name, value FROM total"))
    checks.that(totals["missed_frees"] == 0 and totals["before_trace_frees"] == 0 and
                totals["live_bytes"] == 8192 + 16 + 4096, f"totals: {totals}")
    checks.that(db.losses() == {}, f"losses of a whole folder: {db.losses()}")
    checks.that(
        db.ask("SELECT prog, mode, run, utime_ns, stime_ns, wtime_ns, max_rss FROM runs") == [
            ("lu.A", "hms", 1, 1500000000, 250000000, 3723 * 10**9, 4088)
        ], "the row of runs")
    checks.that(
        db.ask("SELECT max_rss, exit_status, ended_cleanly, minor_faults, major_faults FROM run") ==
        [(4088 * 1024, 0, 1, 180, 3)], "run")
    checks.that(db.one("SELECT exe FROM process") == "/opt/npb/lu.A", "the program")
    checks.that([row[0] for row in db.ask("SELECT tid FROM thread ORDER BY number")] == [100, 101],
                "threads")
    checks.that(
        db.one("SELECT value FROM fact WHERE key = 'heimdallr.frees_at_exit'") == "3", "exit")
    checks.that(db.one("SELECT tid FROM allocation JOIN thread ON thread.id = freed_thread_id"
                       " WHERE address = 327680") == 100, "who freed")
    checks.that(db.one("SELECT trace FROM run") == folder.path, "where the run came from")


def check_frees_before_exit(home):
    """Frees at the end that are in another order than Heimdallr's own are the program's."""
    folder = Folder(home, "orderly.m.1")
    folder.write("alloc_0_7.log", "".join(
        [line("+", i, 0x1000 * (i + 1), 16) for i in range(4)] +
        [line("-", 10 + i, 0x1000 * (4 - i), 16) for i in range(3)] + [line("-", 20, 0x1000, 16)]))
    db = folder.analyze()
    checks.that(db.one("SELECT count(*) FROM allocation WHERE freed_ns IS NULL") == 1,
                "only the last free of a program that frees backwards is taken for one at exit")
    killed = Folder(home, "killed.m.1")
    killed.write("alloc_0_7.log",
                 line("+", 0, 0x1000, 16) + line("+", 1, 0x2000, 16) + line("-", 2, 0x1000, 16))
    killed.write("time.log", "Command terminated by signal 9\n" + TIME % "0:01.50")
    db = killed.analyze()
    checks.that(db.one("SELECT count(*) FROM allocation WHERE freed_ns IS NULL") == 1,
                "a killed program logs nothing at its exit")
    checks.that(
        db.ask("SELECT exit_status, duration_ns FROM run") == [(9, 1500000000)],
        "how it was killed")


def functions():
    """Offsets in the example's file inside of two functions, by nm: (name, offset)."""
    text = whole.run(["nm", EXAMPLE])
    found = re.findall(r"^([0-9a-f]+) [Tt] (main|read_word|count_word|add_file|read_file|insert)$",
                       text, re.M)
    return [(name, int(address, 16)) for address, name in found][:2]


def check_stacks(home):
    """Frames are offsets in files: their functions are found, and frees at exit are those without
    any."""
    names = functions()
    if len(names) < 1 or b"\x7fELF" != open(EXAMPLE, "rb").read(4):
        print("no names of functions to look for")
        return
    folder = Folder(home, os.path.basename(EXAMPLE).replace("-", "") + ".s.1")
    frames = [(1, names[0][1] + 8), (1, names[-1][1] + 9), (0, 0x7f0000001234)]
    folder.write("maps.log", "1: \n2: linux-vdso.so.1\n")
    folder.write("cmd.log", f"time -o t env LD_PRELOAD=x {EXAMPLE}\n")
    folder.write(
        "alloc_0_9.log",
        line("+", 0, 0x1000, 16, frames) + line("+", 10, 0x2000, 16, frames[1:]) +
        line("-", 20, 0x1000, 16, frames[:1]) + line("-", 30, 0x2000, 16))
    db = folder.analyze()
    found = [name for (name,) in db.ask(
        "SELECT function FROM allocation JOIN stack_line USING (stack_id) ORDER BY allocation.id")]
    checks.that(found == [names[0][0], names[-1][0]], f"functions {found}, not {names}")
    checks.that(db.one("SELECT max(depth) FROM stack") == 3, "depth of the stack")
    checks.that(
        db.ask("SELECT freed_ns FROM allocation ORDER BY id") == [(20,), (None,)],
        "frees by stacks")
    checks.that(
        db.one("SELECT count(*) FROM module") == 0, "modules have addresses that nobody told")


def check_damage(home):
    """Lines that are none are counted with the first one's number; the rest is read."""
    folder = Folder(home, "bad.m.2")
    good = [line("+", i * 10, 0x1000 * (i + 1), 16) for i in range(20)]
    bad = [
        "+1.5,1000,10\n", "+1.000000000,0x1000,10\n", "*1.000000000,1000,10\n", "\n",
        "+-1.000000000,1,1\n", "+1.000000000,1000\n", "+1.000000000,1000,10,\n",
        "+1.000000000,1000,10,1+\n", "+1.000000000,0000000000000000,10\n",
        "+1.000000000,ffffffffffffffff,10\n", "+99999999999.000000000,1000,10\n",
        "+1.000000000,11111111111111111,10\n", "\0\xff\n", "+1.000000000,1000,10 \n",
        "+1.000000000,1000,10\r\n", "x" * 400000 + "\n"
    ]
    text = "".join(good[:5] + bad + good[5:]) + good[0][:-5]
    folder.write("alloc_0_9.log", text.encode("latin-1"))
    folder.write("time.log", "a\nb\n").write("maps.log", "nothing\n1: /lib/x\n")
    db = folder.analyze()
    losses = db.losses()
    reason = "lines of alloc_0_9.log that are none of Heimdallr's, the first is line 6"
    checks.that(losses.get(("heimdallr", reason)) == len(bad) + 1, f"bad lines: {losses}")
    checks.that(db.one("SELECT count(*) FROM allocation") == 20, "good lines")
    checks.that(("heimdallr", "time.log is not in GNU time's default format") in losses, "time.log")
    checks.that(
        losses.get(("heimdallr", "lines of maps.log that are none of Heimdallr's")) == 1,
        "maps.log")
    jumps = Folder(home, "jumps.m.1")
    times = [0, 10, 10**12, 20, 30, 25, 40]
    jumps.write("alloc_0_9.log", "".join(
        line("+", t, 0x1000 * (i + 1), 16) for i, t in enumerate(times)))
    db = jumps.analyze()
    checks.that([t for (t,) in db.ask("SELECT allocated_ns FROM allocation ORDER BY id")] ==
                [0, 10, 10, 20, 30, 30, 40] or
                [t for (t,) in db.ask("SELECT allocated_ns FROM allocation ORDER BY id")] ==
                [0, 10, 10, 20, 20, 25, 40], "times after clock jumps")
    checks.that(sum(n for (_, reason), n in db.losses().items() if "ran backwards" in reason) == 2,
                f"clock jumps: {db.losses()}")
    twice = Folder(home, "twice.m.1")
    twice.write(
        "alloc_0_9.log", "".join([
            line("-", 0, 0x9000, 16),
            line("+", 1, 0x1000, 16),
            line("-", 2, 0x1000, 16),
            line("-", 3, 0x1000, 16),
            line("+", 4, 0x2000, 16),
            line("+", 2 * 10**9, 0x2000, 32),
            line("+", 3 * 10**9, 0x3000, 16)
        ]))
    db = twice.analyze()
    totals = dict(db.ask("SELECT name, value FROM total"))
    checks.that(totals["before_trace_frees"] == 2 and totals["missed_frees"] == 1,
                f"unknown, double and missing frees: {totals}")


def check_bare(home):
    """A dry run has a time.log alone; what is no such folder is said in a line."""
    db = Folder(home, "lu.A.DR.1").write("time.log", TIME % "0:02.25").analyze()
    checks.that(db.ask("SELECT wtime_ns, max_rss FROM runs") == [(2250000000, 4088)], "a dry run")
    series = os.path.join(home, "series")
    for i, dry, traced in ((1, "0:02.00", "0:03.00"), (2, "0:04.00", "0:05.00"), (3, "0:02.00",
                                                                                  "0:04.00")):
        Folder(series, f"lu.A.DR.{i}").write("time.log", TIME % dry).write(
            "cmd.log", " time  -o t   lu.A  \n")
        one = Folder(series, f"lu.A.hms.{i}").write("time.log", TIME % traced)
        one.write("cmd.log", "time -o t env LD_PRELOAD=/x/libtracealloc.so lu.A\n")
        one.write("alloc_0_5.log", line("+", 0, 0x1000, 16))
    path = os.path.join(home, "series.db")
    checks.that(
        whole.Outcome([MEMSIGHT, "analyze", "-o", path, series]).status == 0,
        "a series with dry runs")
    db = whole.Database(path)
    checks.that(
        set(db.ask("SELECT DISTINCT command FROM run")) == {
            ("time -o t lu.A",), ("time -o t env LD_PRELOAD=/x/libtracealloc.so lu.A",)
        }, "empty words in a command")
    rows = json.loads(whole.run([MEMSIGHT, "report", "--overhead", "--format", "json", path]))
    checks.that([(row["run"], row["against"], row["pairs"], row["wall_ratio"]) for row in rows] ==
                [("lu.A.hms", "DR", 3, 1.5)], f"pairs with the dry mode: {rows}")
    json_schema.check_report(checks, rows, "overhead")
    odd = Folder(home, "x.y.1")
    done = whole.Outcome([MEMSIGHT, "analyze", odd.path])
    checks.that(done.status == 1 and len(done.messages.splitlines()) == 1,
                f"an empty folder: {done.messages}")
    name = os.fsdecode(b"na\xffme.m\xc3\xb6.1")
    plain = Folder(home, name).write("time.log", TIME % "0:01.00").write(
        "maps.log", b"1: /lib/\xff\xfe.so\n")
    plain.write("alloc_0_5.log", line("+", 0, 0x1000, 16, [(1, 0x10)]))
    db = plain.analyze()
    db.database.text_factory = bytes
    checks.that(
        db.one("SELECT trace FROM run") == os.fsencode(plain.path), "a path that is not UTF-8")
    done = whole.Outcome([MEMSIGHT, "report", plain.path + ".db", "--sites", "--format", "json"])
    checks.that(done.status == 0 and done.stdout.decode("utf-8"),
                "JSON of a path that is not UTF-8")


def check_processes(home):
    """A workload of two processes: two logs of handler 0, the same addresses in both."""
    folder = Folder(home, "pair.m.1")
    for tid in (50, 60):
        folder.write(f"alloc_0_{tid}.log",
                     line("+", tid, 0x1000, tid) + line("+", tid + 500, 0x2000, 16))
    folder.write("alloc_1_61.log", line("+", 300, 0x3000, 16) + line("-", 400, 0x1000, 60))
    db = folder.analyze()
    rows = db.ask(
        "SELECT process.pid, size, freed_ns FROM allocation JOIN process ON process.id = process_id"
        " WHERE address = 4096 ORDER BY 1")
    checks.that(rows == [(50, 50, None), (60, 60, 350)], f"blocks of two processes: {rows}")
    checks.that(any("several processes" in reason for _, reason in db.losses()),
                "the guess is not told")


def check_accesses(home, name, *prefix):
    """access.dat by Debian's perf: each page's first touch is found in its block, by aligned
    clocks; also where perf starts what becomes the program by another exec (runs.sh: env
    LD_PRELOAD=... PROGRAM)."""
    perf = shutil.which("perf")
    if not perf:
        print("accesses cannot be measured here: no perf")
        return
    folder = Folder(home, name)
    store = "page-faults"
    done = subprocess.run([
        perf, "record", "-q", "-d", "-c", "1", "-e", "minor-faults", "-e", store, "-o",
        folder.path + "/access.dat", *prefix, TRACED
    ], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
                          env=whole.environment(TRAC_LOGPATH=folder.path))
    if done.returncode != 0:
        print("accesses cannot be measured here: perf record:",
              done.stderr.decode(errors="replace").strip())
        return
    folder.write(
        "cmd.log",
        f"time -o t perf record -d -e minor-faults -e {store} {' '.join((*prefix, TRACED))}\n")
    db = folder.analyze()
    checks.that(db.one("SELECT count(*) FROM allocation") == 16, "blocks")
    checks.that(
        db.one("SELECT count(*) FROM allocation WHERE freed_ns IS NULL") == 2, "live at exit")
    pages = db.ask("SELECT allocation.id, count(DISTINCT touch.address / 4096) FROM touch"
                   " JOIN owner ON owner.id = owner_kind AND owner.name = 'heap'"
                   " JOIN allocation ON allocation.id = owner_id WHERE role IN (0, 3) GROUP BY 1")
    checks.that(
        len(pages) == 16 and all(n == 64 for _, n in pages),
        f"pages touched of each block: {pages}")
    outside = db.one("SELECT count(*) FROM touch JOIN sample ON sample.id = sample_id"
                     " JOIN owner ON owner.id = owner_kind AND owner.name = 'heap'"
                     " JOIN allocation ON allocation.id = owner_id"
                     " WHERE time_ns < allocated_ns OR time_ns > coalesce(freed_ns, time_ns)")
    checks.that(outside == 0, f"{outside} touches outside of their blocks' lives")
    error = db.one("SELECT clock_error_ns FROM run")
    checks.that(0 < error < 10**9, f"the error of the alignment: {error}")
    checks.that(not any("times" in reason for _, reason in db.losses()), f"losses: {db.losses()}")
    checks.that(db.one("SELECT min(t) FROM (SELECT min(from_ns) AS t FROM allocs UNION ALL"
                       " SELECT min(at_ns) FROM access)") == 0, "times from the first event on")
    folder.write("access.dat", "this is no perf.data")
    broken = Folder(home, "broken." + name)
    for name in os.listdir(folder.path):
        shutil.copy(os.path.join(folder.path, name), broken.path)
    db = broken.analyze()
    checks.that(db.one("SELECT count(*) FROM allocation") == 16, "logs beside a broken access.dat")
    checks.that(("heimdallr", "access.dat is no perf.data that can be read") in db.losses(),
                "is not told")


def simulate(home, seed):
    """Threads that hand addresses to each other, with frees logged late: against a plain model."""
    rng = random.Random(seed)
    n_threads, now = 4, 0
    logs = [[] for _ in range(n_threads)]
    busy = [0] * n_threads  # when a thread's last line was logged
    live, truth, gone = {}, [], {}
    for _ in range(3000):
        now += rng.randrange(1, 2000)
        thread = rng.randrange(n_threads)
        at = max(now, busy[thread] + 1)
        if live and rng.random() < 0.5:
            address = rng.choice(sorted(live))
            allocation, size, _ = live.pop(address)
            at = gone[address] = max(at, allocation + 1)
            busy[thread] = at + rng.choice([0, 0, 5, 900, 40000])
            logs[thread].append(line("-", busy[thread], address, size))
            truth.append((allocation, address, size))
        else:
            free = [a for a in range(0x10000, 0x10000 + 64 * 0x1000, 0x1000) if a not in live]
            if not free:
                continue
            address, size = rng.choice(free), rng.randrange(1, 4096)
            busy[thread] = max(at, gone.get(address, 0) + 1)
            live[address] = (busy[thread], size, thread)
            logs[thread].append(line("+", busy[thread], address, size))
    # An allocation at the end: frees right before those at exit could be taken for them.
    live[0x900000] = (max(busy) + 1, 7, 0)
    logs[0].append(line("+", max(busy) + 1, 0x900000, 7))
    folder = Folder(home, f"random.m.{seed}")
    last = max(busy) + 1000
    for thread in range(n_threads):
        own = sorted(a for a, (_, _, t) in live.items() if t == thread)
        text = "".join(logs[thread]) + "".join(
            line("-", last + 1000 * thread + i, a, live[a][1]) for i, a in enumerate(own))
        folder.write(f"alloc_{thread}_{200 + thread}.log", text)
    db = folder.analyze()
    kept = sorted((b, a, s) for a, (b, s, _) in live.items())
    start = min([allocation for allocation, *_ in truth] + [allocation for allocation, *_ in kept])
    rows = db.ask("SELECT allocated_ns, address, size FROM allocation WHERE freed_ns IS NOT NULL")
    alive = db.ask("SELECT allocated_ns, address, size FROM allocation WHERE freed_ns IS NULL")
    for what, found, expected in [("freed", rows, truth), ("live at exit", alive, kept)]:
        checks.that(sorted(found) == sorted((b - start, a, s) for b, a, s in expected),
                    f"seed {seed}: blocks that were {what}")
    totals = dict(db.ask("SELECT name, value FROM total"))
    checks.that(totals["missed_frees"] == 0,
                f"seed {seed}: {totals['missed_frees']} frees not seen")


def check_statistics(home):
    """Over repetitions: as Python counts them; the failed one is told and left out."""
    walls = [2.00, 2.02, 1.98, 2.01, 1.99, 9.50, 2.03]
    results = os.path.join(home, "series")
    for i, wall in enumerate(walls):
        Folder(results, f"ft.B.x1.{i + 1}").write("time.log", TIME % f"0:{wall:05.2f}")
    Folder(results, "ft.B.x1.8").write("time.log",
                                       "Command exited with non-zero status 1\n" + TIME % "1:40.00")
    Folder(results, "ft.B.x2.1").write("time.log", TIME % "0:01.00")
    path = results + ".db"
    whole.run([MEMSIGHT, "analyze", "-o", path, results])
    rows = json.loads(whole.run([MEMSIGHT, "report", path, "--stat", "--format", "json"]))
    found = {(row["run"], row["name"]): row for row in rows}
    wall = found["ft.B.x1", "wall time"]
    for name, expected in [("n", 7), ("failed", 1), ("median", statistics.median(walls) * 1e9),
                           ("min", min(walls) * 1e9), ("max", max(walls) * 1e9),
                           ("mean", statistics.mean(walls) * 1e9),
                           ("sd", statistics.stdev(walls) * 1e9)]:
        checks.that(abs(wall[name] - expected) < 1000, f"{name}: {wall[name]}, not {expected}")
    checks.that(wall["outliers"] == "6", f"outliers: {wall['outliers']}")
    checks.that(wall["min"] <= wall["low"] < wall["median"] < wall["high"] <= wall["max"],
                f"interval: {wall}")
    again = json.loads(
        whole.run([MEMSIGHT, "report", path, "--stat", "--format", "json", "--run", "ft.B.x1"]))
    checks.that(again == [row for row in rows if row["run"] == "ft.B.x1"],
                "--stat of one PROGRAM.MODE")
    single = found["ft.B.x2", "wall time"]
    checks.that(
        (single["n"], single["median"], single["sd"], single["low"]) == (1, 1e9, None, None),
        f"one repetition: {single}")
    checks.that(found["ft.B.x1", "max rss"]["median"] == 4088 * 1024, "memory")
    checks.that(("ft.B.x1", "allocations") not in found,
                "a run that was not traced made no allocations")
    text = whole.run([MEMSIGHT, "report", path, "--stat"])
    checks.that("2.01 s" in text and "ft.B.x2" in text, text)


def main():
    with tempfile.TemporaryDirectory(prefix="memsight-heimdallr-") as home:
        check_truth(home)
        check_frees_before_exit(home)
        check_stacks(home)
        check_damage(home)
        check_bare(home)
        check_processes(home)
        check_statistics(home)
        check_accesses(home, "touch.a.1")
        check_accesses(home, "through.a.1", "env", "HMM=1")
        check_accesses(home, "shell.a.1", "nice", "-n", "0", "env", "HMM=1", "TWO=2")
        cpus = sorted(os.sched_getaffinity(0))
        if len(
                cpus
        # perf writes the first CPU's ring first: the last exec stands before those that it followed
        ) > 1:
            check_accesses(home, "cpus.a.1", "taskset", "-c", str(cpus[1]), "env", "HMM=1",
                           "taskset", "-c", str(cpus[0]))
        for seed in range(1, 6):
            simulate(home, seed)
    checks.end()


main()
