#!/usr/bin/env python3
"""Every allocation, and every write to a file, fails once: no crash, no hang, one line that says
it, exit status 1, nothing half written, nothing left behind. Or nobody notices: then the answer is
the one that it always is.

usage: failures.py MEMSIGHT MAKE_TRACE LIBRARY CASE memory|write [STRIDE]

tests/robust/failures/fail-calls.c makes them fail; a run without failures lists the places that
such a call is made from. With a STRIDE only every so many-th of them is tried, the same ones for
the same program.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

import whole

MEMSIGHT, MAKE_TRACE, LIBRARY = map(os.path.abspath, sys.argv[1:4])
CASE, KIND = sys.argv[4:6]
STRIDE = int(sys.argv[6]) if len(sys.argv) > 6 else 1
TIMEOUT = 300
MOST_SHOWN = 20

SERIES = """[series]
name = s
output = results
repetitions = 1
[workload w]
command = /bin/true
[mode natural]
dry = yes
[mode heap]
source = faults
"""

# What is asked, and which files it makes beside those that are there.
CASES = {
    "analyze": (["analyze", "-o", "new.db", "t.mst"], ["new.db"]),
    "compact": (["analyze", "--no-plain", "-o", "new.db", "t.mst"], ["new.db"]),
    "add": (["analyze", "-o", "t.mst.db", "other.mst"], []),
    "report": (["report", "t.mst.db"], []),
    "sites": (["report", "t.mst.db", "--sites", "--from", "1us"], []),
    "tree": (["report", "t.mst.db", "--hierarchical"], []),
    "query": ([
        "query", "t.mst.db", "SELECT stack_text(stack_id, 9), count(*) FROM allocation GROUP BY 1"
    ], []),
    "pprof": (["export", "t.mst.db", "--format", "pprof", "-o", "new.pb"], ["new.pb"]),
    "chrome": (["export", "t.mst.db", "--format", "chrome", "-o", "new.json"], ["new.json"]),
    "page": (["view", "t.mst.db", "--export", "new.html"], ["new.html"]),
    "plot": (["plot", "t.mst.db", "--kind", "heatmap", "-o", "new.svg"], ["new.svg"]),
    "plot-part": (["plot", "t.mst.db", "--kind", "timeline", "--from", "1us", "-o",
                   "new.svg"], ["new.svg"]),
    "check": (["check", "t.mst.db", "--max-leaked", "1T"], []),
    "diff": (["diff", "t.mst.db", "t.mst.db"], []),
    "record": (["record", "-o", "new.mst", "--source", "faults", "--", "/bin/true"], ["new.mst"]),
    "run": (["run", "s.ini"], ["results"]),
}
# One of these says why. EAGAIN is what a thread without memory for its stack gives.
WORDS = ["memory", "Resource temporarily"] if KIND == "memory" else [
    "No space", "disk is full", "cannot write", "Input/output error"
]
NONCE = re.compile(rb"(?<=nonce[-=])\"?[0-9a-f]{16,}")  # of a page's scripts, another one each time
WARNINGS = ["not on this machine"]
FREE = {"record", "run"}  # the program goes on whatever happens to us, and its status is ours


class Try:
    """One run of the command in a folder of its own."""

    def __init__(self, base, **variables):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="memsight-fail-"))
        for path in base.iterdir():
            shutil.copy2(path, self.folder)
        self.before = {path.name for path in self.folder.iterdir()}
        environment = whole.environment(LD_PRELOAD=LIBRARY, FAIL_KIND=KIND, FAIL_LIVE=str(
            self.folder / ".live"), **variables)
        try:
            done = subprocess.run([MEMSIGHT, *CASES[CASE][0]], cwd=self.folder, env=environment,
                                  capture_output=True, timeout=TIMEOUT, check=False,
                                  errors="replace", text=True)
            self.status, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired:
            self.status, self.stdout, self.stderr = "hangs", "", ""
        live = self.folder / ".live"
        ended = live.exists()  # else memsight became another program
        self.n_live, self.has_failed = map(int, live.read_text().split()) if ended else (None, None)
        live.unlink(missing_ok=True)
        self.made = sorted({path.name for path in self.folder.iterdir()} - self.before)

    def leave(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def database(self):
        name = "new.db" if CASE in ("analyze", "compact") else "t.mst.db"
        return self.folder / name

    def answer(self):
        """What counts of what was made or said."""
        if CASE in ("analyze", "compact", "add"):
            return rows_of(self.database())
        files = [(name, NONCE.sub(b"", (self.folder / name).read_bytes()))
                 for name in CASES[CASE][1] if name.startswith("new.") and CASE not in FREE]
        return (self.stdout if CASE not in FREE else "", files)


def rows_of(path):
    """The number of rows of each table, and all totals."""
    if not path.exists():
        return None
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        if db.execute("PRAGMA quick_check").fetchone() != ("ok",):
            return "damaged"
        tables = [
            name for name, in db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE "
                "VIRTUAL%' ORDER BY 1"
            )
        ]
        return ([(table, db.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])
                 for table in tables if not table.startswith("sqlite_")],
                db.execute("SELECT name, value FROM total ORDER BY 1, 2").fetchall())
    finally:
        db.close()


def problem_of_trace(run):
    """What was recorded can be read."""
    trace = run.folder / "new.mst"
    if not trace.exists():
        return None if run.status != 0 or run.stderr else "no trace, and nobody says why"
    done = subprocess.run([MEMSIGHT, "analyze", "-o", "check.db", trace], cwd=run.folder,
                          capture_output=True, env=whole.environment(), check=False, text=True)
    if done.returncode != 0 and run.status == 0 and not run.stderr:
        return f"the trace cannot be read, and nobody had said so: {done.stderr}"
    return None


def problem_of_end(run):
    if run.status == "hangs":
        return "hangs"
    if run.status not in ((0, 1, 126) if CASE == "record" else
                          (0, 1)):  # 126: the program could not be started
        return f"exit status {run.status}: {run.stderr}"
    lines = [
        line for line in run.stderr.splitlines() if not any(words in line for words in WARNINGS)
    ]
    if run.status == 1 and CASE not in FREE and (len(lines) != 1
                                                 or not lines[0].startswith("memsight: ")):
        return f"not one line: {lines}"
    if run.status == 1 and not any(word in line for line in lines for word in WORDS):
        return f"the line does not say why: {lines}"
    return None


def problem_of_files(run, usual):
    extra = set(run.made) - set(
        CASES[CASE][1]) - {name + "-journal"
                           for name in CASES[CASE][1] if run.status == 0}
    if extra:
        return f"left behind: {sorted(extra)}"
    if run.status == 1 and CASE not in FREE:
        half = [name for name in CASES[CASE][1] if (run.folder / name).exists()]
        if half:
            return f"half written: {half}"
        if CASE == "add" and rows_of(run.database()) == "damaged":
            return "the database is damaged"
    if run.status == 0 and run.answer() != usual.answer():
        return "another answer, and status 0"
    return None


def problem_of_memory(run, usual):
    if KIND == "memory" and None not in (run.n_live, usual.n_live) and run.n_live > usual.n_live:
        return f"{run.n_live} blocks are never freed, without a failure {usual.n_live}"
    return None


def try_place(base, line, usual):
    """A place is looked for where it was listed, and where it is not met there, everywhere."""
    place, near = line.split()
    run = Try(base, FAIL_PLACE=place, FAIL_NEAR=near)
    if run.has_failed == 0:
        run.leave()
        run = Try(base, FAIL_PLACE=place)
    problems = [problem_of_end(run), problem_of_files(run, usual), problem_of_memory(run, usual)]
    if CASE == "record":
        problems.append(problem_of_trace(run))
    status = run.status
    run.leave()
    return status, [f"place {place} ({status}): {problem}" for problem in problems if problem]


def make_base(folder):
    for name, seed in (("t.mst", "1"), ("other.mst", "2")):
        whole.run([
            MAKE_TRACE, "--events", "300", "--samples", "60", "--live", "20", "--seed", seed, "-o",
            folder / name
        ])
    whole.run([MEMSIGHT, "analyze", "-o", folder / "t.mst.db", folder / "t.mst"])
    (folder / "s.ini").write_text(SERIES)


def main():
    with tempfile.TemporaryDirectory(prefix="memsight-fail-base-") as name:
        base = pathlib.Path(name)
        make_base(base)
        usual = Try(base, FAIL_LIST=str(base / ".list"))
        if usual.status != 0:
            raise SystemExit(f"without any failure: {usual.status}: {usual.stderr}")
        places = sorted((base / ".list").read_text().splitlines())
        (base / ".list").unlink()
        tried = places[::STRIDE]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda line: try_place(base, line, usual), tried))
        usual.leave()
    problems = [problem for _, found in results for problem in found]
    for problem in problems[:MOST_SHOWN]:
        print(problem)
    n_told = sum(status == 1 for status, _ in results)
    print(
        f"{CASE}, {KIND}: {len(tried)} of {len(places)} places failed, {n_told} of them were told, "
        f"{len(problems)} problems"
    )
    sys.exit(1 if problems or not tried else 0)


if __name__ == "__main__":
    main()
