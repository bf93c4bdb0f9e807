"""What tests of the whole program share: run a command, record it, analyse, ask the database.

A test is a program: it prints what it found, and exits with 0, 1, or 77 (cannot be measured here).
"""
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile

SKIP = 77
# What is looked for in reports is not what the width of a line leaves of it.
os.environ.setdefault("COLUMNS", "4000")


def skip(reason):
    print("cannot be measured here:", reason)
    sys.exit(SKIP)


def environment(**more):
    """That of the test without what would change a program: meson lets malloc fill blocks by
    MALLOC_PERTURB_, which would touch them before the victim does; and no settings of memsight."""
    kept = {k: v for k, v in os.environ.items()
            if k != "MALLOC_PERTURB_" and not k.startswith("MEMSIGHT_")}
    return {**kept, "MEMSIGHT_NO_CONFIG": "1", **more}


def run(command, env=None, **options):
    """The standard output of a command that must succeed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="replace", env=env or environment(), check=False, **options)
    if done.returncode != 0:
        print(done.stdout, done.stderr, sep="")
        raise SystemExit("%s: exit status %d" % (" ".join(map(str, command)), done.returncode))
    return done.stdout


class Outcome:
    """What a command did that others can see. Lines of memsight itself are not the program's."""

    def __init__(self, command, env=None, timeout=300, **options):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=env or environment(), timeout=timeout, check=False, **options)
        lines = done.stderr.splitlines(keepends=True)
        self.status = done.returncode
        self.stdout = done.stdout
        self.stderr = b"".join(line for line in lines if not line.startswith(b"memsight: "))
        self.messages = b"".join(line for line in lines if line.startswith(b"memsight: ")).decode(
            errors="replace")

    def differs_from(self, other):
        """In what, as a list of sentences; a status of 128 + N and a death by signal N are the
        same."""
        def status(outcome):
            return 128 - outcome.status if outcome.status < 0 else outcome.status
        return [f"{what}: {a!r} and {b!r}" for what, a, b in [
            ("status", status(self), status(other)),
            ("stdout", self.stdout, other.stdout), ("stderr", self.stderr, other.stderr)] if a != b]


class Database:
    """A database that can be asked: .ask(sql, ...) for rows, .one(sql, ...) for a value."""

    def __init__(self, path):
        self.path = path
        self.database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)

    def ask(self, sql, *values):
        return self.database.execute(sql, values).fetchall()

    def one(self, sql, *values):
        rows = self.ask(sql, *values)
        return rows[0][0] if rows else None

    def losses(self):
        """Without samples that never came: timers of a busy machine come late."""
        return {(source, reason): count for source, reason, count in self.ask(
            "SELECT source, reason, sum(count) FROM loss WHERE reason NOT LIKE"
            " 'samples that never came%' GROUP BY 1, 2")}

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


def disagreement(memsight, path, n_told=None):
    """How what the overview of a database says of losses, the rows of --losses, and what `analyze`
    said (if given) differ; ""."""
    overview = run([memsight, "report", path])
    found = re.search(r"losses: (none|([0-9,.]+( [kM])?) of ([0-9,]+) kinds?, see --losses)",
                      overview)
    if not found:
        return "no losses in " + overview
    rows = json.loads(run([memsight, "report", path, "--losses", "--format", "json"]))
    lost = [row for row in rows if row["part"] == "loss"]
    text = run([memsight, "report", path, "--losses", "-n", "0"])
    kinds = {(row["source"], row["reason"]) for row in lost}
    n_lost = sum(row["count"] for row in lost)
    stated = [n_lost and f"{n_lost:,}", kinds and f"{len(kinds):,}"] if lost else [None, None]
    if [found.group(2), found.group(4)] != stated:
        return f"{found.group(0)}, but --losses as json has {n_lost} of {len(kinds)}"
    if any(not re.search(re.escape(row["reason"]) + rf" +{row['count']:,} ", text) for row in lost):
        return f"{lost}, but as text {text}"
    return "" if n_told in (None, n_lost) else f"analyze says {n_told} lost, --losses {n_lost}"


class Recording(Database):
    """A program recorded and analysed: also .output of the program, .trace, .folder.name."""

    def __init__(self, memsight, command, options=(), env=None):
        self.folder = tempfile.TemporaryDirectory(prefix="memsight-test-")
        self.trace = os.path.join(self.folder.name, "run.mst")
        path = os.path.join(self.folder.name, "run.db")
        self.output = run([memsight, "record", "-o", self.trace, *options, "--", *command], env=env)
        run([memsight, "analyze", "-o", path, self.trace])
        super().__init__(path)


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


def run_cases(cases, make):
    """Run each case with the Checks that make() gives for a folder of its own. A case may skip;
    exits with 1 when one failed."""
    n_failed = 0
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
            try:
                checks = make(folder)
                case(checks)
            except SystemExit as stop:
                if stop.code != SKIP:
                    raise
                print(case.__name__, "was skipped")
                continue
        if checks.n_failed:
            print(f"{case.__name__}: {checks.n_failed} failed")
            n_failed += 1
    sys.exit(1 if n_failed else 0)
