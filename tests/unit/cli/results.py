#!/usr/bin/env python3
"""Many runs in one call: a folder of results, patterns, repetitions, traces that cannot be read.
Arguments: memsight, make-trace."""
import ctypes
import json
import os
import re
import shutil
import sqlite3
import sys
import tempfile

import whole

MEMSIGHT, MAKE_TRACE = sys.argv[1:3]
checks = whole.Checks()
ROWS = ["allocation", "sample", "touch", "mapping_event", "shared_line"]
PICTURES = [
    "band", "site_curve", "timeline_level", "picture", "picture_category", "picture_tile"
]
REPORTS = [
    "heatmap", "sites", "leaks", "unused", "regions", "processes", "losses", "objects", "flat",
    "hierarchical", "threads", "mappings", "timeline", "temporary", "peak", "histogram", "hot",
    "cold", "sharing"
]


def make(path, seed):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    whole.run([
        MAKE_TRACE, "--seed",
        str(seed), "--events", "3000", "--samples", "300", "--kind", "mixed", "-o", path
    ])


def make_results(folder):
    """Three repetitions of one thing, one of another in a folder of its own, and a trace of no
    name."""
    for n in (1, 2, 10):
        make(f"{folder}/bt.A.hms.{n}.mst", n)
    make(f"{folder}/lu.hms.3/memsight.lu.77.mst", 4)
    make(f"{folder}/memsight.odd.4711.mst", 5)
    os.makedirs(f"{folder}/empty.hms.1")


def analyze(*arguments, status=0):
    done = whole.Outcome([MEMSIGHT, "analyze", *arguments])
    checks.that(done.status == status,
                f"analyze {arguments}: status {done.status}: {done.messages}")
    return done


def runs_of(path):
    return whole.Database(path).ask(
        "SELECT program || '.' || mode || '.' || repetition, detail FROM run ORDER BY 1")


def check_folder(folder, path):
    done = analyze(folder)
    checks.that("1 folder called as a run holds no trace" in done.messages, done.messages)
    checks.that(
        runs_of(path) == [("bt.A.hms.1", "full"), ("bt.A.hms.10", "totals"),
                          ("bt.A.hms.2", "totals"), ("lu.hms.3", "full"),
                          ("maketrace.synthetic.1", "full")],
        f"runs of the folder: {runs_of(path)}")
    database = whole.Database(path)
    n_runs = database.one("SELECT count(DISTINCT run_id) FROM picture")
    checks.that(n_runs == 3, f"{n_runs} runs have pictures, not the three that are there in full")
    for table in ROWS + PICTURES:
        rows = database.ask(f"SELECT DISTINCT run_id FROM {table} WHERE run_id IN"
                            " (SELECT id FROM run WHERE detail = 'totals')")
        checks.that(rows == [], f"{table} has rows of runs that have totals only: {rows}")
    checks.that(
        database.one("SELECT count(DISTINCT run_id) FROM allocation") == 3, "rows of full runs")
    again = analyze(os.path.join(folder, "..", os.path.basename(folder)), "-o", path)
    checks.that(again.stdout.count(b"is in") == 5 and b"same recording" not in again.stdout,
                f"not skipped: {again.stdout}")


def aggregates(path, run):
    database = whole.Database(path)
    run_id = database.one(
        "SELECT id FROM run WHERE program || '.' || mode || '.' || repetition = ?", run)
    tables = [
        "site", "total", "timeline", "histogram", "kind_total", "owner_share", "counter", "loss"
    ]
    found = {}
    for table in tables:
        columns = [name for (name,) in database.ask("SELECT name FROM pragma_table_info(?)", table)
                   if name not in ("run_id", "stack_id", "source_id", "process_id", "thread_id")]
        found[table] = sorted(database.ask(
            f"SELECT {', '.join(columns)} FROM {table} WHERE run_id = ?", run_id), key=repr)
    return found


def check_all(folder, path):
    """What a run that has totals only says is what it says in full."""
    every = os.path.join(os.path.dirname(folder), "all.db")
    analyze("--all", "-o", every, folder)
    checks.that({detail
                 for _, detail in runs_of(every)} == {"full"}, "--all leaves runs without rows")
    for run in ("bt.A.hms.2", "bt.A.hms.10"):
        short, full = aggregates(path, run), aggregates(every, run)
        for table, rows in full.items():
            checks.that(short[table] == rows, f"{table} of {run} differs without its rows")
    return every


def check_pattern(folder):
    path = os.path.join(os.path.dirname(folder), "pattern.db")
    analyze("-o", path, folder + "/bt*.mst")
    checks.that(runs_of(path) == [("bt.A.hms.1", "full"), ("bt.A.hms.10", "totals"),
                                  ("bt.A.hms.2", "totals")], f"a pattern: {runs_of(path)}")
    analyze("-o", path, f"{folder}/bt.A.hms.2.mst")
    checks.that(("bt.A.hms.2", "full") in runs_of(path),
                "naming a run by itself did not bring its rows")
    none = analyze("-o", path, folder + "/x*.mst", status=1)
    checks.that("holds no run" in none.messages, none.messages)


def check_several(folder):
    """Traces named one by one are in full, in one database in their folder."""
    copies = os.path.join(os.path.dirname(folder), "copies")
    os.makedirs(copies)
    names = [shutil.copy(f"{folder}/bt.A.hms.{n}.mst", copies) for n in (1, 2)]
    analyze(*names)
    checks.that([detail for _, detail in runs_of(copies + "/memsight.db")] == ["full"] * 2,
                "two traces named one by one")
    elsewhere = analyze(names[0], f"{folder}/bt.A.hms.10.mst", status=2)
    checks.that("--output" in elsewhere.messages, elsewhere.messages)


def check_same_name(folder):
    """Runs that were called the same are told apart by the names of their traces, or are
    repetitions."""
    here = os.path.join(os.path.dirname(folder), "names")
    for seed, name in enumerate(
        ["before", "after", "third1", "third2", "memsight.x.1", "memsight.x.2"], 50):
        make(f"{here}/{name}.mst", seed)
    for names, wanted in [(["before", "after"], ["after.1", "before.1"]),
                          (["third1", "third2"], ["synthetic.1", "synthetic.2"]),
                          (["memsight.x.1", "memsight.x.2"], ["synthetic.1", "synthetic.2"]),
                          (["before", "memsight.x.1"], ["synthetic.1", "synthetic.2"])]:
        path = f"{here}/both.db"
        analyze("-o", path, *(f"{here}/{name}.mst" for name in names))
        found = [name.split(".", 1)[1] for name, _ in runs_of(path)]
        checks.that(found == wanted, f"{names} are {found}")
        os.remove(path)


def check_failures(folder):
    """One that cannot be read does not stop the others."""
    mixed = os.path.join(os.path.dirname(folder), "mixed")
    shutil.copytree(folder, mixed)
    with open(mixed + "/aa.hms.1.mst", "w") as file:
        file.write("this is no trace")
    path = mixed + "/memsight.db"
    if os.path.exists(path):
        os.remove(path)
    done = analyze(mixed, mixed + "/missing.mst", status=1)
    lines = done.messages.splitlines()
    checks.that(sum("is neither a trace of memsight" in line for line in lines) == 1, done.messages)
    checks.that(sum("missing.mst" in line for line in lines) == 1, done.messages)
    checks.that(len(runs_of(path)) == 5, "the others are not there")
    os.makedirs(mixed + "/none")
    with open(mixed + "/none/x.hms.1.mst", "w") as file:
        file.write("neither is this")
    analyze(mixed + "/none", status=1)
    checks.that(not os.path.exists(mixed + "/none/memsight.db"),
                "a database without a run was made")


def check_older_database(folder):
    """One of an older memsight is left alone, with a line that says what to do, or made anew."""
    path = os.path.join(os.path.dirname(folder), "older.db")
    older = sqlite3.connect(path)
    older.executescript("create table run (id integer primary key, program text);"
                        f"pragma user_version = 15; pragma application_id = {0x4d534442}")
    older.close()
    before = open(path, "rb").read()
    for arguments in (["analyze", "-o", path,
                       f"{folder}/bt.A.hms.1.mst"], ["report", path], ["query", path, "select 1"]):
        done = whole.Outcome([MEMSIGHT, *arguments])
        checks.that(
            done.status == 1
            and "was made by an older memsight: analyse its traces again" in done.messages
            and len(done.messages.splitlines()) == 1, done.messages)
    checks.that(open(path, "rb").read() == before, "a database of an older memsight was changed")
    analyze("--force", "-o", path, f"{folder}/bt.A.hms.1.mst")
    checks.that(len(runs_of(path)) == 1, "a database of an older memsight was not made anew")


def check_older_trace(folder):
    """A trace of another format is refused by whoever reads it, with the versions of both."""
    path = os.path.join(os.path.dirname(folder), "older.mst")
    with open(f"{folder}/bt.A.hms.1.mst", "rb") as file:
        trace = bytearray(file.read())
    minor = trace[10]
    trace[10] = minor - 1
    checksum = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
    checksum.restype = ctypes.c_uint64
    trace[56:64] = checksum(bytes(trace[:56]), ctypes.c_size_t(56)).to_bytes(8, "little")
    with open(path, "wb") as file:
        file.write(trace)
    words = (f"{path} was recorded by another memsight (trace format 1.{minor - 1}; this one reads "
             f"1.{minor}): analyse it with that one, or record again")
    for arguments in (["analyze", path], ["report", path], ["diff", path, path],
                      ["check", "--max-rss", "1G", path], ["query", path, "select 1"],
                      ["export", path], ["view", "--export", path + ".html", path]):
        done = whole.Outcome([MEMSIGHT, *arguments])
        checks.that(done.status == 1 and words in done.messages
                    and len(done.messages.splitlines()) == 1, f"{arguments}: {done.messages}")


def check_same_recording(folder):
    twins = os.path.join(os.path.dirname(folder), "twins")
    os.makedirs(twins)
    for name in ("a.mst", "b.mst"):
        shutil.copy(f"{folder}/bt.A.hms.1.mst", f"{twins}/{name}")
    for options in ([], ["--force"]):
        done = analyze(*options, f"{twins}/a.mst", f"{twins}/b.mst")
        text = done.stdout.decode()
        checks.that(f"{twins}/b.mst: is of the same recording as {twins}/a.mst" in text, text)
        checks.that(len(runs_of(twins + "/memsight.db")) == 1, "two runs of one recording")


def check_full_disk(folder, path):
    """No room for all of them: one line, and the database is as it was."""
    home = os.path.dirname(folder)
    more = os.path.join(home, "more")
    for n in range(1, 4):
        make(f"{more}/cg.n{n}.1.mst", 20 + n)
    with open(path, "rb") as file:
        before = file.read()
    for target in (path, os.path.join(home, "new.db")):
        done = whole.Outcome([
            "sh", "-c", 'ulimit -f "$1"; shift; exec "$@"', "sh",
            str(len(before) // 512 + 100 if target == path else 100), MEMSIGHT, "analyze", "--all",
            "-o", target, more
        ])
        lines = [line for line in done.messages.splitlines() if target in line]
        checks.that(done.status == 1 and len(lines) == 1 and done.stdout == b"",
                    f"a full disk: status {done.status}: {done.stdout} {done.messages}")
    with open(path, "rb") as file:
        checks.that(file.read() == before, "the database is not as it was")
    left = [name for name in os.listdir(home) if name.startswith("new.db")]
    checks.that(left == [], f"left behind: {left}")


def report(path, kind, *options):
    return whole.Outcome(
        [MEMSIGHT, "report", path, "--" + kind, "--limit", "0", "--format", "csv", *options])


def check_reports(folder, every):
    """A report of a run is the same whatever other runs the database has."""
    for run, trace in [("bt.A.hms.2", "bt.A.hms.2.mst"),
                       ("lu.hms.3", "lu.hms.3/memsight.lu.77.mst")]:
        alone = os.path.join(os.path.dirname(folder), run + ".db")
        analyze("-o", alone, f"{folder}/{trace}")
        for kind in REPORTS:
            first, second = report(alone, kind), report(every, kind, "--run", run)
            # Equal values are in no order that is meant.
            checks.that(
                first.status == 0
                and sorted(first.stdout.splitlines()) == sorted(second.stdout.splitlines()),
                f"--{kind} of {run} differs beside other runs: {first.differs_from(second)}")
        summaries = [
            whole.Outcome([MEMSIGHT, "report", path, "--run", run]).stdout.split(b"hint:")[0]
            for path in (alone, every)
        ]
        which, _, rest = summaries[1].partition(b"\n")
        checks.that(re.fullmatch(rb"run \d+ of \d+: " + run.encode() + rb" .*", which),
                    f"it names its run: {which}")
        checks.that(summaries[0] == rest, f"the summary of {run}: {summaries}")
        fewer = whole.Outcome([MEMSIGHT, "report", alone, "--limit", "2"]).stdout.split(b"\n")
        dropped = [line for line in summaries[0].split(b"\n") if line not in fewer]
        checks.that(len(dropped) >= 1 and summaries[0].startswith(b"\n".join(fewer[:3])),
                    f"--limit 2 leaves {len(dropped)} objects out")


def check_refusals(path):
    """A run that has its totals only does not pass for one that had nothing."""
    for arguments in (["--mappings"], ["--sites", "--from", "1ns"], ["--sharing"]):
        done = whole.Outcome([MEMSIGHT, "report", path, "--run", "bt.A.hms.2", *arguments])
        checks.that(
            done.status == 1 and "only the totals" in done.messages
            and "bt.A.hms.2.mst" in done.messages, f"{arguments}: {done.messages}")
    summary = whole.run([MEMSIGHT, "report", path, "--run", "bt.A.hms.2"])
    checks.that("only the totals" in summary, "the summary does not say what is missing")
    same = json.loads(
        whole.run([MEMSIGHT, "diff", "--format", "json", path + ":bt.A.hms", path + ":bt.A.hms"]))
    checks.that(same == [], f"repetitions differ from themselves: {same[:2]}")


def check_heimdallr_views(path):
    """What Heimdallr's plots ask."""
    database = whole.Database(path)
    prog, mode = "bt.A", "hms"
    first = database.one("SELECT id FROM runs WHERE prog = ? AND mode = ?", prog, mode)
    checks.that(database.one("SELECT detail FROM run WHERE id = ?", first) == "full",
                "the repetition that has rows is not listed first")
    listed = database.ask(
        "SELECT id, prog, mode, MIN(run) FROM runs GROUP BY prog, mode ORDER BY 2")
    checks.that((first, prog, mode, 1) in listed, f"--list of Heimdallr: {listed}")
    columns = {view: [row[1] for row in database.ask(f"PRAGMA table_info({view})")]
               for view in ("runs", "allocs", "access")}
    checks.that(columns == {
        "runs": ["id", "prog", "mode", "run", "utime_ns", "stime_ns", "wtime_ns", "max_rss"],
        "allocs": ["id", "run_id", "from_ns", "to_ns", "base", "size"],
        "access": ["run_id", "at_ns", "addr", "is_write"]}, f"columns: {columns}")
    earliest = database.one(
        "SELECT min(t) FROM (SELECT min(from_ns) AS t FROM allocs WHERE run_id = ?1 UNION ALL"
        " SELECT min(at_ns) FROM access WHERE run_id = ?1)", first)
    checks.that(earliest == 0, f"times do not count from the first event: {earliest}")
    # The rectangles of the plot: 4 KiB pages by milliseconds.
    pages = database.ask(
        "SELECT DISTINCT from_ns - (from_ns % ?2) AS span_from, to_ns - (to_ns % ?2) + ?2 AS "
        "span_to,"
        " base & ~4095 AS block_from, ((base & ~4095) + size) & ~4095 AS block_to FROM allocs"
        " WHERE run_id = ?1 AND coalesce(span_to >= 0, TRUE)", first, 1000000)
    checks.that(len(pages) > 100 and all(row[3] >= row[2] for row in pages), "blocks of the plot")
    spans = database.ask(
        "SELECT at_ns - (at_ns % 1000000) AS span, addr & ~4095 AS block, is_write, count(*)"
        " FROM access WHERE run_id = ? GROUP BY 1, 2, 3", first)
    checks.that(spans, "no access to plot")


def main():
    with tempfile.TemporaryDirectory(prefix="memsight-results-") as home:
        folder = os.path.join(home, "results")
        path = os.path.join(folder, "memsight.db")
        make_results(folder)
        check_folder(folder, path)
        every = check_all(folder, path)
        check_pattern(folder)
        check_several(folder)
        check_same_name(folder)
        check_failures(folder)
        check_older_database(folder)
        check_older_trace(folder)
        check_same_recording(folder)
        check_reports(folder, every)
        check_refusals(path)
        check_heimdallr_views(path)
        check_full_disk(folder, path)
    checks.end()


main()
