#!/usr/bin/env python3
"""Kills, stops and full disks at random moments; what is left is checked.

usage: chaos.py MEMSIGHT BUILD-FOLDER [--rounds N] [--seed S] [--rest US] [KIND...]

--rest is how long threads of victim-chaos.c rest where somebody is killed: what they do meanwhile
is read and checked row by row. Each round draws a KIND (all of them without one) and a moment. The
seed is printed: it gives the same kinds and moments again, though not the same interleavings.
"""
import argparse
import os
import random
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

import invariants
from whole import Database, Outcome, environment, run

STEP, N_THREADS, CHILD_BLOCKS = 4096, 3, 500  # as in victim-chaos.c
PATIENCE_S = 300
# What was made this long before the recorder was killed is in the file: a segment is written each
# second, and this machine may be busy.
COMMITTED_WITHIN_S = 8


class Broken(Exception):
    """An invariant that does not hold, as a sentence."""


def need(is_true, sentence):
    if not is_true:
        raise Broken(sentence)


class Round:
    """One recording of the victim in a folder of its own."""

    def __init__(self, chaos, milliseconds, options=(), rest_us=1000):
        self.chaos = chaos
        self.folder = chaos.new_folder()
        self.trace = os.path.join(self.folder, "run.mst")
        self.progress = os.path.join(self.folder, "progress")
        self.history = []  # (time, counts)
        self.out = open(os.path.join(self.folder, "out"), "w+b")
        self.err = open(os.path.join(self.folder, "err"), "w+b")
        self.began = time.monotonic()
        self.recorder = subprocess.Popen([
            chaos.memsight, "record", "-o", self.trace, *options, "--", chaos.victim,
            self.progress, str(milliseconds), str(rest_us)
        ], stdout=self.out, stderr=self.err, env=environment(), start_new_session=True)

    def counts(self):
        try:
            with open(self.progress, "rb") as file:
                return struct.unpack("4Q", file.read(32))
        except (OSError, struct.error):
            return (0, 0, 0, 0)

    def watch_until(self, moment):
        """Sleep up to a time after the start, noting how far the victim is."""
        while (now := time.monotonic()) < self.began + moment and self.recorder.poll() is None:
            self.history.append((now, self.counts()))
            time.sleep(min(0.05, max(0.0, self.began + moment - now)))

    def made_before(self, moment):
        return max((counts for then, counts in self.history if then <= moment),
                   default=(0, 0, 0, 0))

    def said(self, file):
        file.seek(0)
        return file.read().decode(errors="replace")

    def program(self):
        found = re.search(r"\(pid (\d+)\)", self.said(self.err))
        return int(found.group(1)) if found else None

    def wait_for_program(self):
        """Also where its recorder is gone."""
        end = time.monotonic() + PATIENCE_S
        while program_lives(self.folder):
            need(time.monotonic() < end, "the program ends")
            time.sleep(0.02)

    def check_output(self):
        need(self.said(self.out) == "".join(f"{n}\n" for n in self.counts()),
             f"the program's output is its own: {self.said(self.out)!r}")

    def left(self):
        """The trace, finished or not; None when there is none yet."""
        paths = [path for path in (self.trace, self.trace + ".partial") if os.path.exists(path)]
        need(len(paths) <= 1, "one trace is left")
        return paths[0] if paths else None


def program_lives(folder):
    """Whether a victim of this folder is there: its command line names it."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"victim-chaos") and words[1:2] == [
                os.path.join(folder, "progress").encode()
        ]:
            return True
    return False


def analysed(chaos, trace):
    path = trace + ".db"
    run([chaos.memsight, "analyze", "--force", "-o", path, trace], timeout=PATIENCE_S)
    found = invariants.problems(path)
    need(not found, "; ".join(found))
    return Database(path)


def sizes_of(database, number):
    """Sizes of the blocks of thread `number` in the order of their births, by process."""
    rows = database.ask(
        "SELECT process_id, size FROM allocation WHERE size >= ? AND size < ?"
        " ORDER BY allocated_ns, id",
        STEP * (number + 1), STEP * (number + 2))
    by_process = {}
    for process, size in rows:
        by_process.setdefault(process, []).append(size)
    return by_process


def check_records(database, least, most=None):
    """No gap in the blocks of any thread, at least `least` (and at most `most`) of them, where
    nothing is counted as lost; else what is missing is no more than what was counted."""
    n_lost = sum(count for (source, _), count in database.losses().items()
                 if source in ("tracealloc", "trace"))
    for number in range(N_THREADS + 1):
        for sizes in sizes_of(database, number).values():
            base = STEP * (number + 1)
            gaps = [i for i, size in enumerate(sizes) if size != base + i % STEP]
            need(
                n_lost or not gaps,
                f"thread {number} lacks its block {gaps[:1]} of {len(sizes)}, and nothing is told")
    for number in range(N_THREADS):
        n = sum(map(len, sizes_of(database, number).values()))
        need(n + n_lost >= least[number],
             f"thread {number}: {n} blocks and {n_lost} lost of {least[number]} that were made")
        need(most is None or n <= most[number] + 1,
             f"thread {number}: {n} blocks of {most and most[number]}")


def duration(moment):
    """Of a victim to which something happens at a moment, in ms."""
    return int(1000 * max(4, moment + 2))


def kill_program(chaos, moment):
    """All that it did is there: the memory that it wrote to is the recorder's."""
    one = Round(chaos, duration(moment), rest_us=chaos.rest_us)
    one.watch_until(moment)
    program = one.program()
    if program:
        try:
            os.kill(program, signal.SIGKILL)
        except ProcessLookupError:
            pass
    status = one.recorder.wait(timeout=PATIENCE_S)
    need(status in (137, 7),
         f"the recorder's status is the program's: {status}; {one.said(one.err)}")
    database = analysed(chaos, one.left())
    need(database.one("SELECT ended_cleanly FROM run") == 1, "the trace ends cleanly")
    check_records(database, one.counts(), one.counts())


def kill_recorder(chaos, moment):
    one = Round(chaos, duration(moment), rest_us=chaos.rest_us)
    one.watch_until(moment)
    one.recorder.kill()
    killed = time.monotonic()
    one.recorder.wait()
    one.wait_for_program()
    trace = one.left()
    need(trace or killed - one.began < COMMITTED_WITHIN_S, "a trace is left")
    if one.program():
        one.check_output()
    if trace and os.path.getsize(trace):
        outcome = Outcome([chaos.memsight, "analyze", "-o", trace + ".try", trace],
                          timeout=PATIENCE_S)
        if outcome.status == 0:
            check_records(analysed(chaos, trace), one.made_before(killed - COMMITTED_WITHIN_S),
                          one.counts())
        else:
            need(
                outcome.messages.count("\n") == 1 and killed - one.began < COMMITTED_WITHIN_S,
                "one line says why a trace that was hardly begun cannot be read: "
                f"{outcome.messages}"
            )


def kill_both(chaos, moment):
    one = Round(chaos, duration(moment), rest_us=chaos.rest_us)
    one.watch_until(moment)
    before = one.made_before(time.monotonic() - COMMITTED_WITHIN_S)
    try:
        os.killpg(one.recorder.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    killed = time.monotonic()
    one.recorder.wait()
    one.wait_for_program()
    trace = one.left()
    if trace and killed - one.began > COMMITTED_WITHIN_S:
        check_records(analysed(chaos, trace), before, one.counts())


def stop_recorder(chaos, moment):
    """Stopped and continued: each event is there, or counted."""
    one = Round(chaos, duration(moment), ["--buffer-size", "1M"])
    one.watch_until(moment)
    one.recorder.send_signal(signal.SIGSTOP)
    time.sleep(chaos.random.uniform(0, 1.5))
    one.recorder.send_signal(signal.SIGCONT)
    status = one.recorder.wait(timeout=PATIENCE_S)
    need(status == 7, f"status {status}; {one.said(one.err)}")
    one.check_output()
    check_records(analysed(chaos, one.left()), one.counts(), one.counts())


def fill_disk(chaos, moment):
    """The trace lies on a disk of few blocks; the program neither fails nor waits."""
    n_kib = int(200 + 800 * moment)
    script = (
        f'mount -t tmpfs -o size={n_kib}k none "$0" && "$@"; status=$?; umount -l "$0.none" '
        '2>/dev/null;'
        ' for f in "$0"/run.mst*; do cat "$f" >"$0.${f##*/}"; done; exit $status')
    prefix = ["unshare", *([] if os.getuid() == 0 else ["-Ur"]), "-m", "sh", "-c", script]
    folder = chaos.new_folder()
    if subprocess.run([*prefix[:-3], "true"], check=False, capture_output=True).returncode:
        return "namespaces are refused"
    disk, progress = os.path.join(folder, "disk"), os.path.join(folder, "progress")
    os.mkdir(disk)
    outcome = Outcome([
        *prefix, disk, chaos.memsight, "record", "-o",
        os.path.join(disk, "run.mst"), "--", chaos.victim, progress, "3000"
    ], timeout=PATIENCE_S)
    need(outcome.status == 7, f"status {outcome.status}; {outcome.messages} {outcome.stderr}")
    with open(progress, "rb") as file:
        counts = struct.unpack("4Q", file.read(32))
    need(outcome.stdout.decode() =="".join(f"{n}\n" for n in counts),
         "the program's output is its own")
    traces = [
        os.path.join(folder, name) for name in os.listdir(folder)
        if re.fullmatch(r"disk\.run\.mst(\.partial)?", name)
    ]
    need(len(traces) == 1, f"one trace is left: {os.listdir(folder)}")
    database = analysed(chaos, traces[0])
    check_records(database, (0, 0, 0, 0), counts)
    n_kept = database.one("SELECT count(*) FROM allocation WHERE size >= ?", STEP)
    need(
        n_kept >= sum(counts[:3]) or database.losses()
        or database.one("SELECT ended_cleanly FROM run") == 0, "what does not fit is told")
    return None


def kill_analyze(chaos, moment):
    """The database is whole or not there; one that was there is as it was, or has the run."""
    trace = chaos.prepared()
    folder = chaos.new_folder()
    path = os.path.join(folder, "memsight.db")
    is_added = chaos.random.random() < 0.5
    if is_added:
        shutil.copy(chaos.other_database(), path)
    process = subprocess.Popen([chaos.memsight, "analyze", "-o", path, trace], env=environment(),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(timeout=moment / 4)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if os.path.exists(path):
        run([chaos.memsight, "report", path],
            timeout=PATIENCE_S)  # whoever reads it first undoes what is half written
        need(not invariants.problems(path), f"the database adds up: {invariants.problems(path)}")
        n_runs = Database(path).one("SELECT count(*) FROM run")
        need(n_runs in ((1, 2) if is_added else (1,)), f"{n_runs} runs")
    run([chaos.memsight, "analyze", "-o", path, trace], timeout=PATIENCE_S)
    need(
        Database(path).one("SELECT count(*) FROM run") == (2 if is_added else 1),
        "analysing again ends well")
    need(not invariants.problems(path), f"and adds up: {invariants.problems(path)}")
    left = [name for name in os.listdir(folder) if name != "memsight.db"]
    need(not left, f"nothing is left beside it: {left}")


def kill_view(chaos, moment):
    """Asked by many at once and killed: the database is as it was."""
    path = chaos.other_database()
    with open(path, "rb") as file:
        before = file.read()
    server = subprocess.Popen([chaos.memsight, "view", "--no-open", path], env=environment(),
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    url = re.search(r"http://\S+", server.stdout.readline() or "")
    if not url:
        said = server.communicate()[1]
        need("built without" in said, f"the server says where it is: {said}")
        return said.strip()
    end = time.monotonic() + moment / 4
    askers = [
        subprocess.Popen([sys.executable, "-c", ASKER, url.group(0)], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL) for _ in range(3)
    ]
    urllib.request.urlopen(url.group(0), timeout=PATIENCE_S).read()
    time.sleep(max(0.0, end - time.monotonic()))
    need(server.poll() is None, "the server lives")
    server.kill()
    server.wait()
    for asker in askers:
        asker.kill()
        asker.wait()
    with open(path, "rb") as file:
        need(file.read() == before, "the database is as it was")
    return None


ASKER = """
import sys, urllib.request
while True:
    for name in ["", "api/runs", "api/run?run=1", "api/timeline?run=1&width=100",
                 "api/objects?run=1&limit=10"]:
        urllib.request.urlopen(sys.argv[1].rstrip("/") + "/" + name).read()
"""


def kill_slurmd(chaos, moment):
    """A node of a cluster dies in the middle of a series: no run is lost or done twice."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                    "../../system/slurm"))
    from slurm import Cluster  # pylint: disable=import-outside-toplevel
    try:
        cluster = Cluster(chaos.memsight)
        cluster.up()
    except SystemExit:
        return "no Slurm here"
    try:
        cluster.write(
            "[workload short]\ncommand = sleep 0.2\n[mode natural]\ndry = yes\n[mode traced]\n"
            "source = none\n", repetitions=6)
        outcome = cluster.run("--executor", "slurm")
        need(outcome.status == 0, f"the series is handed over: {outcome.messages}")
        time.sleep(moment)
        node = chaos.random.choice(["n1", "n2"])
        with open(os.path.join(cluster.cluster, f"slurmd.{node}.pid"), encoding="ascii") as file:
            os.kill(int(file.read()), signal.SIGKILL)
        subprocess.run(["slurmd", "-N", node, "-f",
                        os.path.join(cluster.cluster, "slurm.conf")], check=False)
        cluster.wait_for_end()
        again = cluster.run("--executor", "slurm")
        need(again.status == 0, f"it goes on: {again.messages}")
        cluster.wait_for_end()
        expected = sorted(
            f"short.{mode}.{n}" for mode in ["natural", "traced"] for n in range(1, 7))
        need(cluster.runs() == expected, f"{cluster.runs()}")
        need(cluster.n_failed == 0, "the cluster ended its work")
    finally:
        cluster.down()
    return None


KINDS = {
    "program": kill_program, "recorder": kill_recorder, "both": kill_both, "stopped": stop_recorder,
    "disk": fill_disk, "analyze": kill_analyze, "view": kill_view, "slurmd": kill_slurmd
}
# How often each is drawn: those that cost least, most.
WEIGHTS = {
    "program": 6, "recorder": 6, "both": 3, "stopped": 4, "disk": 4, "analyze": 8, "view": 4,
    "slurmd": 1
}


class Chaos:
    def __init__(self, memsight, build, seed, rest_us):
        self.rest_us = rest_us
        self.memsight, self.victim = os.path.abspath(memsight), os.path.join(
            os.path.abspath(build), "victim-chaos")
        self.random = random.Random(seed)
        self.temporary = tempfile.TemporaryDirectory(prefix="memsight-chaos-")
        self.made = {}
        self.n_folders = 0

    def new_folder(self):
        self.n_folders += 1
        path = os.path.join(self.temporary.name, str(self.n_folders))
        os.mkdir(path)
        return path

    def record(self, name, milliseconds):
        if name not in self.made:
            one = Round(self, milliseconds)
            need(one.recorder.wait(timeout=PATIENCE_S) == 7, one.said(one.err))
            self.made[name] = one.trace
        return self.made[name]

    def prepared(self):
        """A trace that takes some time to analyse."""
        return self.record("prepared", 2000)

    def other_database(self):
        trace = self.record("other", 500)
        if not os.path.exists(trace + ".db"):
            analysed(self, trace)
        return trace + ".db"

    def one_round(self, kinds, number):
        """Each kind once, then as they are drawn."""
        drawn = self.random.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
        kind = kinds[number] if number < len(kinds) else drawn
        moment = self.random.uniform(0, 4)
        if self.random.random() < 0.1:
            moment = COMMITTED_WITHIN_S + 1  # late enough that something must be in the file
        before = self.n_folders
        try:
            reason = KINDS[kind](self, moment)
        except Broken as broken:
            return kind, f"{kind} at {moment:.3f} s: {broken}"
        for number in range(before + 1, self.n_folders + 1):
            path = os.path.join(self.temporary.name, str(number))
            if not any(trace.startswith(path + "/") for trace in self.made.values()):
                shutil.rmtree(path, ignore_errors=True)
        return (f"{kind}: skipped, {reason}" if reason else kind), None


def check_checker(chaos):
    """What looks for broken invariants finds one that was broken."""
    altered = os.path.join(chaos.new_folder(), "altered.db")
    shutil.copy(chaos.other_database(), altered)
    with sqlite3.connect(altered) as database:
        database.execute("DELETE FROM allocation WHERE id = (SELECT max(id) FROM allocation)")
    database.close()
    need(invariants.problems(altered), "a block that is missing is noticed")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("memsight")
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--rest", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    arguments = parser.parse_intermixed_args()
    print(f"seed {arguments.seed}", flush=True)
    chaos = Chaos(arguments.memsight, arguments.build, arguments.seed, arguments.rest)
    check_checker(chaos)
    rounds, broken = {}, []
    for number in range(arguments.rounds):
        kind, problem = chaos.one_round(arguments.kinds, number)
        rounds[kind] = rounds.get(kind, 0) + 1
        if problem:
            broken.append(problem)
            print("BROKEN", problem, flush=True)
    print("; ".join(f"{n} {kind}" for kind, n in sorted(rounds.items())), f"; {len(broken)} broken")
    sys.exit(1 if broken else 0)


main()
