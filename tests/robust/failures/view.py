#!/usr/bin/env python3
"""Every allocation of each answer of the view, and of its server, fails once (fail-view.c): an
error that says so or the usual answer, and the next one as usual. Of a database with two runs, and
of a compact one.

usage: view.py MEMSIGHT MAKE_TRACE FAIL_VIEW [STRIDE]
"""
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

import whole

MEMSIGHT, MAKE_TRACE, FAIL_VIEW = sys.argv[1:4]
STRIDE = sys.argv[4] if len(sys.argv) > 4 else "1"


def make(folder):
    traces = []
    for name, seed in (("t.mst", "1"), ("other.mst", "2")):
        traces.append(folder / name)
        whole.run([
            MAKE_TRACE, "--events", "300", "--samples", "60", "--live", "20", "--seed", seed, "-o",
            traces[-1]
        ])
    plain, compact = folder / "plain.db", folder / "compact.db"
    whole.run([MEMSIGHT, "analyze", "-o", plain, *traces])
    whole.run([MEMSIGHT, "analyze", "--no-plain", "-o", compact, *traces])
    return plain, compact


def name_source(path, source):
    """Let a frame come from lines of a file that is there."""
    with sqlite3.connect(path) as db:
        frame, = db.execute("SELECT min(id) FROM frame").fetchone()
        db.execute("DELETE FROM frame_line WHERE frame_id = ?", (frame,))
        db.execute(
            "INSERT INTO frame_line(frame_id, depth, function, file, line) VALUES(?, 0, 'f', ?, 2)",
            (frame, str(source)))
    db.close()


def questions(path, source):
    db = whole.Database(path)
    run, last, duration = (db.one(f"SELECT {what} FROM run")
                           for what in ("min(id)", "max(id)", "min(duration_ns)"))
    site = db.one(
        "SELECT stack_id FROM site WHERE run_id = ? ORDER BY n_samples DESC, bytes DESC LIMIT 1",
        run)
    block, address = db.ask(
        "SELECT owner_id, touch.address FROM touch JOIN allocation ON allocation.id = owner_id"
        " WHERE owner_kind = 1 AND allocation.run_id = ? LIMIT 1", run)[0]
    # What one of two did not record is no question to their difference.
    recorded = [
        by for by, sources in (("time", "'clock', 'signal'"), ("faults", "'faults'")) if db.one(
            f"SELECT count(*) FROM source WHERE name IN ({sources}) AND n_samples > 0 AND error = 0"
        ) == 2
    ]
    part = f"from={duration // 4}&to={duration // 2}"
    return [
        "runs", "series", f"run?run={run}", f"bands?run={run}", f"timeline?run={run}&width=100",
        *(f"picture?run={run}&width=40&height=20&by={by}"
          for by in ("direction", "thread", "level", "latency", "source")),
        f"picture?run={run}&width=40&height=20&{part}",
        f"at?run={run}&address={address}&from=0&to={duration}",
        *(f"flame?run={run}&by={by}"
          for by in ("bytes", "time", "peak", "leaked", "blocks", "faults", "accesses", "latency")),
        f"flame?run={run}&by=bytes&inverse=1", f"flame?run={run}&by=time&{part}",
        *(f"objects?run={run}&sort={sort}" for sort in ("share", "name", "bytes")),
        f"objects?run={run}&filter=a", f"objects?run={run}&{part}", f"object?run={run}&site={site}",
        f"object?run={run}&site={site}&{part}", f"object?run={run}&block={block}",
        *(f"diff?a={run}&b={last}&by={by}"
          for by in ("bytes", "peak", *recorded)), f"source?run={run}&filter={source}:2"
    ]


def main():
    with tempfile.TemporaryDirectory(prefix="memsight-fail-view-") as name:
        folder = pathlib.Path(name)
        source = folder / "s.c"
        source.write_text("int a;\nint b;\nint c;\n")
        databases = make(folder)
        for path in databases:
            name_source(path, source)
        (folder / "questions").write_text("".join(
            line + "\n" for line in questions(databases[0], source)))
        done = subprocess.run([FAIL_VIEW, STRIDE, folder / "questions", *databases],
                              env=whole.environment(), check=False)
    sys.exit(1 if done.returncode else 0)


if __name__ == "__main__":
    main()
