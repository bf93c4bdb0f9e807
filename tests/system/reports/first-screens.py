#!/usr/bin/env python3
"""Five real programs: no line of any report is wider than asked, nothing is cut unless it is said,
and each heap row of the overview begins with a line of the program where that has debug data.
Arguments: memsight, victim-cg, victim-server, a source file in C, folders of its headers."""
import os
import re
import subprocess
import sys
import tempfile

import whole

MEMSIGHT, CG, SERVER, SOURCE = map(os.path.abspath, sys.argv[1:5])
INCLUDES = [os.path.abspath(name) for name in sys.argv[5:]]
checks = whole.Checks()
COLOUR = re.compile("\033\\[[0-9;]*m")
SCRIPT = ("import json\nrows = [{'id': i, 'name': 'n%d' % i} for i in range(9000)]\n"
          "print(len(json.loads(json.dumps(rows))))")
SQL = ("CREATE TABLE t(a, b); WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000)"
       " INSERT INTO t SELECT i, 'name' || i FROM n; CREATE INDEX x ON t(b);"
       " SELECT count(*), max(b) FROM t WHERE b LIKE '%9%'")


def programs():
    """name: (command, environment, whether all its heap rows have lines)."""
    compiler = whole.run(["gcc", "-print-prog-name=cc1"]).strip()
    return {
        "cg": ([CG], {}, True),
        "server": ([SERVER], {}, True),
        "python": (["python3", "-c", SCRIPT], {"PYTHONMALLOC": "malloc"}, False),
        "sqlite3": (["sqlite3", ":memory:", SQL], {}, False),
        "cc1": ([compiler, "-quiet", "-O2", *[f"-I{name}" for name in INCLUDES], "-D_GNU_SOURCE",
                 SOURCE, "-o", os.devnull], {}, False),
    }


def report(trace, columns, *options):
    env = whole.environment(NO_COLOR="1")
    env.pop("COLUMNS", None)
    if columns:
        env["COLUMNS"] = str(columns)
    done = subprocess.run([MEMSIGHT, "report", trace, *options], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, env=env, check=False)
    checks.that(done.returncode == 0, f"{trace} {options}: {done.stderr}")
    checks.that("\033" not in done.stdout, f"{trace} {options}: colours with NO_COLOR")
    return done.stdout


def names():
    text = whole.run([MEMSIGHT, "report", "--help"])
    options = re.findall(r"^ +(--[a-z-]+) ", text.split("Selection:")[0], re.M)
    return [name for name in options if name not in ["--full", "--full-names", "--fail"]]


def check_widths(name, trace, wanted):
    for columns in [80, 100, 133, 200, None]:
        for option in wanted:
            text = report(trace, columns, *option)
            line = max(text.splitlines(), key=lambda one: len(COLOUR.sub("", one)), default="")
            checks.that(len(COLOUR.sub("", line)) <= (columns or 100),
                        f"{name} {option} at {columns}: {line}")


def with_lines(trace):
    """Names of the files whose functions have lines."""
    db = whole.Database(trace + ".db")
    return {os.path.basename(path) for path, in db.ask(
        "SELECT DISTINCT path FROM frame JOIN frame_line ON frame_id = frame.id"
        " WHERE path IS NOT NULL")}


def begins_well(row, lined, is_ours):
    """With function and line; without a line only where its file has none at all."""
    module = re.match(r"(?:.*? \()?([^ ()]*)\+0x[0-9a-f]+", row)
    if module and not re.match(r"[^<(]* \S+\.\w+:\d+", row):
        return module[1] not in lined if module[1] else not is_ours  # it has no room for the file
    return re.match(r"\S.*? \S+\.\w+:\d+", row)


def check_rows(name, trace, is_ours):
    """Rows of the overview that are of blocks: those with a number of blocks."""
    lines = report(trace, 100).splitlines()
    head = next(i for i, line in enumerate(lines) if "what it is, or where" in line)
    place = lines[head].index("what it is")
    rows = [line for line in lines[head + 1:] if re.match(r" +[≤≥]?[0-9.]+.{12,}[0-9]", line)]
    blocks = [row[place:] for row in rows if re.search(r" [0-9,]+ *$", row[:place])
              and not row[place:].startswith(("mmap", "mapping"))]
    checks.that(blocks, f"{name}: no row of blocks: {lines}")
    lined = with_lines(trace)
    checks.that(lined or not is_ours, f"{name}: nothing has lines")
    for row in blocks:
        checks.that(begins_well(row, lined, is_ours), f"{name}: {row}; with lines are {lined}")
        checks.that(not is_ours or re.match(r"\S.*? victim-\w+\.cc?:\d+", row), f"{name}: {row}")


def main():
    wanted = [[]] + [[name] for name in names()]
    checks.that(len(wanted) > 20, f"only {wanted}")
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        for name, (command, more, has_lines) in programs().items():
            trace = os.path.join(folder, name + ".mst")
            whole.run([MEMSIGHT, "record", "-q", "-o", trace, "--", *command],
                      env=whole.environment(**more))
            check_widths(name, trace, wanted)
            check_rows(name, trace, has_lines)
    checks.end()


main()
