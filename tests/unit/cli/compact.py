#!/usr/bin/env python3
"""A compact database gives the answers of a plain one, from every door.
Arguments: memsight, make-trace, example program word-index, a folder for it to read, options.def,
libmemsight_sqlite.so."""
import contextlib
import gzip
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

import whole

MEMSIGHT, MAKE_TRACE, EXAMPLE, TREE, OPTIONS, EXTENSION = map(os.path.abspath, sys.argv[1:7])
COMPACT_TABLES = ("allocation", "sample", "touch", "access_detail")
CHUNKED_TABLES = ("allocation", "touch")
PICTURE_TABLES = ("band", "site_curve", "timeline_level", "picture", "picture_category",
                  "picture_tile")
checks = whole.Checks()
folder = tempfile.TemporaryDirectory(prefix="memsight-test-")


def make_traces():
    """Two made-up runs that make several chunks, one with samples, and one real one."""
    traces = [os.path.join(folder.name, name) for name in ("a.mst", "b.mst", "real.mst")]
    whole.run([
        MAKE_TRACE, "--kind", "mixed", "--seed", "1", "--events", "150000", "--samples", "70000",
        "--accesses", "--live", "10000", "--threads", "3", "--processes", "2", "-o", traces[0]
    ])
    whole.run(
        [MAKE_TRACE, "--kind", "realloc", "--seed", "2", "--events", "20000", "-o", traces[1]])
    whole.run([MEMSIGHT, "record", "-q", "-o", traces[2], "--", EXAMPLE, TREE])
    return traces


class Both:
    """The same question to both databases, which have the same name in folders of their own."""

    def __init__(self, traces):
        self.folders = [os.path.join(folder.name, kind) for kind in ("plain", "compact")]
        for path, options in zip(self.folders, ([], ["--no-plain"])):
            os.mkdir(path)
            whole.run([MEMSIGHT, "analyze", *options, "-o", "x.db", *traces], cwd=path)

    def ask(self, *command):
        answers = [subprocess.run([MEMSIGHT, *command], cwd=path, capture_output=True, check=False,
                                  env=whole.environment()) for path in self.folders]
        texts = " ".join(command)
        checks.that(answers[0].returncode == answers[1].returncode, f"exit status of {texts}")
        checks.that(answers[0].stderr == answers[1].stderr,
                    f"{texts}: {answers[0].stderr!r} and {answers[1].stderr!r}")
        return [answer.stdout for answer in answers]

    def same(self, *command, form=bytes.splitlines):
        """form: what of an answer must be equal."""
        plain, compact = (form(answer) for answer in self.ask(*command))
        if plain != compact:
            different = next((pair for pair in zip(plain, compact) if pair[0] != pair[1]),
                             "their lengths")
            checks.that(False, f"{' '.join(command)}: {different}")
        return len(plain)


def unordered(answer):
    return sorted(answer.splitlines())


def rounded(answer):
    """Sums of real numbers depend on their order by a last digit."""
    def walk(value):
        if isinstance(value, float):
            return f"{value:.9g}"
        if isinstance(value, list):
            return [walk(item) for item in value]
        return {key: walk(item)
                for key, item in value.items()} if isinstance(value, dict) else value
    return [json.dumps(row) for row in walk(json.loads(answer))]


def check_tables(both):
    database = sqlite3.connect(os.path.join(both.folders[0], "x.db"))
    names = [
        name for (name,) in database.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE "
            "'sqlite_%'"
        )
    ]
    for name in names:
        # The order of rows that nobody sorts is that of the tables; other plans give views another
        # one.
        form = bytes.splitlines if name in COMPACT_TABLES else unordered
        columns = "*" if name != "run" else "id, program, recording_id, duration_ns, exit_status"
        n = both.same("query", "x.db", "--format", "csv", f"SELECT {columns} FROM {name}",
                      form=form)
        checks.that(n > 66000 or name not in ("allocation", "allocs", "access"),
                    f"{name} has {n} lines only")
    for question in [
            "SELECT * FROM allocation WHERE id BETWEEN 65500 AND 65600 ORDER BY id DESC",
            "SELECT id, size FROM allocation WHERE allocated_ns > 5000000 AND"
            " allocated_ns <= 6000000 AND run_id = 1",
            "SELECT count(*), sum(size), min(id), max(id) FROM allocation WHERE freed_ns IS NULL",
            "SELECT count(*), sum(size) FROM allocation WHERE freed_ns IS NOT NULL AND address < "
            "93825000000000",
            "SELECT max(id) FROM sample", "SELECT max(rowid), count(*) FROM touch",
            "SELECT rowid, * FROM touch WHERE rowid % 5000 = 7",
            "SELECT rowid, * FROM touch WHERE rowid BETWEEN 65530 AND 65540",
            "SELECT count(*) FROM touch WHERE rowid IS NULL",
            "SELECT min(rowid), max(rowid), count(*) FROM touch WHERE rowid > 70 AND rowid < 66000 "
            "AND rowid <> 5000",
            "SELECT rowid FROM touch WHERE rowid >= 30 AND rowid <= 20",
            "SELECT rowid FROM touch WHERE rowid IN (3, 66000, -1)",
            "SELECT count(*) FROM touch WHERE rowid < 9223372036854775807 AND rowid >= "
            "-9223372036854775808",
            "SELECT count(*) FROM allocation WHERE id = '77' OR id = 5.0 "
            "OR id IN (9, 200000, NULL)",
            "SELECT count(*) FROM allocation WHERE size = NULL",
            "SELECT count(*) FROM allocation WHERE size > 30.5",
            "SELECT count(*) FROM allocation WHERE size < 'text' AND freed_ns IS 17",
            "SELECT owner_id, count(*), sum(share) FROM touch WHERE owner_kind = 1 GROUP BY 1 "
            "ORDER BY 2 DESC, 1 LIMIT 50",
            "SELECT a.id, b.size FROM allocation AS a JOIN allocation AS b ON b.id = "
            "a.previous_allocation_id"
            " ORDER BY a.id LIMIT 2000",
            "SELECT sample.id, count(*) FROM sample LEFT JOIN touch ON sample_id = sample.id"
            " WHERE time_ns BETWEEN 1000000 AND 2000000 GROUP BY 1 ORDER BY 1"
    ]:
        both.same("query", "x.db", "--format", "csv", question)


def check_reports(both):
    text = open(OPTIONS, encoding="utf-8").read()
    names = re.findall(
        r'OPTION\(\w+, IN\(REPORT\), "([\w-]+)", 0, NULL, FLAG, NULL, "What to show"', text)
    checks.that(len(names) > 15, f"only {names} in {OPTIONS}")
    names = [name for name in names if name != "fail"]
    for name in names:
        both.same("report", "x.db", "--" + name)
        for options in [[], ["--run", "3"], ["--from", "3ms", "--to", "9ms"], ["--thread", "5000"],
                        ["--addr", "555580000000-555580100000"]]:
            both.same("report", "x.db", "--" + name, "--limit", "0", "--format", "json", "--run",
                      "1", *options, form=lambda answer: rounded(answer or b"[]"))
    for run in ("1", "2", "3"):
        both.same("report", "x.db", "--run", run)


def check_exports(both):
    for form in ("folded", "chrome", "callgrind", "heaptrack-csv"):
        for run in ("1", "3"):
            both.same("export", "x.db", "--format", form, "--run", run)
    both.same("export", "x.db", "--format", "pprof", "--run", "1",
              form=lambda answer: [gzip.decompress(answer)])
    for view in ("allocation", "sample", "touch", "not_freed", "access"):
        both.same("export", "x.db", "--format", "csv", "--view", view, "--run", "1", form=unordered)
    both.same("diff", "x.db:1", "x.db:2")
    other = os.path.join(both.folders[0], "x.db")
    answer = subprocess.run([MEMSIGHT, "diff", "x.db:1", other + ":1", "--format", "json"],
                            cwd=both.folders[1], capture_output=True, check=True,
                            env=whole.environment()).stdout
    checks.that(json.loads(answer) == [], "a run differs from itself")


def check_size(both):
    sizes = [os.path.getsize(os.path.join(path, "x.db")) for path in both.folders]
    checks.that(sizes[1] * 2 < sizes[0], f"compact is {sizes[1]} bytes, plain {sizes[0]}")


def check_chunks(both):
    """A plain database has the chunks of a compact one, beside its rows."""
    for table in (f"{table}_{part}" for table in CHUNKED_TABLES for part in ("chunk", "column")):
        plain, compact = (whole.Database(os.path.join(path, "x.db")).ask(f"SELECT * FROM {table}")
                          for path in both.folders)
        checks.that(len(plain) > 0, f"{table} of a plain database is empty")
        checks.that(plain == compact, f"{table} is not that of a compact database")


def check_others(both):
    """Other programs: with the extension, and what they say without it."""
    path = os.path.join(both.folders[1], "x.db")
    shell = shutil.which("sqlite3")
    if not shell:
        print("no sqlite3: its extension is not tried")
        return
    questions = ["SELECT count(*), sum(size) FROM allocation", "SELECT count(*) FROM not_freed",
                 "SELECT sum(at_ns) FROM access"]
    load = [".load " + EXTENSION.removesuffix(".so")]
    for question in questions:
        expected = whole.run([shell, os.path.join(both.folders[0], "x.db"), question])
        found = whole.run([shell, "-cmd", *load, path, question])
        checks.that(found == expected, f"{question} in sqlite3: {found}, not {expected}")
    done = subprocess.run([shell, path, questions[0]], capture_output=True, text=True, check=False)
    checks.that("no such module: libmemsight_sqlite" in done.stderr,
                f"without extension: {done.stderr}")
    checks.that("libmemsight_sqlite" in whole.run([shell, path, "SELECT text FROM readme"]),
                "readme")


def analyze(*arguments):
    return subprocess.run([MEMSIGHT, "analyze", *arguments], capture_output=True, text=True,
                          check=False, env=whole.environment())


def pictures_of(path):
    """Rows of each table of pictures. Nothing is left of one of a run that went."""
    database = whole.Database(path)
    for table in PICTURE_TABLES:
        n = database.one(f"SELECT count(*) FROM {table} WHERE run_id NOT IN (SELECT id FROM run)")
        checks.that(n == 0, f"{path}: {n} rows of {table} belong to no run")
    return {table: database.one(f"SELECT count(*) FROM {table}") for table in PICTURE_TABLES}


def check_adding(both, traces):
    """Runs are added in the database's own way, skipped, and replaced, whatever is asked for."""
    plain, compact = (os.path.join(path, "x.db") for path in both.folders)
    pictures = pictures_of(plain)
    checks.that(pictures["band"] > 0 and pictures["picture"] > 0, f"no pictures: {pictures}")
    done = analyze("-o", compact, traces[1])
    checks.that("already" in done.stdout and done.returncode == 0,
                f"again: {done.stdout}{done.stderr}")
    for path, options in ((plain, ["--no-plain"]), (compact, [])):
        done = analyze(*options, "--force", "-o", path, traces[0])
        checks.that(done.returncode == 0, f"--force: {done.stderr}")
        again = pictures_of(path)
        checks.that(again == pictures,
                    f"rows of pictures: {pictures}, of a run that was replaced {again}")
    checks.that(os.path.getsize(compact) * 2 < os.path.getsize(plain), "rows were added as rows")
    for table in COMPACT_TABLES:
        both.same("query", "x.db", "--format", "csv", f"SELECT * FROM {table}")
    left = whole.run([
        MEMSIGHT, "query", "--format", "csv", compact,
        "SELECT count(*) FROM allocation_column WHERE id / 256 NOT IN (SELECT id FROM "
        "allocation_chunk)"
    ])
    checks.that(left.split()[1] == "0", "columns of the replaced run are left")


def check_beside(traces):
    """Beside its trace a database is made anew for --no-plain, once, and for plain tables."""
    trace = traces[1]
    for options, word in [([], "events"), (["--no-plain"], "events"), (["--no-plain"], "already"),
                          (["--compact"], "already"), (["--no-plain", "--plain"], "events"),
                          ([], "already"), (["--no-tiles"], "already")]:
        done = analyze(*options, trace)
        checks.that(word in done.stdout, f"analyze {options}: {done.stdout}{done.stderr}")
        checks.that(("memsight: --compact is called --no-plain now\n" in done.stderr)
                    == ("--compact" in options), f"analyze {options} says {done.stderr}")
        checks.that(("--no-tiles does nothing any more" in done.stderr)
                    == ("--no-tiles" in options), f"analyze {options} says {done.stderr}")
    whole.run([MEMSIGHT, "report", trace, "--sites"])


def check_results():
    """Of a folder of results all but the first repetition have their totals only, in either form.
    """
    results = os.path.join(folder.name, "results")
    os.mkdir(results)
    for number in (1, 2, 3):
        whole.run([MAKE_TRACE, "--seed", str(number), "--events", "3000",
                   "-o", os.path.join(results, f"app.default.{number}.mst")])
    counts = []
    for options in ([], ["--no-plain"]):
        path = os.path.join(folder.name, "results.db")
        whole.run([MEMSIGHT, "analyze", *options, "--force", "-o", path, results])
        counts.append(
            whole.run([
                MEMSIGHT, "query", "--format", "csv", path,
                "SELECT id, detail, (SELECT count(*) FROM allocation WHERE run_id = run.id) FROM "
                "run"
            ]))
        left = whole.run([MEMSIGHT, "query", "--format", "csv", path,
                          "SELECT count(*) FROM sqlite_master WHERE name LIKE '%_chunk'"])
        checks.that(left.split()[1] == str(len(CHUNKED_TABLES)), f"tables of chunks: {left}")
        os.remove(path)
    checks.that(counts[0] == counts[1] and "totals" in counts[0], f"results: {counts}")


def damage(path, table, sql):
    """A copy with something changed in it."""
    copy = os.path.join(folder.name, "damaged.db")
    shutil.copy(path, copy)
    with contextlib.closing(sqlite3.connect(copy)) as database:
        database.execute(f"UPDATE {table} SET {sql}")
        database.commit()
    return copy


def check_damage(both):
    path = os.path.join(both.folders[1], "x.db")
    flip = "substr(data, 1, {0}) || x'{1}' || substr(data, {0} + 2)"
    changes = [("allocation_column", "data = " + flip.format(at, byte))
               for at in (0, 4, 8, 12, 16, 18, 24, 60) for byte in ("5a", "a5")]
    changes += [("allocation_column", "data = x''"),
                ("allocation_column", "data = NULL WHERE id % 256 <> 0"),
                ("allocation_column", "data = substr(data, 1, 24)"),
                ("allocation_column", "id = id + 256000"), ("allocation_chunk", "n_rows = 7"),
                ("allocation_chunk", "n_rows = 1 << 40"), ("allocation_chunk", "series = -1"),
                ("allocation_chunk", "head = x'00'"),
                ("allocation_chunk", "head = zeroblob(4 + 24 * 15)"),
                ("allocation_chunk", "first_row = 1, series = 0")]
    for table, change in changes:
        try:
            copy = damage(path, table, change)
        except sqlite3.IntegrityError:
            continue
        for command in ([
                "query", copy,
                "SELECT sum(size), sum(freed_ns), count(DISTINCT thread_id) FROM allocation"
        ], ["report", copy, "--sites", "--run", "1", "--from", "1ms", "--to", "2s"]):
            done = subprocess.run([MEMSIGHT, *command], capture_output=True, text=True, check=False,
                                  env=whole.environment())
            checks.that(done.returncode == 1 and done.stderr.count("\n") == 1,
                        f"{change}, {command[0]}: status {done.returncode}, {done.stderr!r}")


def main():
    traces = make_traces()
    both = Both(traces)
    check_tables(both)
    check_reports(both)
    check_exports(both)
    check_size(both)
    check_chunks(both)
    check_others(both)
    check_damage(both)
    check_adding(both, traces)
    check_beside(traces)
    check_results()
    checks.end()


main()
