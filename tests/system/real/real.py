#!/usr/bin/env python3
"""A real program, untraced and traced: the same output and exit status; then the database is asked
what must be true. Arguments: memsight, the case, and its own program if it has one."""
import hashlib
import inspect
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile

import inputs

SKIP = 77


def run(command, case, folder):
    """Output and status as they are; lines of memsight itself (warnings) are not the program's."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MEMSIGHT_")}
    environment.update(case.variables, LC_ALL="C", MEMSIGHT_NO_CONFIG="1")
    for made in case.made:
        made.unlink(missing_ok=True)
    with open(folder / "stdout", "wb") as out:
        result = subprocess.run(command, input=case.stdin, stdout=out, stderr=subprocess.PIPE,
                                env=environment, cwd=folder, check=False, timeout=300)
    lines = result.stderr.splitlines(keepends=True)
    own = [line for line in lines if line.startswith(b"memsight: ")]
    sys.stdout.writelines(line.decode(errors="replace") for line in own)
    return {
        "status": result.returncode,
        "stdout": hashlib.sha256((folder / "stdout").read_bytes()).hexdigest(),
        "bytes": (folder / "stdout").stat().st_size,
        "stderr": b"".join(line for line in lines if line not in own).decode(errors="replace"),
        "made": [hashlib.sha256(made.read_bytes()).hexdigest() if made.exists() else None
                 for made in case.made],
    }


class Answers:
    """The database, and what was found to be wrong in it."""

    def __init__(self, path):
        self.db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.problems = []

    def one(self, sql, *values):
        return self.db.execute(sql, values).fetchone()[0]

    def expect(self, what, found, right):
        print(f"{what}: {found}")
        if not (right(found) if callable(right) else found == right):
            self.problems.append(f"{what}: {found}")


ALIVE_TWICE = """
select count(*) from (
    select allocated_ns, lag(coalesce(freed_ns, 9223372036854775807))
        over (partition by process_id, address order by allocated_ns, id) as died_before
    from allocation)
where allocated_ns < died_before"""


def programs_of(answers):
    """Blocks of each program that ran, by the name it was started with or that its file has."""
    rows = answers.db.execute("""
        select process.exe, process.command, process.traced, process.why_not,
               (select count(*) from allocation where process_id = process.id)
        from process order by process.number""").fetchall()
    programs = {}
    for exe, command, traced, why_not, n_blocks in rows:
        print(f"process {exe} [{command[:60]}] traced {traced} {why_not or ''} blocks {n_blocks}")
        for name in {os.path.basename(exe), os.path.basename(command.split("\0")[0].split(" ")[0])}:
            programs[name] = programs.get(name, 0) + (n_blocks if traced else 0)
    return programs


def check_programs(answers, case):
    programs = programs_of(answers)
    for name in case.expected:
        aliases = {name, os.path.basename(os.path.realpath(shutil.which(name) or name))}
        n_blocks = max(programs.get(alias, -1) for alias in aliases)
        answers.expect(f"blocks of {name} (-1: not seen)", n_blocks, lambda n: n > 0)


def check_database(answers, case, status):
    answers.expect("runs", answers.one("select count(*) from run"), 1)
    answers.expect("ended cleanly", answers.one("select ended_cleanly from run"), 1)
    answers.expect("exit status",
                   os.waitstatus_to_exitcode(answers.one("select exit_status from run")), status)
    answers.expect("processes not traced", answers.one(
        "select count(*) from process where not traced"), 0)
    losses = answers.db.execute(
        "select source, reason, sum(count) from loss group by 1, 2").fetchall()
    print(f"all losses: {losses}")
    # cc1 recurses deeper than stacks are followed; processes shorter than a period have no sample.
    known = ("stack cut short", "samples that never came")
    answers.expect("losses other than deep stacks, and samples that never came",
                   [row for row in losses if not row[1].startswith(known)], [])
    stops = {
        row[0]
        for row in answers.db.execute("select distinct stop from stack where stop is not null")
    }
    answers.expect("reasons why stacks end early, other than depth", stops - {"depth"}, set())
    n_blocks = answers.one("select count(*) from allocation")
    answers.expect("blocks", n_blocks, lambda n: n > 0)
    answers.expect("total of blocks", answers.one(
        "select value from total where name = 'allocations'"), n_blocks)
    answers.expect("blocks of all sites", answers.one("select sum(n_blocks) from site"), n_blocks)
    answers.expect("blocks that die before they are born", answers.one(
        "select count(*) from allocation where freed_ns < allocated_ns"), 0)
    answers.expect("two live blocks on one address", answers.one(ALIVE_TWICE), 0)
    answers.expect("missed frees", answers.one(
        "select count(*) from allocation where end_kind = 3"), 0)
    if case.n_threads:
        answers.expect("threads", answers.one("select count(*) from thread where number > 0"),
                       case.n_threads)


def compare_runs(plain, traced, case):
    problems = [f"{key}: untraced {plain[key]}, traced {traced[key]}" for key in plain
                if plain[key] != traced[key]]
    if plain["status"] != case.status or not plain["bytes"] and not case.made:
        problems.append(f"the program itself did not do what it should: {plain}")
    return problems


def make_case(name, folder, program):
    make = getattr(inputs, name.replace("-", "_"))
    case = make(folder,
                program) if "program" in inspect.signature(make).parameters else make(folder)
    if not shutil.which(case.command[0]):
        print(f"skipped: {case.command[0]} is not installed")
        sys.exit(SKIP)
    return case


def main(memsight, name, program=None):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        case = make_case(name, folder, program)
        plain = run(case.command, case, folder)
        record = [memsight, "record", "-q", "-o", "run.mst", "--", *case.command]
        problems = compare_runs(plain, run(record, case, folder), case)
        subprocess.run([memsight, "analyze", "run.mst"], cwd=folder, check=True, timeout=300)
        answers = Answers(folder / "run.mst.db")
        check_programs(answers, case)
        check_database(answers, case, case.status)
        problems += answers.problems
    for problem in problems:
        print(f"WRONG {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(
        main(os.path.abspath(sys.argv[1]), sys.argv[2],
             *(os.path.abspath(path) for path in sys.argv[3:])))
