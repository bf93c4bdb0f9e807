#!/usr/bin/env python3
"""Every answer has the shape that schemas/view.def promises, and the numbers that reports and SQL
give."""
import base64
import json
import os
import re
import sys
import tempfile

import contract
import served
import whole

NAMES = contract.read()


def column(table, name):
    return table["columns"][name]


def rows(table):
    names = list(table["columns"])
    return [dict(zip(names, values)) for values in zip(*table["columns"].values())]


def report(memsight, database, *options):
    return json.loads(
        whole.run([memsight, "report", database, "--format", "json", "--limit", "0", *options]))


class Asked:
    """Answers of one server, each checked for its shape."""

    def __init__(self, checks, server):
        self.checks, self.server = checks, server

    def __call__(self, name, **parameters):
        answer = self.server.answer(
            name, **{key: value
                     for key, value in parameters.items() if value is not None})
        for problem in contract.problems(NAMES, name, answer):
            self.checks.that(False, f"{problem} (asked with {parameters})")
        return answer


def counts_of(picture):
    data = base64.b64decode(picture["counts"])
    return [data[i] | data[i + 1] << 8 for i in range(0, len(data), 2)]


def check_runs(checks, ask, database):
    answer = ask("runs")
    expected = database.ask(
        "SELECT id, program, mode, repetition, duration_ns FROM run ORDER BY id")
    names = ["id", "program", "mode", "repetition", "duration_ns"]
    checks.that(
        list(zip(*(column(answer, name) for name in names))) == expected,
        "runs are not those of the table run")
    lost = database.ask(
        "SELECT (SELECT coalesce(sum(count), 0) FROM loss WHERE run_id = run.id) FROM run ORDER BY "
        "id"
    )
    checks.that([(n,) for n in column(answer, "n_lost")] == lost,
                "runs tell other losses than the table loss")


def check_run(checks, ask, database, run):
    answer = ask("run", run=run)
    checks.that(
        answer["totals"] == dict(database.ask("SELECT name, value FROM total WHERE run_id = ?",
                                              run)), "totals differ")
    checks.that(
        answer["run"]["command"] == database.one("SELECT command FROM run WHERE id = ?", run),
        "run tells another command")
    checks.that(
        answer["losses"]["n"] == database.one("SELECT count(*) FROM loss WHERE run_id = ?", run),
        "losses differ")
    checks.that(
        sum(column(answer["threads"], "n_blocks")) == answer["totals"]["allocations"],
        "blocks of threads do not add up")
    checks.that(
        sum(column(answer["processes"], "n_blocks")) == answer["totals"]["allocations"],
        "blocks of processes do not add up")
    return answer


def check_picture(checks, ask, database, run, process):
    bands = rows(ask("bands", run=run, process=process))
    edges = [(band["y"], band["y"] + band["end"] - band["start"]) for band in bands]
    checks.that(
        all(low[1] == high[0] for low, high in zip(edges, edges[1:])) and edges[0][0] == 0,
        "bands do not lie side by side")
    picture = ask("picture", run=run, process=process, width=200, height=100)
    # Each of CPU time at one of the addresses that it is charged to, if it has one; of others all
    # touches.
    rest = (
        " FROM touch JOIN sample ON sample.id = sample_id JOIN source ON source.id = source_id"
        " WHERE touch.run_id = ? AND process_id = ? AND address IS NOT NULL AND name %s ('clock', "
        "'signal')"
    )
    sure = database.one("SELECT count(*)" + rest % "NOT IN", run, process)
    drawn = database.one("SELECT coalesce(sum(share), 0)" + rest % "IN" + " AND role = 1", run,
                         process)
    n = picture["n_samples"]
    counts = counts_of(picture)
    checks.that(
        abs(n - sure - drawn) <= 5 * drawn**0.5 and n >= sure,
        f"a picture has {n} touches, the table {sure} and {drawn:.1f}")
    checks.that(
        len(counts) == 200 * 100 and sum(counts) == n, f"cells add up to {sum(counts)}, not to {n}")
    checks.that(sum(column(picture["categories"], "n")) == n, "categories do not add up")
    for name in ("category", "occupancy"):
        checks.that(
            len(base64.b64decode(picture[name])) == 200 * 100,
            f"{name} has not a byte for each cell")
    checks.that(picture["pages"] is None, "it has pages without --source pages")
    middle = (picture["from"] + picture["to"]) // 2
    parts = [
        ask("picture", run=run, process=process, width=50, height=50, **span)
        for span in ({"from": picture["from"], "to": middle}, {"from": middle, "to": picture["to"]})
    ]
    checks.that(
        sum(part["n_samples"] for part in parts) == n,
        "two halves have not the touches of the whole")
    for by in ("direction", "thread", "level", "latency", "source"):
        by_answer = ask("picture", run=run, process=process, by=by, width=20, height=20)
        checks.that(by_answer["by"] == by and by_answer["n_samples"] == n,
                    f"by {by} there are {by_answer['n_samples']} touches")


def check_timeline(checks, ask, database, run):
    whole_run = ask("timeline", run=run)
    live = whole_run["live"]
    for width in (1000, 7, 1):
        answer = ask("timeline", run=run, width=width)["live"]
        checks.that(answer["n"] <= width, f"{answer['n']} intervals where {width} were asked for")
        for name, total in [("n_allocations", "allocations"), ("n_frees", "frees")]:
            expected = database.one("SELECT value FROM total WHERE run_id = ? AND name = ?", run,
                                    total)
            checks.that(
                sum(column(answer, name)) == expected,
                f"{name} in {width} intervals do not add up to {expected}")
        checks.that(
            max(column(answer, "max_live_bytes")) == max(column(live, "max_live_bytes")),
            "the peak depends on the width")
        checks.that(
            column(answer, "live_bytes")[-1] == column(live, "live_bytes")[-1],
            "the end depends on the width")
    part = ask("timeline", run=run,
               **{"from": column(live, "time_ns")[5], "to": column(live, "time_ns")[9]})
    checks.that(
        column(part["live"], "time_ns") == column(live, "time_ns")[5:9],
        "a span has other intervals")


def check_flame(checks, memsight, ask, path, run):
    for by in ("bytes", "blocks", "peak", "leaked", "time", "faults"):
        flat = report(memsight, path, "--run", str(run), "--flat", "--by", by)
        expected = sum(row["self"] or 0 for row in flat)
        unknown = any(
            row["self"] is None for row in flat)  # time of some sites is known as a range only
        for inverse in (0, 1):
            answer = ask("flame", run=run, by=by, inverse=inverse)
            nodes = rows(answer["nodes"])
            roots = sum(node["value"] for node in nodes if node["parent"] == -1)
            own = sum(node["self"] for node in nodes)
            near = 1e-6 * answer["total"] + 1e-9
            checks.that(
                answer["total"] >= expected - near
                and (unknown or answer["total"] <= expected + near),
                f"flame by {by}: {answer['total']}, --flat: {expected}")
            checks.that(
                any(node.get("self_n_unknown") for node in nodes) == unknown,
                f"flame by {by}: {'no' if unknown else 'a'} range")
            checks.that(
                abs(roots - answer["total"]) < near, f"flame by {by}: roots add up to {roots}")
            checks.that(abs(own - answer["total"]) < near, f"flame by {by}: selves add up to {own}")
            checks.that(all(node["parent"] < i for i, node in enumerate(nodes)),
                        "a node comes before its parent")
            checks.that(all(node["function"] < answer["names"]["n"] for node in nodes),
                        "a node has no name")
    for by in ("accesses", "latency"):
        ask("flame", run=run, by=by)


def check_objects(checks, memsight, ask, path, run, part):
    """Rows of call sites beside --sites, also of a part that is counted anew."""
    span = {"from": part[0], "to": part[1]} if part else {}
    options = ["--from", f"{part[0]}ns", "--to", f"{part[1]}ns"] if part else []
    sites = report(memsight, path, "--run", str(run), "--sites", *options)
    answer = ask("objects", run=run, limit=100000, sort="bytes", **span)
    heap = [row for row in rows(answer["rows"]) if row["owner"] == "heap"]
    ours = sorted(
        (row["n_blocks"], row["bytes"], row["live_bytes"], row["peak_bytes"], row["n_faults"])
        for row in heap)
    theirs = sorted((row["blocks"], row["in all"], row["not freed"], row["peak"], row["faults"])
                    for row in sites)
    checks.that(
        ours == theirs,
        f"objects {part}: {len(ours)} sites, --sites has {len(theirs)}; {set(ours) ^ set(theirs)}")
    sizes = [row["bytes"] for row in rows(answer["rows"]) if row["bytes"] is not None]
    checks.that(sizes == sorted(sizes, reverse=True),
                "objects are not in the order that was asked for")
    checks.that(answer["n_all"] == answer["rows"]["n"], "n_all is not the number of all rows")
    for key in ("share", "share_low", "share_high"):
        checks.that(
            len(rows(ask("objects", run=run, limit=3, sort=key, **span)["rows"])) > 0,
            f"no objects by {key}")
    second = ask("objects", run=run, limit=1, offset=1, sort="bytes", **span)
    checks.that(
        rows(second["rows"]) == rows(answer["rows"])[1:2], "offset does not lead to the second row")
    return heap


def check_filter(checks, ask, run):
    found = rows(ask("objects", run=run, filter="ALLOCATE_swept")["rows"])
    checks.that(
        len(found) == 1 and found[0]["bytes"] == 16 << 20
        and (found[0]["function"], found[0]["name"].split(" ", 1)[0]) == ("main", "main"),
        # the other one only hands on to malloc()
        f"the filter finds {[(row['name'], row['bytes']) for row in found]}")
    full = rows(ask("objects", run=run, filter="ALLOCATE_swept", full=1)["rows"])
    checks.that(
        full[0]["name"].startswith("allocate_swept ") and "__libc_start" in full[0]["name"],
        f"with calls of libraries it is called {full[0]['name']}")
    checks.that(
        ask("objects", run=run, filter="no such thing")["n_all"] == 0,
        "the filter finds what is not there")
    return found[0]


def check_object(checks, ask, database, run, site):
    answer = ask("object", run=run, site=site["site"])
    for name in ("n_blocks", "bytes", "n_faults", "share", "site"):
        checks.that(answer[name] == site[name],
                    f"object: {name} is {answer[name]}, objects have {site[name]}")
    threads = rows(answer["threads"])
    n_counted = 0
    # Accesses and page faults; one at a block's header lies before its first byte.
    for role, by_thread, offsets in (
        (0, sum(row["n_reads"] + row["n_writes"] + row["n_unknown"] for row in threads), "n"),
        (3, sum(row["n_faults"] for row in threads), "n_faults"),
    ):
        touches = (
            "SELECT count(*) FROM touch JOIN allocation ON owner_kind = 1 AND owner_id ="
            f" allocation.id WHERE touch.run_id = ? AND stack_id = ? AND role = {role}")
        counted = database.one(touches, run, site["site"])
        n_counted += counted
        checks.that(by_thread == counted,
                    f"role {role}: touches by thread add up to {by_thread}, there are {counted}")
        within = database.one(f"{touches} AND touch.address >= allocation.address", run,
                              site["site"])
        by_offset = sum(column(answer["offsets"], offsets))
        checks.that(by_offset == within,
                    f"role {role}: touches by offset add up to {by_offset}, there are {within}")
    checks.that(
        sum(column(answer["blocks"], "n_samples")) == n_counted > 0,
        "touches by block do not add up")
    checks.that(
        column(answer["sizes"], "size_log2") == [24] and column(answer["sizes"], "n") == [1],
        "a block of 16 MiB is elsewhere")
    time_ns = sum(column(answer["threads"], "time_ns"))
    checks.that(
        abs(time_ns - site["time_ns"]) <= 1e-6 * time_ns + 1,
        f"time by thread is {time_ns}, of the site {site['time_ns']}")
    checks.that(answer["stack"][0]["function"] == "allocate_swept",
                f"the stack begins with {answer['stack'][0]}")
    checks.that(
        all(frame["function"] for frame in answer["stack"])
        and all(column(answer["instructions"], "function")),
        "a place without a name does not tell its file and offset")
    heat = base64.b64decode(answer["heat"]["packed"])
    checks.that(
        len(heat) == 2 * answer["heat"]["width"] * answer["heat"]["height"] and any(heat),
        "the heat map is empty")
    block = rows(answer["blocks"])[0]
    one = ask("object", run=run, block=block["id"])
    checks.that(one["block"]["address"] == block["address"] and one["site"] == site["site"],
                "a block is not of its site")
    checks.that(column(one["blocks"], "id") == [block["id"]], "a block is told with others")
    return block


def told_of(answer):
    """What a page of an object says, whatever the order in which it was counted."""
    told = {
        name: sorted(rows(answer[name]), key=str)
        for name in ("sizes", "lives", "levels", "blocks")
    }
    told["offsets"] = [(row["offset"], row["n"], row["n_writes"], round(row["time_ns"]))
                       for row in rows(answer["offsets"])]
    told["threads"] = sorted(
        (row["thread"], row["n_reads"], row["n_writes"], row["n_unknown"], round(row["time_ns"]))
        for row in rows(answer["threads"]))
    told["heat"] = answer["heat"]
    return told


def check_ways(checks, memsight, trace, folder):
    """Sites are the same in a plain and in a compact database."""
    paths = [os.path.join(folder, name) for name in ("plain.db", "compact.db")]
    for path, options in zip(paths, ([], ["--no-plain"])):
        whole.run([memsight, "analyze", *options, "-o", path, trace])
    answers = []
    for path in paths:
        with served.Server(memsight, path) as server:
            listed = rows(server.answer("objects", run=1, limit=12, sort="n_blocks")["rows"])
            sites = [row["site"] for row in listed if row["site"]]
            answers.append([
                told_of(server.answer("object", run=1, site=site, **span)) for site in sites
                for span in ({}, {"from": 10000000, "to": 200000000})
            ])
    checks.that(len(answers[0]) >= 4, "there are too few sites to compare")
    for path, others in zip(paths[1:], answers[1:]):
        for ours, theirs in zip(answers[0], others):
            for name in ours:
                checks.that(
                    ours[name] == theirs[name],
                    f"{os.path.basename(path)}: {name} is {theirs[name]}, not {ours[name]}")


def check_at(checks, ask, run, block):
    freed = block["freed_ns"] or block["allocated_ns"] + 1
    answer = ask("at", run=run, address=block["address"] + 4096,
                 **{"from": block["allocated_ns"], "to": freed})
    checks.that(
        answer["owner"] == "heap" and answer["id"] == block["id"] and answer["offset"] == 4096,
        f"at tells {answer}")
    checks.that(answer["stack"][0]["function"] == "allocate_swept", "at tells another stack")
    checks.that(answer["samples"]["n"] <= 20, "at tells more than 20 samples")


def check_source(checks, ask, run, site):
    answer = ask("object", run=run, site=site["site"])
    place = answer["stack"][0]
    source = ask("source", run=run, filter=f"{place['file']}:{place['line']}")
    line = source["lines"][place["line"] - source["first"]]
    checks.that("malloc(SWEPT_BYTES)" in line, f"the line of the allocation is {line!r}")


def check_stack(checks, ask, run, site):
    """What lies further in than the program's call is folded, and what starts main() is."""
    stack = ask("stack", run=run, site=site["site"])["stack"]
    checks.that(
        [(frame["function"], frame["is_folded"]) for frame in stack[:2]]
        == [("allocate_swept", 1), ("main", 0)] and all(frame["is_folded"] for frame in stack[2:]),
        f"the call path is {[(frame['function'], frame['is_folded']) for frame in stack]}")
    place = stack[1]
    source = ask("source", run=run, filter=f"{place['file']}:{place['line']}")
    checks.that(
        source["editor"] == f"vscode://file{place['file']}:{place['line']}",
        f"the editor is opened at {source['editor']}")


LISTS = ["leaks", "hot", "cold", "unused", "sharing", "peak", "resident", "regions", "findings",
         "sites", "threads", "losses", "mappings", "functions", "pools", "plugins"]
OF_PARTS = ["leaks", "hot", "cold", "sharing", "peak", "sites", "threads", "resident"]
LINKED = re.compile("\x1e[0-9]+\x1f([^\x1e]*)\x1e")


def check_reports(checks, memsight, ask, path, run, part):
    """Lists are those of memsight report, row by row; sites are linked by their ids."""
    span = {"from": part[0], "to": part[1]} if part else {}
    options = ["--from", f"{part[0]}ns", "--to", f"{part[1]}ns"] if part else []
    for kind in OF_PARTS if part else LISTS:
        answer = ask("report", run=run, kind=kind, limit=100000, **span)
        expected = report(memsight, path, "--run", str(run), "--" + kind, *options)
        found = [dict(zip(answer["names"],
                          [LINKED.sub(r"\1", value) if isinstance(value, str) else value
                           for value in values])) for values in answer["rows"]]
        checks.that(found == expected,
                    f"{kind} {part}: {len(found)} rows, report has {len(expected)}")
        checks.that(answer["n_all"] == len(expected) and answer["foot"],
                    f"{kind}: {answer['n_all']} rows in all, foot {answer['foot']!r}")
    answer = ask("report", run=run, kind="sites", limit=1)
    site = re.search("\x1e([0-9]+)\x1f", answer["rows"][0][-1]).group(1)
    checks.that(ask("object", run=run, site=site)["site"] == int(site), "a link leads nowhere")
    checks.that(answer["n_all"] > len(answer["rows"]) == 1, "a limit is not obeyed")


def check_series(checks, memsight, ask, path):
    answer = ask("series")
    expected = {(row["run"], row["name"]): row for row in report(memsight, path, "--stat")}
    names = [("n", "n"), ("n_failed", "failed"), ("median", "median"), ("low", "low"),
             ("high", "high"), ("least", "min"), ("most", "max")]
    found = rows(answer["statistics"])
    checks.that(len(found) == len(expected), f"{len(found)} statistics, --stat has {len(expected)}")
    for row in found:
        other = expected[row["program"] + "." + row["mode"], row["metric"]]
        checks.that(all(row[ours] == other[theirs] for ours, theirs in names),
                    f"statistics {row}, --stat {other}")
        if row["n"] > 0:
            checks.that(row["least"] <= row["q1"] <= row["median"] <= row["q3"] <= row["most"],
                        f"quartiles of {row}")
    n_values = sum(row["n"] + row["n_failed"] for row in found)
    checks.that(answer["values"]["n"] == n_values,
                f"{answer['values']['n']} values, statistics are of {n_values}")
    pairs = {(row["program"] + "." + row["mode"], row["metric"]): row
             for row in rows(answer["overhead"])}
    for row in report(memsight, path, "--overhead"):
        for metric, prefix in [("wall time", "wall"), ("CPU time", "cpu")]:
            ours = pairs[row["run"], metric]
            checks.that((ours["ratio"], ours["low"], ours["high"],
                         ours["base"]) == (row[f"{prefix}_ratio"], row[f"{prefix}_low"],
                                           row[f"{prefix}_high"], row["against"]),
                        f"overhead {ours}, {row}")
    return len(pairs)


def check_diff(checks, memsight, ask, path, a, b):
    for by, what in (("time", b"samples of CPU time"), ("faults",
                                                        b"page faults")):  # runs without a source
        reply = ask.server.get(f"/{ask.server.token}/api/diff?a={a}&b={b}&by={by}")
        checks.that(reply.status == 404 and b"recorded no " + what in reply.body,
                    f"diff by {by}: {reply.status} {reply.body[:200]}")
    for by in ("bytes", "blocks", "peak"):
        answer = ask("diff", a=a, b=b, by=by, limit=100000)
        theirs = json.loads(
            whole.run([
                memsight, "diff", f"{path}:{a}", f"{path}:{b}", "--by", by, "--limit", "0",
                "--format", "json"
            ]))
        changed = [row for row in rows(answer["rows"]) if row["change"] != 0]
        pairs = sorted((round(row["before"]), round(row["after"])) for row in changed)
        expected = sorted((row["before"], row["after"]) for row in theirs)
        checks.that(pairs == expected,
                    f"diff by {by}: {len(pairs)} changes, `memsight diff' has {len(expected)}")
        checks.that(
            abs(sum(row["after"] for row in rows(answer["rows"])) - answer["total_after"]) < 1,
            "sites do not add up")
        checks.that(answer["n_all"] == answer["rows"]["n"], "diff leaves sites out")


def check_recorded(checks, memsight, victim):
    recording = whole.Recording(memsight, [victim, "300"])
    with served.Server(memsight, recording.path) as server:
        ask = Asked(checks, server)
        check_runs(checks, ask, recording)
        run = check_run(checks, ask, recording, 1)
        process = column(run["processes"], "id")[0]
        check_timeline(checks, ask, recording, 1)
        check_flame(checks, memsight, ask, recording.path, 1)
        check_objects(checks, memsight, ask, recording.path, 1, None)
        duration = run["run"]["duration_ns"]
        check_objects(checks, memsight, ask, recording.path, 1, (duration // 3, 2 * duration // 3))
        site = check_filter(checks, ask, 1)
        block = check_object(checks, ask, recording, 1, site)
        check_source(checks, ask, 1, site)
        check_stack(checks, ask, 1, site)
        for part in (None, (0, recording.one("SELECT duration_ns / 2 FROM run"))):
            check_reports(checks, memsight, ask, recording.path, 1, part)
        if run["has_picture"]:
            check_picture(checks, ask, recording, 1, process)
            check_at(checks, ask, 1, block)
        checks.that(server.answer("run") == run, "without a run the last one is not told")
    check_ways(checks, memsight, recording.trace, recording.folder.name)


SERIES = """[series]
name = t
repetitions = 7
seed = 3
[workload sweep]
command = %s 5
[mode natural]
dry = yes
[mode traced]
source = none
"""


def check_many_runs(checks, memsight, victim, folder):
    config = os.path.join(folder, "series.ini")
    with open(config, "w", encoding="utf-8") as file:
        file.write(SERIES % victim)
    whole.run([memsight, "run", "-o", os.path.join(folder, "out"), config])
    path = os.path.join(folder, "out", "memsight.db")
    with served.Server(memsight, path, "--run", "sweep.traced.2") as server:
        ask = Asked(checks, server)
        traced = [row for row in rows(ask("runs")) if row["mode"] == "traced"]
        checks.that(len(traced) == 7, f"{len(traced)} traced runs")
        checks.that(server.fragment == f"run={traced[1]['id']}",
                    f"--run leads to {server.fragment}")
        checks.that(check_series(checks, memsight, ask, path) == 2, "no overhead is told")
        totals = [row["id"] for row in traced if row["detail"] == "totals"]
        reply = server.get(f"/{server.token}/api/objects?run={totals[0]}&from=1")
        checks.that(reply.status == 404 and "totals" in reply.json()["error"],
                    f"a part of totals gives {reply.body[:100]}")
        ask("objects", run=totals[0])
        check_diff(checks, memsight, ask, path, traced[0]["id"], traced[1]["id"])


def check_edge(checks, memsight, command, record, analyze):
    """Whatever a run lacks, each answer is there or says in one line why not."""
    with_trace = whole.Recording(memsight, command, options=record)
    path = with_trace.path
    if analyze:
        path = os.path.join(with_trace.folder.name, "edge.db")
        whole.run([memsight, "analyze", *analyze, "-o", path, with_trace.trace])
    with served.Server(memsight, path) as server:
        ask = Asked(checks, server)
        for name, parameters in [("runs", {}), ("run", {}), ("timeline", {}), ("objects", {}),
                                 ("objects", {"from": 1, "to": 2}), ("series", {}), ("flame", {}),
                                 ("flame", {"by": "time"}),
                                 ("flame", {"by": "faults", "inverse": 1})]:
            ask(name, **parameters)
        run = ask("run")
        for request in [
                "bands", "picture", "picture?by=latency&width=1&height=1", "at?address=4096"
        ]:
            reply = server.get(f"/{server.token}/api/{request}")
            is_told = reply.status == 200 or reply.status == 404 and reply.json()["error"]
            checks.that(is_told,
                        f"{request} of {record} {analyze}: {reply.status} {reply.body[:100]}")
            if request == "picture":
                checks.that((reply.status == 200) == bool(run["has_picture"]),
                            f"has_picture is {run['has_picture']}: {reply.body[:80]}")


def main():
    memsight, victim = sys.argv[1:]
    checks = whole.Checks()
    check_recorded(checks, memsight, victim)
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        check_many_runs(checks, memsight, victim, folder)
    for command, record, analyze in [([victim, "20"], ["-s", "none"], []),
                                     ([victim, "20"], ["--no-alloc"], []),
                                     ([victim, "20"], ["-s", "none", "--no-alloc"], []),
                                     (["/bin/true"], [], []), ([victim, "20"], [], ["--no-plain"])]:
        check_edge(checks, memsight, command, record, analyze)
    checks.end()


main()
