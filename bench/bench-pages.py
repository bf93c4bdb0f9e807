#!/usr/bin/env python3
"""What looks at pages find, and what they cost.

Each program runs with a look every 50 ms: the parts of each look against VmRSS. Then 1 GiB of
touched pages for the time of a look, and pairs of runs with and without looks for what they cost
the program. Then --source pages: what it says of a program in phases against the pages that
valgrind's lackey sees each phase touch and write, and how much slower a program of 4 GiB is under a
budget of 1 %. Then what --unused calls proven of NPB's cg, is and mg, whose memory is all used.
Arguments: memsight, page-phases, pairs, dump-writes, and which parts, all without: sums, look,
lackey, hot, huge, cost, npb. PHASE_MS: how long a phase is. HOT_PAIRS, STRETCH_MS, STEERED_S: pairs
of stretches, how long one is, and s under the budget, of hot and huge. NPB: a folder with the
sources (github.com/benchmark-subsetting/NPB3.0-omp-C), of which a copy is built.

Bars: the sum within 1 % of VmRSS at every look, 5 ms for 1 GiB, 1 % of the program's CPU time. Of
touched and written pages none is missed, and at most 0.1 % are too many; 1 % of the program's
speed, with huge pages 0.2 %; nothing that is used is called unused.
"""
import bisect
import collections
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

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
    "redis-server": ["sh", "-c", "d=$(mktemp -d); redis-server --port 0 --unixsocket $d/s --save ''"
                     " & sleep 1; redis-benchmark -q -s $d/s -t set,lpush -n 100000 -r 50000 -d"
                     " 200; redis-cli -s $d/s shutdown nosave; wait; rm -r $d"],
    "postgres": ["sh", "-c", "d=$(mktemp -d); initdb -D $d -A trust && pg_ctl -D $d -l $d/log -o"
                 " \"-k $d -h ''\" -w start && pgbench -h $d -q -i -s 5 postgres && pgbench -h $d"
                 " -T 3 postgres; pg_ctl -D $d -m fast stop; rm -r $d"],
}
TOUCH = ("b = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): b[i] = 1\n"
         "import time; time.sleep(1)")
WORK = ["/usr/bin/python3", "-c", "d = [str(i) * 5 for i in range(1500000)]; print(len(d))"]
PAGE = resource.getpagesize()
ARENA_PAGES = (64 << 20) // PAGE
MARGIN_NS = 1000000  # between ticks and ns
PHASE_MS, TICK = os.environ.get("PHASE_MS", "400"), os.environ.get("TICK", "20ms")
PHASED = os.environ.get("PHASED", "mixed sort list matrix hash stencil").split()
HOT_PAIRS = int(os.environ.get("HOT_PAIRS", "200"))
STEERED_S = float(os.environ.get("STEERED_S", "60"))
HOT_MIB = os.environ.get("HOT_MIB", "4096")
STRETCH_MS = {how: os.environ.get("STRETCH_MS", ms)
              for how, ms in {"hot": "400", "huge": "60"}.items()}
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
        if not shutil.which(name if command[0] == "sh" and name != "sort" else command[0]):
            print(f"{name}: not installed")
            continue
        if name == "postgres" and os.geteuid() == 0:
            print("postgres: not as root")
            continue
        trace = os.path.join(folder, name + ".mst")
        record(memsight, trace, ["--pages", "50ms", "-s", "none"], command,
               JAVA if name == "java" else None)
        # Beside load a look may be interrupted, and memory come and go between its two VmRSS.
        off = ("max(0, resident - uncounted - max(rss, rss_after), min(rss, rss_after) - resident +"
               " uncounted) * 1.0 / rss")
        rows = ask(memsight, trace, f"SELECT count(*), max(rss) >> 20, max({off}), sum({off} >"
                   " 0.01), (SELECT (end_ns - time_ns) / 1000000 FROM page_snapshot WHERE rss >"
                   f" 1000000 ORDER BY {off} DESC LIMIT 1) FROM page_snapshot WHERE rss > 1000000")
        n, most, worst = int(rows[0][0]), int(rows[0][1]), float(rows[0][2])
        print(f"{name}: {n} looks, VmRSS up to {most} MiB, sum off by {100 * worst:.2f} % at most"
              f" (in a look of {rows[0][4]} ms), by more than 1 % in {rows[0][3]}", flush=True)
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
    return True


def lackey_pages(phases, program):
    """({(phase, arena): number of pages touched}, {(phase, arena): set of pages written}) as an
    emulated processor sees it; pages from 0 in each arena."""
    run = subprocess.Popen(["valgrind", "--tool=lackey", "--trace-mem=yes",
                            "--log-fd=1", phases, program, "0"], stdout=subprocess.PIPE, text=True)
    arenas, beacon, phase = [], None, None
    pages, written = collections.defaultdict(set), collections.defaultdict(set)
    for line in run.stdout:
        if line[0] == "I":
            continue
        words = line.split()
        if words[:1] == ["arena"]:
            arenas.append((int(words[1], 16), int(words[1], 16) + int(words[2])))
        elif words[:1] == ["beacon"]:
            beacon = int(words[1], 16)
        elif len(words) == 2 and words[0] in ("L", "S", "M") and arenas:
            address, size = words[1].split(",")
            address = int(address, 16)
            if address == beacon and words[0] == "S":
                phase = 0 if phase is None else phase + 1
            for number, (begin, end) in enumerate(arenas):
                if phase is not None and begin <= address < end:
                    both = (address - begin) // PAGE, (address + int(size) - 1 - begin) // PAGE
                    pages[phase, number].update(both)
                    if words[0] != "L":
                        written[phase, number].update(both)
    if run.wait() != 0 or beacon is None:
        sys.exit("valgrind failed")
    return {place: len(touched) for place, touched in pages.items()}, written


def phases_found(memsight, phases, program, trace):
    """({(all read before, begin, end, all read): [touched pages of each arena]} of each interval,
    when each phase and rounds of them began, addresses of arenas). What was touched before it
    began, but behind the reading before, may count as well."""
    out = subprocess.run([memsight, "record", "-q", "-f", "-o", trace, "--source", "pages",
                          "--pages", TICK, "--", phases, program, PHASE_MS],
                         check=True, text=True, stdout=subprocess.PIPE).stdout
    arenas = [int(line.split()[1], 16) for line in out.splitlines() if line.startswith("arena")]
    marks, rounds_begun = [[int(row[0]) for row in ask(
        memsight, trace, f"SELECT time_ns FROM mark WHERE name {which} 'round' ORDER BY 1")]
        for which in ("<>", "=")]
    found = collections.defaultdict(lambda: [0] * len(arenas))
    for before, begin, end, read, address, touched in ask(
            memsight, trace, "SELECT before, own.begin_ns, own.end_ns, read_ns, address,"
            " page_run.touched FROM (SELECT *, lag(read_ns, 1, 0) OVER (ORDER BY id) AS before"
            " FROM page_interval) AS own JOIN page_run ON page_run.begin_ns <= own.begin_ns AND"
            " page_run.end_ns >= own.end_ns"):
        if int(address) in arenas:
            times = int(before), int(begin), int(end), int(read)
            found[times][arenas.index(int(address))] = int(touched) // PAGE
    return found, marks, rounds_begun, arenas


def phase_of(marks, begun, begin, end):
    """The phase that a time lies in; None: more than one, or the program may not have run (on a
    busy machine): two rounds have begun in it."""
    phase = bisect.bisect(marks, begin) - 1
    is_whole = 0 <= phase < len(marks) - 1 and end <= marks[phase + 1]
    return phase if is_whole and bisect.bisect(begun, end) - bisect.bisect(begun, begin) >= 2 \
        else None


def writes_found(memsight, dump, trace, arenas):
    """[(begin, end, {arena: {page: is it written}})] of each interval of writes, in ns."""
    intervals, ticks, spans = [], [], [(a, a + ARENA_PAGES * PAGE) for a in arenas]
    for line in subprocess.run([dump, trace], check=True, text=True,
                               capture_output=True).stdout.splitlines():
        word, *values = line.split()
        values = [int(value) for value in values]
        if word == "touches":
            ticks.append(values[2])
        elif word == "writes":
            intervals.append((values[2], values[3], collections.defaultdict(dict)))
        elif values[2] <= 1:
            for number, (begin, end) in enumerate(spans):
                for at in range(max(begin, values[0]), min(end, values[0] + values[1]), PAGE):
                    intervals[-1][2][number][(at - begin) // PAGE] = values[2] == 1
    times = [int(row[0]) for row in ask(memsight, trace, "SELECT begin_ns FROM page_interval"
                                        " ORDER BY id")]
    rate = (times[-1] - times[0]) / (ticks[-1] - ticks[0])
    return [(times[0] + (begin - ticks[0]) * rate, times[0] + (end - ticks[0]) * rate, pages)
            for begin, end, pages in intervals]


def compare_touches(truth, found, marks, begun):
    """[page-intervals, touched, missed, too many]"""
    sums = [0, 0, 0, 0]
    for (before, begin, end, read), touched in found.items():
        phase = phase_of(marks, begun, begin, end)
        if phase is None or before < marks[phase] or read > marks[phase + 1]:
            continue
        for number, count in enumerate(touched):
            true = truth.get((phase, number), 0)
            for i, n in enumerate([ARENA_PAGES, true, max(0, true - count), max(0, count - true)]):
                sums[i] += n
    return sums


def compare_writes(truly_written, intervals, marks, begun):
    sums, before = [0, 0, 0, 0], 0
    for begin, end, arena_pages in intervals:
        # A write while pages were asked may be in either interval, so the look before counts, too.
        phase = phase_of(marks, begun, before, end + MARGIN_NS)
        phase = phase if phase_of(marks, begun, begin, end) is not None else None
        before = end - MARGIN_NS
        if phase is None:
            continue
        for number, pages in arena_pages.items():
            true = truly_written[phase, number] & pages.keys()
            written = {page for page, is_written in pages.items() if is_written}
            for i, n in enumerate([len(pages), len(true), len(true - written),
                                   len(written - true)]):
                sums[i] += n
    return sums


def against_lackey(memsight, folder, phases, dump):
    if not shutil.which("valgrind"):
        print("valgrind: not installed")
        return True
    totals = {"touched": [0, 0, 0, 0], "written": [0, 0, 0, 0]}
    for program in PHASED:
        truth, truly_written = lackey_pages(phases, program)
        trace = os.path.join(folder, "phases.mst")
        found, marks, begun, arenas = phases_found(memsight, phases, program, trace)
        of_program = {"touched": compare_touches(truth, found, marks, begun),
                      "written": compare_writes(
                          truly_written, writes_found(memsight, dump, trace, arenas), marks, begun)}
        for what, sums in of_program.items():
            totals[what] = [a + b for a, b in zip(totals[what], sums)]
            print(f"{program} against lackey: {sums[0]} page-intervals, {sums[1]} {what};"
                  f" {sums[2]} missed, {sums[3]} too many", flush=True)
    for what, sums in totals.items():
        print(f"all against lackey: {sums[0]} page-intervals, {sums[1]} {what}; {sums[2]} missed,"
              f" {sums[3]} too many", flush=True)
    return all(n > 0 and missed == 0 and too_many <= 0.001 * true
               for n, true, missed, too_many in totals.values())


class Stretches:
    """page-phases hot or huge, recorded: stretches of the same work, one after the other."""

    def __init__(self, memsight, folder, phases, how, options):
        self.memsight, self.trace = memsight, os.path.join(folder, how + ".mst")
        cpu = str(min(os.sched_getaffinity(0)))
        self.recorder = subprocess.Popen(
            [memsight, "record", "-q", "-f", "-o", self.trace, "--source", "pages", *options, "--",
             "taskset", "-c", cpu, phases, how, HOT_MIB, STRETCH_MS[how]], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.recorder.stdout.readline()  # of the first one its memory may still be new

    def run(self, word=None):
        """ms of CPU time and of wall time; word: what `memsight ctl` asks for when it begins."""
        asking = word and subprocess.Popen([self.memsight, "ctl", self.trace, word],
                                           stdout=subprocess.DEVNULL)
        self.recorder.stdin.write("\n")
        self.recorder.stdin.flush()
        took = [int(value) / 1e6 for value in self.recorder.stdout.readline().split()]
        if asking and asking.wait() != 0:
            sys.exit(f"ctl {word} failed")
        return took

    def intervals(self):
        """Ends. What each cost by the recorder's account, its end with the process last: (ms of the
        recorder, ms of the program); and all their cost as a share of the recording."""
        self.recorder.communicate()
        both = "{0} / 1e6 + coalesce((SELECT sum({0}) FROM write_interval AS w WHERE w.end_ns >=" \
               " p.end_ns AND w.begin_ns <= p.begin_ns), 0) / 1e6"
        rows = ask(self.memsight, self.trace, f"SELECT {both.format('own_ns')},"
                   f" {both.format('program_ns')}, duration_ns / 1e6 FROM page_interval AS p,"
                   " run ORDER BY p.id")
        rows = [[float(value) for value in row] for row in rows]
        return [row[:2] for row in rows], sum((row[0] + row[1]) / row[2] for row in rows)


def median_of(values):
    """Median, and the ends of its 95 % interval (2,000 bootstrap samples)."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(2000))
    return statistics.median(values), medians[50], medians[1949]


def speed(memsight, folder, phases, n_pairs, how):
    """How much slower a program of 4 GiB, a tenth of it hot, is by --budget 1%. What an interval
    costs it is measured: in one process stretches of the same work with an interval that ends and
    begins, and without one, in pairs of random order. Another recording under the budget has the
    share of the time that intervals cost by the recorder's account, at most the budget. The
    slowdown is to that as the measured cost is to the account's."""
    rng, pairs = random.Random(), []
    stretches = Stretches(memsight, folder, phases, how, ["--pages", "1h"])
    for _ in range(3):
        stretches.run("look")
    for _ in range(n_pairs):
        words = ["look", "status"]
        rng.shuffle(words)
        took = {word: stretches.run(word) for word in words}
        pairs.append([*(took["look"][i] - took["status"][i] for i in (0, 1)), took["status"][1]])
    asked, _ = stretches.intervals()
    own, of_program = [statistics.median(row[i] for row in asked[3:-1]) for i in (0, 1)]
    costs = [median_of([pair[i] for pair in pairs]) for i in (0, 1)]
    print(f"{how}: {n_pairs} pairs of stretches of {statistics.median(p[2] for p in pairs):.0f} ms;"
          " an interval costs the program (median, 95 %)", ", ".join(
              f"{cost[0]:.1f} ms ({cost[1]:.1f} to {cost[2]:.1f}) of {time_of} time"
              for cost, time_of in zip(costs, ["CPU", "wall"])) +
          f"; by its account {of_program:.1f} ms, and {own:.1f} ms of the recorder's", flush=True)
    stretches = Stretches(memsight, folder, phases, how, ["--budget", "1%"])
    end = time.monotonic() + STEERED_S
    while time.monotonic() < end:
        stretches.run()
    steered, share = stretches.intervals()
    # The budget is used up at most, but for huge pages: there is an interval a second.
    most = 0.01 if how == "hot" else share
    slower = [[100 * most * ms / (own + of_program) for ms in cost] for cost in costs]
    beside = 100 * most * own / (own + of_program)
    print(f"{how}: --budget 1% has {len(steered)} intervals in {STEERED_S:.0f} s, by its account"
          f" {100 * share:.2f} %; where that is {100 * most:.2f} % the program is slower by",
          ", ".join(f"{one[0]:.2f} % ({one[1]:.2f} to {one[2]:.2f}) of {time_of} time"
                    for one, time_of in zip(slower, ["CPU", "wall"])) +
          f", and by {beside:.2f} % more where the recorder takes its processor", flush=True)
    return slower[0][2] + beside <= (1 if how == "hot" else 0.2)


NPB_MAKE = """CC = gcc
CFLAGS = -O2 -g -w -fcommon
CLINK = gcc
CLINKFLAGS = -O2 -fcommon
C_LIB = -lm
C_INC = -I../common
UCC = gcc
BINDIR = ../bin
RAND = randdp
WTIME = wtime.c
"""


def npb(memsight, folder):
    """What is called unused of programs that use all of their memory."""
    sources, is_good = os.environ.get("NPB"), True
    if not sources:
        print("NPB: not given")
        return True
    copy = shutil.copytree(sources, os.path.join(folder, "npb"))
    os.makedirs(os.path.join(copy, "bin"), exist_ok=True)
    with open(os.path.join(copy, "config/make.def"), "w", encoding="ascii") as file:
        file.write(NPB_MAKE)
    for name in ["cg", "is", "mg"]:
        subprocess.run(["make", "-C", copy, name, "CLASS=A"], check=True, capture_output=True)
        trace = os.path.join(folder, name + ".mst")
        record(memsight, trace, ["--source", "clock,pages", "--pages", "200ms"],
               [os.path.join(copy, "bin", name + ".A")])
        rows = subprocess.run([memsight, "report", trace, "--unused", "--format", "csv"],
                              check=True, text=True, capture_output=True).stdout.splitlines()[1:]
        n, span = ask(memsight, trace, "SELECT count(*), (max(end_ns) - min(begin_ns)) / 1e9 FROM"
                                       " page_interval")[0]
        print(f"NPB {name}.A: {n} intervals in {float(span):.1f} s, lines of --unused: {rows}",
              flush=True)
        is_good = is_good and not rows and int(n) > 0
    return is_good


def main():
    memsight, phases, n_pairs = os.path.abspath(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    dump = sys.argv[4]
    with tempfile.TemporaryDirectory(prefix="memsight-bench-") as folder:
        parts = {"sums": lambda: sums(memsight, folder),
                 "look": lambda: look_ms(memsight, folder),
                 "lackey": lambda: against_lackey(memsight, folder, phases, dump),
                 "hot": lambda: speed(memsight, folder, phases, HOT_PAIRS, "hot"),
                 "huge": lambda: speed(memsight, folder, phases, HOT_PAIRS, "huge"),
                 "cost": lambda: cost(memsight, folder, n_pairs),
                 "npb": lambda: npb(memsight, folder)}
        good = [part() for name, part in parts.items() if name in sys.argv[5:] or not sys.argv[5:]]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
