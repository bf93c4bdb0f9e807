#!/usr/bin/env python3
"""record --last: a trace whose begin is cut off. Arguments: memsight, victim-live, victim-cut,
cut-trace, what to do (cut, ends, kills), how many kills."""
import collections
import functools
import os
import random
import signal
import subprocess
import sys
import tempfile

import whole

MEMSIGHT, LIVE, VICTIM, CUT_TRACE = map(os.path.abspath, sys.argv[1:5])
checks = whole.Checks()
FIRST, KEPT = 1000, 50
ENDLESS = (LIVE, "2", "0", "20")  # its sizes come again after 20000 blocks, which is 1 s at least
SPAN = "200ms"


def opened(trace):
    whole.run([MEMSIGHT, "analyze", "-f", trace])
    return whole.Database(trace + ".db")


# ---- A cut beside the whole ----


def stack_texts(database):
    """What a stack is, by its number."""
    frames = dict((row[0], row[1:]) for row in database.ask("SELECT id, object, offset FROM frame"))
    stacks = dict((row[0], row[1:]) for row in database.ask(
        "SELECT id, parent_id, frame_id, stop FROM stack"))

    @functools.lru_cache(None)
    def text(number):
        if number is None:
            return ()
        parent, frame, stop = stacks[number]
        return (frames.get(frame, stop), ) + text(parent)

    return text


# What a time does not change: all that lives at the cut or later.
LIVES = ("(o.{end} >= ?1 OR o.{end} IS NULL AND coalesce(p.end_ns, ?1) >= ?1)")
QUESTIONS = {
    "blocks":
        "SELECT o.stack_id, p.number, t.number, address, size, call, freed_ns, f.number, end_kind,"
        " free_call, CASE WHEN allocated_ns >= ?1 THEN allocated_ns END FROM allocation AS o JOIN"
        " process AS p ON p.id = o.process_id JOIN thread AS t ON t.id = o.thread_id LEFT JOIN"
        " thread AS f ON f.id = freed_thread_id WHERE " + LIVES.format(end="freed_ns"),
    # Those that only the kernel tells of come in one piece or in several.
    "mappings":
        "SELECT o.stack_id, p.number, address, size, call, freed_ns, prot, seen FROM mapping AS o"
        " JOIN process AS p ON p.id = o.process_id WHERE seen <> 2 AND " +
        LIVES.format(end="freed_ns"),
    "names":
        "SELECT NULL, p.number, address, size, name FROM object_name AS o JOIN process AS p ON"
        " p.id = o.process_id WHERE " + LIVES.format(end="end_ns"),
    "processes":
        "SELECT NULL, number, pid, exe, birth, end_ns, status FROM process AS o WHERE"
        " coalesce(end_ns, ?1) >= ?1",
    "threads":
        "SELECT NULL, p.number, o.number, tid, is_main, stack_start, o.end_ns FROM thread AS o"
        " JOIN process AS p ON p.id = o.process_id WHERE " + LIVES.format(end="end_ns") +
        " AND coalesce(p.end_ns, ?1) >= ?1",
    "regions":
        "SELECT NULL, name, end_ns FROM region AS o WHERE coalesce(end_ns, ?1) >= ?1",
    # A look may be behind the last line of the clock: its time is then off by some ns.
    "resident":
        "SELECT NULL, rss, user_ns FROM process_sample WHERE time_ns >= ?1",
    "samples":
        "SELECT NULL, time_ns, weight FROM sample WHERE time_ns >= ?1",
}


def answers(database, sql, time_ns):
    text = stack_texts(database)
    return collections.Counter((text(row[0]), ) + row[1:] for row in database.ask(sql, time_ns))


def check_cut(whole_one, trace, part):
    """A cut behind so many segments."""
    said = whole.run([CUT_TRACE, trace, trace + "-cut", str(part)]).split()
    cut = opened(trace + "-cut")
    start_ns, live_bytes, n_live = cut.ask("SELECT start_ns, live_bytes, n_live FROM window")[0]
    for name, sql in QUESTIONS.items():
        all_of_it, left = (answers(of, sql, start_ns) for of in (whole_one, cut))
        checks.that(all_of_it == left,
                    f"cut behind {part}, {name}: {len(all_of_it)} in the whole, {len(left)} left; "
                    f"{list(all_of_it - left)[:3]} are missing, {list(left - all_of_it)[:3]} new")
    # Blocks that a fork has inherited are its parent's: they count once.
    there = whole_one.ask(
        "SELECT count(*), coalesce(sum(size), 0) FROM allocation JOIN process ON process.id ="
        " process_id WHERE allocated_ns < ?1 AND coalesce(freed_ns, end_ns, ?1) >= ?1",
        start_ns)[0]
    checks.that((n_live, live_bytes) == there, f"cut behind {part}: {n_live} live, not {there}")
    n_all, n_left = (of.one("SELECT value FROM total WHERE name = 'events'")
                     for of in (whole_one, cut))
    dropped = cut.one("SELECT CAST(value AS INTEGER) FROM fact WHERE key ="
                      " 'memsight.dropped_events'")
    checks.that(dropped == int(said[1]) and abs(n_all - n_left - dropped) < 10,
                f"cut behind {part}: {dropped} dropped of {n_all}, {n_left} left")
    # cut-trace writes no index.
    losses = {of for of in cut.losses() if not of[1].startswith("cut off")}
    checks.that(losses == set(whole_one.losses()), f"cut behind {part}: {losses}")
    return trace + "-cut"


def check_cuts(folder):
    trace = os.path.join(folder, "whole.mst")
    whole.run([MEMSIGHT, "record", "-q", "-o", trace, "--", VICTIM])
    whole_one = opened(trace)
    n = int(whole.run([CUT_TRACE, trace]))
    checks.that(n > 6, f"only {n} segments")
    for part in (1, n // 3, n - 2):
        check_cut(whole_one, trace, part)
    once = os.path.join(folder, "once.mst")
    os.rename(check_cut(whole_one, trace, n // 3), once)
    rest = int(whole.run([CUT_TRACE, once]))
    whole.run([CUT_TRACE, once, once + "-cut", str(rest - 2)])
    whole.run([CUT_TRACE, trace, trace + "-cut", str(n - 2)])
    time_ns = opened(trace + "-cut").one("SELECT start_ns FROM window")
    twice = opened(once + "-cut")
    for name, sql in QUESTIONS.items():
        checks.that(answers(twice, sql, time_ns) == answers(whole_one, sql, time_ns),
                    f"cut twice: {name}")


# ---- Recordings ----


def check_rest(database, what):
    """Blocks of each thread without a gap, as victim-live makes them. How many there are."""
    n = 0
    for (thread, ) in database.ask("SELECT DISTINCT thread_id FROM allocation WHERE size >= ?",
                                   FIRST):
        sizes = [row[0] for row in database.ask(
            "SELECT size - ? FROM allocation WHERE thread_id = ? AND size >= ? AND size < ?"
            " ORDER BY allocated_ns", FIRST, thread, FIRST, FIRST + 20000)]
        n += len(sizes)
        gaps = [(a, b) for a, b in zip(sizes, sizes[1:]) if b != (a + 1) % 20000]
        checks.that(not gaps, f"{what}: gaps at {gaps[:5]} of {len(sizes)}")
    checks.that(database.one("SELECT max(count(*) - ?, 0) FROM allocation WHERE size >= ? AND"
                             " freed_ns IS NULL AND size < 21000", 2 * KEPT + 2, FIRST) == 0,
                f"{what}: blocks that ended live")
    checks.that(database.one("SELECT count(*) FROM allocation AS o JOIN process AS p ON p.id ="
                             " o.process_id WHERE allocated_ns > p.end_ns") == 0,
                f"{what}: blocks behind the end of their process")
    losses = {of for of in database.losses() if not of[1].startswith("cut off")}
    checks.that(not losses, f"{what}: {losses}")
    return n


class Recorded:
    """A recording that is under way; its program has written a line."""

    def __init__(self, folder, command, *options):
        self.trace = os.path.join(folder, "run.mst")
        self.partial = self.trace + ".partial"
        self.process = subprocess.Popen(
            [MEMSIGHT, "record", "-s", "none", "-o", self.trace, "--last", SPAN, *options, "--",
             *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=whole.environment())
        self.process.stdout.readline()
        self.seen = os.stat(self.partial).st_ino

    def program(self):
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(path, encoding="ascii") as file:
            return int(file.read().split()[0])

    def wait_for_cut(self):
        """Until the trace is another file."""
        seen = self.seen
        while seen == self.seen:
            self.seen = os.stat(self.partial).st_ino


def check_end(folder):
    """The end of a program: its last blocks, and what of it is said."""
    trace = os.path.join(folder, "end.mst")
    done = whole.Outcome([MEMSIGHT, "record", "-s", "none", "-o", trace, "--last", SPAN, "--",
                          LIVE, "2", "18000", "20"])
    checks.that(done.status == 0 and "earlier events are not in the trace" in done.messages,
                f"record: {done.status} {done.messages}")
    database = opened(trace)
    n = check_rest(database, "the end")
    dropped = database.one("SELECT CAST(value AS INTEGER) FROM fact WHERE key ="
                           " 'memsight.dropped_events'")
    checks.that(0 < n < 36000 and database.one("SELECT max(size) FROM allocation WHERE size <"
                                               " 21000") == FIRST + 17999, f"the end: {n} blocks")
    checks.that(database.one("SELECT cause FROM window WHERE number = 1") == "last " + SPAN,
                "the window")
    overview = whole.run([MEMSIGHT, "report", trace])
    checks.that(f"{dropped:,} events and 0 samples before" in overview, overview)
    # All of a short run is there, and nothing is said.
    whole.run([MEMSIGHT, "record", "-q", "-f", "-o", trace, "--last", "1h", "--", LIVE, "1", "500"])
    database = opened(trace)
    checks.that(check_rest(database, "a short run") == 500 and
                not database.one("SELECT count(*) FROM window"), "a short run")


def check_size(folder):
    """By size, with windows of its own, and a snapshot while it runs."""
    recorded = Recorded(folder, ENDLESS, "--last", "64K")
    recorded.wait_for_cut()
    name = whole.run([MEMSIGHT, "ctl", recorded.trace, "snapshot"]).split()[-1]
    pid = recorded.program()  # a recorder that has stopped may leave it
    for words in (["pause"], ["resume"], ["stop"]):
        whole.run([MEMSIGHT, "ctl", recorded.trace, *words])
    recorded.process.wait(timeout=60)
    os.kill(pid, signal.SIGKILL)
    recorded.process.communicate()
    check_rest(opened(name), "a snapshot")
    database = opened(recorded.trace)
    windows = database.ask("SELECT number, cause FROM window ORDER BY 1")
    checks.that(windows[-1] == (2, "ctl resume"), f"windows: {windows}")
    checks.that(os.path.getsize(recorded.trace) < 200000, "the size")


def check_closed(folder):
    """A folder that takes no new file: that is said, and what could not be cut off is later."""
    if os.geteuid() == 0:
        print("not measured as root, to whom no folder is closed")
        return
    recorded = Recorded(folder, ENDLESS)
    os.chmod(folder, 0o500)
    said = ""
    while "cannot be cut off now" not in said and recorded.process.poll() is None:
        said = recorded.process.stderr.readline()
    os.chmod(folder, 0o700)
    checks.that("Permission denied; it grows" in said, f"a closed folder: {said}")
    recorded.seen = os.stat(recorded.partial).st_ino
    recorded.wait_for_cut()
    pid = recorded.program()
    whole.run([MEMSIGHT, "ctl", recorded.trace, "stop"])
    recorded.process.wait(timeout=60)
    os.kill(pid, signal.SIGKILL)
    recorded.process.communicate()
    check_rest(opened(recorded.trace), "a folder that was closed")


def check_refused():
    for value, what in (("yesterday", "neither a time"), ("1ms", "too short"), ("1K", "too small")):
        done = whole.Outcome([MEMSIGHT, "record", "--last", value, "--", "/bin/true"])
        checks.that(done.status == 2 and what in done.messages, f"--last {value}: {done.messages}")
    done = whole.Outcome([MEMSIGHT, "record", "--last", "9s", "--max-size", "9M", "--",
                          "/bin/true"])
    checks.that(done.status == 2 and "--max-size" in done.messages, done.messages)


def check_kill(folder, turn, random_one):
    """What is there when the program, or memsight, is killed at a moment of no choice."""
    recorded = Recorded(folder, ENDLESS)
    pid = recorded.program()
    for _ in range(random_one.randrange(3)):
        recorded.wait_for_cut()
    for _ in range(random_one.randrange(200)):
        os.stat(recorded.partial)
    os.kill(recorded.process.pid if turn % 2 else pid, signal.SIGKILL)
    recorded.process.wait(timeout=60)
    if turn % 2:
        os.kill(pid, signal.SIGKILL)  # it runs on, with our pipes
    recorded.process.communicate()
    files = sorted(os.listdir(folder))
    name = "run.mst.partial" if turn % 2 else "run.mst"
    checks.that(files == [name], f"kill {turn}: {files}")
    check_rest(opened(os.path.join(folder, name)), f"kill {turn}")


def main():
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        if sys.argv[5] == "cut":
            check_cuts(folder)
        elif sys.argv[5] == "ends":
            check_end(folder)
            check_size(folder)
            check_refused()
            with tempfile.TemporaryDirectory(prefix="memsight-test-") as closed:
                check_closed(closed)
    for turn in range(int(sys.argv[6]) if sys.argv[5] == "kills" else 0):
        with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
            check_kill(folder, turn, random.Random(turn))
    checks.end()


main()
