#!/usr/bin/env python3
"""Plug-ins of --load: values that are known, what goes wrong in them, and a program that does not
notice. Arguments: memsight, victim-plugins, plugin-steps, a library without plug-in,
plugin-sampled, the plug-ins rusage, proc and perf."""
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time

import json_schema
from whole import Checks, run

checks = Checks()
MEMSIGHT, VICTIM, STEPS, OTHER, SAMPLED, RUSAGE, PROC, PERF = map(os.path.abspath, sys.argv[1:])
OPTIONS = ["--source", "none", "--pages", "off"]
VALUES = """
SELECT component.name, coalesce(region_total.name, ''), n, total, own, mean, least, most
FROM component_value JOIN component ON component.id = component_id
LEFT JOIN region_total ON region_total.id = path_id"""


def recorded(does, *options, arguments=(), exit_status=3):
    """A recording of the victim, which does what it does without us, and what it wrote."""
    environment = {**os.environ, "PLUGIN_DOES": does}
    command = [VICTIM, *arguments]
    plain = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=False)
    folder = tempfile.mkdtemp(dir=FOLDER)
    trace = os.path.join(folder, "run.mst")
    done = subprocess.run([MEMSIGHT, "record", "-q", "-o", trace, *OPTIONS, "--load", STEPS,
                           *options, "--", *command], env=environment, capture_output=True,
                          check=False)
    checks.that(done.stdout == plain.stdout, f"{does}: {done.stdout} {done.stderr}")
    checks.that(done.returncode == exit_status, f"{does}: status {done.returncode}")
    text = run([MEMSIGHT, "query", "--format", "csv", trace, VALUES])
    rows = [line.split(",") for line in text.splitlines()[1:]]
    values = {(row[0], row[1]): row[2:] for row in rows}
    losses = run([MEMSIGHT, "query", "--format", "csv", trace, "SELECT reason FROM loss"])
    return values, losses, done.stderr.decode(), trace


def values_are_those_of_regions():
    values, losses, said, trace = recorded("", "--init-functions", "say_hello",
                                           "--fini-functions", "say_bye")
    # Three times work(), each with two trips of three: a step for each begin and end.
    for region, n, total, own in ("inner", 18, 18, 18), ("outer", 6, 42, 24), \
            ("left open", 3, 3, 3), ("around", 3, 6, 3):  # one pop, and one reading for both
        found = values[("steps", region)]
        checks.that([int(x) for x in found[:3]] == [n, total, own], f"{region}: {found}")
    process = values[("steps", "")]
    checks.that(int(process[0]) == 1, f"the process: {process}")
    for name in "level", "peak":
        found = values[(name, "inner")]
        checks.that(found == ["36", "", "", "-7.0", "-7", "-7"], f"{name}: {found}")
    checks.that(("nothing", "inner") not in values, "what was not known has no value")
    checks.that("plug-in" not in losses and "left out" not in losses, losses)
    checks.that(said == "hello\nbye\nderegister\n", f"functions of the plug-in: {said!r}")
    sizes = run([MEMSIGHT, "query", "--format", "csv", trace,
                 "SELECT count(*) FROM allocation WHERE size = 12345"]).split()
    checks.that(sizes[-1] == "0", f"blocks of the plug-in: {sizes}")
    for report, last in ("regions", "region"), ("functions", "function"):
        rows = json.loads(run([MEMSIGHT, "report", trace, "--" + report, "--format", "json"]))
        json_schema.check_report(checks, rows, report)
        found = {row[last]: [row["steps [steps]"], row["own steps [steps]"],
                             row["most level [m]"], row["most peak [m]"]] for row in rows}
        path = ("outer / ", "around / ") if report == "regions" else ("", "")
        checks.that(found == {"outer": [42, 24, -7, -7], path[0] + "inner": [18, 18, -7, -7],
                              "around": [6, 3, -7, -7], path[1] + "left open": [3, 3, -7, -7]}
                    and not any("nothing" in name for name in rows[0]), f"{report}: {found}")
    report = run([MEMSIGHT, "report", trace, "--plugins"])
    checks.that("plug-in steps: " in report and "outer / inner" in report, report)


CALLS = ["--function-include", "^(leaf|tail|again|jump_out|calls|on_other_stack)$"]


def values_are_those_of_functions():
    """The numbers are asks: one for each begin and end."""
    values, losses, _, trace = recorded("", *CALLS, arguments=["functions"])
    # calls() has again(5) with a leaf in each, tail that jumps to leaf, and jump_out with a leaf,
    # which ends with calls().
    rows = json.loads(run([MEMSIGHT, "report", trace, "--functions", "--format", "json"]))
    json_schema.check_report(checks, rows, "functions")
    found = {row["function"]: (row["trips"], row["steps [steps]"], row["own steps [steps]"],
                               row["most level [m]"]) for row in rows}
    # Of a call: again 5 + 5 asks and 10 of its leaves; tail 2, then leaf 2; jump_out 1 of its own,
    # 2 of its leaf, and the one of both ends.
    checks.that(found == {
        "leaf": (3 * 7 + 2, 3 * 7, 3 * 7, -7),
        "tail": (3, 3, 3, -7),
        "again": (15, 3 * 19, 3 * 14, -7),
        "jump_out": (3, 3 * 3, 3 * 2, -7),
        "calls": (3, 3 * 28, 3 * (28 - 19 - 1 - 1 - 3), -7),
        "on_other_stack": (2, None, None, None),
    }, f"functions: {found}")
    checks.that("left out" not in losses, losses)
    for does, words in ("crash", "steps left out: steps crashed (SIGSEGV)"), \
            ("sleep", "steps left out: steps took more than 1 ms three times in a row"):
        values, losses, _, _ = recorded(does, *CALLS, arguments=["functions"])
        checks.that(words in losses and ("level", "calls") in values, f"{does}: {losses}")


def values_are_those_of_windows():
    """Windows begin and end by hand; the program allocates in each, and between them."""
    trace = os.path.join(FOLDER, "windows.mst")
    with subprocess.Popen([MEMSIGHT, "record", "-q", "-o", trace, *OPTIONS, "--load", STEPS,
                           "--", VICTIM, "windows"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        def allocates():
            for _ in range(5):
                process.stdin.write(b"x")
                process.stdin.flush()
                checks.that(process.stdout.read(1) == b"x", "it allocates")
                time.sleep(0.02)

        for word in "pause", "resume", "pause", "resume", "pause":
            allocates()
            run([MEMSIGHT, "ctl", trace, word])
        allocates()
        process.stdin.close()
        checks.that(process.stdout.read() == b"allocated\n" and process.wait() == 3, "windows")
    found = run([MEMSIGHT, "query", "--format", "csv", trace,
                 "SELECT name, window, n, total, most FROM component_value JOIN component"
                 " ON component.id = component_id ORDER BY name, window"]).split()[1:]
    # It began with the first, for which the process's own begin counts; n of readings and of steps.
    checks.that(found == [
        *(f"{name},{window},2,,-7" for name in ("level", "peak") for window in range(4)),
        *(f"steps,{window},1,{total},{total}" for window, total in enumerate((6, 1, 1, 1)))],
                f"windows: {found}")
    rows = json.loads(run([MEMSIGHT, "report", trace, "--window-list", "--format", "json"]))
    json_schema.check_report(checks, rows, "window-list")
    checks.that([(row["steps [steps]"], row["most peak [m]"]) for row in rows] == [(1, -7)] * 3,
                f"--window-list: {rows}")


def ask(trace, sql):
    text = run([MEMSIGHT, "query", "--format", "csv", trace, sql])
    return [line.split(",") for line in text.splitlines()[1:]]


def samples(does, source, load=SAMPLED):
    trace = os.path.join(tempfile.mkdtemp(dir=FOLDER), "run.mst")
    done = subprocess.run([MEMSIGHT, "record", "-q", "-o", trace, "--source", source, "--pages",
                           "off", "--load", load, "--", VICTIM, "samples"],
                          env={**os.environ, "PLUGIN_DOES": does}, capture_output=True, text=True,
                          check=False)
    checks.that(done.stdout == "spun\n" and done.returncode == 3, f"{does} {source}: {done}")
    losses = [row[0] for row in ask(trace, "SELECT reason FROM loss")]
    return trace, losses, done.stderr


def values_are_those_of_samples():
    """Each sample that lies in spin() has a value: one more than that before it in its thread."""
    trace, losses, said = samples("", "signal")
    rows = ask(trace, "SELECT thread_id, value FROM component_sample JOIN component ON component.id"
               " = component_id WHERE name = 'asked' ORDER BY thread_id, time_ns")
    found = {}
    for thread, value in rows:
        found.setdefault(thread, []).append(int(value))
    checks.that(len(found) == 2 and all(
        values == list(range(values[0], values[0] + len(values))) for values in found.values()),
                f"asks of each thread: {found}")
    n_samples, n_values = map(int, ask(
        trace, "SELECT count(*), count(value) FROM sample JOIN frame ON frame.id = sample.frame_id"
        " LEFT JOIN component_sample USING (thread_id, time_ns) WHERE function = 'spin'")[0])
    checks.that(n_samples == n_values > 50, f"{n_samples} samples in spin, {n_values} values")
    sums = ask(trace, "SELECT path_id > 0, n, total FROM component_value JOIN component ON"
               " component.id = component_id WHERE window = -1 ORDER BY 1")
    n = sum(int(row[1]) for row in sums)
    checks.that(n == len(rows) - 2 and n == sum(int(row[2]) for row in sums), f"sums: {sums}")
    checks.that(not any("left out" in loss or "asked" in loss for loss in losses) and not said,
                f"{losses} {said}")
    report = run([MEMSIGHT, "report", trace, "--plugins"])
    checks.that("spinning (samples)" in report, report)
    trace, losses, _ = samples("crash", "signal")
    checks.that(any("asked crashed (SIGSEGV)" in loss for loss in losses), f"crash: {losses}")
    trace, losses, said = samples("", "clock")
    if ask(trace, "SELECT 1 FROM source WHERE name = 'clock' AND error = 0"):
        checks.that("plug-ins (asked) are not asked at samples" in said and
                    any("--source signal" in loss for loss in losses), f"clock: {losses} {said}")
    # rusage answers there: CPU time grows from sample to sample, up to what the thread had.
    trace, losses, _ = samples("", "signal", RUSAGE)
    rows = ask(trace, "SELECT thread_id, value FROM component_sample JOIN component ON component.id"
               " = component_id WHERE name = 'user-time' ORDER BY thread_id, time_ns")
    found = {}
    for thread, value in rows:
        found.setdefault(thread, []).append(int(value))
    checks.that(len(found) == 2 and all(values == sorted(values) and values[-1] > 10**8
                                        for values in found.values()), f"user-time: {found}")


def components_are_chosen_by_name():
    values, _, _, _ = recorded("", "--components", "gone|peak,gone")
    found = {name for name, _ in values}
    checks.that(found == {"peak", "steps"}, f"chosen: {found}")


def what_goes_wrong_is_left_out_and_said():
    for does, words in ("crash", "steps left out: steps crashed (SIGSEGV)"), \
            ("abort", "steps left out: steps ended by abort"), \
            ("sleep", "steps left out: steps took more than 1 ms three times in a row"):
        values, losses, _, _ = recorded(does)
        checks.that(words in losses, f"{does}: {losses}")
        checks.that(int(values[("level", "outer")][0]) == 12, f"{does}: the other one goes on")


def the_program_has_its_own_faults():
    recorded("", arguments=["die"], exit_status=128 + signal.SIGSEGV)
    recorded("", arguments=["raise"], exit_status=128 + signal.SIGABRT)


def bad_files_are_refused_before_the_program_starts():
    text = os.path.join(FOLDER, "text.so")
    with open(text, "w", encoding="ascii") as file:
        file.write("no library, but long enough for the header of one: " + "x" * 100)
    foreign = os.path.join(FOLDER, "foreign.so")
    with open(STEPS, "rb") as file:
        data = bytearray(file.read())
    struct.pack_into("<H", data, 18, 40)  # e_machine: 32-bit ARM
    with open(foreign, "wb") as file:
        file.write(data)
    for does, options, words in [
            ("", ["--load", "/nowhere.so"], "--load /nowhere.so: No such file or directory"),
            ("", ["--load", text], "this is no shared library"),
            ("", ["--load", foreign], "for another processor"),
            ("", ["--load", OTHER], "no function memsight_register_NAME is exported; the nearest"
             " is memsight_registre_other"),
            ("version", ["--load", STEPS], "built for version 3"),
            ("fail", ["--load", STEPS], "memsight_register_steps has failed"),
            ("twice", ["--load", STEPS], "component steps is there already, of plug-in steps"),
            ("register-crash", ["--load", STEPS], "it crashes when it is loaded and registered"
             " (SIGSEGV)"),
            ("", ["--load", STEPS, "--components", "stpes"], "did you mean steps?"),
            ("", ["--load", STEPS, "--init-functions", "nope"], "it has no function nope"),
            ("", ["--load", STEPS, "--no-alloc"], "--load needs"),
            ("", ["--components", "steps"], "name it by --load"),
    ]:
        done = subprocess.run([MEMSIGHT, "record", "-o", os.path.join(FOLDER, "bad.mst"), *OPTIONS,
                               *options, "--", VICTIM], env={**os.environ, "PLUGIN_DOES": does},
                              capture_output=True, text=True, check=False)
        lines = done.stderr.splitlines()
        checks.that(done.returncode != 3 and not done.stdout and len(lines) == 1
                    and words in done.stderr, f"{options} {does}: {done}")


def examples_can_be_asked():
    listed = run([MEMSIGHT, "avail", "--load", RUSAGE, "--load", PROC, "--load", PERF])
    for words in "soft-faults", "plug-in proc", "the first of cycles|task-time":
        checks.that(words in listed, f"{words}: {listed[:2000]}")
    trace = os.path.join(FOLDER, "examples.mst")
    subprocess.run([MEMSIGHT, "record", "-q", "-o", trace, *OPTIONS, "--load", RUSAGE, "--load",
                    PROC, "--load", PERF, "--components", "user-time,soft-faults,rss,task-time",
                    "--", VICTIM], stdout=subprocess.DEVNULL, check=False)
    text = run([MEMSIGHT, "query", "--format", "csv", trace,
                "SELECT name, n, most FROM component_value JOIN component ON component.id ="
                " component_id WHERE path_id = 0"])
    rows = {row[0]: [int(x) for x in row[1:]]
            for row in (line.split(",") for line in text.splitlines()[1:])}
    losses = run([MEMSIGHT, "query", "--format", "csv", trace, "SELECT reason FROM loss"])
    checks.that(rows["rss"][0] == 2 and rows["rss"][1] > 100000, f"{rows} {losses}")
    checks.that(rows["soft-faults"][1] > 0 and "left out" not in losses, f"{rows} {losses}")


def copies_and_series_ask():
    """Both run in other folders than those in which their plug-in was named."""
    asked = "SELECT n FROM component_value JOIN component ON component.id = component_id" \
            " WHERE name = 'steps' AND path_id = 0"
    there, name = os.path.split(STEPS)
    copy, config = (os.path.join(FOLDER, part) for part in ("copy", "series.ini"))
    run([MEMSIGHT, "instrument", "-q", "-o", copy, "--trace", copy + ".mst", *OPTIONS, "--load",
         name, "--", VICTIM], cwd=there)
    subprocess.run([copy], cwd=FOLDER, stdout=subprocess.DEVNULL, check=False)
    n = run([MEMSIGHT, "query", "--format", "csv", copy + ".mst", asked]).split()
    checks.that(n[1:] == ["1"], f"a copy: {n}")
    with open(config, "w", encoding="ascii") as file:
        file.write(f"[series]\noutput = {FOLDER}/results\n[workload a]\ndirectory = {FOLDER}\n"
                   f"expected-status = 3\ncommand = {VICTIM}\n[mode asked]\n"
                   f"source = none\npages = off\nload = {name}\n")
    run([MEMSIGHT, "run", "-q", config], cwd=there)
    n = run([MEMSIGHT, "query", "--format", "csv", FOLDER + "/results/memsight.db", asked]).split()
    checks.that(n[1:] == ["1"], f"a series: {n}")


with tempfile.TemporaryDirectory(prefix="memsight-test-") as FOLDER:
    values_are_those_of_regions()
    values_are_those_of_functions()
    values_are_those_of_windows()
    values_are_those_of_samples()
    components_are_chosen_by_name()
    what_goes_wrong_is_left_out_and_said()
    the_program_has_its_own_faults()
    bad_files_are_refused_before_the_program_starts()
    examples_can_be_asked()
    copies_and_series_ask()
checks.end()
