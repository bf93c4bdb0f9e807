#!/usr/bin/env python3
"""What a program tells by memsight.h arrives in the database, with exact counts. Arguments:
memsight, the victim, and that as a static program."""
import json
import re
import subprocess
import sys

import json_schema
from whole import Checks, Recording, environment

FAULTS = """
SELECT touch.address / 4096, owner.name, coalesce(object_name.name, '-')
FROM touch JOIN owner ON owner.id = owner_kind JOIN frame ON frame.id = touch.frame_id
LEFT JOIN object_name ON owner.name = 'named' AND object_name.id = owner_id
WHERE role = 3 AND touch.address >= ? AND touch.address < ? AND frame.function = 'touch_pages'"""

checks = Checks()


def equal(found, wanted, what):
    checks.that(found == wanted, f"{what}: {found}, not {wanted}")


def total(recording, name):
    return recording.one("SELECT value FROM total WHERE name = ?", name)


def sized(recording, size):
    return recording.ask("SELECT count(*), count(freed_ns) FROM allocation WHERE size = ?", size)[0]


def report(memsight, recording, *options):
    return subprocess.run([memsight, "report", recording.path, *options], check=True, text=True,
                          stdout=subprocess.PIPE, env=environment()).stdout


def check_ranges(recording):
    """Each range that the victim says it touched, where page faults can be seen."""
    if recording.one("SELECT error FROM source WHERE name = 'faults'") != 0:
        print("no page faults here: owners are not compared")
        return
    for line in recording.output.splitlines():
        owner, name, start, end, pages = line.split()
        rows = recording.ask(FAULTS, int(start), int(end))
        wanted = 0 if owner == "-" else int(pages)
        print("%-16s %-12s %4d of %4d pages" % (owner, name, len(rows), wanted))
        equal(len({row[0] for row in rows}), wanted, f"{owner} {name}: pages")
        equal({(row[1], row[2].replace(" ", "_")) for row in rows} - {(owner, name)}, set(),
              f"{owner} {name}: other owners")


def check_regions(memsight, victim):
    recording = Recording(memsight, [victim, "regions"])
    rows = {(parent, name): counts for parent, name, *counts in recording.ask(
        "SELECT outer.name, inner.name, inner.n_trips, inner.n_left_open, inner.all_blocks,"
        " inner.own_blocks, inner.all_bytes, inner.own_bytes FROM region_total AS inner"
        " LEFT JOIN region_total AS outer ON outer.id = inner.parent_id")}
    equal(rows, {
        (None, "work"): [2, 0, 106, 6, 16000, 6000],
        ("work", "part"): [20, 0, 100, 100, 10000, 10000],
        (None, "left"): [1, 1, 7, 0, 70, 0],
        ("left", "inside"): [1, 1, 7, 7, 70, 70],
        (None, "outer"): [1, 0, 1, 0, 77, 0],
        ("outer", "forgotten"): [1, 1, 1, 1, 77, 77],
    }, "regions")
    equal(
        recording.ask("SELECT name, ending, count(*) FROM region WHERE ending <> 0 GROUP BY 1, 2"),
        [("forgotten", 1, 1), ("inside", 2, 1), ("left", 2, 1)], "trips left open")
    equal(
        recording.one("SELECT count(*) FROM region JOIN thread ON thread.id = thread_id"
                      " WHERE region.end_ns > thread.end_ns"), 0, "trips that outlive their thread")
    equal(recording.one("SELECT count(*) FROM region AS part JOIN region AS whole"
                        " ON whole.id = part.parent_id WHERE part.start_ns < whole.start_ns"
                        " OR part.end_ns > whole.end_ns"), 0, "trips that reach out of another")
    equal([name for name, in recording.ask("SELECT name FROM mark ORDER BY time_ns")],
          ["begin", "end"], "marks")
    equal(recording.losses(), {("memsight.h", "pops of regions without a push"): 2}, "losses")
    rows = json.loads(report(memsight, recording, "--marks", "--format", "json"))
    json_schema.check_report(checks, rows, "marks")
    text = report(memsight, recording, "--regions")
    checks.that(re.search(r"^ +20 +0 .* 100 +9.77 KiB +9.77 KiB +\d+ +work / part$", text,
                          re.MULTILINE), "the report names the path:\n" + text)
    checks.that("2 marks: begin" in report(memsight, recording), "the summary has the marks")


def check_paused(memsight, victim):
    recording = Recording(memsight, [victim, "paused"])
    equal(sized(recording, 1001), (10, 10), "blocks from before the pause, and their frees")
    equal(sized(recording, 2002), (0, 0), "blocks born in the pause")
    equal(sized(recording, 3003), (3, 3), "blocks from behind the pause")
    equal((total(recording, "unrecorded_frees"), total(recording, "before_trace_frees")), (22, 0),
          "frees of blocks that were not recorded")
    equal((total(recording, "pauses"), total(recording, "thread_pauses")), (1, 0), "pauses")
    equal(recording.ask("SELECT thread_id, classes, end_ns - start_ns >= 50000000 FROM withheld"),
          [(None, "", 1)], "the pause")
    equal(recording.one("SELECT sum(end_ns - start_ns) FROM withheld"), total(
        recording, "paused_ns"), "its length")
    check_ranges(recording)
    text = report(memsight, recording)
    checks.that(re.search(r"recording was paused by the program for 0\.\d\d s \(1 pause\)", text),
                "the report says so:\n" + text)
    if recording.one("SELECT error FROM source WHERE name = 'faults'") == 0:
        n, process_ns, withheld_ns = recording.ask(
            "SELECT n_withheld, process_ns, withheld_ns FROM source WHERE name = 'faults'")[0]
        checks.that(n >= 40, f"faults in the pause are counted: {n}")
        equal(withheld_ns, total(recording, "paused_ns"), "what the faults do not cover")
        checks.that(withheld_ns < process_ns, "the process lived longer than it paused")
        checks.that("page faults count for" in text, "shares say what they are of")

    recording = Recording(memsight, [victim, "paused"], ["--api", "marks"])
    equal((sized(recording, 2002), total(recording, "pauses")), ((100, 100), 0),
          "with --api marks, blocks born in the pause")

    recording = Recording(memsight, [victim, "paused-thread"])
    equal((total(recording, "pauses"), total(recording, "thread_pauses")), (0, 1), "thread pauses")
    equal(sized(recording, 4001), (1, 1), "blocks from before the thread's pause")
    equal(recording.one("SELECT thread.is_main FROM withheld JOIN thread ON thread.id = thread_id"),
          0, "the thread that paused")
    check_ranges(recording)

    recording = Recording(memsight, [victim, "paused-fork"])
    equal(recording.one("SELECT count(DISTINCT process_id) FROM withheld WHERE classes = ''"), 2,
          "processes that paused")
    check_ranges(recording)


def check_names(memsight, victim):
    recording = Recording(memsight, [victim, "names"])
    check_ranges(recording)
    rows = dict((
        name, (size, is_block, has_end)
    ) for name, size, is_block, has_end in recording.ask(
        "SELECT object_name.name, size, allocation_id IS NOT NULL, end_ns IS NOT NULL FROM "
        "object_name"
    ))
    equal(rows, {
        "whole block": (102 * 4096, 1, 1), "map": (41 * 4096, 0, 1), "table": (52 * 4096, 0, 0),
        "old name": (rows.get("old name", (0,))[0], 0, 1), "local array": (60 * 4096, 0, 1),
        "first part": (50 * 4096, 1, 1), "second part": (50 * 4096, 1, 1),
    }, "names")
    equal(recording.one("SELECT count(*) FROM object_name JOIN allocation ON allocation.id ="
                        " allocation_id WHERE object_name.end_ns <> freed_ns"), 0,
          "names that outlive their block")
    equal(recording.one("SELECT sum(n_faults) FROM object_total WHERE owner_kind = 2"),
          recording.one("SELECT count(*) FROM touch WHERE owner_kind = 2 AND role = 3"),
          "faults of named objects, summed up and counted")


def check_collected(memsight, victim):
    recording = Recording(memsight, [victim, "collected"])
    check_ranges(recording)
    equal((sized(recording, 4444), sized(recording, 5555)), ((0, 0), (5, 5)), "blocks")
    equal([words for words, in recording.ask("SELECT classes FROM withheld ORDER BY start_ns")],
          ["heap", "faults", "heap"], "what was collected")
    equal(recording.losses(), {("memsight.h", "unknown words given to memsight_collect_push"): 1},
          "losses")
    if recording.one("SELECT error FROM source WHERE name = 'faults'") == 0:
        equal(recording.one("SELECT sum(end_ns - start_ns) FROM withheld WHERE classes = 'heap'"),
              recording.one("SELECT withheld_ns FROM source WHERE name = 'faults'"),
              "without faults")


def check_options(memsight, victim):
    recording = Recording(memsight, [victim, "small"], ["--min-size", "1M"])
    check_ranges(recording)
    equal(recording.ask("SELECT size, end_kind FROM allocation WHERE size < 1048576"), [],
          "rows of small blocks")
    equal(sized(recording, 400 * 4096), (1, 1), "the block that grew and shrank")
    # 24 and 60 pages, 50 of 100 bytes, and what the last realloc made.
    equal(total(recording, "blocks_below_minimum"), 53, "blocks below the minimum")
    equal((total(recording, "before_trace_frees"), total(recording, "unrecorded_frees")), (0, 53),
          "frees of blocks that were not recorded")
    checks.that("53 blocks smaller than 1048576 bytes were counted, not recorded"
                in report(memsight, recording), "the report says so")

    recording = Recording(memsight, [victim, "regions"], ["--sink", "null"])
    equal((total(recording, "events"), total(recording, "allocations")), (0, 0), "stored events")
    equal(recording.losses(), {}, "losses of the null sink")
    checks.that("--sink null" in report(memsight, recording), "the report names the null sink")

    recording = Recording(memsight, [victim, "regions"], ["--events", "regions,brk"])
    equal((total(recording, "allocations"), total(recording, "frees")), (0, 0), "heap events")
    equal(recording.one("SELECT sum(n_trips) FROM region_total"), 26, "trips")
    checks.that("recorded were only the events brk,regions" in report(memsight, recording),
                "the report names the events")
    for events, n_mappings in ("heap,regions", 0), ("mmap", 1):
        recording = Recording(memsight, [victim, "names"], ["--events", events])
        equal(
            recording.one("SELECT count(*) FROM mapping WHERE call IS NOT NULL AND NOT is_nested"),
            n_mappings, f"mappings of the program with --events {events}")
    recording = Recording(memsight, [victim, "regions"], ["--events", "heap"])
    equal((recording.one("SELECT count(*) FROM region_total"), sized(recording, 1000)), (0, (6, 6)),
          "regions and blocks of --events heap")


def main():
    memsight, victim, *in_static = sys.argv[1:]
    for check in check_regions, check_paused, check_names, check_collected, check_options:
        check(memsight, victim)
    # There the C library's own blocks and mappings are seen, too: options count other ones.
    for static in in_static:
        for check in check_regions, check_paused, check_names:
            check(memsight, static)
    checks.end()


main()
