#!/usr/bin/env python3
"""Measure analyze on synthetic traces, side by side: into rows, into compressed columns, and what
SQLite alone takes for the same rows and indexes (INSERT ... SELECT from a finished database, then
CREATE INDEX, in one process).

bench-analyze.py MEMSIGHT MAKE-TRACE [EVENTS...]; by default one and ten million events, 3 rounds.
Prints a line for each way, the ratios of medians, and what a sample costs (with and without
samples, 1 M live blocks).
MEMSIGHT_BENCH_ROUNDS changes the rounds."""
import contextlib
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

LIVE = 100_000
ROUNDS = int(os.environ.get("MEMSIGHT_BENCH_ROUNDS", "3"))


def copy_bare(source, target):
    """All rows of a database into a new one, and its indexes: what cannot be faster with SQLite."""
    with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as db:
        for pragma in ("page_size = 8192", "journal_mode = OFF", "synchronous = OFF",
                       "locking_mode = EXCLUSIVE", "cache_size = -65536", "temp_store = FILE",
                       "threads = 1"):
            db.execute("PRAGMA " + pragma)
        db.execute("ATTACH ? AS source", (source,))
        items = db.execute("SELECT type, name, sql FROM source.sqlite_master WHERE sql IS NOT NULL"
                           " AND name NOT LIKE 'sqlite_%'").fetchall()
        db.execute("BEGIN")
        for _, name, sql in [item for item in items if item[0] == "table"]:
            db.execute(sql)
            names = [row[1] for row in db.execute(f'PRAGMA source.table_info("{name}")')]
            columns = ", ".join(f'"{column}"' for column in names)
            # The columns by name: for SELECT * SQLite would copy rows as bytes.
            db.execute(f'INSERT INTO main."{name}"({columns})'
                       f' SELECT {columns} FROM source."{name}"')
        for _, _, sql in [item for item in items if item[0] == "index"]:
            db.execute(sql)
        db.execute("COMMIT")
    with open(target, "rb") as file:
        os.fdatasync(file.fileno())


def run(command):
    """Wall seconds, CPU seconds and the peak of memory in KiB of a command."""
    started = time.monotonic()
    pid = os.posix_spawn(command[0], command, os.environ,
                         file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                                       (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"bench-analyze: {' '.join(command)} failed")
    return time.monotonic() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def remove(path):
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


class Bench:
    def __init__(self, memsight, make_trace, folder):
        self.memsight, self.make_trace = os.path.abspath(memsight), os.path.abspath(make_trace)
        self.folder = folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def make(self, n_events, live, samples, kind="mixed"):
        subprocess.run([self.make_trace, "--kind", kind, "--events", str(n_events),
                        "--processes", "2", "--threads", "4", "--live", str(live),
                        "--stacks", "1000", "--samples", str(samples),
                        "-o", self.path("x.mst"), "--truth", self.path("truth.json")], check=True)
        with open(self.path("truth.json"), encoding="utf-8") as file:
            return json.load(file)

    def check(self, name, truth):
        counted = subprocess.run([self.memsight, "query", "--format", "csv", self.path(name),
                                  "SELECT count(*), sum(freed_ns IS NULL) FROM allocation"],
                                 check=True, capture_output=True, text=True).stdout.splitlines()[1]
        if counted != f"{truth['heap']['births']},{truth['heap']['live_blocks']}":
            sys.exit(f"bench-analyze: {name} has {counted}, which is not the truth")

    def ways(self):
        analyze = [self.memsight, "analyze", "-o"]
        bare = [sys.executable, os.path.abspath(__file__), "--bare", self.path("rows.db")]
        return {"rows": [*analyze, self.path("rows.db"), self.path("x.mst")],
                "bare SQLite": [*bare, self.path("bare.db")],
                "compact": [*analyze, self.path("compact.db"), "--no-plain", self.path("x.mst")]}

    def rounds(self, ways):
        """Each way once a round: [wall, CPU, KiB] of all rounds, and the size of its file."""
        found = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, command in ways.items():
                target = command[command.index("-o") + 1] if "-o" in command else command[-1]
                remove(target)
                found[name].append(run(command))
        return found

    def measure(self, n_events):
        truth = self.make(n_events, LIVE, 0)
        found = self.rounds(self.ways())
        self.check("rows.db", truth)
        self.check("compact.db", truth)
        n_blocks = truth["heap"]["births"]
        walls = {name: statistics.median(run[0] for run in runs) for name, runs in found.items()}
        for name, runs in found.items():
            size = os.path.getsize(self.path({"bare SQLite": "bare"}.get(name, name) + ".db"))
            cpu = statistics.median(run[1] for run in runs)
            kib = max(run[2] for run in runs)
            print(f"{n_events:>11,} events  {name:<11}"
                  f"  {n_events / walls[name] / 1e6:5.2f} M/s of wall time"
                  f"  {n_events / cpu / 1e6:5.2f} M/s of CPU time  {kib / 1024:4.0f} MiB"
                  f"  {size / n_blocks:5.1f} B a block", flush=True)
        share = 100 * walls["bare SQLite"] / walls["rows"]
        print(f"{'':>18}  rows at {share:.0f} % of the speed of bare SQLite;"
              f" compact {walls['rows'] / walls['compact']:.2f} times as fast as rows", flush=True)
        for name in ("rows.db", "bare.db", "compact.db"):
            remove(self.path(name))
        return max(run[2] for run in found["compact"])

    def measure_samples(self, n):
        """The same events with and without samples."""
        walls = []
        command = [self.memsight, "analyze", "-o", self.path("compact.db"), "--no-plain",
                   self.path("x.mst")]
        for samples in (0, n):
            self.make(n, 1_000_000, samples, kind="heap")
            runs = self.rounds({"compact": command})["compact"]
            walls.append(statistics.median(run[0] for run in runs))
        print(f"{n:>11,} samples of addresses, some 1 M live blocks:"
              f" {n / (walls[1] - walls[0]) / 1e6:.2f} M/s, parsed, attributed and written",
              flush=True)


def main():
    if sys.argv[1] == "--bare":
        return copy_bare(*sys.argv[2:4])
    counts = [int(count) for count in sys.argv[3:]] or [1_000_000, 10_000_000]
    print(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors,"
          f" {ROUNDS} rounds")
    with tempfile.TemporaryDirectory(prefix="memsight-bench-") as folder:
        bench = Bench(sys.argv[1], sys.argv[2], folder)
        peaks = [bench.measure(n) for n in counts]
        print(f"memory from the first to the last: x {peaks[-1] / peaks[0]:.2f}")
        bench.measure_samples(4_000_000)


resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
main()
