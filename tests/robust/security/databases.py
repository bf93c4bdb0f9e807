#!/usr/bin/env python3
"""Databases made by hand to do harm: whatever rows they hold, report, plot, query and view end by
themselves, with an answer or with one line that says what is wrong, within the memory and the files
that the rows they have are worth.

usage: databases.py MEMSIGHT MAKE_TRACE plain|compact ROWS_TO_CHUNKS
"""
import os
import pathlib
import resource
import shutil
import sqlite3
import sys
import tempfile

import whole

MEMSIGHT, MAKE_TRACE, KIND = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3]
ROWS_TO_CHUNKS = os.path.abspath(sys.argv[4])  # what is changed in rows is changed in chunks
TIMEOUT = 300
FILE_BYTES = 64 << 20  # of all that is written; the databases have less than 1 MiB
MEMORY_BYTES = 1 << 30  # of address space
IS_SANITIZED = "asan" in MEMSIGHT or bool(os.environ.get("ASAN_OPTIONS"))
DAMAGED = "a part of it is missing or damaged"
LEAST, MOST = -2 ** 63, 2 ** 63 - 1

COMMANDS = {
    "report": ["report", "x.db"],
    "part": ["report", "x.db", "--sites", "--from", "1us"],
    "tree": ["report", "x.db", "--hierarchical"],
    "heatmap": ["report", "x.db", "--heatmap"],
    "timeline": ["report", "x.db", "--timeline"],
    "plot": ["plot", "x.db", "--kind", "heatmap", "-o", "-", "--format", "svg"],
    "plot-part": [
        "plot", "x.db", "--kind", "timeline", "--from", "1us", "-o", "-", "--format", "svg"
    ],
    "query": [
        "query", "x.db",
        "SELECT stack_text(stack_id, 9), count(*), sum(size) FROM allocation GROUP BY 1"
    ],
    "page": ["view", "x.db", "--export", "page.html"],
}

# Name: what is done to the database, and which commands must refuse it (as DAMAGED), having found
# it out.
CASES = {
    "nothing is wrong": ([], []),
    "stacks that no array holds": (
        [f"UPDATE allocation SET stack_id = {-2 ** 64 // 3} WHERE id % 2"], ["part", "plot-part"]),
    "stacks that arrays of 12 GiB hold": (
        ["UPDATE allocation SET stack_id = 2147483648 WHERE id % 7 = 1"], ["part", "plot-part"]),
    "a path whose id takes 64 GiB": ([
        "INSERT INTO stack SELECT 4294967290, parent_id, frame_id, 'x', depth, user_id FROM stack"
        " LIMIT 1",
        "INSERT INTO frame(id, object, path, offset) VALUES(4294967290, '', '', 1)"
    ], ["tree"]),
    "programs' calls that are nowhere": ([
        "UPDATE stack SET user_id = 4294967290 WHERE id % 2",
        f"UPDATE stack SET user_id = {LEAST} WHERE id % 3 = 0",
        f"UPDATE frame SET user_depth = {MOST} WHERE id % 2"
    ], []),
    "threads that arrays of 90 GiB hold": ([
        "UPDATE allocation SET thread_id = 1000000000 WHERE id % 7 = 1",
        "UPDATE sample SET thread_id = 1000000001"
    ], ["part", "plot-part"]),
    "threads below 0": (
        ["UPDATE allocation SET freed_thread_id = -5 WHERE freed_ns > 0"], ["part", "plot-part"]),
    "blocks whose ids are far apart": ([
        "UPDATE allocation SET id = 549755813888 WHERE id = (SELECT max(id) FROM allocation)",
        f"UPDATE allocation SET id = {LEAST} WHERE id = (SELECT min(id) FROM allocation)"
    ], []),
    "the longest lives there are": ([
        f"UPDATE allocation SET allocated_ns = {LEAST} WHERE id % 2",
        f"UPDATE allocation SET freed_ns = {MOST - 1} WHERE id % 3"
    ], ["part", "plot-part"]),
    "blocks as large as all numbers": ([f"UPDATE allocation SET size = {MOST}"], []),
    "blocks everywhere": ([
        f"UPDATE allocation SET address = CASE id % 3 WHEN 0 THEN {MOST} WHEN 1 THEN -1 ELSE "
        f"{LEAST} END"
    ], []),
    "samples at the ends of time": ([
        f"UPDATE sample SET time_ns = CASE id % 2 WHEN 0 THEN {LEAST} ELSE {MOST} END, weight = "
        f"{MOST}"
    ], []),
    "a run for ever": ([f"UPDATE run SET duration_ns = {MOST}"], []),
    "a run that ends before it begins": ([f"UPDATE run SET duration_ns = {LEAST}"], []),
    "a picture of all time": ([
        f"UPDATE picture SET from_ns = {LEAST}, to_ns = {MOST}, end_ns = {MOST}"
    ], ["heatmap", "plot", "page"]),
    "a picture that ends before it begins": (
        ["UPDATE picture SET from_ns = to_ns + 1"], ["heatmap", "plot", "page"]),
    "a picture of more than all addresses": (
        [f"UPDATE picture SET height = {LEAST}"], ["heatmap", "plot", "page"]),
    "bands that turn round": ([f"UPDATE band SET end = {LEAST}, start = {MOST} WHERE number = 1"], [
        "heatmap", "plot", "page"
    ]),
    "categories of nothing": (["DELETE FROM picture_category"], []),
    "categories beyond number": (
        [f"UPDATE picture_category SET item_id = {LEAST}, n = {MOST}"], []),
    "thousands of processes": ([
        "INSERT INTO allocation(id, run_id, process_id, thread_id, address, size, allocated_ns, "
        "call, end_kind) WITH RECURSIVE c(i) AS (SELECT 1"
        " UNION ALL SELECT i + 1 FROM c WHERE i < 5000) SELECT 1000000 + i, 1, 1000 + i, 1, 4096 * "
        "i, 8, i, 1, 0 FROM c"
    ], []),
    "totals that no number holds": ([
        f"UPDATE total SET value = {MOST}",
        f"UPDATE timeline SET interval_ns = {MOST}, live_bytes = {MOST}, "
        f"n_frees = {MOST}", f"UPDATE site SET bytes = {MOST}, n_blocks = {LEAST}"
    ], []),
}
# Which of them say something of a picture that is computed from the rows, and of a compact table.
COMPACT = {
    "nothing is wrong": ([], []),
    "chunks that begin at the last row": (
        [f"UPDATE allocation_chunk SET first_row = {MOST}, last_row = {MOST}"], ["part", "query"]),
    "chunks without rows": (["UPDATE touch_chunk SET n_rows = 0"], ["part"]),
    "chunks of more rows than they have": (["UPDATE touch_chunk SET n_rows = 65536"], ["part"]),
    "chunks that lack their columns": (["DELETE FROM allocation_column"], ["part", "query"]),
    "stacks that are gone": (["DELETE FROM stack", "DELETE FROM frame"], []),
}


def limit():
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    if not IS_SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def change(path, statements):
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()
    if KIND != "compact":
        whole.run([ROWS_TO_CHUNKS, path])


def ask(folder, name):
    """Its outcome, and what it left beside the database."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    outcome = whole.Outcome([MEMSIGHT, *COMMANDS[name]], cwd=folder,
                            timeout=TIMEOUT, preexec_fn=limit, env=whole.environment(
                                TMPDIR=str(temporary), HOME=str(folder)))
    left = [path.name for path in temporary.iterdir()] + [
        path.name for path in folder.iterdir() if path.name not in ("x.db", "tmp", "page.html")
    ]
    (folder / "page.html").unlink(missing_ok=True)
    return outcome, left


def check(checks, folder, case, name, refused):
    outcome, left = ask(folder, name)
    said = outcome.messages.splitlines()
    where = f"{KIND}, {case}, {name}"
    checks.that(outcome.status in (0, 1),
                f"{where}: exit status {outcome.status}: {said} {outcome.stderr[-2000:]!r}")
    checks.that(not outcome.stderr, f"{where}: words of others: {outcome.stderr[-2000:]!r}")
    checks.that(not left, f"{where}: left behind: {left}")
    if outcome.status == 1:
        checks.that(len(said) == 1, f"{where}: not one line: {said}")
        checks.that("memory" not in "".join(said),
                    f"{where}: asks for more memory than the rows are worth: {said}")
    if case == "nothing is wrong":
        checks.that(outcome.status == 0, f"{where}: is refused: {said}")
    if name in refused:
        checks.that(
            outcome.status == 1
            and any(word in said[0] for word in (DAMAGED, "damaged", "cannot be read")),
            f"{where}: is not told as damaged: {outcome.status} {said}")


def make_base(folder):
    whole.run([
        MAKE_TRACE, "--events", "300", "--samples", "60", "--accesses", "--live", "20", "-o",
        folder / "x.mst"
    ])
    options = ["--no-plain"] if KIND == "compact" else []
    whole.run([MEMSIGHT, "analyze", *options, "-o", folder / "x.db", folder / "x.mst"])
    (folder / "x.mst").unlink()


def main():
    checks = whole.Checks()
    cases = COMPACT if KIND == "compact" else CASES
    with tempfile.TemporaryDirectory(prefix="memsight-hostile-") as name:
        folder, base = pathlib.Path(name) / "x", pathlib.Path(name) / "base"
        folder.mkdir()
        base.mkdir()
        make_base(base)
        for case, (statements, refused) in cases.items():
            shutil.copy2(base / "x.db", folder / "x.db")
            change(folder / "x.db", statements)
            for command in COMMANDS:
                check(checks, folder, case, command, refused)
    checks.end()


if __name__ == "__main__":
    main()
