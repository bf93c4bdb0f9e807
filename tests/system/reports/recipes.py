#!/usr/bin/env python3
"""Recipes of docs/recipes.md give what the database has; JSON is what its schema says.
Arguments: memsight, example program word-index, a folder for it to read, docs/recipes.md."""
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys

import json_schema
import whole

MEMSIGHT, EXAMPLE, TREE, PAGE = sys.argv[1:5]
checks = whole.Checks()

# What asks for the report of a schema, where it is not the option of its name.
OPTIONS = {"summary": [], "cold-for": ["--cold=1s"]}

# DuckDB as npm's package @duckdb/node-api has it.
NODE = """const { DuckDBInstance } = require('@duckdb/node-api');
(async () => {
	const connection = await (await DuckDBInstance.create(':memory:')).connect();
	const answer = await connection.runAndReadAll(process.argv[2]);
	console.log(answer.getRows()[0].join());
})();
"""


def has_node_module():
    return bool(shutil.which("node")) and subprocess.run(
        ["node", "-e", "require('@duckdb/node-api')"], capture_output=True,
        check=False).returncode == 0


def duckdb(code, folder):
    if shutil.which("duckdb"):
        return ["duckdb", "-noheader", "-list", "-c", code]
    if not has_node_module():
        return None
    with open(os.path.join(folder, "duckdb.cjs"), "w", encoding="utf-8") as file:
        file.write(NODE)
    return ["node", "duckdb.cjs", code]


def pandas(code, _):
    return [sys.executable, "-c", code] if importlib.util.find_spec("pandas") else None


# Debian's ClickHouse has no `local`: a server of our own, as little as it takes.
CLICKHOUSE = """<yandex>
<logger><level>error</level><errorlog>{0}/ch.err</errorlog></logger>
<listen_host>127.0.0.1</listen_host><tcp_port>{1}</tcp_port>
<path>{0}/ch/</path><tmp_path>{0}/ch/tmp/</tmp_path><user_files_path>{0}/</user_files_path>
<mark_cache_size>1048576</mark_cache_size>
<users_config>{0}/ch.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<profiles><default/></profiles><quotas><default/></quotas>
<users><default><password/><networks><ip>127.0.0.1</ip></networks><profile>default</profile>
<quota>default</quota></default></users>
</yandex>
"""


def clickhouse_server(code, folder):
    """A command that starts a server, asks it once, and ends it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with open(os.path.join(folder, "ch.xml"), "w", encoding="utf-8") as file:
        file.write(CLICKHOUSE.format(folder, port))
    script = ('clickhouse-server --config-file=ch.xml >ch.out 2>&1 & server=$!; n=0;'
              f' until clickhouse-client --port {port} --host 127.0.0.1 --query "$1" 2>ch.say;'
              ' do n=$((n+1)); [ $n -lt 100 ] && kill -0 $server || { cat ch.say ch.out; break; };'
              ' sleep 0.2; done; kill $server; wait $server; :')
    return ["sh", "-c", script, "sh", code]


def clickhouse(code, folder):
    for name in ["clickhouse-local", "clickhouse"]:
        if shutil.which(name):
            return [name, *(["local"] if name == "clickhouse" else []), "--query", code]
    there = shutil.which("clickhouse-server") and shutil.which("clickhouse-client")
    return clickhouse_server(code, folder) if there else None


COMMANDS = {
    "sqlite3": lambda code, _: shutil.which("sqlite3") and ["sqlite3", "app.mst.db", code],
    "duckdb": duckdb,
    "pandas": pandas,
    "Rscript": lambda code, _: shutil.which("Rscript") and ["Rscript", "-e", code],
    "clickhouse": clickhouse,
}


def check_recipes(db, page):
    """Each prints the bytes that all call sites asked for."""
    folder = db.folder.name
    expected = str(db.one("SELECT sum(bytes) FROM site"))
    shutil.copy(db.path, os.path.join(folder, "app.mst.db"))
    for command in re.findall(r"^    memsight (.*)$", page, re.MULTILINE):
        words = command.replace("app.mst", "app.mst.db")
        whole.run(["sh", "-c", f"cd '{folder}' && '{os.path.realpath(MEMSIGHT)}' {words}"])
    found = re.findall(r"^```\w+ (\w+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    checks.that({tool for tool, _ in found} == set(COMMANDS), f"recipes: {found}")
    for tool, code in found:
        command = COMMANDS[tool](code, folder)
        if not command:
            print(f"not checked: the recipe of {tool}, which is not installed")
            continue
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False,
                              env={**os.environ, "LD_LIBRARY_PATH": ""})
        checks.that(done.returncode == 0 and done.stdout.strip() == expected,
                    f"{tool}: {done.stdout} {done.stderr}, not {expected}")


def check_schemas(db):
    with open(json_schema.FOLDER / "reports.json", encoding="utf-8") as file:
        schema = json.load(file)
    for name, part in schema["$defs"].items():
        option = OPTIONS.get(name, ["--" + name])
        rows = json.loads(
            whole.run([MEMSIGHT, "report", db.path, *option, "--format", "json"]))
        problems = list(json_schema.problems(rows, part, schema, name))
        checks.that(not problems, f"{problems[:3]}")
        if importlib.util.find_spec("jsonschema"):
            import jsonschema
            jsonschema.validate(rows, part)
    rows = json.loads(
        whole.run([MEMSIGHT, "diff", db.path, db.path, "--by", "peak", "--format", "json"]))
    json_schema.check(checks, rows, "diff")
    for words in [["query", db.path, "SELECT * FROM site"],
                  ["query", db.path, "SELECT 1.5 AS a, 'b' AS b, NULL AS c"],
                  ["export", db.path, "--view", "timeline"]]:
        rows = json.loads(whole.run([MEMSIGHT, *words, "--format", "json"]))
        json_schema.check(checks, rows, "query")
        checks.that(rows, f"{words}: no rows")


def check_all_have_one():
    text = whole.run([MEMSIGHT, "report", "--help"]).split("Selection:")[0]
    names = set(re.findall(r"^ +--([a-z-]+) ", text, re.MULTILINE))
    names -= {"full", "full-names", "fail", "findings"}  # findings.json
    with open(json_schema.FOLDER / "reports.json", encoding="utf-8") as file:
        known = set(json.load(file)["$defs"])
    checks.that(names and names <= known, f"reports without a schema: {names - known}")


def check_pages():
    """Touched and written pages of a program that leaves 16 MiB alone for 1.5 s."""
    lazy = 'my $x = "a" x (1 << 24); select undef, undef, undef, 1.5; print length $x'
    db = whole.Recording(MEMSIGHT, ["perl", "-e", lazy],
                         ["-q", "--source", "pages", "--pages", "100ms"])
    for name in ["working-set", "working-set-curve", "untouched", "written", "cold-for"]:
        option = OPTIONS.get(name, ["--" + name])
        rows = json.loads(whole.run([MEMSIGHT, "report", db.path, *option, "--format", "json"]))
        if rows or name.startswith("working-set"):
            json_schema.check_report(checks, rows, name)
        else:  # no rights, or an older kernel
            print(f"not checked: {name}, of which there is nothing here")
    cells = json.loads(
        whole.run([MEMSIGHT, "report", db.path, "--heatmap", "--format", "json"]))
    json_schema.check_report(checks, cells, "heatmap")
    n_untouched = db.one("SELECT count(*) FROM page_run WHERE kind = 'anonymous' AND touched = 0"
                         " AND size > 1 << 24")
    checks.that(not n_untouched or any((cell["untouched"] or 0) > 0.5 for cell in cells),
                "the string that is left alone is not in the picture")


def main():
    db = whole.Recording(MEMSIGHT, [EXAMPLE, TREE, "100000"], ["-q"])
    with open(PAGE, encoding="utf-8") as file:
        check_recipes(db, file.read())
    check_schemas(db)
    check_all_have_one()
    check_pages()
    other = whole.Recording(MEMSIGHT, [EXAMPLE, os.path.dirname(TREE) + "/common", "1000"],
                            ["-q", "--source", "none"])
    rows = json.loads(whole.run([MEMSIGHT, "diff", db.path, other.path, "--format", "json"]))
    checks.that(len(rows) > 3, f"two folders differ: {rows}")
    json_schema.check(checks, rows, "diff")
    check_schemas(other)
    checks.end()


main()
