#!/usr/bin/env python3
"""Lives and names of threads, each name once, with and without perf's records. Arguments: memsight,
victim."""
import sys

import whole

SILENT = 25
NAP_NS = 2000000
NAMES = ["the first", "by another", "by itself", "by file"]


def check_names(checks, run, tid, names):
    found = run.ask("SELECT name, time_ns FROM thread_name JOIN thread ON thread.id = thread_id"
                    " WHERE tid = ? AND n_events > 0 ORDER BY time_ns", tid)
    checks.that([name for name, _ in found] == names, f"names {found}, not {names}")
    times = [time for _, time in found]
    checks.that(all(b - a >= NAP_NS for a, b in zip(times, times[1:])), f"times of names {times}")
    first = run.ask(
        "SELECT name FROM thread_name JOIN thread ON thread.id = thread_id WHERE is_main"
        " ORDER BY time_ns")
    checks.that(first == [("victim-threads",), ("the first",)],
                f"the first thread's names: {first}")


def check_lives(checks, run, has_perf):
    silent = run.ask(
        "SELECT start_ns, end_ns, (SELECT group_concat(name) FROM thread_name WHERE thread_id"
        " = thread.id) FROM thread WHERE NOT is_main AND n_events = 0 ORDER BY start_ns")
    checks.that(len(silent) == (SILENT if has_perf else 0), f"{len(silent)} threads without events")
    for start, end, names in silent:
        checks.that(end is not None and end - start >= NAP_NS, f"a life from {start} to {end}")
        checks.that(names == "victim-threads", f"names {names}")
    checks.that(all(a[1] <= b[0] + 1000000 for a, b in zip(silent, silent[1:])), f"lives {silent}")
    checks.that(
        run.one("SELECT count(*) FROM thread WHERE n_events > 0") == 2, "threads with events")
    checks.that(
        run.one("SELECT count(*) FROM thread WHERE end_ns < start_ns") == 0, "lives backwards")


def check_stacks(checks, run):
    """No thread's stack is larger than what it may have: glibc gives 8 MiB and a few pages."""
    wrong = run.ask(
        "SELECT tid, stack_start, stack_end FROM thread WHERE stack_end - stack_start > ?", 1 << 30)
    checks.that(
        not wrong,
        f"stacks that reach too far: {[(tid, hex(start), hex(end)) for tid, start, end in wrong]}")


def main(memsight, victim):
    checks = whole.Checks()
    for options in [[], ["--source", "none"]]:
        run = whole.Recording(memsight, [victim], options)
        has_perf = run.one("SELECT count(*) FROM source WHERE name = 'tasks' AND error = 0") > 0
        print(f"options {options}: perf's records {'are' if has_perf else 'are not'} there")
        check_names(checks, run, int(run.output), NAMES if has_perf else NAMES[:3])
        check_lives(checks, run, has_perf)
        check_stacks(checks, run)
    checks.end()


main(*sys.argv[1:])
