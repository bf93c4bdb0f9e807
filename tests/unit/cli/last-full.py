#!/usr/bin/env python3
"""record --last on a disk that fills: recording goes on, what lives is all there, what was left out
is counted, with its time. Arguments: memsight, victim-full."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import whole

MEMSIGHT, VICTIM = map(os.path.abspath, sys.argv[1:3])
MOUNTED = "MEMSIGHT_TEST_MOUNTED"
checks = whole.Checks()
PER_THOUSAND = 1999  # events


class Recorded:
    """A recording on a disk of its own, of a program that does what it is asked to."""

    def __init__(self, folder, size):
        self.disk = folder
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=True)
        self.trace = os.path.join(folder, "run.mst")
        self.process = subprocess.Popen(
            [MEMSIGHT, "record", "-s", "none", "-o", self.trace, "--last", "1h", "--", VICTIM],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=whole.environment(TMPDIR=os.path.dirname(folder)))
        self.n_thousands = 0
        self.said = ""

    def ask(self, words):
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        self.process.stdout.readline()

    def churn(self, thousands, size=100):
        self.n_thousands += thousands
        self.ask(f"churn {thousands} {size}")

    def wait_for(self, words):
        while words not in self.said:
            line = self.process.stderr.readline()
            if not line:
                checks.that(False, f"'{words}' is not said: {self.said}")
                break
            self.said += line

    def fill(self):
        """Nothing of the disk is left."""
        with open(os.path.join(self.disk, "fill"), "wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass

    def make_room(self):
        os.unlink(os.path.join(self.disk, "fill"))

    def seen(self):
        found = os.stat(self.trace + ".partial")
        return found.st_ino, found.st_size

    def program(self):
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(path, encoding="ascii") as file:
            return int(file.read().split()[0])

    def end(self):
        """The database, on another disk; what was said is in .said."""
        self.said += self.process.communicate()[1]
        checks.that(self.process.returncode == 0, f"{self.process.returncode}: {self.said}")
        checks.that(os.listdir(self.disk) == ["run.mst"], f"left: {os.listdir(self.disk)}")
        return self.opened(self.trace)

    def opened(self, trace):
        database = self.disk + ".db"
        whole.run([MEMSIGHT, "analyze", "-f", "-o", database, trace])
        subprocess.run(["umount", self.disk], check=True)
        return whole.Database(database)


def check_whole(recorded, database, what):
    """What lives is known exactly, and each event is in the trace, before it, or counted."""
    live = dict(database.ask("SELECT size, count(*) FROM allocation WHERE freed_ns IS NULL AND size"
                             " IN (100, 101, 200, 5000) GROUP BY size"))
    checks.that(live == {200: recorded.n_thousands, 5000: 100}, f"{what}: live at the end {live}")
    losses = database.losses()
    checks.that(set(losses) <= {("last", "no room on the disk")}, f"{what}: {losses}")
    n = database.one("SELECT value FROM total WHERE name = 'events'") + sum(losses.values())
    n += database.one("SELECT coalesce(sum(CAST(value AS INTEGER)), 0) FROM fact WHERE key ="
                      " 'memsight.dropped_events'")
    made = recorded.n_thousands * PER_THOUSAND + 100
    checks.that(made <= n < made + 100, f"{what}: {n} events of {made}")
    checks.that(not database.one("SELECT count(*) FROM loss WHERE source = 'last' AND (from_ns IS"
                                 " NULL OR to_ns IS NULL OR from_ns > to_ns)"),
                f"{what}: a loss without its time")
    return sum(losses.values())


def check_small(folder):
    """A disk that is full long before the span is over: cuts, or a gap of who is quicker."""
    recorded = Recorded(folder, "256k")
    recorded.churn(400)
    check_whole(recorded, recorded.end(), "a small disk")
    is_cut = "nearly full" in recorded.said or "some are left out" in recorded.said
    checks.that(is_cut and "has stopped" not in recorded.said and
                re.search("there was room for the last|had no room for all of its end",
                          recorded.said), f"a small disk: {recorded.said}")


def check_filled(folder):
    """Another takes the disk for a while: then nothing of what comes is missing any more."""
    recorded = Recorded(folder, "4m")
    recorded.churn(10)
    recorded.fill()
    recorded.churn(150)
    recorded.wait_for("some are left out")
    recorded.make_room()
    before = recorded.seen()
    while recorded.seen() == before:  # no faster than a recorder that gets little of a CPU reads
        recorded.churn(1)
        time.sleep(0.01)
    recorded.churn(20, 101)
    database = recorded.end()
    checks.that(check_whole(recorded, database, "a disk that was full") > 0, "nothing was lost?")
    n = database.one("SELECT count(*) FROM allocation WHERE size = 101")
    checks.that(n == 20 * 999, f"a disk that was full: {n} of the last blocks")
    overview = whole.run([MEMSIGHT, "report", database.path])
    checks.that("recording stopped" not in overview and "not freed at exit" in overview, overview)


def check_too_much(folder):
    """More lives than has room anywhere: one line, and the trace up to there is whole."""
    recorded = Recorded(folder, "512k")
    recorded.ask("keep 400000")
    database = recorded.end()
    checks.that(recorded.said.count("has stopped: what lives does not fit on the disk") == 1,
                f"too much: {recorded.said}")
    n_live, n_all = database.ask("SELECT count(*) FILTER (WHERE freed_ns IS NULL), count(*) FROM"
                                 " allocation WHERE size BETWEEN 300 AND 1299")[0]
    checks.that(0 < n_live == n_all < 400000, f"too much: {n_live} of {n_all} live")
    lost = sum(count for (_, reason), count in database.losses().items()
               if "does not fit" not in reason)
    checks.that(n_all + lost >= 400000, f"too much: {n_all} and {lost} lost")


def check_killed(folder, turn):
    """What a recorder that is killed leaves is read alone, wherever it was."""
    recorded = Recorded(folder, "512k")
    recorded.churn(5 << turn)
    if turn % 2:
        recorded.fill()
        recorded.churn(50)
    pid = recorded.program()
    recorded.process.kill()
    recorded.process.wait()
    os.kill(pid, signal.SIGKILL)
    recorded.process.communicate()
    checks.that(set(os.listdir(folder)) <= {"run.mst.partial", "fill"}, f"{os.listdir(folder)}")
    database = recorded.opened(recorded.trace + ".partial")
    losses = {of for of in database.losses() if not of[1].startswith("cut off")}
    checks.that(losses <= {("last", "no room on the disk")}, f"kill {turn}: {losses}")
    n = database.one("SELECT count(*) FROM allocation WHERE size = 200 AND freed_ns IS NULL")
    checks.that(n <= recorded.n_thousands, f"kill {turn}: {n} live")


def main():
    if MOUNTED not in os.environ:
        rights = ["-m"] if os.geteuid() == 0 else ["-rm"]
        if subprocess.run(["unshare", *rights, "mount", "-t", "tmpfs", "none", "/mnt"],
                          stderr=subprocess.DEVNULL, check=False).returncode != 0:
            whole.skip("a small disk cannot be mounted here")
        os.environ[MOUNTED] = "1"
        os.execvp("unshare", ["unshare", *rights, sys.executable, *sys.argv])
    for check, *more in ((check_small, ), (check_filled, ), (check_too_much, ),
                         *((check_killed, turn) for turn in range(4))):
        # In a namespace of users /tmp has no owner, and is not trusted.
        with tempfile.TemporaryDirectory(prefix="memsight-test-") as above:
            folder = os.path.join(above, "disk")
            os.mkdir(folder)
            check(folder, *more)
    checks.end()


main()
