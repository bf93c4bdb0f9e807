#!/usr/bin/env python3
"""What is made beside a trace: compact for the first answer, pictures stored when one is asked for,
plain by analyze. Arguments: memsight, make-trace."""
import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import whole

MEMSIGHT, MAKE_TRACE = map(os.path.abspath, sys.argv[1:3])
checks = whole.Checks()


class Trace:
    """A trace in a folder of its own, and what lies beside it."""

    def __init__(self, folder, name, n_events=20000):
        self.folder = os.path.join(folder, name)
        os.mkdir(self.folder)
        self.path = os.path.join(self.folder, "t.mst")
        self.beside = self.path + ".db"
        whole.run([
            MAKE_TRACE, "--kind", "mixed", "--events",
            str(n_events), "--samples",
            str(n_events // 10), "-o", self.path
        ])

    def ask(self, command, *options):
        return whole.Outcome([MEMSIGHT, command, self.path, *options], cwd=self.folder)

    def plot(self):
        """A figure, drawn without a word."""
        outcome = self.ask("plot", "--kind", "heatmap", "-f", "-o",
                           os.path.join(self.folder, "out.svg"))
        checks.that(outcome.status == 0, f"plot: {outcome.messages}")
        with open(os.path.join(self.folder, "out.svg"), "rb") as file:
            return outcome.messages, file.read()

    def is_plain(self):
        sql = whole.Database(
            self.beside).one("SELECT sql FROM sqlite_master WHERE name = 'allocation'")
        return not sql.startswith("CREATE VIRTUAL")

    def n_pictures(self):
        return whole.Database(self.beside).one("SELECT count(*) FROM picture")

    def names(self):
        return sorted(os.listdir(self.folder))


def check_forms(folder):
    trace = Trace(folder, "forms")
    first = trace.ask("report", "--sites", "--format", "json").stdout
    checks.that(not trace.is_plain() and trace.n_pictures() == 0, "report makes more than it needs")
    mode = os.stat(trace.beside).st_mode
    said, drawn = trace.plot()
    checks.that(trace.n_pictures() > 0 and not said, f"pictures were not stored: {said}")
    checks.that(os.stat(trace.beside).st_mode == mode, "another mode than before")
    inode = os.stat(trace.beside).st_ino
    checks.that(trace.plot() == ("", drawn) and os.stat(trace.beside).st_ino == inode,
                "pictures are stored again")
    checks.that(
        trace.ask("report", "--sites", "--format", "json").stdout == first,
        "other sites beside pictures")
    checks.that(trace.names() == ["out.svg", "t.mst", "t.mst.db"], f"left behind: {trace.names()}")
    whole.run([MEMSIGHT, "analyze", trace.path])
    checks.that(trace.is_plain() and trace.n_pictures() > 0, "analyze makes plain tables")
    inode = os.stat(trace.beside).st_ino
    checks.that(
        trace.ask("report", "--sites", "--format", "json").stdout == first,
        "other sites of plain tables")
    checks.that(trace.plot() == ("", drawn) and os.stat(trace.beside).st_ino == inode,
                "report makes anew what will do")
    whole.run([MEMSIGHT, "analyze", "--no-plain", trace.path])
    checks.that(not trace.is_plain() and trace.n_pictures() > 0,
                "analyze --no-plain keeps plain tables")


EARLY = [[], ["--sites"], ["--flat"], ["--peak"], ["--leaks"], ["--timeline"]]


def check_early(folder):
    """What totals tell is printed before the database is whole, and is what that tells later."""
    trace = Trace(folder, "early")
    for options in EARLY:
        first = trace.ask("report", *options)
        checks.that(first.status == 0 and first.stdout == trace.ask("report", *options).stdout,
                    f"{options}: another answer when the database is there")
        os.remove(trace.beside)
    report = [MEMSIGHT, "report", trace.path]
    program = subprocess.Popen(report, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=whole.environment())
    program.stdout.close()
    said = program.stderr.read()
    checks.that(program.wait() == -signal.SIGPIPE and not said, f"nobody reads: {said}")
    database = whole.Database(trace.beside)
    checks.that(
        database.one("SELECT sum(n_rows) FROM allocation_chunk") == database.one(
            "SELECT value FROM total WHERE name = 'allocations'"),
        "who stops reading gets half a database")
    os.remove(trace.beside)
    closed = whole.Outcome(["sh", "-c", 'exec "$@" >&-', "sh", *report], cwd=trace.folder)
    checks.that(
        closed.status == 1 and
        whole.Database(trace.beside).one("PRAGMA integrity_check") == "ok",
        f"without a standard output: {closed.status} {closed.messages}")
    os.remove(trace.beside)
    full = whole.Outcome(["sh", "-c", 'ulimit -f 64; exec "$@"', "sh", *report], cwd=trace.folder)
    checks.that(
        full.status == 1 and b"blocks" in full.stdout and "memsight: " in full.messages,
        f"no room for the database: {full.status} {full.stdout[:200]} {full.messages}")
    checks.that(trace.names() == ["t.mst"], f"left behind: {trace.names()}")


def check_not_stored(folder):
    """Where nothing can be stored it is computed for this time, and the database stays as it is."""
    trace = Trace(folder, "busy")
    trace.ask("report")
    with open(trace.beside, "rb") as file:
        before = file.read()
    with open(trace.beside + ".partial", "wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        said, drawn = trace.plot()
    checks.that("computed for this time" in said, f"beside another writer: {said!r}")
    with open(trace.beside, "rb") as file:
        checks.that(file.read() == before, "another writer's database was changed")
    os.remove(trace.beside + ".partial")
    checks.that(trace.plot() == ("", drawn), "another picture than the one that was not stored")


def check_damaged(folder):
    """A chunk that is damaged is told, and not hidden by pictures of the rest."""
    trace = Trace(folder, "damaged")
    trace.ask("report")
    with sqlite3.connect(trace.beside) as database:
        database.execute("UPDATE allocation_column SET data = zeroblob(length(data))")
    outcome = trace.ask("plot", "--kind", "heatmap", "-f", "-o", "out.svg")
    checks.that(outcome.status == 1 and trace.n_pictures() == 0,
                f"damaged: {outcome.status} {outcome.messages}")
    checks.that(trace.names() == ["t.mst", "t.mst.db"], f"left behind: {trace.names()}")


def check_killed(folder):
    """Killed while pictures are added: the database answers as before, and gets them the next time.
    """
    trace = Trace(folder, "killed", 400000)
    first = trace.ask("report", "--sites", "--format", "json").stdout
    n_killed = 0
    for i in range(6):
        program = subprocess.Popen(
            [MEMSIGHT, "plot", trace.path, "--kind", "heatmap", "-f", "-o", "out.svg"],
            cwd=trace.folder, env=whole.environment(), stderr=subprocess.DEVNULL)
        while program.poll() is None and not os.path.exists(trace.beside + ".partial"):
            time.sleep(0.001)
        time.sleep(0.02 * i)
        program.send_signal(signal.SIGKILL)
        n_killed += program.wait() == -signal.SIGKILL
        checks.that(
            trace.ask("report", "--sites", "--format", "json").stdout == first,
            f"kill {i}: other sites")
        if trace.n_pictures() > 0:
            break
    checks.that(n_killed > 0, "nothing was killed")
    said, _ = trace.plot()
    checks.that(trace.n_pictures() > 0 and not said, f"after kills: {said}")
    checks.that(not os.path.exists(trace.beside + ".partial"), f"left behind: {trace.names()}")


def check_two_at_once(folder):
    trace = Trace(folder, "two", 100000)
    trace.ask("report")
    programs = [
        subprocess.Popen(
            [MEMSIGHT, "plot", trace.path, "--kind", "heatmap", "-f", "-o", f"out{i}.svg"],
            cwd=trace.folder, env=whole.environment(), stderr=subprocess.DEVNULL) for i in range(3)
    ]
    checks.that([program.wait() for program in programs] == [0, 0, 0],
                "of three at once not all draw")
    figures = set()
    for i in range(3):
        with open(os.path.join(trace.folder, f"out{i}.svg"), "rb") as file:
            figures.add(file.read())
    checks.that(
        len(figures) == 1 and trace.n_pictures() > 0, f"{len(figures)} figures of three at once")


def main():
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        for check in [
                check_forms, check_early, check_not_stored, check_damaged, check_killed,
                check_two_at_once
        ]:
            check(folder)
    checks.end()


main()
