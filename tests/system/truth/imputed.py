#!/usr/bin/env python3
"""Time that samples leave unresolved is one number with one interval, or the range in which it
lies: the truth is in it, in each report that tells of call sites. Arguments: memsight, the victim.
"""
import json
import sys

from whole import Checks, Recording, run

# Of what the loops do beside: the truth is of the same samples, by the region in which each was
# taken, so that neither chance nor
# what the machine does to clocks is between.
# In a region, but not of its loop: its own entry, looks at the clock, drawing of numbers.
SLACK = 0.01
# What of the time of a loop is its objects': all of it, or of code that keeps its variables in
# memory one access of those that a
# turn makes: 5 to 11, as compilers count.
PARTS = {"indirect": (1, 1), "list": (1, 1), "plain": (1 / 11, 1 / 5)}


def rows(memsight, recording, *options):
    return json.loads(
        run([memsight, "report", recording.path, "--limit", "0", "--format", "json", *options]))


def ends_of(found, low, high, share):
    """The ends of an answer, and what is no answer: a number outside of them."""
    assert found[low] <= found[high], found
    if found[share] is not None:
        assert found[low] - 1e-9 <= found[share] <= found[high] + 1e-9, found
    return found[low], found[high]


def check(checks, name, truth, low, high):
    print("%-28s %5.1f - %5.1f %%: %5.1f - %5.1f" % (name, *(100 * x for x in (*truth, low, high))))
    checks.that(low - SLACK <= truth[1] and truth[0] <= high + SLACK,
                f"{name}: not in {low:.3f} - {high:.3f}: {truth}")


def check_kind(checks, memsight, victim, kind, rate):
    recording = Recording(memsight, [victim, kind], ["--source", "clock", "--freq", rate])
    recording.need_source("clock")
    spent = {row["region"]: row["CPU time"] for row in rows(memsight, recording, "--regions")}
    sites = rows(memsight, recording, "--sites")
    flat = {row["function"]: row for row in rows(memsight, recording, "--flat", "--by", "time")}
    checks.that(sorted(spent) == ["one", "two"] and sum(spent.values()) > 0.8, f"regions {spent}")
    for which, part in spent.items():
        truth = tuple(part * share for share in PARTS[kind])
        made = [row for row in sites if f"make_{which}" in row["allocated at"]]
        low, high = (sum(ends)
                     for ends in zip(*(ends_of(row, "low", "high", "time") for row in made)))
        check(checks, f"{kind} at {rate} Hz: {which}", truth, low, min(high, 1))
        functions = [row for name, row in flat.items() if name.startswith(f"make_{which}")]
        checks.that(functions, f"{kind}: --flat has nothing of make_{which}: {list(flat)}")
        low, high = (sum(ends) for ends in zip(*(ends_of(row, "self low", "self high", "self %")
                                                 for row in functions)))
        check(checks, "  --flat", truth, low, min(high, 1))
    # All of these have a part of the time, whether samples can tell so or not.
    used = {
        "indirect": ["one", "two", "one_index", "two_index"], "list": ["one_node", "two_node"],
        "plain": ["one", "two"]
    }[kind]
    for row in rows(memsight, recording, "--unused"):
        checks.that(row["allocated at"].split(" ")[0] not in [f"make_{name}" for name in used],
                    f"{kind}: --unused has {row}")
    # A run does not differ from itself, and two of a kind do not surely differ.
    told = json.loads(
        run([memsight, "diff", recording.path, recording.path, "--by", "time", "--format", "json"]))
    checks.that(told == [], f"{kind}: differs from itself: {told}")


def main():
    memsight, victim = sys.argv[1:3]
    checks = Checks()
    for kind in PARTS:
        for rate in ["997", "4999"]:
            check_kind(checks, memsight, victim, kind, rate)
    checks.end()


main()
