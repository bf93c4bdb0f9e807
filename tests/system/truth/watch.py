#!/usr/bin/env python3
"""Accesses whose number is known, by debug registers: variables, threads, a late library, an object
with a name, a function's block, a fork, and the bound of the rate. Arguments: memsight, the victim,
the library."""
import json
import subprocess
import sys

import json_schema
from whole import Checks, Recording, environment, run, skip

COUNTS = """SELECT target, n_reads, n_writes, n_updates, n_unknown FROM watch
    WHERE to_ns IS NOT NULL"""

EACH = ("--watch-rate", "0"
        )  # on a busy machine an access costs so much that some go unseen, which is told


def record(memsight, targets, command, *more, may_lose=False):
    options = [word for target in targets for word in ("--watch", target)]
    recording = Recording(memsight, command, ["--source", "none", *options, *more])
    error = recording.one("SELECT error FROM source WHERE name = 'watch'")
    if error:
        skip("no debug registers: errno %d" % error)
    if not may_lose and recording.one("SELECT count(*) FROM loss WHERE reason = 'ring overrun'"):
        skip("accesses found the ring full")
    for row in recording.ask(COUNTS):
        print(*row)
    return recording


def expect(checks, recording, target, counts):
    rows = recording.ask(COUNTS + " AND target = ?", target)
    checks.that(rows == [(target, *counts)], "%s: %s instead of %s" % (target, rows, counts))


def by_thread(recording, target):
    return sorted(recording.ask("SELECT thread.is_main, watch_thread.n_reads, watch_thread.n_writes"
                                " FROM watch_thread JOIN watch ON watch.id = watch_id"
                                " JOIN thread ON thread.id = thread_id WHERE target = ?", target))


def check_all(checks, memsight, victim):
    recording = record(memsight, ["counted", "shared", "queue head", "make_block"], [victim], *EACH)
    expect(checks, recording, "counted", (250, 500, 1000, 0))
    expect(checks, recording, "shared", (400, 300, 0, 0))
    threads = by_thread(recording, "shared")
    checks.that(threads == [(0, 0, 300), (1, 400, 0)], "shared by thread: %s" % threads)
    expect(checks, recording, "queue head", (0, 120, 0, 0))
    expect(checks, recording, "make_block", (0, 70, 0, 0))
    # Its block is used by others after the free: none of these accesses is the object's.
    checks.that(recording.output.split() == ["reused", "1"], "the block is used again")
    rows = recording.one("SELECT count(*) FROM sample JOIN source ON source.id = source_id"
                         " WHERE source.name = 'watch'")
    checks.that(rows == 250 + 500 + 1000 + 700 + 120 + 70, "%d rows of samples" % rows)
    owner = recording.one("SELECT count(*) FROM touch JOIN sample ON sample.id = sample_id"
                          " JOIN source ON source.id = source_id AND source.name = 'watch'"
                          " JOIN symbol ON symbol.id = owner_id WHERE owner_kind = 4"
                          " AND symbol.name = 'counted' AND touch.is_write IS NOT NULL")
    checks.that(owner == 1750, "%d touches are counted's" % owner)
    place = recording.ask("SELECT frame.function, count(*) FROM touch JOIN frame ON frame.id ="
                          " touch.frame_id JOIN sample ON sample.id = sample_id JOIN symbol ON"
                          " symbol.id = owner_id AND symbol.name = 'counted' AND owner_kind = 4"
                          " GROUP BY 1 ORDER BY 1")
    checks.that(place == [("add", 1000), ("load", 250), ("store", 500)], "functions: %s" % place)
    pairs = recording.one("SELECT sum(n) FROM watch_reuse JOIN watch ON watch.id = watch_id"
                          " WHERE target = 'counted'")
    checks.that(pairs == 1749, "%s pairs of accesses" % pairs)


def check_forms(checks, memsight, victim):
    recording = record(memsight, ["counted:w", "wide,16", "make_block+2", "local"], [victim], *EACH)
    expect(checks, recording, "counted:w", (0, 500, 1000, 0))
    expect(checks, recording, "wide,16", (0, 40, 30, 0))
    expect(checks, recording, "make_block+2", (0, 90, 0, 0))
    refused = recording.ask("SELECT target, note FROM watch WHERE to_ns IS NULL")
    checks.that(len(refused) == 1 and refused[0][0] == "local" and "thread-local" in refused[0][1],
                "refused: %s" % refused)


def check_privately(checks, memsight, victim):
    """Without registers the code alone tells loads from stores, and not always."""
    recording = record(memsight, ["counted"], [victim], "--private", *EACH)
    n = recording.one("SELECT n_reads + n_writes + n_updates + n_unknown FROM watch")
    checks.that(n == 1750, "--private: %s accesses" % n)


def check_rate(checks, memsight, victim):
    recording = record(memsight, ["counted"], [victim, "often", "10000000"], "--watch-rate", "500",
                       may_lose=True)
    n, off = recording.ask("SELECT n_writes, to_ns - from_ns - armed_ns FROM watch")[0]
    lost = recording.losses().get(
        ("watch", "ms switched off: more accesses than --watch-rate or a fifth of the time allow"),
        0)
    print("rate: %d of 10000000 accesses, off for %.1f ms" % (n, off / 1e6))
    checks.that(0 < n < 10000000 and off > 0 and lost <= off / 1e6 + 1, "the rate is bounded")


def check_hot(checks, memsight, victim):
    recording = Recording(memsight, [victim, "hot", "3"], ["--source", "clock", "--watch-hot"])
    if recording.one("SELECT count(*) FROM source WHERE name IN ('clock', 'watch') AND error <> 0"):
        return
    rows = recording.ask(
        "SELECT is_hot, n_updates > 0, symbol.name FROM watch JOIN symbol ON symbol.id = owner_id"
        " WHERE owner_kind = 4 AND n_updates > 0")
    print("hot:", rows)
    checks.that((1, 1, "shared") in rows, "the hot line is found")
    threads = recording.one(
        "SELECT count(DISTINCT thread_id) FROM watch_thread JOIN watch ON watch.id = watch_id"
        " JOIN symbol ON symbol.id = owner_id AND name = 'shared' WHERE"
        " watch_thread.n_updates > 0")
    checks.that(threads == 2, "%s threads update it" % threads)
    report = run([memsight, "report", recording.path, "--watched", "--format", "csv"]).splitlines()
    lines = [line for line in report if line.startswith("--watch-hot") and ",shared," in line]
    checks.that(len(lines) == 1, "one line of the report: %s" % lines)
    rows = json.loads(run([memsight, "report", recording.path, "--watched", "--format", "json"]))
    json_schema.check_report(checks, rows, "watched")


def check_messages(checks, memsight, victim):
    for target, word in [("counted,64", "debug registers"), ("0xzz", "address"),
                         ("x,0", "expected")]:
        done = subprocess.run([memsight, "record", "--watch", target, "-o", "/dev/null", victim],
                              stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              check=False, env=environment())
        checks.that(done.returncode != 0 and word in done.stderr and done.stderr.count("\n") == 1,
                    "%s: %s" % (target, done.stderr))


def main():
    memsight, victim, plugin = sys.argv[1:]
    checks = Checks()
    check_all(checks, memsight, victim)
    check_forms(checks, memsight, victim)
    check_privately(checks, memsight, victim)
    late = record(memsight, ["watch-plugin.so:plugin_counter"], [victim, "plugin", plugin], *EACH)
    expect(checks, late, "watch-plugin.so:plugin_counter", (0, 200, 0, 0))
    forked = record(memsight, ["counted"], [victim, "forked"], *EACH)
    expect(checks, forked, "counted", (0, 150, 0, 0))
    check_rate(checks, memsight, victim)
    check_hot(checks, memsight, victim)
    check_messages(checks, memsight, victim)
    checks.end()


main()
