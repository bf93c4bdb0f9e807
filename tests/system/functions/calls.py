#!/usr/bin/env python3
"""Functions as regions, left in every way there is: each call is counted once, and what the program
does is as without us. Arguments: memsight, victims."""
import ctypes
import json
import os
import struct
import subprocess
import sys
import tempfile

import whole

MEMSIGHT = os.path.abspath(sys.argv[1])
VICTIMS = [os.path.abspath(path) for path in sys.argv[2:]]
checks = whole.Checks()

PR_SET_MDWE = 65 # Linux 6.3
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SYS_MPROTECT = 38, 22, 10

# Those whose frame is thrown away by what they call, each time or by every second or third call.
LEFT = {"f_throws", "f_passes", "f_jumps", "f_raises", "f_handler", "f_ends_thread", "f_thread"}
# Called by main's helpers alone: whatever was left before is no longer around them.
OUTERMOST = ("f_after", "f_sets", "f_even", "f_coroutine")


def counts_of(output):
    return {line.split()[1]: int(line.split()[2])
            for line in output.decode().splitlines() if line.startswith("count ")}


def record(folder, victim, *options):
    trace = os.path.join(folder, "calls.mst")
    outcome = whole.Outcome([MEMSIGHT, "record", "--quiet", "--force", "-o", trace,
                             "--function-include", "^f_", *options, "--", victim])
    database = os.path.join(folder, "calls.db")
    if os.path.exists(database):
        os.unlink(database)
    whole.run([MEMSIGHT, "analyze", "-o", database, trace])
    return outcome, whole.Database(database)


def check_counts(name, plain, database):
    """Trips are the calls that the program has counted itself."""
    expected = counts_of(plain.stdout)
    found = dict(database.ask("SELECT name, sum(n_trips) FROM region_total GROUP BY name"))
    for function, n in expected.items():
        checks.that(found.get(function, 0) == n,
                    f"{name}: {function}: {found.get(function)} trips, {n} calls")
    checks.that(len(found) == len(expected), f"{name}: {set(found) - set(expected)}")
    check_depth(name, database)
    checks.that(not any(source in ("tracealloc", "functions", "memsight.h")
                        for source, _ in database.losses()), f"{name}: {database.losses()}")


def check_calls(folder, victim, *options):
    plain = whole.Outcome([victim])
    outcome, database = record(folder, victim, *options)
    name = f"{os.path.basename(victim)} {options}"
    for difference in outcome.differs_from(plain):
        checks.that(False, f"{name}: {difference}")
    check_counts(name, plain, database)
    return database


def deny_by_kernel():
    return ctypes.CDLL(None).prctl(PR_SET_MDWE, 1, 0, 0, 0)


def deny_by_filter():
    """A filter of seccomp lets nobody make memory executable by mprotect: EACCES, as SELinux."""
    libc = ctypes.CDLL(None)
    program = b"".join(struct.pack("HBBI", *line) for line in (
        (0x20, 0, 0, 0), (0x15, 0, 3, SYS_MPROTECT), # load the number; another one: allowed
        (0x20, 0, 0, 32), (0x45, 0, 1, 4), # the third argument; no PROT_EXEC: allowed
        (0x06, 0, 0, 0x00050000 | 13), (0x06, 0, 0, 0x7fff0000)))
    code = ctypes.create_string_buffer(program)
    filter_of = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    return libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or \
        libc.prctl(PR_SET_SECCOMP, 2, filter_of, 0, 0)


def check_denied(folder, victim, name, deny):
    """Where nobody may make code the program runs as it is, and that is said."""
    trace = os.path.join(folder, name + ".mst")
    if subprocess.run(["true"], preexec_fn=lambda: deny() and os._exit(1), check=False).returncode:
        print(f"not measured: this kernel has no {name}")
        return
    outcome = whole.Outcome([MEMSIGHT, "record", "-q", "-o", trace, "--function-include", "^f_",
                             "--", victim], preexec_fn=deny)
    for difference in outcome.differs_from(whole.Outcome([victim])):
        checks.that(False, f"{name}: {difference}")
    whole.run([MEMSIGHT, "analyze", trace])
    database = whole.Database(trace + ".db")
    losses = [reason for _, reason in database.losses()]
    checks.that(database.one("SELECT count(*) FROM region_total") == 0 and
                any("left as they were" in reason for reason in losses), f"{name}: {losses}")


def check_unwinder(folder, victim):
    """Of a static program whose unwinder is not known functions stay as they are."""
    other = os.path.join(folder, "unwinder")
    whole.run(["objcopy", "--redefine-sym", "_Unwind_Find_FDE=other_find", victim, other])
    outcome, database = record(folder, other)
    for difference in outcome.differs_from(whole.Outcome([victim])):
        checks.that(False, f"another unwinder: {difference}")
    losses = [reason for _, reason in database.losses()]
    checks.that(database.one("SELECT count(*) FROM region_total") == 0 and
                database.one("SELECT count(*) FROM allocation") > 0 and
                any("left as they were" in reason for reason in losses), f"unwinder: {losses}")


def check_copy(folder, victim):
    """A copy has the choice in it; where there is nothing to choose, the program runs."""
    copy = os.path.join(folder, "copy")
    names = os.path.join(folder, "names")
    plain = whole.Outcome([victim])
    with open(names, "w", encoding="ascii") as file:
        file.write("f_*\n")
    whole.run([MEMSIGHT, "instrument", "-q", "-o", copy, "--trace", copy + ".mst",
               "--function-list", os.path.basename(names), "--", victim], cwd=folder)
    outcome = whole.Outcome([copy])
    for difference in outcome.differs_from(plain):
        checks.that(False, f"a copy: {difference}")
    whole.run([MEMSIGHT, "analyze", copy + ".mst"])
    check_counts("a copy", plain, whole.Database(copy + ".mst.db"))
    with open(names, "w", encoding="ascii") as file:
        file.write("nothing_of_it\n")
    os.unlink(copy + ".mst")
    outcome = whole.Outcome([copy])
    checks.that(not outcome.differs_from(plain) and "runs unrecorded" in outcome.messages,
                f"a copy without functions: {outcome.messages}")


def check_series(folder, victim):
    """Modes of a series choose, each of the programs that it runs; a wrong choice ends it first."""
    config = os.path.join(folder, "series.ini")

    def run_series(*settings):
        with open(config, "w", encoding="ascii") as file:
            file.write("\n".join(["[series]", "output = results", "repetitions = 1",
                                  "[workload calls]", "command = " + victim, "[mode chosen]",
                                  *settings, ""]))
        return whole.Outcome([MEMSIGHT, "run", "-q", config], cwd=folder)

    wrong = run_series("function-include = f_(")
    checks.that(wrong.status != 0, f"a wrong expression: {wrong.status} {wrong.messages}")
    wrong = run_series("trips-only = yes")
    checks.that(wrong.status == 2 and "--trips-only" in wrong.messages, f"{wrong.messages}")
    with open(os.path.join(folder, "names"), "w", encoding="ascii") as file:
        file.write("f_*\n")
    done = run_series("function-list = names")
    checks.that(done.status == 0, f"a series: {done.messages}")
    check_counts("a series", whole.Outcome([victim]),
                 whole.Database(os.path.join(folder, "results", "memsight.db")))


def check_flat(folder, name, database):
    """--functions has each function once, its own time as all its paths, and no more than all."""
    trace = os.path.join(folder, "calls.mst")
    rows = json.loads(whole.run([MEMSIGHT, "report", trace, "--functions", "-n", "0", "--format",
                                 "json"]))
    own = dict(database.ask("SELECT name, sum(own_ns) FROM region_total GROUP BY name"))
    trips = dict(database.ask("SELECT name, sum(n_trips) FROM region_total GROUP BY name"))
    checks.that({row["function"]: row["own"] for row in rows} == own and
                {row["function"]: row["trips"] for row in rows} == trips and
                len(rows) == len(own), f"{name}: --functions has {rows}")
    checks.that([row["own"] for row in rows] == sorted(own.values(), reverse=True),
                f"{name}: --functions is in another order")
    outermost = database.one("SELECT sum(all_ns) FROM region_total WHERE parent_id IS NULL")
    wrong = [row for row in rows if not row["own"] <= row["time"] <= outermost]
    checks.that(not wrong, f"{name}: {wrong}")


def check_depth(name, database):
    """What an exception, longjmp or pthread_exit has left is over, and nothing else is."""
    left = dict(database.ask("SELECT name, sum(n_left_open) FROM region_total GROUP BY name"))
    for function, n in left.items():
        checks.that(n == 0 or function in LEFT, f"{name}: {n} calls of {function} were left open")
    checks.that(left["f_jumps"] == 1000 and left["f_throws"] == 400 and left["f_passes"] == 400,
                f"{name}: left {left}")
    for function in OUTERMOST:
        around = database.ask("SELECT around.name FROM region_total AS part JOIN region_total AS"
                              " around ON around.id = part.parent_id WHERE part.name = ?",
                              function)
        checks.that(not around, f"{name}: {function} is called by {around}")
    wrong = database.ask("SELECT name, all_ns, own_ns FROM region_total WHERE own_ns > all_ns OR"
                         " own_ns < 0")
    checks.that(not wrong, f"{name}: {wrong}")


def check_stacks(name, database):
    """A call stack shows the program's return addresses, none of ours."""
    ours = database.one("SELECT count(*) FROM stack JOIN frame ON frame.id = frame_id"
                        " WHERE ((path LIKE '%libtracealloc%' OR path LIKE '%libmemsight_agent%')"
                        " AND function <> 'backtrace') OR path = ''")
    checks.that(ours == 0, f"{name}: {ours} frames of ours")
    stacks = database.one("SELECT count(*) FROM allocation WHERE stack_id = 0")
    checks.that(stacks == 0, f"{name}: {stacks} blocks without a call stack")


def check_trips(folder, victim):
    """--trips-only: the same numbers, and no times."""
    plain = whole.Outcome([victim])
    outcome, database = record(folder, victim, "--trips-only")
    for difference in outcome.differs_from(plain):
        checks.that(False, f"--trips-only: {difference}")
    found = dict(database.ask("SELECT name, n_trips FROM function_trips"))
    checks.that(found == counts_of(plain.stdout), f"--trips-only: {found}")
    checks.that(database.one("SELECT count(*) FROM region_total") == 0, "--trips-only: regions")
    rows = json.loads(whole.run([MEMSIGHT, "report", os.path.join(folder, "calls.mst"),
                                 "--functions", "-n", "0", "--format", "json"]))
    checks.that({row["function"]: row["trips"] for row in rows} == found and
                all(row["time"] is None for row in rows), f"--trips-only: {rows}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for victim in VICTIMS:
            database = check_calls(folder, victim)
            check_stacks(victim, database)
            check_flat(folder, victim, database)
            if victim.endswith("static"):
                check_unwinder(folder, victim)
        check_trips(folder, VICTIMS[-1])
        check_denied(folder, VICTIMS[-1], "PR_SET_MDWE", deny_by_kernel)
        check_denied(folder, VICTIMS[-1], "seccomp", deny_by_filter)
        check_copy(folder, VICTIMS[-1])
        check_series(folder, VICTIMS[-1])
        check_calls(folder, VICTIMS[-1], "--stacks", "fp")
        check_calls(folder, VICTIMS[-1], "--stacks", "none")
    checks.end()


if __name__ == "__main__":
    main()
