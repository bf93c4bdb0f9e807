#!/usr/bin/env python3
"""What recording costs whole programs, beside heaptrack: cc1, python3's json, sqlite3, a numeric
kernel.

usage: bench-programs.py MEMSIGHT KERNEL [--rounds N] [--programs cc1,json,...] [--markdown]

Every round runs each program untraced, under memsight (as a user would: samples, page faults and
full call stacks) and under heaptrack, in turn; a tool's added time is the difference to the
untraced run of the same round, until the tool has returned. Printed: the median with the quartiles,
the ratio of the medians, and of memsight the slowdown, events, lost ones, bytes an event (without
samples), and the peak of resident memory that the program has more than untraced, without the pages
of the pool (taken in two runs of their own: looking costs time). A program that is not installed is
left out, and said.
"""
import argparse
import glob
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from measure import Failed, quartiles, run

JSON = """import json
d = [{'id': i, 'name': 'n%d' % i, 'v': [1.5 * i, None, True]} for i in range(150000)]
assert json.loads(json.dumps(d)) == d
"""
SQL = """CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500000)
 INSERT INTO t SELECT i, 'row ' || i, i * 0.5 FROM n;
CREATE INDEX i ON t(b);
SELECT substr(b, 1, 6), sum(c), count(*) FROM t GROUP BY 1 ORDER BY 2 LIMIT 3;
"""


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def preprocessed(folder):
    """The longest of our own sources with all that it includes, or None without gcc."""
    if not shutil.which("gcc"):
        return None, None
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    source = max(glob.glob(os.path.join(root, "*/*.c")), key=os.path.getsize)
    out = os.path.join(folder, "source.i")
    subprocess.run(["gcc", "-E", "-D_GNU_SOURCE", "-DMEMSIGHT_VERSION=\"\"", "-I", root, "-I",
                    os.path.join(root, "build"), source, "-o", out], check=True)
    return subprocess.run(["gcc", "-print-prog-name=cc1"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.strip(), out


def programs(args, folder):
    """Name, command and environment of what is installed."""
    cc1, source = preprocessed(folder)
    sqlite3 = shutil.which("sqlite3")
    wanted = {
        "cc1": [cc1, "-quiet", "-O2", source, "-o", os.path.join(folder, "a.s")],
        "json": ["/usr/bin/python3", write(folder, "read-and-write.py", JSON)],
        "json-malloc": ["/usr/bin/python3", write(folder, "read-and-write.py", JSON)],
        "sqlite3": [sqlite3, ":memory:", ".read " + write(folder, "rows.sql", SQL)],
        "kernel": [args.kernel],
    }
    for name, command in wanted.items():
        if args.programs and name not in args.programs.split(","):
            continue
        if not command[0] or not os.access(command[0], os.X_OK):
            print(f"{name}: not installed, left out")
            continue
        env = dict(os.environ)
        if name == "json-malloc":
            env["PYTHONMALLOC"] = "malloc"
        yield name, command, env


class Memsight:
    """Recorded; also says what the recorder said and how much it wrote."""
    name = "memsight"

    def __init__(self, memsight, folder):
        self.memsight, self.trace = memsight, os.path.join(folder, "bench.mst")

    def command(self, program):
        return [self.memsight, "record", "--force", "-o", self.trace, "--", *program]

    def events(self, program, env):
        """Events, lost ones, bytes of a trace of allocations alone."""
        command = self.command(program)
        done = subprocess.run([*command[:2], "--source", "none", *command[2:]], env=env,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              check=True)
        found = re.search(r"([\d,]+) allocation events.* ([\d,]+) lost", done.stderr)
        n_events, n_lost = (int(word.replace(",", "")) for word in found.groups())
        return n_events, n_lost, os.path.getsize(self.trace)


class Heaptrack:
    name = "heaptrack"

    def __init__(self, folder):
        self.out = os.path.join(folder, "heaptrack")

    def command(self, program):
        return ["heaptrack", "-o", self.out, *program]


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            found = [int(word) for word in file.read().split()]
    except OSError:
        return []
    return [grandchild for child in found for grandchild in [child, *children(child)]]


def look(pid, exe):
    """The peak of resident memory, and what of the pool is resident, in KiB; None when it is not
    this program."""
    try:
        if os.path.realpath(f"/proc/{pid}/exe") != exe:
            return None
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            peak = int(re.search(r"VmHWM:\s+(\d+)", file.read()).group(1))
        with open(f"/proc/{pid}/smaps", encoding="ascii", errors="replace") as file:
            found = re.findall(r"memfd:memsight.*?\nRss:\s+(\d+)", file.read(), re.DOTALL)
        pool = sum(int(rss) for rss in found)
    except (OSError, AttributeError):
        return None
    return peak, pool


def peak_memory(command, env, exe):
    """(KiB of the program at its last look, KiB of them in the pool)."""
    last = (0, 0)
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            for pid in [process.pid, *children(process.pid)]:
                last = look(pid, exe) or last
            time.sleep(0.01)
    return last


def compare(args, name, program, env, tools):
    walls = {"untraced": []} | {tool.name: [] for tool in tools}
    for _ in range(args.rounds):
        walls["untraced"].append(run(program, env)[0])
        for tool in tools:
            walls[tool.name].append(run(tool.command(program), env)[0])
    added = {tool.name: quartiles([t - u for t, u in zip(walls[tool.name], walls["untraced"])])
             for tool in tools}
    memsight = tools[0]
    n_events, n_lost, n_bytes = memsight.events(program, env)
    exe = os.path.realpath(program[0])
    plain, recorded = (peak_memory(command, env, exe)
                       for command in (program, memsight.command(program)))
    untraced = statistics.median(walls["untraced"])
    text = {key: f"{1e3 * mid:.0f} ({1e3 * low:.0f} to {1e3 * high:.0f})"
            for key, (low, mid, high) in added.items()}
    ours = max(added["memsight"][1], 1e-4)
    more = recorded[0] - recorded[1] - plain[0]
    return [name, f"{1e3 * untraced:.0f}", text["memsight"], text.get("heaptrack", "-"),
            f"{added['heaptrack'][1] / ours:.1f}" if "heaptrack" in added else "-",
            f"{1 + added['memsight'][1] / untraced:.3f}", f"{n_events:,}", f"{n_lost:,}",
            f"{n_bytes / max(n_events, 1):.1f}", f"{more / 1024:.1f}",
            f"{recorded[1] / 1024:.1f}"]


HEADS = ["program", "untraced ms", "memsight adds ms", "heaptrack adds ms", "ratio", "slowdown",
         "events", "lost", "bytes/event", "MiB more", "of the pool"]


def show(is_markdown, rows):
    if is_markdown:
        print("| " + " | ".join(HEADS) + " |\n|" + " --- |" * len(HEADS))
        for row in rows:
            print("| " + " | ".join(row) + " |")
        return
    widths = [max(len(row[i]) for row in [HEADS, *rows]) for i in range(len(HEADS))]
    for row in [HEADS, *rows]:
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memsight")
    parser.add_argument("kernel")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--programs", default="")
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memsight-bench-", dir="/var/tmp") as folder:
        tools = [Memsight(args.memsight, folder)]
        if shutil.which("heaptrack"):
            tools.append(Heaptrack(folder))
        else:
            print("heaptrack: not installed, left out")
        try:
            rows = [compare(args, name, command, env, tools)
                    for name, command, env in programs(args, folder)]
        except Failed as failure:
            sys.exit(str(failure))
    show(args.markdown, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
