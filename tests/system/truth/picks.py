#!/usr/bin/env python3
"""Production mode (--sample-bytes): what is estimated from picked blocks, beside what the victim
allocated, and that the end of each picked block is known. Arguments: memsight, victim, and how many
runs (more than one: the share of intervals that hold the truth is looked at as well)."""
import json
import math
import subprocess
import sys

import whole

INTERVAL = 16384
ERRORS = 5  # standard errors: one of a million estimates lies further off
REFUSED = (["--min-size", "64"], ["--pages", "1s"], ["--source", "pages"], ["--no-alloc"],
           ["--live-totals"], ["--trigger", "live>1G"], ["--events", "mmap"])


MEMSIGHT = sys.argv[1]


def report(run, *options):
    return whole.run([MEMSIGHT, "report", run.trace, *options])


def truth_of(run):
    lines = (line.split() for line in run.output.splitlines())
    return {name: [int(number) for number in numbers] for name, *numbers in lines}


def estimates(run):
    """By the function that made the blocks: its row of --sites."""
    rows = json.loads(report(run, "--sites", "--format", "json", "-n", "0"))
    found = {}
    for row in rows:
        names = row["allocated at"].replace("\u203a", " ").split()
        for name in names:
            found.setdefault(name, []).append(row)
    return found


def check_estimates(checks, run, truth):
    """Returns how many of the intervals hold the truth, and of how many."""
    held = total = 0
    errors = dict(run.ask(
        "SELECT function, sum(variance) FROM site JOIN stack_line USING (stack_id)"
        " WHERE function IS NOT NULL GROUP BY function"))
    found = estimates(run)
    for name, (n, n_bytes, _, n_left) in truth.items():
        rows = found.get(name, [])
        checks.that(rows, f"{name}: no row of --sites")
        in_all = sum(row["in all"] for row in rows)
        error = math.sqrt(errors.get(name, 0))
        checks.that(abs(in_all - n_bytes) <= ERRORS * error,
                    f"{name}: {in_all} bytes of {n_bytes}, error {error:.0f}")
        checks.that((sum(row["not freed"] for row in rows) > 0) == (n_left > 0),
                    f"{name}: not freed {rows}")
        for row in rows:
            checks.that(row["in all, low"] <= row["in all"] <= row["in all, high"], f"{row}")
        if len(rows) > 1:  # call stacks that a compiler made several of
            continue
        held += rows[0]["in all, low"] <= n_bytes <= rows[0]["in all, high"]
        held += rows[0]["blocks, low"] <= n <= rows[0]["blocks, high"]
        total += 2
    return held, total


def check_weights(checks, run):
    """Each block stands for 1 / (1 - exp(-(size + 1) / interval))."""
    rows = run.ask("SELECT DISTINCT size, stands_for FROM allocation")
    checks.that(rows, "no block was picked")
    for size, weight in rows:
        expected = -1 / math.expm1(-(size + 1) / INTERVAL)
        checks.that(math.isclose(weight, expected, rel_tol=1e-12), f"{size}: weight {weight}")


def check_ends(checks, run, truth):
    """Of what is freed each picked block has its end; no end is of a block that was not picked."""
    wrong = run.ask(
        "SELECT DISTINCT function FROM allocation JOIN stack_line USING (stack_id)"
        " WHERE freed_ns IS NULL AND function IS NOT NULL")
    kept = {name for name, numbers in truth.items() if numbers[3]}
    checks.that({name for name, in wrong} & set(truth) == kept, f"not freed: {wrong}")
    for name in "missed_frees", "unrecorded_frees", "before_trace_frees", "early_frees":
        n = run.one("SELECT value FROM total WHERE name = ?", name)
        checks.that(n == 0, f"{n} {name}")
    checks.that(run.one("SELECT count(*) FROM allocation JOIN stack_line USING (stack_id) WHERE"
                        " function = 'for_another_thread' AND thread_id = freed_thread_id") == 0,
                "a block of another thread was freed by its own")
    checks.that(run.one("SELECT value FROM total WHERE name = 'inherited_frees'") > 0,
                "the child's frees")
    checks.that(not run.losses(), f"losses {run.losses()}")


def check_words(checks, run):
    checks.that("estimates: allocations" in report(run), "the first screen does not estimate")
    for name in "--sites", "--leaks", "--peak", "--threads", "--histogram", "--flat":
        text = " ".join(report(run, name).split())
        checks.that("estimates from" in text, f"{name} does not say that it estimates: {text}")
    for name in "--unused", "--temporary", "--hot":
        text = report(run, name)
        checks.that("Not known: blocks were picked" in text, f"{name}: {text}")


def check_export(checks, run):
    """A call tree cannot say that it estimates: who writes it does."""
    export = whole.Outcome([MEMSIGHT, "export", run.trace, "--format", "folded", "-o",
                            run.trace + ".folded"])
    checks.that(export.status == 0 and "are estimates from" in export.messages, export.messages)


def check_refusals(checks, memsight):
    for options in REFUSED:
        done = subprocess.run([memsight, "record", "--sample-bytes", "4K", *options, "--", "true"],
                              capture_output=True, text=True)
        checks.that(done.returncode == 2 and len(done.stderr.splitlines()) == 1,
                    f"{options}: exit {done.returncode}, {done.stderr}")


def main(memsight, victim, n_runs="1"):
    checks = whole.Checks()
    held = total = 0
    for number in range(int(n_runs)):
        run = whole.Recording(memsight, [victim], ["--sample-bytes", str(INTERVAL), "--source",
                                                   "none"])
        truth = truth_of(run)
        more = check_estimates(checks, run, truth)
        held, total = held + more[0], total + more[1]
        if number == 0:
            check_weights(checks, run)
            check_ends(checks, run, truth)
            check_words(checks, run)
        check_export(checks, run)
    print(f"{held} of {total} intervals hold the truth: {100 * held / total:.1f} %")
    if int(n_runs) > 1:
        share = held / total
        # Large blocks are nearly all picked, and their intervals hold more often than they say.
        checks.that(0.93 <= share <= 0.985, f"{share} of the intervals")
    check_refusals(checks, memsight)
    checks.end()


main(*sys.argv[1:])
