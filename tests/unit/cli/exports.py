#!/usr/bin/env python3
"""Exports hold the numbers of the database, read by readers that are not ours. Arguments: memsight,
example program word-index, a folder for it to read, profile.proto, pprof | callgrind | rest."""
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
    return db.ask(
        "SELECT sum(n_blocks), sum(bytes), sum(live_blocks), sum(live_bytes),"
        " (SELECT sum(bytes) FROM site_peak), sum(CAST(round(time_ns) AS INTEGER)) FROM site")[0]


def check_folded(db):
    for metric, column in [("bytes", 1), ("blocks", 0), ("leaked", 3), ("peak", 4)]:
        lines = export(db, "folded", "--by", metric).splitlines()
        parsed = [re.fullmatch(r"([^;]+(?:;[^;]+)*) (\d+)", line) for line in lines]
        checks.that(all(parsed), "a line of folded stacks that flamegraph.pl cannot read")
        found = sum(int(match[2]) for match in parsed if match)
        checks.that(found == totals(db)[column],
                    f"folded by {metric}: {found}, not {totals(db)[column]}")
    first = export(db, "folded").splitlines()
    checks.that(any(line.startswith("main;visit;read_text ") for line in first),
                f"main calls read_text: {first[:3]}")
    whole_names = export(db, "folded", "--full-names").splitlines()
    checks.that(any(";main;" in line and ";visit;read_text;" in line and not
                    line.startswith("main") for line in whole_names),
                f"--full-names: {whole_names[:3]}")
    checks.that("read_text" not in export(db, "folded", "--exclude", "read_text"),
                "excluded and still there")


def check_speedscope(db):
    """What speedscope's import reads (its file format's schema, and the numbers)."""
    profile = json.loads(export(db, "speedscope", "--by", "peak"))
    frames = profile["shared"]["frames"]
    by_name = {each["name"]: each for each in profile["profiles"]}
    for name, unit, column in [("bytes asked for", "bytes", 1), ("blocks", "none", 0),
                               ("bytes not freed", "bytes", 3),
                               ("bytes live at the peak", "bytes", 4)]:
        each = by_name[name]
        checks.that(each["type"] == "sampled" and each["unit"] == unit and
                    len(each["samples"]) == len(each["weights"]), f"{name}: {each['unit']}")
        checks.that(sum(each["weights"]) == each["endValue"] == totals(db)[column],
                    f"speedscope: {name}: {each['endValue']}")
        checks.that(all(0 <= frame < len(frames) for stack in each["samples"] for frame in stack),
                    "frames that are not there")
    paths = [[frames[i]["name"] for i in stack] for stack in by_name["blocks"]["samples"]]
    checks.that(["main", "visit", "read_text"] in paths, f"outermost first: {paths[:2]}")
    checks.that(profile["profiles"][profile["activeProfileIndex"]]["name"] ==
                "bytes live at the peak", "--by chooses the one that is shown first")


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_taken(event):
    """What Perfetto's trace processor takes (importers/json/json_trace_parser_impl.cc): names are
    texts, counters objects of numbers, slices have a length, marks a thread or none at all."""
    named = isinstance(event["name"], str)
    args = event.get("args", {})
    by_kind = {
        "M": lambda: isinstance(args["name"], str) and args["name"],
        "X": lambda: is_number(event["ts"]) and is_number(event["dur"]) and event["dur"] >= 0 and
        isinstance(event["pid"], int) and isinstance(event["tid"], int),
        "i": lambda: is_number(event["ts"]) and (event["s"] == "g" or event["s"] == "t" and
                                                 isinstance(event["tid"], int)),
        "C": lambda: is_number(event["ts"]) and isinstance(event["pid"], int) and args and
        all(map(is_number, args.values())),
    }
    return named and event["ph"] in by_kind and by_kind[event["ph"]]()


def are_nested(events):
    threads = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            begin = round(event["ts"] * 1000)
            threads[event["tid"]].append((begin, -begin - round(event["dur"] * 1000)))
    for spans in threads.values():
        ends = []
        for begin, negative_end in sorted(spans):
            while ends and ends[-1] <= begin:
                ends.pop()
            if ends and -negative_end > ends[-1]:
                return False
            ends.append(-negative_end)
    return True


def check_chrome(db):
    events = json.loads(export(db, "chrome"))["traceEvents"]
    checks.that(export(db, "perfetto") == export(db, "chrome"), "perfetto is not chrome's")
    kinds = collections.Counter(event["ph"] for event in events)
    n_threads = db.one("SELECT count(*) FROM thread")
    checks.that(kinds["X"] >= n_threads and kinds["M"] >= n_threads, f"threads: {kinds}")
    peak = max(event["args"]["bytes"] for event in events if event["name"] == "live bytes")
    checks.that(peak == db.one("SELECT value FROM total WHERE name = 'peak_bytes'"),
                f"peak: {peak}")
    checks.that(all(event["ts"] >= 0 for event in events if "ts" in event),
                "times before the start")
    refused = [event for event in events if not is_taken(event)]
    checks.that(not refused, f"Perfetto would count these as failures: {refused[:3]}")
    checks.that(are_nested(events), "slices of a thread overlap: Perfetto draws nested ones only")


def check_tables(db):
    rows = list(csv.DictReader(io.StringIO(export(db, "heaptrack-csv"))))
    for name, column in [("allocations", 0), ("allocated", 1), ("leaked", 3), ("at_peak", 4)]:
        found = sum(int(row[name]) for row in rows)
        checks.that(found == totals(db)[column], f"heaptrack-csv: {name} is {found}")
    names = [
        name for (name,) in db.ask("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
                                   " AND name NOT LIKE 'sqlite_%'")
    ]
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


def read_pprof(db):
    if not shutil.which("protoc"):
        whole.skip("no protoc (protobuf-compiler), which decodes what was written")
    path = os.path.join(db.folder.name, "profile.pb.gz")
    whole.run([MEMSIGHT, "export", db.path, "--format", "pprof", "-o", path])
    with gzip.open(path) as file:
        decoded = subprocess.run([
            "protoc", "--decode", "perftools.profiles.Profile", "-I",
            os.path.dirname(PROTO), PROTO
        ], input=file.read(), stdout=subprocess.PIPE, check=True).stdout.decode()
    return parse_text(iter(decoded.splitlines()))


def check_pprof_program(command, options, program):
    """The first mapping is the program; the comment names the time that was counted."""
    db = whole.Recording(MEMSIGHT, command, ["-q", *options])
    profile = read_pprof(db)
    strings = profile["string_table"]
    first = strings[profile["mapping"][0]["filename"][0]]
    checks.that(
        os.path.realpath(first) == os.path.realpath(program),
        f"{command}: the first mapping is {first}")
    known = {
        path: name
        for path, name in db.ask("SELECT path, object FROM frame") if "/" not in name
    }
    for mapping in profile["mapping"]:
        build_id = known.get(strings[(mapping["filename"] or [0])[0]])
        checks.that(not build_id or strings[(mapping["build_id"] or [0])[0]] == build_id,
                    f"build id of {mapping}")
    unit = db.ask("SELECT unit FROM source WHERE name = 'clock' AND error = 0")
    time = unit[0][0].removeprefix("ns of ") if unit else "user CPU time"
    comment = strings[profile["comment"][0]]
    checks.that(comment.endswith(f"; time: {time} at accesses"), f"{options}: {comment}")


def check_pprof(db):
    for how in [["--source", "none"], ["--count", "user"], ["--count", "both"],
                ["--count", "kernel"]]:
        check_pprof_program([EXAMPLE, TREE, "1000"], how, EXAMPLE)
    check_pprof_program(["sh", "-c", f"exec '{EXAMPLE}' '{TREE}' 1000"], ["--source", "none"],
                        EXAMPLE)
    profile = read_pprof(db)
    strings = profile["string_table"]
    checks.that(strings[0] == "", "the first string is not empty")
    types = [strings[kind["type"][0]] for kind in profile["sample_type"]]
    checks.that(
        types == [
            "alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "peak_space", "time"
        ], f"types: {types}")
    sums = [sum(values) for values in zip(*(sample["value"] for sample in profile["sample"]))]
    checks.that(tuple(sums) == totals(db), f"sums: {sums}, not {totals(db)}")
    functions = {
        function["id"][0]: strings[function["name"][0]]
        for function in profile["function"]
    }
    locations = {place["id"][0]: [functions[line["function_id"][0]] for line in place["line"]]
                 for place in profile["location"]}
    mappings = {mapping["id"][0] for mapping in profile["mapping"]}
    checks.that({place["mapping_id"][0]
                 for place in profile["location"]} <= mappings, "a mapping is missing")
    paths = [[name for number in sample["location_id"] for name in locations[number]]
             for sample in profile["sample"]]
    checks.that(["read_text", "visit", "main"] in paths,
                f"innermost first, main further out: {paths[:3]}")
    check_pprof_places(db, profile)
    shutil.which("go") and check_pprof_itself(db)


def check_pprof_places(db, profile):
    """Mappings are where the first process had the files, and hold their locations."""
    strings = profile["string_table"]
    where = {path: (start, end) for path, start, end in db.ask(
        "SELECT path, start, end FROM module ORDER BY process_id DESC, load_ns DESC")}
    ranges = {}
    for mapping in profile["mapping"]:
        found = ((mapping["memory_start"] or [0])[0], (mapping["memory_limit"] or [0])[0])
        path = strings[(mapping["filename"] or [0])[0]]
        checks.that(path not in where or found == where[path], f"{path}: {found}")
        ranges[mapping["id"][0]] = found if path in where else None
    for place in profile["location"]:
        held = ranges[place["mapping_id"][0]]
        checks.that(not held or held[0] <= place["address"][0] < held[1],
                    f"{place} lies out of {held}")


def check_pprof_itself(db):
    path = os.path.join(db.folder.name, "app.pb.gz")
    whole.run([MEMSIGHT, "export", db.path, "--format", "pprof", "-o", path])
    top = whole.run(["go", "tool", "pprof", "-top", "-unit=b", "-nodecount=999", "-nodefraction=0",
                     path])
    checks.that(f"File: {os.path.basename(EXAMPLE)}\n" in top, f"pprof's file: {top[:200]}")
    # flat flat% sum% cum cum% name
    rows = {line.split()[5]: line.split()
            for line in top.splitlines() if line.count("% ") == 3}
    flat = {row["function"]: row for row in json.loads(
        whole.run([MEMSIGHT, "report", db.path, "--flat", "-n", "0", "--format", "json"]))}
    for name in ["main", "visit", "read_text", "make_word", "index_text"]:
        found = [int(float(rows[name][i].rstrip("B"))) for i in (0, 3)]
        checks.that(found == [flat[name]["self"], flat[name]["total"]], f"pprof: {rows[name]}")


def check_callgrind_lines(db, path, total):
    """Source lines have what the call sites on them asked for, and what they call."""
    lines = dict(
        db.ask(
            "SELECT line, sum(bytes) FROM site JOIN stack ON stack.id = site.stack_id"
            " JOIN stack_line ON stack_line.stack_id = user_id WHERE function = 'read_text'"
            " GROUP BY line"))
    (source,) = {
        file
        for (file,) in db.ask("SELECT file FROM stack_line WHERE function = 'read_text'")
    }
    checks.that(len(lines) == 3, f"lines of read_text: {lines}")
    with open(os.path.join(TREE, "../examples", os.path.basename(source)),
              encoding="utf-8") as file:
        code = file.read().splitlines()
    folder = os.path.join(db.folder.name, "source")
    os.makedirs(folder, exist_ok=True)
    shutil.copy(os.path.join(TREE, "../examples", os.path.basename(source)), folder)
    with open(path, encoding="utf-8") as file:
        text = file.read().replace(f"={source}\n",
                                   f"={os.path.join(folder, os.path.basename(source))}\n")
    with open(path + ".here", "w", encoding="utf-8") as file:
        file.write(text)
    text = whole.run(["callgrind_annotate", "--auto=yes", "--threshold=100", path + ".here"])
    for line, n in lines.items():
        annotated = re.search(rf"^ *([\d,]+) \([ \d.]+%\)  {re.escape(code[line - 1])}$", text,
                              re.MULTILINE)
        checks.that(annotated and int(annotated[1].replace(",", "")) == n,
                    f"line {line} has {n}: {annotated}")
    call = next(i for i, line in enumerate(code) if "nftw(folder, visit" in line)
    called = re.search(rf"{re.escape(code[call])}\n *([\d,]+) \([ \d.]+%\)  => [^\n]*:visit",
                       text)
    checks.that(called and int(called[1].replace(",", "")) == total,
                f"the call of visit: {called}")


def check_callgrind(db):
    if not shutil.which("callgrind_annotate"):
        whole.skip("no callgrind_annotate (valgrind), which reads what was written")
    path = os.path.join(db.folder.name, "callgrind.out")
    whole.run([MEMSIGHT, "export", db.path, "--format", "callgrind", "-o", path])
    text = whole.run(["callgrind_annotate", "--auto=no", "--threshold=100", path])
    with open(path, encoding="utf-8") as file:
        checks.that(not re.search(r"^\d+ 0$", file.read(), re.MULTILINE), "lines without cost")
    total = int(re.search(r"([\d,]+) .*PROGRAM TOTALS", text)[1].replace(",", ""))
    checks.that(total == totals(db)[1], f"total: {total}, not {totals(db)[1]}")
    self = {match[2]: int(match[1].replace(",", "")) for match in
            re.finditer(r"^ *([\d,]+) \([ \d.]+%\)  [^\n]*:(\w+) \[", text, re.MULTILINE)}
    flat = json.loads(
        whole.run([MEMSIGHT, "report", db.path, "--flat", "--limit", "0", "--format", "json"]))
    expected = next(row["total"] for row in flat if row["function"] == "read_text")
    checks.that(self.get("read_text") == expected, f"read_text: {self.get('read_text')}")
    text = whole.run(
        ["callgrind_annotate", "--auto=no", "--threshold=100", "--inclusive=yes", path])
    check_callgrind_lines(db, path,
                          next(row["total"] for row in flat if row["function"] == "visit"))
    main = re.search(r"^ *([\d,]+) \([ \d.]+%\)  [^\n]*:main \[", text, re.MULTILINE)
    expected = next(row["total"] for row in flat if row["function"] == "main")
    checks.that(main and int(main[1].replace(",", "")) == expected, "main with what it called")


def check_overwriting(db):
    """Nothing that is there is overwritten without --force; what fails leaves it as it was."""
    path = os.path.join(db.folder.name, "precious")
    ran = os.path.join(db.folder.name, "ran")
    for command, status in [(["export", db.path, "-o", path], 1),
                            (["export", db.path, "--format", "pprof", "-o", path], 1),
                            (["export", db.path, "--anonymise", "-o", path], 1),
                            (["archive", db.trace, "-o", path], 1),
                            (["plot", db.path, "--format", "svg", "--kind", "timeline", "-o",
                              path], 1), (["view", db.path, "--export", path], 1),
                            ([
                                "record", "-q", "--source", "none", "-o", ran + ".mst",
                                f"--report={path}", "--", "touch", ran
                            ], 1)]:
        with open(path, "w", encoding="utf-8") as file:
            file.write("precious\n")
        refused = whole.Outcome([MEMSIGHT, *command])
        with open(path, encoding="utf-8") as file:
            kept = file.read()
        checks.that(kept == "precious\n", f"{command} overwrites it")
        checks.that(
            refused.status == status
            and refused.messages == f"memsight: {path} is there already: --force overwrites it\n",
            f"{command}: {refused.status}: {refused.messages}")
        checks.that(not os.path.exists(ran), "the program ran for nothing")
        done = whole.Outcome([MEMSIGHT, command[0], "--force", *command[1:]])
        with open(path, "rb") as file:
            checks.that(done.status == 0 and file.read() != b"precious\n",
                        f"--force {command}: {done.messages}")
    with open(path, "w", encoding="utf-8") as file:
        file.write("precious\n")
    whole.Outcome([
        MEMSIGHT, "export", db.path, "--force", "--format", "csv", "--view", "nothing", "-o", path
    ])
    with open(path, encoding="utf-8") as file:
        checks.that(file.read() == "precious\n", "what fails leaves nothing of it")
    checks.that(
        sorted(name for name in os.listdir(db.folder.name)
               if name.startswith("precious")) == ["precious"], "left over")
    trace, beside = os.path.join(db.folder.name, "new.mst"), os.path.join(
        db.folder.name, "new.mst.symbols.tar.zst")
    os.unlink(ran)  # by the last of those with --force
    with open(beside, "w", encoding="utf-8") as file:
        file.write("precious\n")
    command = [MEMSIGHT, "record", "-q", "--source", "none", "--archive", "-o", trace]
    refused = whole.Outcome([*command, "--", "touch", ran])
    with open(beside, encoding="utf-8") as file:
        checks.that(file.read() == "precious\n",
                    "record --archive overwrites the archive of another trace")
    checks.that(
        refused.status != 0 and not os.path.exists(ran) and not os.path.exists(trace) and
        f"{beside} is there already; --force overwrites it, -o names another" in refused.messages,
        f"{refused.status}: {refused.messages}")
    done = whole.Outcome([*command, "--force", "--", "true"])
    checks.that(done.status == 0 and os.path.getsize(beside) > 20, f"--force: {done.messages}")
    for place in ["-", "/dev/stdout"]:
        checks.that(
            whole.run([MEMSIGHT, "export", db.path, "-o", place]) == export(db, "folded"),
            f"-o {place}")


def main():
    db = whole.Recording(MEMSIGHT, [EXAMPLE, TREE, "100000"], ["-q", "--source", "none"])
    parts = {"pprof": [check_pprof], "callgrind": [check_callgrind],
             "rest": [check_folded, check_speedscope, check_chrome, check_tables,
                      check_overwriting]}
    for check in parts[PART]:
        check(db)
    checks.end()


main()
