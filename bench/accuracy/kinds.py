"""Kinds of code against what memsight says of them: each case is run many times, and each share is
compared with the CPU time that the victim measured itself."""
import concurrent.futures
import csv
import json
import math
import os
import re
import subprocess
import tempfile
import typing

from kernels import half_width
from whole import SKIP, Database, environment, run

# A coverage is missed when its own interval lies outside of these.
LEAST, MOST = 0.93, 0.97


class Case(typing.NamedTuple):
    kind: str
    name: str
    victim: tuple  # kind and argument; {period} is that of sampling in us
    ms: int = 300
    options: tuple = ()
    most_unknown: float = 1.0  # share of time (of stalls) that may be nobody's
    free: int = 1  # its objects less those whose share follows from the others'


def periods(n):
    return ("frames", "{%g}" % n)


CASES = [
    Case("slices", "0.2 to 2.6 ms", ("slices",), free=2),
    Case("slices", "5 to 20 ms", ("long-slices",), free=2),
    Case("fine mix", "4 to 40 us", ("mix",), free=2),
    Case("frames", "half a period", periods(0.5)),
    Case("frames", "one period", periods(1)),
    Case("frames", "three periods", periods(3)),
    Case("short threads", "0.2 ms", ("threads", "200")),
    Case("short threads", "1.2 ms", ("threads", "1200")),
    Case("short processes", "0.4 ms", ("processes", "400")),
    Case("short processes", "2 ms", ("processes", "2000")),
    Case("parts of blocks", "fields of structures", ("fields",)),
    Case("parts of blocks", "four arrays in one block", ("arrays",)),
    Case("indirect", "a[b[i]]", ("indexed",), most_unknown=0.2),
    Case("indirect", "*p[i]", ("pointers",), most_unknown=0.2),
    Case("indirect", "sparse matrix by vector", ("sparse",), most_unknown=0.01),
    Case("list", "shuffled nodes", ("list",), most_unknown=0.15),
    Case("search", "hash table, B-tree", ("search",), most_unknown=0.03),
    Case("gather", "base in another block", ("gather",), most_unknown=0.2),
    Case("-O0", "variables on the stack", ("o0",), most_unknown=0.03),
    Case("generated code", "written over", ("rewritten",), ms=400),
    Case("generated code", "appended", ("appended",), ms=400),
    Case("stalls", "loads", ("stalls", "load")),
    Case("stalls", "chase of pointers", ("stalls", "chase")),
    Case("stalls", "stores", ("stalls", "store")),
    Case("kernel copies", "pread, pwrite, preadv", ("copies",), options=("--count", "both"),
         free=2),
    Case("sharing", "two threads", ("sharing",), free=3),
]
KINDS = list(dict.fromkeys(case.kind for case in CASES))


class Share(typing.NamedTuple):
    """What was reported of an object: number None where there is only a range."""
    number: typing.Optional[float]
    low: float
    high: float

    def holds(self, least, most):
        return self.high >= least - 1e-9 and self.low <= most + 1e-9


# ---- One run ----

class Truth:
    """What a victim printed: .time {object: share}, .stalls {object: (least, most)},
    .lines {object: word}."""

    def __init__(self, output, with_kernel):
        words = [line.split() for line in output.splitlines()]
        whole = {key: int(rest[0]) for key, *rest in words if key in ("total", "process")}
        total = whole["process" if with_kernel else "total"]
        self.stalls = {name: (int(least) / total, int(most) / total) for key, name, least, most in
                       (each for each in words if each[0] == "stall")}
        self.time = {} if self.stalls else {each[1]: int(each[2]) / total for each in words
                                            if each[0] == "time" and each[1] != "others"}
        self.lines = {each[1]: each[2] for each in words if each[0] == "lines"}


def part_of_block(database, name):
    """Share of the addresses of a part (docs/database.md, `touch`): sums of its rows, one for each
    sample."""
    site, every, n, at = re.match(r"(\w+)([%/])(\d+)@(\d+)", name).groups()
    address, size = database.ask("SELECT address, size FROM allocation"
                                 " JOIN stack_line USING (stack_id) WHERE function = ?", site)[0]
    stride, low, width = ((int(n), int(at), 8) if every == "%" else
                          (size, size // int(n) * int(at), size // int(n)))
    sums = dict(database.ask(
        "SELECT sample_id, sum(share) FROM touch JOIN sample ON sample.id = sample_id"
        " JOIN source ON source.id = source_id"
        " WHERE role = 1 AND source.name = 'clock' AND address >= ? AND address < ?"
        " AND (address - ?) % ? >= ? AND (address - ?) % ? < ? GROUP BY sample_id",
        address, address + size, address, stride, low, address, stride, low + width))
    samples = database.ask(
        "SELECT sample.id, weight FROM sample JOIN source ON source.id = source_id"
        " WHERE source.name = 'clock' ORDER BY thread_id, sample.id")
    shares = [sums.get(row[0], 0) for row in samples]
    weight = sum(row[1] for row in samples)
    share, square = (sum(row[1] * each ** power for row, each in zip(samples, shares)) / weight
                     for power in (1, 2))
    n = weight ** 2 / sum(row[1] ** 2 for row in samples)
    half = half_width(share * n, square * n, n) * gain_of_order(shares) ** 0.5
    return Share(share, share - half, share + half)


def gain_of_order(shares):
    """The variance over the binomial one, as docs/accuracy.md has it (store/totals/share-sum.c)."""
    n = len(shares)
    mean_share = sum(shares) / n
    variance = sum((share - mean_share) ** 2 for share in shares) / n
    if not variance:
        return 1
    near, far = (1 - sum((a - b) ** 2 for a, b in zip(shares, shares[lag:])) / 2 / (n - lag) /
                 variance for lag in (1, 2))
    if near < 0.3:
        return 1
    of_slices = min(max(far / near, near), 0.999)
    part = min(near / of_slices, 1)
    gain = 1 - part * (1 - ((1 + of_slices) / (1 - of_slices) + 2 / math.log(of_slices)))
    return gain + 0.003 ** 2 * mean_share * (1 - mean_share) * n / variance


def reported(database, n_samples, name, column="share"):
    if "@" in name:
        return part_of_block(database, name)
    ends = column.replace("share", "").strip("_")
    low, high = ("share_low", "share_high") if not ends else (ends + "_low", ends + "_high")
    columns = f"{column}, {low}, {high}"
    if name in ("stack", "global"):
        rows = database.ask(f"SELECT {columns} FROM kind_share"
                            " JOIN owner ON owner.id = owner_kind WHERE owner.name = ?", name)
    else:
        rows = database.ask(f"SELECT {columns} FROM site JOIN stack_line USING (stack_id)"
                            " WHERE function = ?", name)
    if not rows:
        return Share(0, 0, database.one(f"SELECT {high} FROM kind_share WHERE owner_kind = 0") or 0)
    assert len(rows) == 1, f"{name} has {len(rows)} sites"
    return Share(*rows[0])


def read_lines(memsight, path):
    rows = json.loads(run([memsight, "report", path, "--sharing", "--limit", "0",
                           "--format", "json"]))
    return {row["object"].split()[0]: row["sharing"].split()[0] for row in rows}


class Result:
    """What one run says beside its truth: .shares {object: (least, most, Share)}, .unknown,
    .is_right of lines."""

    def __init__(self, memsight, case, truth, path):
        database = Database(path)
        database.need_source("clock")
        self.n_samples = n = database.one("SELECT n_samples FROM source WHERE name = 'clock'")
        if not n:
            raise SystemExit("%s: no samples" % case.name)
        self.shares = {name: (true, true, reported(database, n, name))
                       for name, true in truth.time.items()}
        for name, (least, most) in truth.stalls.items():
            self.shares[name] = (least, most, reported(database, n, name, "stall_share"))
        unknown = database.ask("SELECT n_samples, n_stalls FROM kind_share"
                               " JOIN owner ON owner.id = owner_kind"
                               " WHERE owner.name = 'unknown'")
        self.unknown = unknown[0][bool(truth.stalls)] / n if unknown else 0
        self.is_right = None
        if truth.lines:
            found = read_lines(memsight, path)
            self.is_right = all(found.get(name, "none") == word
                                for name, word in truth.lines.items())
            self.found = found
        database.database.close()


class Skipped(Exception):
    pass


def record(memsight, victim, case, rate, seed, folder):
    """Truth of one run; its trace is folder/SEED.mst."""
    argument = [word if "{" not in word else "%g" % (float(word.strip("{}")) * 1e6 / rate)
                for word in case.victim]
    trace = os.path.join(folder, "%d.mst" % seed)
    command = [memsight, "record", "-q", "-o", trace, "--source", "clock", "--freq", str(rate),
               *case.options, "--", victim, argument[0], str(case.ms), str(seed), *argument[1:]]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False, env=environment())
    if done.returncode == SKIP:
        raise Skipped
    if done.returncode != 0:
        raise SystemExit("%s: exit status %d\n%s" % (
            " ".join(command), done.returncode, done.stderr))
    return Truth(done.stdout, bool(case.options))


def analyse(memsight, case, truth, seed, folder):
    trace, path = (os.path.join(folder, "%d.%s" % (seed, end)) for end in ("mst", "db"))
    run([memsight, "analyze", "-o", path, trace])
    result = Result(memsight, case, truth, path)
    os.unlink(trace)
    os.unlink(path)
    return result


def run_case(memsight, victim, case, options):
    """Results of all repetitions: one is analysed while the next is recorded."""
    with tempfile.TemporaryDirectory(prefix="memsight-accuracy-") as folder, \
            concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = []
        for seed in range(options.seed, options.seed + options.repeat):
            truth = record(memsight, victim, case, options.rate, seed, folder)
            waiting.append(pool.submit(analyse, memsight, case, truth, seed, folder))
            if options.jobs == 1 or len(waiting) > 1:
                waiting[-min(options.jobs, len(waiting))].result()
        return [each.result() for each in waiting]


# ---- Many runs ----

def wilson(hits, n):
    """95 % interval of a proportion (Wilson, 1927)."""
    z, p = 1.96, hits / n
    centre, half = p + z * z / (2 * n), z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    return (centre - half) / (1 + z * z / n), (centre + half) / (1 + z * z / n)


def mean(values):
    return sum(values) / len(values) if values else None


def rows_of(case, results):
    """One dictionary for each object of a case."""
    rows = []
    for name in results[0].shares:
        each = [result.shares[name] for result in results if name in result.shares]
        hits = sum(share.holds(least, most) for least, most, share in each)
        numbers = [share.number for _, _, share in each if share.number is not None]
        errors = [share.number - least for least, most, share in each
                  if share.number is not None and least == most]
        square = mean([error * error for error in errors])
        low, high = wilson(hits, len(each))
        rows.append({
            "kind": case.kind, "case": case.name, "object": name, "runs": len(each),
            "samples": mean([result.n_samples for result in results]),
            "truth": mean([least for least, _, _ in each]),
            "truth_most": mean([most for _, most, _ in each]),
            "reported": mean(numbers), "numbers": len(numbers),
            "bias": mean(errors), "error": square ** 0.5 if errors else None,
            "half_width": mean([(share.high - share.low) / 2 for _, _, share in each]),
            "low": mean([share.low for _, _, share in each]),
            "high": mean([share.high for _, _, share in each]),
            "inside": hits, "coverage": hits / len(each),
            "coverage_low": low, "coverage_high": high,
            "unknown": mean([result.unknown for result in results])})
    return rows


def misses_of(kind, cases, rows, results):
    """What of a kind is not as it should be, in words. A truth of 0 says nothing of the width of an
    interval."""
    misses = []
    told = [row for row in rows if row["truth_most"] > 0]
    n_tries = sum(len(results[case]) * case.free for case in cases)
    coverage = mean([row["coverage"] for row in told])
    low, high = wilson(coverage * n_tries, n_tries)
    if high < LEAST:
        misses.append("%s: %.0f %% of the intervals have the truth, less than %.0f" % (
            kind, 100 * coverage, 100 * LEAST))
    if low > MOST and mean([row["numbers"] / row["runs"] for row in told]) > 0.5 \
       and kind != "stalls":
        misses.append("%s: %.1f %% of the intervals have the truth: they are too wide" % (
            kind, 100 * coverage))
    for row in rows:
        if row["coverage_high"] < LEAST:
            misses.append("%s, %s, %s: %d of %d" % (
                kind, row["case"], row["object"], row["inside"], row["runs"]))
    for case in cases:
        unknown = mean([result.unknown for result in results[case]])
        if unknown > case.most_unknown:
            misses.append("%s, %s: %.1f %% unknown, at most %.0f wanted" % (
                kind, case.name, 100 * unknown, 100 * case.most_unknown))
        wrong = [result for result in results[case] if result.is_right is False]
        if wrong:
            misses.append("%s, %s: shared lines are wrong in %d of %d: %s" % (
                kind, case.name, len(wrong), len(results[case]), wrong[0].found))
    return coverage, low, high, misses


def percent(value):
    return "%.1f" % (100 * value)


def truth_text(row):
    more = " to " + percent(row["truth_most"]) if row["truth_most"] > row["truth"] + 1e-9 else ""
    return percent(row["truth"]) + more


def reported_text(row):
    """Its number with the half width, or the range where most runs have no number."""
    if row["numbers"] * 2 <= row["runs"]:
        return "%s to %s" % (percent(row["low"]), percent(row["high"]))
    n_ranges = row["runs"] - row["numbers"]
    ranges = " (%d ranges)" % n_ranges if n_ranges else ""
    return "%s ±%s" % (percent(row["reported"]), percent(row["half_width"])) + ranges


def say_case(case, rows):
    """One line: objects by what tells their names apart."""
    def each(text):
        return "; ".join(re.sub("^(make|new)_", "", row["object"]) + " " + text(row)
                         for row in rows)

    errors = [row["error"] for row in rows if row["error"] is not None]
    print("| %s | %s | %s | %s | %s | %s | %s %% |" % (
        case.kind, case.name, each(truth_text), each(reported_text),
        percent(max(errors)) if errors else "", ", ".join("%d" % row["inside"] for row in rows),
        percent(rows[0]["unknown"])), flush=True)


def write_tables(rows, options):
    if options.csv:
        with open(options.csv, "w", encoding="utf-8", newline="") as out:
            table = csv.DictWriter(out, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(rows, out, indent=1)


def print_kinds(memsight, victim, options):
    """The table of all kinds. Returns what was missed."""
    wanted = options.kinds.split(",") if options.kinds else KINDS
    unheard = [kind for kind in wanted if kind not in KINDS]
    if unheard:
        raise SystemExit("no kind %s; there are %s" % (unheard[0], ", ".join(KINDS)))
    print("%d repetitions at %d Hz. Truth and reported in %% of CPU time; of stalls: what was"
          " waited for, at least and at most.\n" % (options.repeat, options.rate))
    print("| kind | case | truth | reported | largest error (root of mean square) |"
          " inside of its interval, runs of %d | unknown |" % options.repeat)
    print("| --- " * 7 + "|")
    every, verdicts, misses = [], [], []
    for kind in wanted:
        results, rows = {}, []
        for case in [case for case in CASES if case.kind == kind]:
            try:
                results[case] = run_case(memsight, victim, case, options)
            except Skipped:
                print("| %s | %s | cannot be run here | | | | |" % (kind, case.name))
                continue
            of_case = rows_of(case, results[case])
            say_case(case, of_case)
            rows += of_case
        if rows:
            *coverage, missed = misses_of(kind, list(results), rows, results)
            verdicts.append((kind, coverage, missed))
            every += rows
            misses += missed
    print("\n| kind | coverage | |")
    print("| --- | --- | --- |")
    for kind, (coverage, low, high), missed in verdicts:
        print("| %s | %.1f %% (%.0f to %.0f) | %s |" % (
            kind, 100 * coverage, 100 * low, 100 * high,
            "missed: " + "; ".join(missed) if missed else "met"))
    print()
    if every:
        write_tables(every, options)
    return misses
