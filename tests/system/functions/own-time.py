#!/usr/bin/env python3
"""The time of memsight itself: hooks in regions and functions are counted by kind, what they take
is known and taken out, and nothing of it is done where there are no regions. Arguments: memsight,
victims; then a program without regions."""
import json
import os
import sys
import tempfile

import json_schema
import whole

MEMSIGHT, *VICTIMS, PLAIN = map(os.path.abspath, sys.argv[1:])
checks = whole.Checks()

IN_REGIONS = {"regions": 1 + 10 + 10, "blocks": 100, "ends of blocks": 100}
IN_FUNCTIONS = {**IN_REGIONS, "functions": 200, "callers of functions": 200}
MEASURED = {"call stacks", "room for records"}


def record(folder, victim, *options):
    trace = os.path.join(folder, "own.mst")
    whole.run([MEMSIGHT, "record", "-q", "-f", "-o", trace, "--source", "none", *options, "--",
               victim])
    whole.run([MEMSIGHT, "analyze", "-f", trace])
    return whole.Database(trace + ".db")


def check(name, database, counted, tried):
    n = dict(database.ask("SELECT kind, sum(n) FROM own_time GROUP BY kind"))
    checks.that({kind: n[kind] for kind in n if kind not in MEASURED} == counted,
                f"{name}: {n}, {counted} were expected")
    checks.that(n.get("call stacks", 0) > 0, f"{name}: no walk was measured")
    costs = dict(database.ask("SELECT hook, n FROM hook_cost WHERE mean_ns > 0"))
    checks.that(set(costs) == tried and min(costs.values()) > 100, f"{name}: {costs}")
    wrong = database.ask("SELECT kind, own_time.n, ns FROM own_time JOIN hook_cost ON hook = kind"
                         " WHERE abs(ns - own_time.n * mean_ns) > 1 OR"
                         " abs(error_ns - own_time.n * spread_ns) > 1")
    checks.that(not wrong, f"{name}: {wrong}")
    taken, n_paths = database.ask("SELECT sum(own_cost_ns), count(*) FROM region_total")[0]
    told, n_kinds = database.ask("SELECT sum(ns), count(*) FROM own_time")[0]
    checks.that(abs(taken - told) <= n_paths + n_kinds,
                f"{name}: {taken} ns were taken out, and {told} reported")
    wrong = database.ask("SELECT name FROM region_total WHERE own_ns < 0 OR all_ns < own_ns OR"
                         " all_cost_ns < own_cost_ns")
    checks.that(not wrong, f"{name}: {wrong}")
    before, after = database.ask("SELECT sum(end_ns - start_ns), (SELECT all_ns + all_cost_ns FROM"
                                 " region_total WHERE name = 'outer') FROM region WHERE"
                                 " name = 'outer'")[0]
    checks.that(before == after, f"{name}: outer lasted {before}, and {after} with all costs")
    # Of each trip, too: of outermost ones it is all that was taken.
    taken, of_trips, wrong = database.ask(
        "SELECT (SELECT sum(all_cost_ns) FROM region_total WHERE parent_id IS NULL), sum(cost_ns),"
        " count(iif(net_ns = gross_ns - cost_ns AND net_ns >= 0, NULL, 1)) FROM region_net"
        " WHERE parent_id IS NULL")[0]
    checks.that(of_trips > 0 and abs(taken - of_trips) <= taken / 100 + 20 and wrong == 0,
                f"{name}: trips have {of_trips}, totals {taken}")


def check_report(folder, database):
    trace = os.path.join(folder, "own.mst")
    rows = json.loads(whole.run([MEMSIGHT, "report", trace, "--overhead", "--format", "json"]))
    json_schema.check_report(checks, rows, "overhead")
    checks.that({row["kind"]: row["taken out"] for row in rows} ==
                dict(database.ask("SELECT kind, ns FROM own_time")), f"--overhead: {rows}")
    text = whole.run([MEMSIGHT, "report", trace, "--regions"])
    checks.that("without what memsight took" in text, f"--regions: {text}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        tried = {"blocks", "ends of blocks", "regions"}
        for victim in VICTIMS:
            for stacks in "dwarf", "fp":
                name = f"{os.path.basename(victim)}, {stacks}"
                database = record(folder, victim, "--stacks", stacks)
                check(name, database, IN_REGIONS, tried)
                database = record(folder, victim, "--stacks", stacks, "--function-include", "^f_")
                check(name + ", functions", database, IN_FUNCTIONS,
                      tried | {"functions", "callers of functions"})
            check_report(folder, database)
        database = record(folder, PLAIN)
        checks.that(database.one("SELECT (SELECT count(*) FROM own_time) +"
                                 " (SELECT count(*) FROM hook_cost)") == 0, "without regions")
    checks.end()


if __name__ == "__main__":
    main()
