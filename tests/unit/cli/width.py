#!/usr/bin/env python3
"""No line of a report is wider than the terminal, or than 100 columns where there is none, and call
sites keep their function and place. Arguments: memsight, the source of a program in C++ with long
names, the compiler's command."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

import whole

MEMSIGHT, SOURCE = sys.argv[1:3]
COMPILER = sys.argv[3:]
checks = whole.Checks()
PICTURE = re.compile("\033\\[[0-9;]*m")


def without_marks(text):
    """Less what says that there are more rows, or more frames than a report names."""
    return re.sub("… [0-9,]+ more| < …", "", text)


def report(trace, columns, *options):
    env = whole.environment()
    env.pop("COLUMNS", None)
    if columns:
        env["COLUMNS"] = str(columns)
    done = subprocess.run([MEMSIGHT, "report", trace, *options], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env=env, check=False)
    checks.that(done.returncode == 0, f"{options}: {done.stdout}")
    return done.stdout


def names():
    """The options that ask for a report: those of the usage's first group that take no argument."""
    text = whole.run([MEMSIGHT, "report", "--help"])
    options = re.findall(r"^ +(--[a-z-]+) ", text.split("Selection:")[0], re.M)
    return [name for name in options if name not in ["--full", "--full-names", "--fail"]]


def widest(text):
    return max((len(PICTURE.sub("", line)) for line in text.splitlines()), default=0)


def check(trace, wanted):
    for columns in [80, 100, 140, None]:
        for name in wanted:
            text = report(trace, columns, *name)
            n = widest(text)
            checks.that(n <= (columns or 100), f"{name} with {columns} columns: a line of {n}: "
                        f"{max(text.splitlines(), key=len)}")
        for name in ["--sites", "--leaks", "--peak"]:
            text = report(trace, columns, name)
            checks.that(
                re.search(r"long_named_.*::make_block.*victim-long-names\.cc:\d+( < |$)", text,
                          re.M),
                f"{name} with {columns} columns: no call site of the program: {text}")
            checks.that("…" in text, f"{name} with {columns} columns: nothing is cut")
    text = report(trace, 80, "--leaks", "--full")
    checks.that("…" not in without_marks(text) and widest(text) > 300,
                f"--full cuts: {text}")
    json = report(trace, 80, "--leaks", "--format", "json")
    checks.that("…" not in without_marks(json), "json is cut")


def on_terminal(columns, command):
    """What a command writes to a terminal of so many columns that its standard error is; its output
    is none."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = whole.environment()
    env.pop("COLUMNS", None)
    text = b""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=its, env=env) as process:
        os.close(its)
        try:
            while piece := os.read(ours, 65536):
                text += piece
        except OSError:  # the other end is closed
            pass
    checks.that(process.returncode == 0, f"{command}: {text}")
    os.close(ours)
    return text.decode(errors="replace").replace("\r\n", "\n")


def check_others(trace, program, folder):
    """Also lines of diff, of query where it is told a width, and of what record reports at a
    terminal."""
    other = os.path.join(folder, "other.mst")
    seen = on_terminal(61, [MEMSIGHT, "record", "--report", "-q", "-o", other, "--", program])
    whole.run([
        MEMSIGHT, "record", "-q", "-o", other, "--force", "--events", "heap", "--min-size", "60000",
        "--", program
    ])
    steps = on_terminal(80, [MEMSIGHT, "analyze", "--force", trace])
    for step in ["analysing: reading 0 % of ", "analysing: adding up", "analysing: writing blocks",
                 "analysing: drawing pictures", "analysing: making indexes"]:
        checks.that(step in steps, f"no {step}: {steps!r}")
    checks.that(steps.endswith("\r\033[K") and
                max(map(len, re.split("[\r\n]", steps))) < 80, f"{steps!r}")
    seen = seen.split("\r\033[K")[-1]  # behind what was shown meanwhile
    report_lines = seen.split("allocations  ")
    checks.that(
        len(report_lines) == 2 and widest(seen) <= 61 < len(program) and "…" in seen,
        f"record --report: {seen}")
    for columns in [80, 140]:
        env = whole.environment(COLUMNS=str(columns))
        text = whole.run([MEMSIGHT, "diff", trace, other, "--by", "blocks"], env=env)
        checks.that("…" in text and widest(text) <= columns, f"diff at {columns}: {text}")
        checks.that(re.search(r"::(fill_rows|make_block)", text),
                    f"diff at {columns}: no function's name: {text}")
        full = whole.run([MEMSIGHT, "diff", trace, other, "--by", "blocks", "--full"], env=env)
        checks.that("…" not in without_marks(full) and widest(full) > columns,
                    f"diff --full at {columns}: {full}")
        sql = "SELECT id, command, program FROM run"
        text = whole.run([MEMSIGHT, "query", trace, sql], env=env)
        checks.that("…" in text and widest(text) <= columns, f"query at {columns}: {text}")
        full = whole.run([MEMSIGHT, "query", trace, sql, "--full"], env=env)
        checks.that("…" not in without_marks(full) and widest(full) > columns,
                    f"query --full at {columns}: {full}")
    env.pop("COLUMNS")
    checks.that(
        whole.run([MEMSIGHT, "query", trace, sql], env=env) == full,
        "query cuts what goes to a program")


def check_exports(trace, folder):
    """export says how far it is, by the rows or columns that there are, and takes the line away."""
    path = os.path.join(folder, "exported")
    n = whole.run([MEMSIGHT, "query", "--format", "csv", trace,
                   "SELECT printf('%,d', count(*)) FROM allocation"]).split("\n")[1].strip('"')
    for phases, words in [
        ([f"writing 0 % of {n} rows"], ["--format", "csv", "--view", "allocation"]),
        (["finding places 0 % of ", "writing 0 % of "], ["--format", "pprof"]),
        (["adding up call paths"], ["--format", "callgrind"]),
        (["gathering 0 % of "], ["--format", "speedscope"]),
        (["copying ", "replacing names 0 % of ", "packing"], ["--anonymise"]),
    ]:
        steps = on_terminal(80, [MEMSIGHT, "export", trace, "--force", "-o", path, *words])
        for phase in phases:
            checks.that(f"exporting: {phase}" in steps, f"{words}: no {phase}: {steps!r}")
        checks.that(steps.endswith("\r\033[K"), f"{words}: {steps!r}")


def check_progress(folder):
    """record --progress says how long the trace is, as long as it is recorded."""
    command = [MEMSIGHT, "record", "--progress", "1s", "--max-size", "1G", "-o",
               os.path.join(folder, "progress.mst"), "--", "cat"]
    said = ""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=whole.environment()) as process:
        for line in process.stderr:
            said += line
            if re.fullmatch(r"memsight: [\d.]+ s: [\d,]+ events, [\d,]+ samples and faults, "
                            r"[\d.]+ [KM]?i?B of trace, [\d.]+ [KM]?i?B a second(; at this rate "
                            r"it stops in [^:]+: --max-size is reached)?\n", line):
                break
        else:
            checks.that(False, f"no line of progress: {said}")
        process.stdin.close()
        process.stderr.read()
    bad = whole.Outcome([MEMSIGHT, "record", "--progress", "often", "--", "true"])
    checks.that(bad.status == 2 and "--progress: 'often' is no time" in bad.messages, bad.messages)


def main():
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        deep = os.path.join(folder, *["a-folder-with-a-name-of-forty-characters"] * 5)
        os.makedirs(deep)
        program = os.path.join(deep, "program-with-a-long-name")
        subprocess.run([*COMPILER, "-g", "-O1", "-o", program, SOURCE], check=True)
        trace = os.path.join(deep, "run.mst")
        whole.run([MEMSIGHT, "record", "-q", "-o", trace, "--", program, *["argument"] * 60])
        wanted = [[]] + [[name] for name in names()]
        checks.that(len(wanted) > 20, f"only {wanted}")
        check(trace, wanted)
        check_others(trace, program, folder)
        check_progress(folder)
        check_exports(trace, folder)
    checks.end()


main()
