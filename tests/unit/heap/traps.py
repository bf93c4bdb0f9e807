#!/usr/bin/env python3
"""What a heap of a memory kind can get wrong: the program says the same with each kind as without.
Arguments: memsight, the victim, and `storms`: forks and exits while threads allocate, many of them.
"""
import os
import sys
import tempfile

from kinds import all_kinds, is_here
from whole import Checks, Outcome, environment

CASES = [
    "foreign", "fork", "storm", "output", "exit", "nothing", "zeros", "realloc", "align", "errno",
    "full", "descriptors", "copies", "early", "handler", "stdio"
]


def record(memsight, folder, options, command, variables):
    return Outcome([
        memsight, "record", "-q", "-f", "-o",
        os.path.join(folder, "run.mst"), *options, "--", *command
    ], env=environment(**variables))


def compare(checks, memsight, victim, folder, kind, variables):
    """Kinds that are bound to nodes differ in nothing but the nodes: they take fewer cases."""
    cases = CASES if kind.startswith(
        ("default", "pmem")) else ["foreign", "fork", "output", "align", "stdio"]
    for case in cases:
        plain = Outcome([victim, case])
        checks.that(plain.status == 0, f"{case} without us: {plain.stdout[-300:]!r}")
        placed = record(memsight, folder, ["--heap", kind], [victim, case], variables)
        for name in ("status", "stdout"):
            checks.that(getattr(plain, name) == getattr(placed, name),
                        f"{kind} {case}: {name} {getattr(plain, name)!r:.300} and "
                        f"{getattr(placed, name)!r:.300}; {placed.messages} {placed.stderr!r:.300}")


def check_copies(checks, memsight, victim, folder, kind):
    """A file's pages stay the file's, in the child's copy of the heap, too."""
    lines = record(memsight, folder, ["--heap", kind], [victim, "copies"], {}).stderr.decode()
    print(kind, lines.replace("\n", "; "))
    # Maps of DAX have no resident pages that are counted.
    in_memory = kind.startswith("pmem:/dev/shm")
    checks.that(
        lines.count("shared yes, copied 0 KiB" if in_memory else "copied 0 KiB") == 3,
        f"{kind}: {lines}")


def check_full(checks, memsight, victim, folder, kind):
    """200 MiB do not fit into 64: ENOMEM, or libc's heap where that was asked for."""
    small = kind.rsplit(",", 1)[0] + ",64M"
    full = record(memsight, folder, ["--heap", small], [victim, "full"], {})
    checks.that(full.status == 0 and full.stderr.endswith(b" MiB, ENOMEM\n"),
                f"{small}: {full.stderr}")
    spilled = record(memsight, folder, ["--heap", small, "--spill"], [victim, "full"], {})
    checks.that(spilled.stderr == b"200 MiB, no end\n", f"{small} --spill: {spilled.stderr}")
    print(small, full.stderr, spilled.stderr)


def check_crossing(checks, memsight, victim, folder, kind):
    """Small blocks stay in libc: realloc crosses the border all the time."""
    for case in ("realloc", "foreign", "fork", "align"):
        outcome = record(memsight, folder, ["--heap", kind, "--heap-min", "4000"], [victim, case],
                         {})
        checks.that(outcome.status == 0 and outcome.stdout == Outcome([victim, case]).stdout,
                    f"{kind} {case} from 4000 bytes: {outcome.stdout[-300:]!r}")


def check_storms(checks, memsight, victim, folder, n_forks, n_exits):
    for kind in [
            kind for name, (kind, _) in all_kinds().items() if name.startswith(("default", "pmem"))
    ]:
        for case, n in [("storm", n_forks), ("exit", n_exits)]:
            outcome = record(memsight, folder, ["--heap", kind, "--wait", "child"],
                             [victim, case, str(n)], {})
            checks.that(outcome.status == 0, f"{kind}: {n} of {case}: {outcome.stdout[-300:]!r}")
            print(f"{kind}: {n} of {case}")


def main():
    memsight, victim, *storms = sys.argv[1:]
    checks = Checks()
    if storms:
        with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
            check_storms(checks, memsight, victim, folder, 1000, 300)
        checks.end()
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        for name, (kind, variables) in all_kinds().items():
            if not is_here(memsight, kind, variables, folder):
                continue
            compare(checks, memsight, victim, folder, kind, variables)
            if name.startswith("pmem"):
                check_copies(checks, memsight, victim, folder, kind)
            if name.startswith("pmem") or name == "default":
                check_full(checks, memsight, victim, folder, kind)
                check_crossing(checks, memsight, victim, folder, kind)
    checks.end()


main()
