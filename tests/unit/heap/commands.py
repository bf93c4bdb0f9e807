#!/usr/bin/env python3
"""Twelve programs on each memory kind of this host: the same output and status as without us.
Arguments: memsight, a C++ program with threads (or nothing where there is no compiler)."""
import os
import sys
import tempfile

from kinds import all_kinds, is_here
from whole import Checks, Outcome, environment

SQL = (
    "create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n where i "
    "< 20000)"
    " insert into t select i % 97, 'label ' || i from n; create index x on t(a);"
    " select a, count(*), max(b) from t group by a order by 2 desc, 1 limit 5;")
PYTHON = (
    "import json, subprocess; text = json.dumps([{'id': i, 'tags': ['a', str(i % 7)]} for i in "
    "range(9000)]);"
    "print(len(text), subprocess.run(['cat'], input=text, capture_output=True, text=True).stdout "
    "== text)"
)
PERL = ("my %h; $h{$_ % 1009} .= chr(65 + $_ % 26) for 1 .. 60000; print join(' ', map "
        "{ length $h{$_} } (1 .. 9)), \"\\n\"")
BASH = (
    "for i in 1 2 3; do a=$(echo $i; ls \"$1\" | wc -l); b=$(echo \"$a\" | sort | tr '\\n' ' '); "
    "echo $b $(( $(echo 4) * i )); done;"
    " (echo in a subshell; exit 3); echo $?; exit 4")
C = ("#include <stdio.h>\nint main(void) "
     "{ for (int i = 0; i < 3; i++) printf(\"%d\\n\", i * i); return 0; }\n")


def commands(folder, threaded):
    """By name; what git, tar and gcc write is read back by their command."""
    source = os.path.join(folder, "work.c")
    with open(source, "w", encoding="ascii") as file:
        file.write(C)
    lines = os.path.join(folder, "lines")
    with open(lines, "w", encoding="ascii") as file:
        file.writelines("%08x %d\n" % (i * 2654435761 % 2 ** 32, i % 1000) for i in range(60000))
    # A folder of the system may change meanwhile: somebody installs something.
    many = os.path.join(folder, "many")
    os.mkdir(many)
    for i in range(300):
        name = os.path.join(many, f"entry-{i * 7919 % 300}")
        with open(name, "w", encoding="ascii") as file:
            file.write("x" * i)
        os.utime(name, (i * 86400, i * 86400))
    git = (
        "rm -rf r && git init -q r && cd r && cp ../lines . && git add lines && "
        "git -c user.name=a -c user.email=a@b commit -qm one --date=2020-01-01T00:00:00Z && "
        "echo more >> lines && git diff --stat && git status --short && git log --format=%s && git "
        "gc -q"
    )
    found = {
        "ls": ["ls", "-lA", many],
        "sort": ["sort", "--parallel=2", lines],
        "perl": ["perl", "-e", PERL],
        "python3": ["/usr/bin/python3", "-c", PYTHON],
        "sqlite3": ["sqlite3", ":memory:", SQL],
        "gcc": ["sh", "-c", f"gcc -O2 -o {folder}/work {source} && {folder}/work"],
        "bash": ["bash", "-c", BASH, "bash", many],
        "xz": ["xz", "-1", "-T2", "-c", lines],
        "git": ["sh", "-c", f"cd {folder} && {git}"],
        "tar": ["sh", "-c", f"tar -C {folder} -cf - lines work.c | tar -tvf -"],
        "awk": [
            "awk", "{ n[$2] += length($1) } END { for (i = 0; i < 5; i++) print i, n[i] }", lines
        ],
    }
    if threaded:
        found["threads"] = [threaded]
    return found


def variables_of(more):
    return environment(LC_ALL="C", PYTHONHASHSEED="0", PYTHONMALLOC="malloc",
                       GIT_CONFIG_GLOBAL="/dev/null", **more)


def main():
    memsight, *threaded = sys.argv[1:]
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        tests = commands(folder, threaded[0] if threaded else None)
        plain = {name: Outcome(command, env=variables_of({})) for name, command in tests.items()}
        for kind, variables in all_kinds().values():
            if not is_here(memsight, kind, variables, folder):
                continue
            for name, command in tests.items():
                placed = Outcome([
                    memsight, "record", "-q", "-f", "-o",
                    os.path.join(folder, "run.mst"), "--heap", kind, "--", *command
                ], env=variables_of(variables))
                for what in plain[name].differs_from(placed):
                    checks.that(False, f"{name} on {kind}: {what:.600} {placed.messages}")
            print(f"{kind}: {len(tests)} programs")
        for name, outcome in plain.items():
            wanted = {"bash": 4, "threads": 3}.get(name, 0)
            checks.that(
                outcome.status == wanted and outcome.stdout,
                f"{name} did not do what it should: {outcome.status} {outcome.stderr!r:.300}")
    checks.end()


main()
