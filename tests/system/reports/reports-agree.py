#!/usr/bin/env python3
"""Every report gives the same number as SQL on the raw rows, and says why when it has none.
Arguments: memsight, make-trace, example program word-index, a folder for it to read."""
import json
import os
import re
import sys
import tempfile

import whole

MEMSIGHT, MAKE_TRACE, EXAMPLE, TREE = sys.argv[1:5]
TRACES = [("heap", 1, 2000, 0), ("mixed", 2, 20000, 3000), ("realloc", 3, 5000, 500),
          ("mmap", 4, 5000, 200), ("heap", 5, 1, 0), ("mixed", 6, 300, 300)]
checks = whole.Checks()

# Each metric of a profile on the raw rows.
METRICS = {
    "bytes": "SELECT coalesce(sum(size), 0) FROM allocation",
    "blocks": "SELECT count(*) FROM allocation",
    "leaked": "SELECT coalesce(sum(size), 0) FROM allocation WHERE freed_ns IS NULL AND end_kind"
              " <> 4",
    "faults": "SELECT count(*) FROM touch WHERE owner_kind = 1 AND role = 3",
    "time": "SELECT CAST(round(coalesce(sum(share * weight), 0)) AS INTEGER) FROM touch"
            " JOIN sample ON sample.id = sample_id WHERE owner_kind = 1 AND role = 1",
}

NOT_FREED = "SELECT coalesce(sum(size), 0) FROM allocation WHERE freed_ns IS NULL"

# report, column, SQL on the raw rows (or, for temporary, on the total that the import counted).
SUMS = [
    ("sites", "blocks", METRICS["blocks"]),
    ("sites", "in all", METRICS["bytes"]),
    ("sites", "not freed", NOT_FREED),
    ("sites", "faults", METRICS["faults"]),
    ("leaks", "bytes", METRICS["leaked"]),
    ("leaks", "blocks", "SELECT count(*) FROM allocation WHERE freed_ns IS NULL AND end_kind <> 4"),
    ("objects", "faults", "SELECT count(*) FROM touch WHERE role = 3"),
    ("objects", "blocks", METRICS["blocks"]),
    ("threads", "blocks", METRICS["blocks"]),
    ("threads", "bytes", METRICS["bytes"]),
    ("threads", "frees", "SELECT count(*) FROM allocation WHERE freed_thread_id IS NOT NULL"),
    ("threads", "freed by others",
     "SELECT count(*) FROM allocation WHERE freed_thread_id <> thread_id"),
    ("threads", "not freed", NOT_FREED),
    ("threads", "faults", "SELECT count(*) FROM sample JOIN source ON source.id = source_id"
                          " WHERE name = 'faults'"),
    ("timeline", "allocations", METRICS["blocks"]),
    ("timeline", "frees", "SELECT count(freed_ns) FROM allocation"),
    ("timeline", "faults", "SELECT count(*) FROM sample JOIN source ON source.id = source_id"
                           " WHERE name = 'faults'"),
    ("temporary", "temporary", "SELECT value FROM total WHERE name = 'temporary'"),
]


def report(path, name, *options):
    full = ["--full"] if name == "leaks" else []
    text = whole.run([
        MEMSIGHT, "report", path, "--" + name, "--limit", "0", "--format", "json", *full, *options
    ])
    return json.loads(text)


def column(rows, name):
    return sum(row[name] or 0 for row in rows)


def peak_of(db):
    """The most that was live at once: what ends at a moment ends before what begins."""
    live = peak = 0
    for _, _, size in db.ask(
            "SELECT allocated_ns AS t, 1 AS o, size FROM allocation UNION ALL"
            " SELECT coalesce(freed_ns, end_ns), 0, -size FROM allocation"
            " JOIN process ON process.id = process_id WHERE coalesce(freed_ns, end_ns) IS NOT NULL"
            " ORDER BY t, o"):
        live += size
        peak = max(peak, live)
    return peak


def check_profile(path, name, metric, expected):
    flat = report(path, "flat", "--by", metric)
    tree = report(path, "hierarchical", "--by", metric)
    at_root = sum(row["self"] or 0 for row in flat if row["function"] == "(all)")
    unknown = any(
        row["self"] is None for row in flat)  # time of some sites is known as a range only
    found = {"flat": expected if unknown else column(flat, "self"),
             "tree": sum(row["value"] or 0 for row in tree if row["caller"] == "(all)") + at_root}
    slack = len(flat) if metric == "time" else 0  # each line is rounded to ns
    for what, value in found.items():
        checks.that(
            abs(value - expected) <= slack,
            f"{name}: {what} by {metric} is {value}, not {expected}")
    callers = {}
    for row in tree:
        key = (row["callee"], row["callee_module"])
        callers[key] = callers.get(key, 0) + (row["value"] or 0)
    for row in tree:
        key = (row["callee"], row["callee_module"])
        checks.that(
            abs(callers[key] - row["callee_total"]) <= slack,
            f"{name}: callers of {key} by {metric} are {callers[key]}, not {row['callee_total']}")


def with_imputed(db, path, name):
    """The time of all sites: what raw rows tell, and where that makes a number what was imputed."""
    whole_ns = db.one(
        "SELECT sum(weight) FROM sample JOIN source ON source.id = source_id WHERE source.name = "
        "'clock'"
    ) or 0
    raw = dict(
        db.ask(
            "SELECT allocation.stack_id, sum(share * weight) FROM touch JOIN sample ON sample.id = "
            "sample_id"
            " JOIN allocation ON allocation.id = owner_id WHERE owner_kind = 1 AND role = 1 GROUP "
            "BY 1"
        ))
    time_ns = 0
    for stack, share, low, high, n_imputed in db.ask(
            "SELECT stack_id, share, share_low, share_high, n_imputed FROM site"):
        found = share * whole_ns if share is not None else raw.get(stack, 0)
        checks.that(high is None or low - 1e-9 <= found / whole_ns <= high + 1e-9,
                    f"{name}: {stack} has {found}, not in [{low}, {high}]")
        checks.that(n_imputed or abs(found - raw.get(stack, 0)) <= 1e-6 * whole_ns + 1,
                    f"{name}: {stack} {found}, {raw.get(stack)}")
        time_ns += found
    rows = report(path, "flat", "--by", "time")
    checks.that(
        all(row["self low"] <= row["self %"] <= row["self high"]
            for row in rows if row["self %"] is not None)
        and all(row["self low"] <= row["self high"] and row["total low"] <= row["total high"] <= 1
                for row in rows if row["self low"] is not None),
        f"{name}: intervals of --flat {rows}")
    return time_ns


def check_trace(path, name):
    db = whole.Database(path)
    for kind, of, sql in SUMS:
        found, expected = column(report(path, kind), of), db.one(sql)
        checks.that(found == expected, f"{name}: {of} of --{kind} is {found}, not {expected}")
    for metric, sql in METRICS.items():
        check_profile(path, name, metric,
                      db.one(sql) if metric != "time" else with_imputed(db, path, name))
    peak = peak_of(db)
    check_profile(path, name, "peak", peak)
    for what, value in [("--peak", column(report(path, "peak"), "bytes")),
                        ("--timeline",
                         max([row["max_live_bytes"] for row in report(path, "timeline")])),
                        ("total", db.one("SELECT value FROM total WHERE name = 'peak_bytes'"))]:
        checks.that(value == peak, f"{name}: the peak of {what} is {value}, not {peak}")
    for of in ["size", "life"]:
        rows = [row for row in report(path, "histogram") if row["of"] == of]
        checks.that((column(rows, "blocks"), column(rows, "bytes")) == (db.one(
            METRICS["blocks"]), db.one(METRICS["bytes"])), f"{name}: histogram of {of}")
    if name.endswith("mixed"):
        checks.that(
            db.one("SELECT count(*) FROM touch WHERE owner_kind = 1") > 0, "no touches to add up")


PARTS = [
    "sites", "leaks", "objects", "flat", "hierarchical", "threads", "timeline", "peak", "histogram",
    "hot", "cold", "sharing"
]


def check_all_is_whole(path, name):
    """A selection of everything is counted from the rows, and gives what the import counted."""
    for kind in PARTS:
        found, expected = report(path, kind, "--to", "1000000s"), report(path, kind)
        for row in found + expected:
            row.pop("temporary", None)  # only the order of all events tells
        if kind == "timeline":  # the last intervals may be empty
            expected = [row for row in expected if row["time"] <= found[-1]["time"]]
        for a, b in zip(found, expected):
            for column in b:
                close = a[column] == b[column] or (isinstance(
                    b[column], float) and abs(a[column] - b[column]) < 1e-6 * abs(b[column]) + 1e-9)
                checks.that(close, f"{name}: {column} of --{kind}: {a[column]}, not {b[column]}")
        checks.that(
            len(found) == len(expected),
            f"{name}: {len(found)} rows of --{kind}, not {len(expected)}")


def check_part(db, name, options, born, sampled, touched="1"):
    """born, sampled and touched are the same conditions in SQL."""
    path = db.path
    sums = {
        "blocks": db.one(f"SELECT count(*) FROM allocation WHERE {born}"),
        "in all": db.one(f"SELECT coalesce(sum(size), 0) FROM allocation WHERE {born}"),
        "not freed": db.one(
            f"SELECT coalesce(sum(size), 0) FROM allocation WHERE freed_ns IS NULL AND {born}"),
        "faults": db.one("SELECT count(*) FROM touch JOIN sample ON sample.id = sample_id"
                         f" WHERE owner_kind = 1 AND role = 3 AND {sampled} AND {touched}"),
    }
    rows = report(path, "sites", *options)
    for column_name, expected in sums.items():
        found = column(rows, column_name)
        checks.that(found == expected,
                    f"{name} {options}: {column_name} is {found}, not {expected}")
    found = column(report(path, "flat", "--by", "bytes", *options), "self")
    checks.that(found == sums["in all"], f"{name} {options}: flat is {found}, not {sums['in all']}")
    found = column(report(path, "histogram", *options), "blocks") / 2
    checks.that(found == sums["blocks"], f"{name} {options}: histogram has {found}")


def live_at_most(db, start, stop):
    """The most that was live within a span, with what was live before."""
    live = peak = 0
    for time, _, size in db.ask(
            "SELECT allocated_ns AS t, 1 AS o, size FROM allocation UNION ALL"
            " SELECT coalesce(freed_ns, end_ns), 0, -size FROM allocation"
            " JOIN process ON process.id = process_id WHERE coalesce(freed_ns, end_ns) IS NOT NULL"
            " ORDER BY t, o"):
        if time >= stop:
            break
        if time >= start:
            peak = max(peak, live)
        live += size
        if time >= start:
            peak = max(peak, live)
    return max(peak, live)


def check_parts(path, name):
    db = whole.Database(path)
    duration = db.one("SELECT duration_ns FROM run")
    start, stop = duration // 3, duration // 2
    window = ["--from", f"{start}ns", "--to", f"{stop}ns"]
    check_part(db, name, window, f"allocated_ns >= {start} AND allocated_ns < {stop}",
               f"time_ns >= {start} AND time_ns < {stop}")
    found, expected = column(report(path, "peak", *window), "bytes"), live_at_most(db, start, stop)
    checks.that(found == expected, f"{name}: the peak of a window is {found}, not {expected}")
    pid = db.one("SELECT max(pid) FROM process")
    of_process = f"process_id IN (SELECT id FROM process WHERE pid = {pid})"
    check_part(db, name, ["--process", str(pid)], of_process, of_process)
    tid = db.one("SELECT max(tid) FROM thread")
    of_thread = f"thread_id IN (SELECT id FROM thread WHERE tid = {tid})"
    check_part(db, name, ["--thread", str(tid)], of_thread, of_thread)
    low, high = db.ask("SELECT min(address) + (max(address) - min(address)) / 4, max(address)"
                       " FROM allocation")[0]
    check_part(db, name, ["--addr", f"{low:x}-{high:x}"],
               f"address < {high} AND address + max(size, 1) > {low}", "1",
               f"touch.address >= {low} AND touch.address < {high}")


def check_faults():
    """What a fault stands for is told of the run, not of a part of it; what was not sampled is not
    told as 0."""
    db = whole.Recording(MEMSIGHT, [EXAMPLE, TREE, "1000"], ["-q", "--heap", "default"])
    periods = db.ask(
        "SELECT weight, n_taken FROM source_ledger JOIN source ON source.id = source_id"
        " WHERE name = 'faults' AND error = 0 AND n_samples > 10")
    half = f"{db.one('SELECT duration_ns / 2 FROM run')}ns"
    for options in [[], ["--from", half], ["--to", half]
                    ] if periods and periods[0][0] == periods[0][1] else []:
        for kind in ["--sites", "--objects"]:
            text = whole.run([MEMSIGHT, "report", db.path, kind, *options])
            checks.that("stands for" not in text, f"{kind} {options}: {text[-300:]}")
    text = whole.run([MEMSIGHT, "report", db.path])
    checks.that("page faults not recorded" not in text or not periods, text)
    none = whole.Recording(MEMSIGHT, [EXAMPLE, TREE, "1000"],
                           ["-q", "--heap", "default", "--source", "none"])
    text = whole.run([MEMSIGHT, "report", none.path])
    checks.that("page faults not recorded\n" in text and " 0 page faults" not in text, text)


def check_sum(folder):
    """Two runs of one database, after each other and added up."""
    path = os.path.join(folder, "sum.db")
    whole.run(
        [MEMSIGHT, "analyze", "-o", path, *(os.path.join(folder, f"{i}.mst") for i in (2, 3))])
    db = whole.Database(path)
    for kind, of, sql in [row for row in SUMS if row[0] in ("sites", "leaks")]:
        found, expected = column(report(path, kind, "--run", "1,2", "--sum"), of), db.one(sql)
        checks.that(found == expected, f"sum: {of} of --{kind} is {found}, not {expected}")
    peaks = [column(report(path, "peak", "--run", run), "bytes") for run in ("1", "2", "1,2")[:2]]
    found = column(report(path, "peak", "--run", "1,2", "--sum"), "bytes")
    checks.that(found == max(peaks), f"sum: the peak is {found}, not the higher one of {peaks}")
    text = whole.run([MEMSIGHT, "report", path, "--peak", "--run", "1,2"])
    checks.that(
        text.startswith("run 1 of 2: ") and "\nrun 2 of 2: " in text, "two runs are two reports")
    for name in sorted(set(reports()) - {"list", "stat", "overhead"}):
        for options, run in [([], 2), (["--run", "1"], 1)]:
            text = whole.run([MEMSIGHT, "report", path, "--" + name, *options])
            checks.that(text.startswith(f"run {run} of 2: maketrace."),
                        f"--{name} {options} does not name its run: {text[:80]}")
    text = whole.run([MEMSIGHT, "report", path, "--peak", "--run", "1,2", "--sum"])
    checks.that(text.startswith("2 runs added up\n"), f"a sum is told as {text[:80]}")
    refused = whole.Outcome([MEMSIGHT, "report", path, "--timeline", "--run", "1,2", "--sum"])
    checks.that(refused.status == 2, "a sum of two timelines")
    refused = whole.Outcome([MEMSIGHT, "report", path, "--sites", "--run", "2,2", "--sum"])
    checks.that(refused.status == 2 and "twice" in refused.messages,
                f"a run counted twice: {refused.messages}")
    refused = whole.Outcome([MEMSIGHT, "report", path, "--processes", "--from", "1s"])
    checks.that(refused.status == 2 and "whole run" in refused.messages, refused.messages)


def reports():
    """The names of all reports, from the help of the command."""
    text = whole.run([MEMSIGHT, "report", "--help"])
    section = text.split("What to show:")[1].split("\n\n")[0]
    names = re.findall(r"^ +(?:-\w, )?--([\w-]+)(?=\s|$)", section, re.MULTILINE)
    return [name for name in names if name != "fail"]


def check_empty(folder):
    """No allocations and no samples: each report says why, with exit status 0."""
    trace = os.path.join(folder, "empty.mst")
    whole.run([MEMSIGHT, "record", "-q", "-o", trace, "--no-alloc", "--source", "none", "true"])
    for name in reports():
        text = whole.run([MEMSIGHT, "report", trace, "--" + name])
        checks.that(len(text) > 10, f"--{name} of an empty trace says nothing: {text!r}")
        if name in ["sites", "flat", "hierarchical", "peak", "timeline", "histogram", "temporary",
                    "objects", "hot", "cold", "sharing", "locality"]:
            checks.that(re.search(r"reason: .+\.", text, re.IGNORECASE),
                        f"--{name} of an empty trace gives no reason: {text!r}")


def check_ledger(path, name):
    """What each source read and lost is in the numbers of --losses, too, more than 20 rows or not.
    """
    db = whole.Database(path)
    text = whole.run([MEMSIGHT, "report", path, "--losses", "--format", "json"])
    rows = {(row["source"], row["reason"].split(" (")[0]): row["count"] for row in json.loads(text)}
    for source, n_taken, n_lost, is_told in db.ask(
            "SELECT name, n_taken, n_lost, name <> 'tasks' OR n_lost + bad_bytes > 0 FROM "
            "source_ledger"
            " JOIN source ON source.id = source_id"):
        expected = (n_taken, n_lost) if is_told else (None, None)
        found = (rows.get((source, "samples read")), rows.get((source, "found the ring full")))
        checks.that(found == expected,
                    f"{name}: --losses as json tells {found} of {source}, not {expected}")


def check_fail(path, folder):
    """--fail is about blocks that no suppression names."""
    known = os.path.join(folder, "known")
    with open(known, "w", encoding="utf-8") as file:
        file.write("# everything\nleak:maketrace\n")
    command = [MEMSIGHT, "report", path, "--leaks", "--fail"]
    checks.that(whole.Outcome(command).status == 1, "--fail with blocks that were not freed")
    checks.that(
        whole.Outcome([*command, "--suppressions", known]).status == 0,
        "--fail with all suppressed")
    with open(known, "a", encoding="utf-8") as file:
        file.write("leek:x\n")
    refused = whole.Outcome([*command, "--suppressions", known])
    checks.that(refused.status == 1 and "known:3" in refused.messages,
                f"a wrong line: {refused.messages}")


def check_recorded(folder):
    """A real program: with samples of time where the kernel permits them, which made-up traces
    lack."""
    trace, path = (os.path.join(folder, name) for name in ("real.mst", "real.db"))
    whole.run([MEMSIGHT, "record", "-q", "-o", trace, EXAMPLE, TREE, "3000000"])
    whole.run([MEMSIGHT, "analyze", "-o", path, trace])
    check_trace(path, "recorded")
    check_all_is_whole(path, "recorded")
    check_parts(path, "recorded")
    check_ledger(path, "recorded")
    db = whole.Database(path)
    for name, n_blocks, n_faults in db.ask(
            "SELECT name, sum(n_blocks), sum(n_faults) FROM region GROUP BY name"):
        rows = report(path, "sites", "--region", name)
        checks.that(
            column(rows, "blocks") == n_blocks,
            f"blocks of region {name}: {column(rows, 'blocks')}, not {n_blocks}")
        objects = report(path, "objects", "--region", name)
        ends = [row[end] for row in objects for end in ("from", "to") if row[end] is not None]
        checks.that(all(0 <= end < 1 << 62 for end in ends),
                    f"times of objects of region {name}: {ends}")
        checks.that(
            all(row["size"] for row in objects if row["from"] is None and row["size"] is not None),
            f"region {name} has objects of no size: {objects}")
        found = column(objects, "faults")
        checks.that(found == n_faults, f"faults of region {name}: {found}, not {n_faults}")
    checks.that(db.one("SELECT count(*) FROM region") > 0, "no regions to compare")
    refused = whole.Outcome([MEMSIGHT, "report", path, "--sites", "--region", "nowhere"])
    checks.that(refused.status == 1 and "no region is called nowhere" in refused.messages,
                refused.messages)
    if db.one("SELECT n_samples FROM source WHERE name = 'clock' AND error = 0"):
        checks.that(db.one(METRICS["time"]) > 0, "no time at heap blocks to add up")
    else:
        print("not checked: sums of time; no clock samples here")


def main():
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        for kind, seed, n_events, n_samples in TRACES:
            trace = os.path.join(folder, f"{seed}.mst")
            path = os.path.join(folder, f"{seed}.db")
            whole.run([
                MAKE_TRACE, "--kind", kind, "--seed",
                str(seed), "--events",
                str(n_events), "--samples",
                str(n_samples), "--processes", "2", "--threads", "3", "--live", "200", "-o", trace
            ])
            whole.run([MEMSIGHT, "analyze", "-o", path, trace])
            check_trace(path, f"{seed} {kind}")
            check_all_is_whole(path, f"{seed} {kind}")
            check_ledger(path, f"{seed} {kind}")
            if n_events > 1:
                check_parts(path, f"{seed} {kind}")
        check_sum(folder)
        check_recorded(folder)
        check_faults()
        check_fail(os.path.join(folder, "1.db"), folder)
        check_empty(folder)
    checks.end()


main()
