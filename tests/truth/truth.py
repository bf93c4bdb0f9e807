"""What the tests of this folder share: record a victim, analyse it, ask the database."""
import os
import sqlite3
import subprocess
import sys
import tempfile

SKIP = 77


def skip(reason):
    print("cannot be measured here:", reason)
    sys.exit(SKIP)


def run(command):
    """The standard output of a command that must succeed. meson lets malloc fill blocks by
    MALLOC_PERTURB_, which would touch them before the victim does."""
    environment = {k: v for k, v in os.environ.items() if k != "MALLOC_PERTURB_"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment)
    if done.returncode != 0:
        print(done.stdout, done.stderr, sep="")
        raise SystemExit("%s: exit status %d" % (" ".join(command), done.returncode))
    return done.stdout


class Recording:
    """A recorded and analysed run: .output of the victim, .ask(sql, ...) for rows."""

    def __init__(self, memsight, victim, options=()):
        self.folder = tempfile.TemporaryDirectory(prefix="memsight-truth-")
        trace = os.path.join(self.folder.name, "run.mst")
        self.path = os.path.join(self.folder.name, "run.db")
        self.output = run([memsight, "record", "-o", trace, *options, "--", *victim])
        run([memsight, "analyze", "-o", self.path, trace])
        self.database = sqlite3.connect(self.path)

    def ask(self, sql, *values):
        return self.database.execute(sql, values).fetchall()

    def one(self, sql, *values):
        rows = self.ask(sql, *values)
        return rows[0][0] if rows else None

    def need_source(self, name):
        """Skip the test where the kernel refuses the source."""
        error = self.one("SELECT error FROM source WHERE name = ?", name)
        if error is None or error != 0:
            skip("no %s samples: errno %s; %s" % (name, error, self.one(
                "SELECT remedy FROM source WHERE name = ?", name)))
        lost = self.one("SELECT coalesce(sum(count), 0) FROM loss WHERE source = ?"
                        " AND reason = 'ring overrun'", name)
        if lost:
            skip("%d %s samples found the ring full" % (lost, name))


class Checks:
    """Counts what fails, says it, and exits."""

    def __init__(self):
        self.n_failed = 0

    def that(self, is_true, text):
        if not is_true:
            self.n_failed += 1
            print("FAILED:", text)

    def end(self):
        sys.exit(1 if self.n_failed else 0)
