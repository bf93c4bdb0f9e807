#!/usr/bin/env python3
"""Blocks of an allocator of the program's own: as many as it says, each ended as it was, and no
byte twice in what is live. Arguments: memsight, the victim."""
import json
import sys

from whole import Checks, Recording, run

checks = Checks()
CHUNK = 100000
FREED, MISSED, RESET, CUT, ALIVE = 1, 3, 5, 6, 0


def equal(found, expected, what):
    checks.that(found == expected, f"{what}: {found}, not {expected}")


def sums(memsight, path, option, columns):
    """Of a report, by the program's function that asked for the block."""
    found = {}
    for row in json.loads(run([memsight, "report", path, option, "--full", "--format", "json",
                               "-n", "0"])):
        name = row["allocated at"].split(" ")[0]
        before = found.get(name, (0,) * len(columns))
        found[name] = tuple(a + row[column] for a, column in zip(before, columns))
    return found


def check_rows(recording):
    ends = dict(((size, end), n) for size, end, n in recording.ask(
        "SELECT size, end_kind, count(*) FROM allocation WHERE pool_id IS NOT NULL GROUP BY 1, 2"))
    equal(ends, {
        (40, FREED): 300, (40, RESET): 600, (40, CUT): 20, (40, ALIVE): 50,
        (1000, CUT): 1, (1000, ALIVE): 1, (100, CUT): 10, (100, ALIVE): 10,
        (4000, CUT): 8, (33, RESET): 1}, "blocks by size and end")
    equal(recording.one("SELECT count(*) FROM allocation AS a LEFT JOIN allocation AS o ON o.id ="
                        " a.within_id WHERE a.pool_id IS NOT NULL AND NOT (o.size ="
                        " CASE a.size WHEN 100 THEN 1000 ELSE 100000 END AND a.address >= o.address"
                        " AND a.address + a.size <= o.address + o.size)"), 0,
          "each block lies in the one that it says")
    equal(recording.ask("SELECT size, count(*) FROM allocation WHERE pool_id IS NOT NULL AND"
                        " within_id IS NULL GROUP BY 1 ORDER BY 1"), [(33, 1), (4000, 8)],
          "blocks in none of malloc's that is recorded")
    equal(recording.one("SELECT count(*) FROM allocation WHERE pool_id IS NOT NULL AND call <>"
                        " (SELECT id FROM call WHERE name = 'memsight_block')"), 0, "their call")
    equal(recording.losses(), {("own allocators", "ends of blocks whose begin was not seen"): 1},
          "losses")


def check_totals(recording):
    total = dict(recording.ask("SELECT name, value FROM total"))
    plain = recording.ask(
        "SELECT count(*), sum(size), sum(freed_ns IS NULL), sum(CASE WHEN freed_ns IS NULL THEN"
        " size END) FROM allocation WHERE within_id IS NULL")
    equal([(total["allocations"], total["bytes"], total["live_blocks"], total["live_bytes"])],
          plain, "no byte twice in the run's sums")
    equal(recording.one("SELECT sum(live_bytes) FROM site"), total["live_bytes"],
          "what is live, by sites")
    equal(recording.one("SELECT sum(bytes) FROM site_peak"), total["peak_bytes"],
          "the peak, by sites")
    checks.that(total["peak_bytes"] < 3 * CHUNK, f"the peak: {total['peak_bytes']}")
    seconds, held = recording.ask(
        "SELECT (SELECT sum(byte_seconds) FROM site), sum(1e-9 * size * (coalesce(freed_ns, end_ns)"
        " - allocated_ns)) FROM allocation JOIN process ON process.id = process_id"
        " WHERE within_id IS NULL")[0]
    checks.that(abs(seconds - held) < 1e-6 * held, f"byte-seconds: {seconds}, not {held}")


def check_pools(recording, memsight):
    rows = recording.ask("SELECT n_blocks, bytes, live_blocks, live_bytes, peak_bytes, n_resets,"
                         " n_cut FROM pool ORDER BY id")
    chunk, odd, part, mapped, child, last = rows
    equal(chunk, (951, 900 * 40 + 50 * 40 + 1000, 51, 3000, 12000, 3, 0), "the first chunk's")
    equal(odd, (21, 1800, 0, 0, 1800, 0, 21), "that of odd lives")
    equal(part, (10, 1000, 0, 0, 1000, 0, 10), "the pool in a block of it")
    equal(mapped, (8, 32000, 0, 0, 32000, 0, 8), "blocks without a pool")
    equal(child, (1, 33, 0, 0, 33, 1, 0), "the child's")
    equal(last, (10, 1000, 10, 1000, 1000, 0, 0), "the pool in the block that is left")
    rows = json.loads(run([memsight, "report", recording.path, "--pools", "--format", "json"]))
    equal(sorted((row["blocks"], row["bytes"], row["resets"]) for row in rows),
          sorted((row[0], row[1], row[5]) for row in recording.ask(
              "SELECT n_blocks, bytes, 0, 0, 0, n_resets FROM pool")), "--pools")


def check_reports(recording, memsight):
    sites = sums(memsight, recording.path, "--sites", ["blocks", "in all", "not freed"])
    equal(sites["take_small"], (970, 970 * 40, 2000), "--sites: small blocks")
    equal(sites["make_chunk"], (2, 2 * CHUNK, CHUNK - 3000), "--sites: what is left of chunks")
    leaks = sums(memsight, recording.path, "--leaks", ["bytes", "blocks"])
    equal({name: leaks[name] for name in ("make_chunk", "take_small", "take_part", "take_in_part")},
          {"make_chunk": (CHUNK - 3000, 1), "take_small": (2000, 50), "take_part": (0, 1),
           "take_in_part": (1000, 10)}, "--leaks")
    whole = run([memsight, "report", recording.path, "--sites", "--format", "json", "-n", "0",
                 "--from", "0s"])
    columns = "blocks", "in all", "not freed", "peak"
    equal([[row[name] for name in columns] for row in json.loads(whole)],
          [[row[name] for name in columns] for row in json.loads(
              run([memsight, "report", recording.path, "--sites", "--format", "json", "-n", "0"]))],
          "the same counted again from the rows")


def main():
    memsight, victim = sys.argv[1:]
    recording = Recording(memsight, [victim], ["--source", "none"])
    check_rows(recording)
    check_totals(recording)
    check_pools(recording, memsight)
    check_reports(recording, memsight)
    equal(recording.one("SELECT count(*) FROM allocation WHERE address = ? AND size = 1000 AND"
                        " freed_ns IS NULL", int(recording.output)), 1, "the block that is left")
    touched = Recording(memsight, [victim], ["--source", "none", "--sample-bytes", "1M"])
    equal(touched.losses().get(("own allocators", "blocks left out by --sample-bytes")), 1001,
          "blocks of a run whose blocks are picked")
    checks.end()


main()
