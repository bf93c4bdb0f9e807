#!/usr/bin/env python3
"""What is made beside a trace: compact for the first answer, plain by analyze, both with pictures.
Arguments: memsight, make-trace."""
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile

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
    checks.that(not trace.is_plain() and trace.n_pictures() > 0, "report makes something else")
    inode = os.stat(trace.beside).st_ino
    said, drawn = trace.plot()
    checks.that(not said and os.stat(trace.beside).st_ino == inode, "what will do is made anew")
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


def check_damaged(folder):
    """A chunk that is damaged is told, and not hidden by a picture of the rest."""
    trace = Trace(folder, "damaged")
    trace.ask("report")
    with sqlite3.connect(trace.beside) as database:
        database.execute("UPDATE allocation_column SET data = zeroblob(length(data))")
    outcome = trace.ask("plot", "--kind", "heatmap", "-f", "-o", "out.svg")
    checks.that(outcome.status == 1 and "damaged" in outcome.messages,
                f"damaged: {outcome.status} {outcome.messages}")
    checks.that(trace.names() == ["t.mst", "t.mst.db"], f"left behind: {trace.names()}")


def main():
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        for check in [check_forms, check_early, check_damaged]:
            check(folder)
    checks.end()


main()
