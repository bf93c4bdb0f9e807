#!/usr/bin/env python3
"""Real programs, single-stepped: what decode/ tells from random steps beside what ran. As a
program: the quick form with one program. Arguments: the stepper, a program [, argument ...]."""
import os
import shutil
import subprocess
import sys
import tempfile

from whole import SKIP, environment, skip

MOST_NOT_RUN, MOST_STALLS_WRONG = 0.005, 0.01
STRETCHES, STEPS, GAP_MS = 6, 40000, 40
# Few samples of a stall: one wrong of 50 is no 2 %.
LEAST_SAMPLES = 200

PERL = ("my %h; my $s = 1; while (1) { $s = ($s * 69069 + 1) % 4294967296;"
        " $h{$s % 9973} .= chr(65 + $s % 26); %h = () if keys %h > 9000;"
        " my @x = sort { $a <=> $b } map { $_ * 3 } 1 .. 50; }")
PYTHON = """
words = {}
i = 0
while True:
    i = i * 69069 + 1 & 0xffffffff
    words.setdefault(str(i % 9973), []).append(i)
    if i % 5000 == 0:
        words = {}
    sum(sorted(x * 3 % 101 for x in range(50)))
"""
SQL = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 100000000)" \
      " SELECT sum(x * x % 7), x % 1000 FROM c GROUP BY 2 ORDER BY 1;"
JQ = "[range(10000000) | {a: (. % 97), b: tostring}] | group_by(.a) | map(length)"


def commands(folder, own):
    """{program: command}; own: {name: path} of ours."""
    text = os.path.join(folder, "text")
    with open(text, "w", encoding="ascii") as out:
        seed = 1
        for _ in range(1500000):
            seed = seed * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
            print("line %d of %x" % (seed >> 50, seed >> 40), file=out)
    found = {
        "bzip2": ["bzip2", "-c", text], "xz": ["xz", "-T1", "-c", text],
        "zstd": ["zstd", "--single-thread", "-12", "-c", text],
        "sort": ["sort", "--parallel=1", text],
        "sqlite3": ["sqlite3", ":memory:", SQL], "perl": ["perl", "-e", PERL],
        "python3": [os.path.realpath(sys.executable), "-S", "-c", PYTHON], "jq": ["jq", "-n", JQ],
    }
    found = {name: command for name, command in found.items() if shutil.which(command[0])}
    return {**found, **{name: [path] for name, path in own.items()}}


def step(stepper, command, stretches=STRETCHES, n_steps=STEPS, seed=1, below=False):
    """{what: number} as the stepper prints it; below: with the bytes below the stack pointer."""
    numbers = [str(number) for number in (seed, stretches, n_steps, GAP_MS)]
    done = subprocess.run([stepper, *["below"][:below], *numbers, *command], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment(LC_ALL="C"), check=False, timeout=600)
    if done.returncode == SKIP:
        skip("ptrace of own children is not allowed")
    if done.returncode != 0:
        raise SystemExit("%s: exit status %d %s" % (
            " ".join(command), done.returncode, done.stderr))
    sys.stderr.write("".join(line + "\n" for line in done.stderr.splitlines()[:5]))
    pairs = [line.split() for line in done.stdout.splitlines()]
    return {name: float(number) for name, number in pairs}


def misses_of(name, seen):
    n = seen["samples"]
    if n < LEAST_SAMPLES:
        return ["%s: only %d samples" % (name, n)]
    misses = []
    if seen["addresses-wrong"]:
        misses.append("%s: %d wrong addresses" % (name, seen["addresses-wrong"]))
    if seen["not-run"] > MOST_NOT_RUN * n:
        misses.append("%s: %.2f %% of time at instructions that did not run" % (
            name, 100 * seen["not-run"] / n))
    if seen["stalls-wrong"] > MOST_STALLS_WRONG * seen["stalls"]:
        misses.append("%s: %.2f %% of stalls at a wrong instruction" % (
            name, 100 * seen["stalls-wrong"] / seen["stalls"]))
    return misses


def say(name, seen):
    n, stalls = max(seen["samples"], 1), max(seen["stalls"], 1)
    print("| %s | %d | %d | %.1f %% | %d of %d | %.2f %% | %.1f %% | %.2f %% | %d of %d |" % (
        name, seen["steps"], n, 100 * (seen["resolved"] + seen["code"]) / n,
        seen["addresses-wrong"], seen["addresses"], 100 * seen["not-run"] / n,
        100 * seen["stalls"] / n, 100 * seen["stalls-wrong"] / stalls,
        seen["loops-wrong"], seen["loops"]), flush=True)


def print_steps(stepper, own):
    """The table of all programs. Returns what was missed."""
    misses = []
    print("| program | steps | samples | decoded | wrong addresses |"
          " time at instructions that did not run | stalls reported |"
          " of these at a wrong instruction | loops that did not close |")
    print("| --- " * 9 + "|")
    with tempfile.TemporaryDirectory(prefix="memsight-accuracy-") as folder:
        for name, command in commands(folder, own).items():
            seen = step(stepper, command)
            say(name, seen)
            misses += misses_of(name, seen)
    print()
    return misses


def main():
    seen = step(sys.argv[1], sys.argv[2:], 2, 30000)
    print(seen)
    misses = misses_of(os.path.basename(sys.argv[2]), seen)
    for miss in misses:
        print("FAILED:", miss)
    sys.exit(1 if misses else 0)


if __name__ == "__main__":
    main()
