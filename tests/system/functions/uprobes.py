#!/usr/bin/env python3
"""Functions by probes of the kernel: as exact as by jumps, and nothing of the program is changed.
An ordinary user is told what to do, and the program does not run.
Arguments: memsight, victim-probed, victim-calls."""
import json
import os
import signal
import subprocess
import sys
import tempfile

import calls
import whole

MEMSIGHT, VICTIM, CALLS = (os.path.abspath(path) for path in sys.argv[1:4])
CHOICE = ["--function-method", "uprobe", "--function-include", "^p_"]
TRIPS = dict.fromkeys(("p_blocks", "p_jumps", "p_far", "p_falls", "p_table", "p_outer"), 500)
TRIPS["p_nothing"] = 1500
checks = calls.checks


def database_of(trace):
    whole.run([MEMSIGHT, "analyze", "-f", trace])
    return whole.Database(trace + ".db")


def check_trips(name, database):
    found = dict(database.ask("SELECT name, sum(n_trips) FROM region_total GROUP BY name"))
    checks.that(found == TRIPS, f"{name}: {found}")
    left = database.one("SELECT sum(n_left_open) FROM region_total")
    checks.that(left == 0, f"{name}: {left} calls were left open")
    wrong = database.ask("SELECT around.name FROM region_total AS part LEFT JOIN region_total AS"
                         " around ON around.id = part.parent_id WHERE part.name NOT IN ('p_outer',"
                         " 'p_nothing') AND around.name IS NOT 'p_outer'")
    checks.that(not wrong, f"{name}: called by {wrong}")
    lost = [row for row in database.losses() if row[0] in ("uprobes", "functions", "tracealloc")]
    checks.that(not lost, f"{name}: {lost}")


def check_record(folder, name, *options, **how):
    trace = os.path.join(folder, "record.mst")
    outcome = whole.Outcome([MEMSIGHT, "record", "-q", "--force", "-o", trace, *CHOICE, *options,
                             "--", VICTIM], **how)
    for difference in outcome.differs_from(whole.Outcome([VICTIM])):
        checks.that(False, f"{name}: {difference}")
    database = database_of(trace)
    check_trips(name, database)
    return database


def check_blocks(database):
    """What a function allocates is its own, and that of who called it."""
    for function, own in (("p_blocks", 1000), ("p_outer", 0)):
        row = database.ask("SELECT sum(own_blocks), sum(all_blocks), sum(all_bytes) FROM"
                           " region_total WHERE name = ?", function)[0]
        checks.that(row == (own, 1000, 100000), f"{function}: blocks {row}")
    taken = database.ask("SELECT sum(n), sum(ns) > 0 FROM own_time WHERE kind = 'uprobes'")[0]
    kind = database.one("SELECT measures FROM source WHERE name = 'uprobes'")
    checks.that(kind == "tasks", f"uprobes are samples of {kind}")
    # Of each call what the function has, and what its caller has.
    n_calls = sum(TRIPS.values())
    checks.that(taken == (2 * n_calls - TRIPS["p_outer"], 1), f"taken out: {taken}")


def on_one_cpu():
    """Each CPU has a buffer of its own."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def check_lost(folder):
    """What finds the kernel's buffer full is counted: each of 80,000 entries and exits."""
    trace = os.path.join(folder, "lost.mst")
    outcome = whole.Outcome([MEMSIGHT, "record", "-q", "-o", trace, *CHOICE[:2],
                             "--function-include", "^p_falls$", "--no-alloc", "--source", "none",
                             "--", VICTIM, "late"], preexec_fn=on_one_cpu)
    checks.that(outcome.status == 0, f"lost: {outcome.messages}")
    database = database_of(trace)
    taken, lost = database.ask("SELECT n_taken, n_lost FROM source_ledger JOIN source ON source.id"
                               " = source_id WHERE name = 'uprobes'")[0]
    checks.that(taken + lost == 80000 and lost > 0, f"lost: {taken} taken, {lost} lost")
    counted = [count for source, count in database.ask("SELECT source, count FROM loss")
               if source == "uprobes"]
    checks.that(counted == [lost], f"lost: {lost}, as losses {counted}")


def check_attached(folder):
    trace = os.path.join(folder, "attached.mst")
    with subprocess.Popen([VICTIM, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as of:
        with subprocess.Popen([MEMSIGHT, "attach", str(of.pid), "-o", trace, *CHOICE],
                              stderr=subprocess.PIPE, text=True) as recorder:
            said = recorder.stderr.readline()
            of.stdin.write(b"x")
            of.stdin.flush()
            of.stdout.read(1)
            recorder.send_signal(signal.SIGINT)
            said += recorder.stderr.read()
            checks.that(recorder.wait() == 0, f"attach: {said}")
        of.stdin.write(b"x")
        of.stdin.close()
        checks.that(of.wait() == 0, f"attach: the program ended with {of.returncode}")
    check_trips("attach", database_of(trace))


def probes_now():
    """What is left in tracefs, where somebody has mounted it."""
    for path in "/sys/kernel/tracing/uprobe_events", "/sys/kernel/debug/tracing/uprobe_events":
        if os.path.exists(path):
            with open(path, encoding="ascii") as file:
                return [line for line in file if "memsight_" in line]
    return []


def check_refusals(folder, lacks_rights):
    """lacks_rights: of the user who asks."""
    trace = os.path.join(folder, "refused.mst")
    for options, word in ((["--trips-only"], "--trips-only"), (["--mode", "region"], "--mode")):
        outcome = whole.Outcome([MEMSIGHT, "record", "-o", trace, *CHOICE, *options, VICTIM])
        checks.that(outcome.status == 2 and word in outcome.messages,
                    f"{options}: {outcome.messages}")
    outcome = whole.Outcome([MEMSIGHT, "record", *CHOICE[:2], "-o", trace, VICTIM])
    checks.that(outcome.status == 2 and "--function-include" in outcome.messages,
                f"no functions: {outcome.messages}")
    rows = json.loads(whole.run([MEMSIGHT, "record", "-q", "--functions-dry-run", "--format",
                                 "json", *CHOICE, VICTIM]))
    checks.that({row["function"]: row["how"] for row in rows} == dict.fromkeys(TRIPS, "uprobe"),
                f"dry run: {rows}")
    if lacks_rights:
        outcome = whole.Outcome([MEMSIGHT, "record", "-o", trace, *CHOICE, "--", "touch",
                                 os.path.join(folder, "ran")])
        checks.that(outcome.status == 1 and "for root" in outcome.messages and
                    "sudo" in outcome.messages and len(outcome.messages.splitlines()) == 1,
                    f"without rights: {outcome.status} {outcome.messages}")
        checks.that(not os.path.exists(os.path.join(folder, "ran")), "the program ran")


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_refusals(folder, os.geteuid() != 0)
        if os.geteuid() != 0:
            checks.end()
            return
        tried = whole.Outcome([MEMSIGHT, "record", "-q", "-o", os.path.join(folder, "try.mst"),
                               *CHOICE, "--", VICTIM])
        if tried.status != 0 and "no uprobes" in tried.messages:
            whole.skip(tried.messages)
        check_blocks(check_record(folder, "record"))
        check_record(folder, "--no-alloc", "--no-alloc", "--source", "none")
        check_record(folder, "PR_SET_MDWE", preexec_fn=calls.deny_by_kernel)
        check_attached(folder)
        check_lost(folder)
        calls.check_calls(folder, CALLS, "--function-method", "uprobe", "--source", "none")
        left = [line for line in probes_now() if f"memsight_{os.getpid()}_" in line]
        checks.that(not left, f"left behind: {left}")
    checks.end()


if __name__ == "__main__":
    main()
