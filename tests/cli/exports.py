#!/usr/bin/env python3
"""Exports hold the numbers of the database, read by readers that are not ours.
Arguments: memsight, example program word-index, a folder for it to read, profile.proto, pprof | callgrind | rest."""
import collections
import csv
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import whole

MEMSIGHT, EXAMPLE, TREE, PROTO, PART = sys.argv[1:6]
checks = whole.Checks()


def export(db, form, *options):
    return whole.run([MEMSIGHT, "export", db.path, "--format", form, *options])


def totals(db):
    return db.ask("SELECT sum(n_blocks), sum(bytes), sum(live_blocks), sum(live_bytes),"
                  " (SELECT sum(bytes) FROM site_peak), sum(CAST(round(time_ns) AS INTEGER)) FROM site")[0]


def check_folded(db):
    for metric, column in [("bytes", 1), ("blocks", 0), ("leaked", 3), ("peak", 4)]:
        lines = export(db, "folded", "--by", metric).splitlines()
        parsed = [re.fullmatch(r"([^;]+(?:;[^;]+)*) (\d+)", line) for line in lines]
        checks.that(all(parsed), "a line of folded stacks that flamegraph.pl cannot read")
        found = sum(int(match[2]) for match in parsed if match)
        checks.that(found == totals(db)[column], f"folded by {metric}: {found}, not {totals(db)[column]}")
    first = export(db, "folded").splitlines()
    checks.that(any(";main" in line and "read_text" in line for line in first), "main calls read_text")
    checks.that("read_text" not in export(db, "folded", "--exclude", "read_text"), "excluded and still there")


def check_chrome(db):
    events = json.loads(export(db, "chrome"))["traceEvents"]
    kinds = collections.Counter(event["ph"] for event in events)
    n_threads = db.one("SELECT count(*) FROM thread")
    checks.that(kinds["X"] >= n_threads and kinds["M"] >= n_threads, f"threads: {kinds}")
    peak = max(event["args"]["bytes"] for event in events if event["name"] == "live bytes")
    checks.that(peak == db.one("SELECT value FROM total WHERE name = 'peak_bytes'"), f"peak: {peak}")
    checks.that(all(event["ts"] >= 0 for event in events if "ts" in event), "times before the start")


def check_tables(db):
    rows = list(csv.DictReader(io.StringIO(export(db, "heaptrack-csv"))))
    for name, column in [("allocations", 0), ("allocated", 1), ("leaked", 3), ("at_peak", 4)]:
        found = sum(int(row[name]) for row in rows)
        checks.that(found == totals(db)[column], f"heaptrack-csv: {name} is {found}")
    names = [name for (name,) in db.ask("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
                                        " AND name NOT LIKE 'sqlite_%'")]
    for name in names:
        n = db.one(f'SELECT count(*) FROM "{name}"')
        rows = list(csv.reader(io.StringIO(export(db, "csv", "--view", name))))
        checks.that(len(rows) == n + 1, f"csv of {name}: {len(rows) - 1} rows, not {n}")
        checks.that(len(json.loads(export(db, "json", "--view", name))) == n, f"json of {name}")
    refused = whole.Outcome([MEMSIGHT, "export", db.path, "--format", "csv", "--view", "x\"; --"])
    checks.that(refused.status == 1 and "no table or view" in refused.messages, refused.messages)


def parse_text(lines):
    """The text format of protoc: {field: [value or message, ...]}."""
    message = collections.defaultdict(list)
    for line in lines:
        line = line.strip()
        if line == "}":
            return message
        if line.endswith("{"):
            message[line.split()[0]].append(parse_text(lines))
        else:
            name, value = line.split(": ", 1)
            message[name].append(json.loads(value) if value[0] != '"' else value[1:-1])
    return message


def check_pprof(db):
    if not shutil.which("protoc"):
        whole.skip("no protoc (protobuf-compiler), which decodes what was written")
    path = os.path.join(db.folder.name, "profile.pb.gz")
    whole.run([MEMSIGHT, "export", db.path, "--format", "pprof", "-o", path])
    with gzip.open(path) as file:
        decoded = subprocess.run(
            ["protoc", "--decode", "perftools.profiles.Profile", "-I", os.path.dirname(PROTO), PROTO],
            input=file.read(), stdout=subprocess.PIPE, check=True).stdout.decode()
    profile = parse_text(iter(decoded.splitlines()))
    strings = profile["string_table"]
    checks.that(strings[0] == "", "the first string is not empty")
    types = [strings[kind["type"][0]] for kind in profile["sample_type"]]
    checks.that(types == ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "peak_space", "time"],
                f"types: {types}")
    sums = [sum(values) for values in zip(*(sample["value"] for sample in profile["sample"]))]
    checks.that(tuple(sums) == totals(db), f"sums: {sums}, not {totals(db)}")
    functions = {function["id"][0]: strings[function["name"][0]] for function in profile["function"]}
    locations = {place["id"][0]: [functions[line["function_id"][0]] for line in place["line"]]
                 for place in profile["location"]}
    mappings = {mapping["id"][0] for mapping in profile["mapping"]}
    checks.that({place["mapping_id"][0] for place in profile["location"]} <= mappings, "a mapping is missing")
    paths = [[name for number in sample["location_id"] for name in locations[number]]
             for sample in profile["sample"]]
    checks.that(any("main" in path[1:] and path[0] != "main" for path in paths), "innermost first, main further out")


def check_callgrind(db):
    if not shutil.which("callgrind_annotate"):
        whole.skip("no callgrind_annotate (valgrind), which reads what was written")
    path = os.path.join(db.folder.name, "callgrind.out")
    whole.run([MEMSIGHT, "export", db.path, "--format", "callgrind", "-o", path])
    text = whole.run(["callgrind_annotate", "--auto=no", "--threshold=100", path])
    total = int(re.search(r"([\d,]+) .*PROGRAM TOTALS", text)[1].replace(",", ""))
    checks.that(total == totals(db)[1], f"total: {total}, not {totals(db)[1]}")
    self = {match[2]: int(match[1].replace(",", "")) for match in
            re.finditer(r"^ *([\d,]+) \([ \d.]+%\)  [^\n]*:(\w+) \[", text, re.MULTILINE)}
    flat = json.loads(whole.run([MEMSIGHT, "report", db.path, "--flat", "--limit", "0", "--format", "json"]))
    expected = {row["function"]: row["self"] for row in flat if row["self"]}
    checks.that(self.get("read_text") == expected["read_text"], f"read_text: {self.get('read_text')}")
    text = whole.run(["callgrind_annotate", "--auto=no", "--threshold=100", "--inclusive=yes", path])
    main = re.search(r"^ *([\d,]+) \([ \d.]+%\)  [^\n]*:main \[", text, re.MULTILINE)
    expected = next(row["total"] for row in flat if row["function"] == "main")
    checks.that(main and int(main[1].replace(",", "")) == expected, "main with what it called")


def main():
    db = whole.Recording(MEMSIGHT, [EXAMPLE, TREE, "100000"], ["-q", "--source", "none"])
    parts = {"pprof": [check_pprof], "callgrind": [check_callgrind],
             "rest": [check_folded, check_chrome, check_tables]}
    for check in parts[PART]:
        check(db)
    checks.end()


main()
