#!/usr/bin/env python3
"""What looks at pages find, and what they cost.

Each program runs with a look every 50 ms: the parts of each look against VmRSS. Then 1 GiB of
touched pages for the time of a look, and pairs of runs with and without looks for what they cost
the program. Arguments: memsight, pairs.

Bars: the sum within 1 % of VmRSS at every look, 5 ms for 1 GiB, 1 % of the program's CPU time.
"""
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

PROGRAMS = {
    "python": ["/usr/bin/python3", "-c", "import json; d = [{'a': i, 'b': str(i) * 5} for i in"
               " range(300000)]; print(len(json.loads(json.dumps(d))))"],
    "sqlite": ["sqlite3", ":memory:", "create table t(a, b); with recursive c(x) as (select 1 union"
               " all select x + 1 from c where x < 400000) insert into t select x,"
               " hex(randomblob(20)) from c; create index i on t(b); select count(*) from t;"],
    "node": ["node", "-e", "let a = []; for (let i = 0; i < 300000; i++)"
             " a.push({x: i, s: 'v' + i}); console.log(a.length)"],
    "java": ["jshell", "-R-Xmx512m", "-s", "-"],
    "sort": ["sh", "-c", "seq 1500000 | sort -R | wc -l"],
}
TOUCH = ("b = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): b[i] = 1\n"
         "import time; time.sleep(1)")
WORK = ["/usr/bin/python3", "-c", "d = [str(i) * 5 for i in range(1500000)]; print(len(d))"]
JAVA = "var l = new ArrayList<byte[]>(); for (int i = 0; i < 4000; i++) l.add(new byte[20000]);\n"


def record(memsight, trace, options, command, text=None):
    """CPU seconds of the recorder and the program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([memsight, "record", "-q", "-f", "-o", trace, *options, "--", *command],
                   input=text, text=True, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ask(memsight, trace, sql):
    done = subprocess.run([memsight, "query", "--format", "csv", trace, sql], check=True, text=True,
                          capture_output=True)
    return [line.split(",") for line in done.stdout.splitlines()[1:]]


def sums(memsight, folder):
    """Whether every look of every program is within the bar."""
    is_good = True
    for name, command in PROGRAMS.items():
        if not shutil.which(command[0]):
            print(f"{name}: not installed")
            continue
        trace = os.path.join(folder, name + ".mst")
        record(memsight, trace, ["--pages", "50ms", "-s", "none"], command,
               JAVA if name == "java" else None)
        rows = ask(memsight, trace, "SELECT count(*), max(rss) >> 20, max(1.0 * max(0, resident -"
                   " hugetlb - max(rss, rss_after), min(rss, rss_after) - resident + hugetlb) /"
                   " rss) FROM page_snapshot WHERE rss > 1000000")
        n, most, worst = int(rows[0][0]), int(rows[0][1]), float(rows[0][2])
        print(f"{name}: {n} looks, VmRSS up to {most} MiB, sum off by {100 * worst:.2f} % at most")
        is_good = is_good and worst <= 0.01
    return is_good


def look_ms(memsight, folder):
    trace = os.path.join(folder, "touch.mst")
    record(memsight, trace, ["--pages", "100ms", "-s", "none"], ["/usr/bin/python3", "-c", TOUCH])
    rows = ask(memsight, trace, "SELECT (end_ns - time_ns) / 1e6 FROM page_snapshot"
               " WHERE rss > 1073741824 ORDER BY 1")
    times = [float(row[0]) for row in rows]
    print(f"1 GiB: {times[0]:.2f} ms at least, {statistics.median(times):.2f} median of"
          f" {len(times)} looks (wall)")
    return times[0] <= 5


def cost(memsight, folder, n_pairs):
    trace = os.path.join(folder, "work.mst")
    ratios = []
    for _ in range(n_pairs):
        without = record(memsight, trace, ["--pages", "off"], WORK)
        ratios.append(record(memsight, trace, [], WORK) / without)
    ratios.sort()
    print(f"CPU time with looks at peaks and the end: x {statistics.median(ratios):.3f} median of"
          f" {n_pairs} pairs, {ratios[0]:.3f} to {ratios[-1]:.3f}")


def main():
    memsight, n_pairs = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="memsight-bench-") as folder:
        good = [sums(memsight, folder), look_ms(memsight, folder)]
        cost(memsight, folder, n_pairs)
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
