#!/usr/bin/env python3
"""How exact the clock source is: kinds of code whose time is known, in many repetitions; ten
kernels whose accesses are known in closed form; real programs, single-stepped and whole. Prints the
tables of docs/accuracy.md; exits with 1 and says what was missed when a bar is not met."""
import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

from kinds import print_kinds
from steps import print_steps
from kernels import KERNELS, WITH_CULPRIT, WITH_MIX, Kernel
from whole import Database, Recording, environment, run

KERNEL_MS = 400
KERNEL_HZ = 24999
ESTIMATORS = ["operand", "look-ahead", "block", "window,block,look-ahead"]

SQL = ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT %d)"
       " SELECT sum(x * x %% 7), x %% 1000 FROM c GROUP BY 2 ORDER BY 1;")


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        found = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return found[0] if found else platform.machine()


def print_machine(command):
    release = platform.release().split("-")[0]
    print("Taken %s on %d x %s, Linux %s: `%s`.\n" % (
        time.strftime("%Y-%m-%d"), os.cpu_count(), cpu_model(), release, command))


# ---- The ten kernels ----

def time_error(memsight, kernel, estimators):
    """What time shares by an estimator are off from the mix, in points: half of all errors' sum."""
    path = os.path.join(kernel.db.folder.name, "other.db")
    run([memsight, "analyze", "--force", "-o", path, "--estimator", estimators, kernel.db.trace])
    database = Database(path)
    rows = database.ask(
        "SELECT coalesce(function, owner.name), is_write, sum(share) FROM touch"
        " JOIN owner ON owner.id = owner_kind LEFT JOIN allocation ON owner_kind = 1"
        " AND allocation.id = owner_id LEFT JOIN stack_line USING (stack_id)"
        " WHERE role = 1 AND owner.name <> 'tool' GROUP BY 1, 2")
    total = sum(share for _, _, share in rows)
    found = {(name, "write" if is_write else "read"): share / total
             for name, is_write, share in rows}
    os.unlink(path)
    keys = set(found) | set(kernel.mix)
    return 50 * sum(abs(found.get(key, 0) - kernel.mix.get(key, 0)) for key in keys)


def count_cell(kernel):
    """The claimed counts of its objects over the truth: how far off they are at most, and their
    interval."""
    measured = kernel.measured_counts()
    claims = [(measured[key][0] / true, measured[key][1] / true, measured[key][2])
              for key, true in kernel.counts.items() if key in measured]
    if not claims:
        return "not claimed", None
    ratio, half, how = max(claims, key=lambda claim: abs(claim[0] - 1))
    return "%+.2f ±%.2f %% (%s)" % (100 * (ratio - 1), 100 * half, how), abs(ratio - 1)


def print_kernels(memsight, victim):
    bars = {"mix": [], "counts": [], "culprit": []}
    print("| kernel | samples | " + " | ".join(ESTIMATORS[:3]) +
          " | default | mix of its loop | samples in it | counts off"
          " | waits for the right object |")
    print("| --- " * 10 + "|")
    for name in KERNELS:
        kernel = Kernel(memsight, victim, name, KERNEL_MS, KERNEL_HZ)
        cells = [name, str(kernel.n_samples)]
        if name in WITH_MIX:
            cells += ["%.1f" % time_error(memsight, kernel, each) for each in ESTIMATORS]
            bars["mix"].append(kernel.mix_error())
            cells += ["%.2f" % bars["mix"][-1], "%.1f %%" % (100 * kernel.loop_coverage())]
        else:
            cells += [""] * 6
        cell, off = count_cell(kernel)
        cells.append(cell)
        bars["counts"] += [off] if off is not None else []
        if name in WITH_CULPRIT:
            bars["culprit"].append(kernel.share(2, kernel.culprit)[0])
            cells.append("%.1f %% of the stalls" % (100 * bars["culprit"][-1]))
        else:
            cells.append("")
        print("| " + " | ".join(cells) + " |", flush=True)
    print()
    return bars


# ---- Real programs ----

def commands(folder):
    """{program: (long command, short command, least samples with an exact access, in %)}"""
    lines, data = os.path.join(folder, "lines"), os.path.join(folder, "data")
    short = {name: os.path.join(folder, name) for name in ["few", "little"]}
    with open(lines, "w", encoding="ascii") as out, \
         open(short["few"], "w", encoding="ascii") as few:
        seed = 1
        for i in range(2000000):
            seed = seed * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
            print(seed >> 40, file=out)
            if i < 20000:
                print(seed >> 40, file=few)
    shutil.copy(short["few"], short["little"])
    with open(lines, "rb") as once, open(data, "wb") as out:
        text = once.read()
        for _ in range(6):
            out.write(text)
    return {
        "sqlite3": (["sqlite3", ":memory:", SQL % 100000000],
                    ["sqlite3", ":memory:", SQL % 20000], 95),
        "sort": (["sort", "--parallel=1", lines], ["sort", "--parallel=1", short["few"]], 75),
        "zstd": (["zstd", "-9", "-T1", "-c", data],
                 ["zstd", "-9", "-T1", "-q", "-c", short["little"]], 90),
        "xz": (["xz", "-c", data], ["xz", "-c", short["little"]], 92),
    }


def print_near(bench_decode, programs):
    bars = {}
    print("| program | exact access within 8 emulated instructions | wanted |"
          " why the others have none, % of all samples | decoded |")
    print("| --- | --- | --- | --- | --- |")
    for name, (command, _, wanted) in programs.items():
        said = run([bench_decode, "2", *command])
        near = re.search(r"exact access within 8: ([0-9.]+) %; others end: *(.*) %", said)
        speed = re.search(r"([0-9.]+) M samples/s", said)
        if not near:
            print("| %s | no samples | %d %% | | |" % (name, wanted))
            continue
        bars[name] = float(near[1]) - wanted
        reasons = re.sub(r"([a-z0-9-]+) ([0-9.]+)", r"\1 \2,", near[2]).rstrip(",")
        shown = " ".join(os.path.basename(word) for word in command[:2] if word[0] != ":")
        print("| `%s` | %s %% | %d %% | %s | %s M samples/s |" % (
            shown, near[1], wanted, reasons, speed[1]), flush=True)
    print()
    return bars


LACKEY = r"""valgrind --tool=lackey --basic-counts=no --trace-mem=yes --log-fd=9 "$@" \
9>&1 >/dev/null 2>&1 |
awk '/^ [LSM] /{n++; a=$2; sub(/,.*/, "", a)
if (length(a) == 10 && a ~ /^1ff/) stack++; if ($1 != "L") write++}
END {print n, stack, write}'"""


def print_classes(memsight, programs):
    if not shutil.which("valgrind"):
        print("Not compared with lackey: valgrind is not installed.\n")
        return
    print("| program | stack: accesses (lackey) | stack: time (memsight) |"
          " written: accesses | written: time | unknown | imputed |")
    print("| --- " * 7 + "|")
    for name, (_, command, _) in programs.items():
        counted = subprocess.run(["bash", "-c", LACKEY, "lackey", *command], check=True,
                                 stdout=subprocess.PIPE, env=environment(),
                                 text=True).stdout.split()
        n, stack, write = [float(word) for word in counted]
        database = Recording(memsight, command, ["--source", "clock", "--freq", str(KERNEL_HZ)])
        ask = ("SELECT coalesce(sum(share), 0) FROM touch JOIN owner ON owner.id = owner_kind"
               " WHERE role = 1 AND owner.name NOT IN ('tool', 'code', 'kernel')")
        whole = database.one(ask)
        unknown = database.one(ask + " AND owner.name = 'unknown'")
        known = whole - unknown
        imputed = database.one("SELECT (SELECT sum(n_imputed) FROM site)"
                               " + (SELECT coalesce(sum(n_imputed), 0) FROM object_total)")
        in_stack = database.one(ask + " AND owner.name = 'stack'") / known
        written = database.one(ask + " AND is_write AND owner.name <> 'unknown'") / known
        print("| %s | %.1f %% | %.1f %% | %.1f %% | %.1f %% | %.1f %% | %.1f |" % (
            name, 100 * stack / n, 100 * in_stack, 100 * write / n, 100 * written,
            100 * unknown / whole, 100 * imputed / whole), flush=True)
    print()


def measure_kernels(arguments):
    bars = print_kernels(arguments.memsight, arguments.kernels)
    mix, counts, culprit = max(bars["mix"]), max(bars["counts"]), min(bars["culprit"])
    return [
        ("mix of a loop at most 0.5 points off", "%.2f" % mix, mix <= 0.5),
        ("counts within 2 % where they are claimed", "%.2f %%" % (100 * counts), counts <= 0.02),
        ("at least 90 % of the stalls at the culprit", "%.1f %%" % (100 * culprit), culprit >= 0.9),
    ]


def measure_programs(arguments):
    with tempfile.TemporaryDirectory(prefix="memsight-accuracy-") as folder:
        programs = {name: each for name, each in commands(folder).items() if shutil.which(name)}
        near = print_near(arguments.bench_decode, programs)
        print_classes(arguments.memsight, programs)
    if not near:
        return []
    least = min(near.values())
    return [("exact accesses of real programs as wanted", "%+.1f points at least" % least,
             least >= 0)]


def measure_steps(arguments):
    misses = print_steps(arguments.stepper, dict(word.split("=", 1) for word in arguments.program))
    return [("single-stepped programs as wanted", "; ".join(misses) or "all", not misses)]


def measure_kinds(arguments):
    misses = print_kinds(arguments.memsight, arguments.victim, arguments)
    return [("every kind of code as wanted", "; ".join(misses) or "all", not misses)]


PARTS = {"kinds": measure_kinds, "kernels": measure_kernels, "steps": measure_steps,
         "programs": measure_programs}


def arguments_of(words):
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ["memsight", "kernels", "bench_decode", "victim", "stepper"]:
        parser.add_argument(name)
    parser.add_argument("--program", action="append", default=[], metavar="NAME=PATH",
                        help="to single-step")
    parser.add_argument("--part", choices=PARTS, action="append",
                        help="only these; may be repeated")
    parser.add_argument("--kinds",
                        help="only these kinds of code, with commas (and only that part)")
    parser.add_argument("--repeat", type=int, default=50, help="runs of each case")
    parser.add_argument("--rate", type=int, default=1999, help="samples per second of CPU time")
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--jobs", type=int, choices=[1, 2], default=min(2, os.cpu_count() or 1),
                        help="2: analyse one run while the next is recorded")
    parser.add_argument("--csv", help="the kinds' table, into this file")
    parser.add_argument("--json", help="the same as JSON")
    found = parser.parse_args(words)
    found.part = found.part or (["kinds"] if found.kinds else list(PARTS))
    return found


def main():
    arguments = arguments_of(sys.argv[1:])
    print_machine("meson test -C build --benchmark accuracy")
    results = [result for part in arguments.part for result in PARTS[part](arguments)]
    print("| wanted | measured | |")
    print("| --- | --- | --- |")
    for wanted, measured, is_met in results:
        print("| %s | %s | %s |" % (wanted, measured, "met" if is_met else "missed"))
    for wanted, measured, is_met in results:
        if not is_met:
            print("MISSED: %s: %s" % (wanted, measured), file=sys.stderr)
    sys.exit(0 if all(is_met for _, _, is_met in results) else 1)


main()
