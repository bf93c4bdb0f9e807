#!/usr/bin/env python3
"""Programs that we did not write, untraced and recorded: the same output and exit status, nothing
on standard error but memsight's own lines, and a database that adds up.

usage: foreign.py MEMSIGHT CASE          one case, as a test
       foreign.py MEMSIGHT --table [CASE...] [--rounds N] [--heaptrack]
                                         what recording costs each, as rows of docs/compatibility.md
       foreign.py MEMSIGHT --keep FOLDER CASE   leave inputs, trace and database there
"""
import argparse
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import programs
import servers
from whole import Checks, Database, Outcome, environment, skip

CASES = {case.name: case for case in [*programs.CASES, *servers.CASES]}

ALIVE_TWICE = """
SELECT count(*) FROM (
    SELECT allocated_ns, lag(coalesce(freed_ns, 9223372036854775807))
        OVER (PARTITION BY process_id, address ORDER BY allocated_ns, id) AS died_before
    FROM allocation)
WHERE allocated_ns < died_before"""

SHARES = """
SELECT count(*) FROM (SELECT sum(share) AS s FROM touch GROUP BY sample_id, role)
WHERE s NOT BETWEEN 0.999 AND 1.001"""

# Of single samples: their program ended before its code could be read.
BUSY = {"no code bytes: not attributed", "code that changed around them: not attributed"}

TRACES = {
    "default": [],
    "no samples": ["--source", "none"],
}


def why_not_here(case):
    """The reason why a case cannot run on this machine, or None."""
    for command in case.needs:
        if not shutil.which(command):
            return f"{command} is not installed (package {case.package})"
    return (case.unlike_root if os.geteuid() == 0 else case.only_root) or None


def prepare(case, folder):
    (folder / "input").mkdir()
    if case.prepare:
        case.prepare(case, folder / "input")


def cpu_seconds():
    """Of all that was started here and has ended, a tool's own processes among them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def perform(case, folder, wrap):
    """Run it once, in a fresh folder; wrap makes the command that runs the command."""
    shutil.rmtree(folder / "work", ignore_errors=True)
    (folder / "work").mkdir()
    start, cpu_before = time.monotonic(), cpu_seconds()
    if isinstance(case, servers.Server):
        outcome = servers.serve(case, folder, wrap)
    else:
        outcome = Outcome(case.wrapped(folder, wrap), env=environment(
            LC_ALL="C.UTF-8", **case.variables), timeout=case.timeout, cwd=folder / "work",
                          stdin=subprocess.DEVNULL)
        outcome.figure = time.monotonic() - start
    outcome.cpu = cpu_seconds() - cpu_before
    outcome.stdout, outcome.stderr = case.masked(outcome.stdout), case.masked(outcome.stderr)
    return outcome


def record(memsight, trace, *options):
    return lambda words: [memsight, "record", "--force", "-o", str(trace), *options, "--", *words]


def programs_of(database):
    """Blocks by name of program, and who was not traced, why."""
    blocks, untraced = {}, set()
    for exe, command, traced, why_not, n in database.ask("""
            SELECT exe, command, traced, why_not,
                   (SELECT count(*) FROM allocation WHERE process_id = process.id) FROM process"""):
        name = os.path.basename(exe or command.split(" ")[0])
        blocks[name] = blocks.get(name, 0) + n
        if not traced:
            untraced.add((name, why_not))
    return blocks, untraced


def check_sums(checks, database):
    n_blocks = database.one("SELECT count(*) FROM allocation")
    print(f"{n_blocks} blocks in {database.one('SELECT count(*) FROM process')} images")
    for what, sql in [("in the totals", "SELECT value FROM total WHERE name = 'allocations'"),
                      ("of all sites", "SELECT coalesce(sum(n_blocks), 0) FROM site")]:
        found = database.one(sql)
        checks.that(found == n_blocks, f"{n_blocks} blocks, {found} {what}")
    for what, sql in [("blocks live twice on one address", ALIVE_TWICE),
                      ("samples whose shares do not add up to 1", SHARES),
                      ("blocks die before their birth",
                       "SELECT count(*) FROM allocation WHERE freed_ns < allocated_ns"),
                      ("frees were missed", "SELECT count(*) FROM allocation WHERE end_kind = 3")]:
        found = database.one(sql)
        checks.that(found == 0, f"{found} {what}")


def check_untraced(checks, case, database, untraced):
    """On a busy machine a program may wait for its recorder in vain, which is said: one in 20 may.
    """
    n_late = database.one("SELECT count(*) FROM process WHERE why_not = 'said no hello'")
    n_images = database.one("SELECT count(*) FROM process")
    checks.that(n_late * 20 <= n_images, f"{n_late} of {n_images} images said no hello")
    found = {one for one in untraced if one[1] != "said no hello"} - case.perhaps
    checks.that(found == case.untraced, f"not traced are {untraced}, not {set(case.untraced)}")


def check_database(checks, case, database):
    checks.that(database.one("SELECT ended_cleanly FROM run") == 1, "the trace ended cleanly")
    check_sums(checks, database)
    losses = {reason: count for (_, reason), count in database.losses().items()}
    print("losses:", losses)
    late = {"image not traced: the recorder answered too late"} if database.one(
        "SELECT count(*) FROM process WHERE why_not = 'said no hello'") else set()
    checks.that(
        set(losses) <= set(case.losses) | late | BUSY, f"losses that nobody expects: {losses}")
    blocks, untraced = programs_of(database)
    print("blocks of each program:", blocks, "not traced:", untraced or "none")
    check_untraced(checks, case, database, untraced)
    for name in case.blocks:
        found = sum(n for program, n in blocks.items() if program.startswith(name))
        checks.that(found > 0, f"blocks of {name} are recorded: {blocks}")


def compare(checks, case, plain, traced, what):
    for difference in plain.differs_from(traced):
        checks.that(False, f"{what}, untraced and recorded: {difference[:2000]}")
    checks.that(
        case.status is None or plain.status == case.status,
        f"untraced the program ends with {case.status}: {plain.status}, {plain.stderr[-1000:]}")


def test(memsight, case, folder):
    checks = Checks()
    prepare(case, folder)
    plain = perform(case, folder, lambda words: words)
    trace = folder / "run.mst"
    for what, options in TRACES.items():
        traced = perform(case, folder, record(memsight, trace, *options))
        print(f"-- {what}\n{traced.messages}", end="")
        compare(checks, case, plain, traced, what)
        path = folder / f"run-{options[-1] if options else 'default'}.db"
        subprocess.run([memsight, "analyze", "--force", "-o", path, trace], check=True, timeout=600)
        check_database(checks, case, Database(path))
        report = subprocess.run([memsight, "report", path], check=True, timeout=100,
                                stdout=subprocess.PIPE, text=True).stdout
        print(report)
        checks.that(case.says in report, f"the report says {case.says!r}")
    checks.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memsight", type=pathlib.Path)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--heaptrack", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    arguments = parser.parse_intermixed_args()
    if arguments.table:
        import table
        return table.print_table(arguments, [CASES[name] for name in arguments.cases or CASES])
    case = CASES[arguments.cases[0]]
    reason = why_not_here(case)
    if reason:
        skip(reason)
    memsight = str(arguments.memsight.resolve())
    if arguments.keep:
        arguments.keep.mkdir(parents=True)
        return test(memsight, case, arguments.keep.resolve())
    with tempfile.TemporaryDirectory(prefix="memsight-foreign-") as folder:
        return test(memsight, case, pathlib.Path(folder).resolve())


if __name__ == "__main__":
    sys.exit(main())
