"""Series of runs, as a person starts them: the case is named on the command line."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from whole import Checks, Outcome, environment, run, skip

PATIENCE_S = 120


def running(words):
    """Processes whose command lines hold these words."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                line = file.read()
        except OSError:
            continue
        if words.encode() in line.replace(b"\0", b" ") and int(pid) != os.getpid():
            found.append((int(pid), line))
    return found


class Series(Checks):
    """A folder for one series, and its config."""

    def __init__(self, memsight):
        super().__init__()
        self.memsight = memsight
        self.temporary = tempfile.TemporaryDirectory(prefix="memsight-series-")
        self.folder = self.temporary.name
        self.output = os.path.join(self.folder, "results")
        self.config = os.path.join(self.folder, "series.ini")

    def write(self, text, head="name = t\nrepetitions = 2\nseed = 3\n"):
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(f"[series]\noutput = {self.output}\n{head}\n{text}")

    def execute(self, *options, **more):
        return Outcome([self.memsight, "run", *options, self.config], cwd=self.folder, **more)

    def runs(self):
        return sorted(name for name in os.listdir(self.output) if not name.startswith(".")
                      and os.path.isdir(os.path.join(self.output, name)))

    def read(self, *names):
        with open(os.path.join(self.output, *names), encoding="utf-8", errors="replace") as file:
            return file.read()

    def value(self, name, key):
        return re.search(rf"^{key} = (.*)$", self.read(name, "run.ini"), re.MULTILINE).group(1)


TWO_MODES = "[mode natural]\ndry = yes\n[mode traced]\nsource = none\n"


def the_example_of_the_config_is_valid(series):
    """Its workloads are not here, so it is the workload that is told of, and nothing else."""
    example = os.path.join(os.path.dirname(__file__), "../../../schemas/series.example.ini")
    outcome = Outcome([series.memsight, "run", "--check", example], cwd=series.folder)
    series.that(outcome.status == 2 and "no file fits './bin/*.A'" in outcome.messages,
                f"{outcome.status} {outcome.messages}")
    os.mkdir(os.path.join(series.folder, "bin"))
    for name in ["bt.A", "lu.A", "lu"]:
        shutil.copy("/bin/true", os.path.join(series.folder, "bin", name))
    outcome = Outcome([series.memsight, "run", "--check", example], cwd=series.folder)
    series.that(outcome.status == 0, f"{outcome.status} {outcome.messages}")
    plan = outcome.stdout.decode()
    for words in [
            "4 programs x 5 modes x 8 repetitions = 160 runs", "mode natural: the natural program",
            "program bt.A: ./bin/bt.A", "program lu: ./bin/lu -n 100", "seed 42",
            "--counters=page-faults,context-switches"
    ]:
        series.that(words in plan, f"{words!r} in the plan: {plan}")


def a_series_makes_each_run_once_and_says_how_it_ended(series):
    series.write(
        "[workload echo]\ncommand = sh -c 'echo $A out; echo err >&2; cat'\n"
        f"stdin = {series.config}\nenvironment = 'A=x  y'\n[workload two]\ncommand = ls /\n" +
        TWO_MODES)
    outcome = series.execute("--log", os.path.join(series.folder, "log"))
    series.that(outcome.status == 0, f"status {outcome.status} {outcome.messages}")
    expected = sorted(f"{p}.{m}.{n}" for p in ["echo", "two"] for m in ["natural", "traced"]
                      for n in [1, 2])
    series.that(series.runs() == expected, f"{series.runs()}")
    for name in expected:
        series.that(series.value(name, "result") == "ok", series.read(name, "run.ini"))
    with open(series.config, encoding="utf-8") as file:
        series.that(
            series.read("echo.traced.2", "stdout") == "x y out\n" + file.read(), "stdout is kept")
    series.that(series.read("echo.natural.1", "stderr") == "err\n", "stderr is kept")
    with open(os.path.join(series.folder, "log"), encoding="utf-8") as file:
        log = file.read()
    series.that(all(f" {name}: ok, " in log for name in expected), log)
    trace = os.path.join(series.output, "two.traced.2", "trace.mst")
    row = run([series.memsight, "query", "--format", "csv", trace,
               "SELECT program, mode, repetition, (SELECT count(*) FROM allocation) > 10 FROM run"])
    series.that(row.splitlines()[1] == "two,traced,2,1", row)
    facts = run([series.memsight, "query", "--format", "csv", trace,
                 "SELECT value FROM fact WHERE key GLOB 'series.*' AND at_end = 0 ORDER BY key"])
    series.that(facts.split()[1:4] == ["t", "blocks",
                                       series.value("two.traced.2", "position")], facts)
    again = series.execute()
    series.that(again.status == 0 and "0 runs done" in again.messages, again.messages)


def a_natural_run_has_nothing_of_ours_in_it(series):
    series.write(
        "[workload look]\ncommand = cat /proc/self/environ /proc/self/maps /proc/self/status\n" +
        TWO_MODES, head="name = t\n")
    outcome = series.execute(env=environment(MEMSIGHT_FREQ="100"))
    series.that(outcome.status == 0, outcome.messages)
    natural, traced = series.read("look.natural.1", "stdout"), series.read(
        "look.traced.1", "stdout")
    series.that("libtracealloc.so" in traced and "MEMSIGHT_RECORDING" in traced,
                "the traced run is traced")
    for word in ["tracealloc", "MEMSIGHT_RECORDING", "LD_PRELOAD", "memsight-pool"]:
        series.that(word not in natural, f"{word} in the natural run")
    trace = os.path.join(series.output, "look.natural.1", "trace.mst")
    ask = (
        "SELECT (SELECT count(*) FROM allocation) + (SELECT count(*) FROM sample), (SELECT "
        "count(*) FROM source"
        " WHERE error = 0), user_ns + system_ns > 0, (SELECT value FROM counter WHERE name = 'wall "
        "clock') > 0,"
        " (SELECT count(*) FROM process_sample) FROM run")
    series.that(run([series.memsight, "query", "--format", "csv", trace, ask]).splitlines()[1] in (
        "0,0,1,1,0", "0,0,0,1,0"), run([series.memsight, "query", trace, ask]))


def a_series_that_was_killed_goes_on_with_what_is_missing(series):
    """SIGKILL at many moments; then the same folders with the same numbers as uninterrupted."""
    series.write(
        "[workload short]\ncommand = sleep 0.02\n[workload other]\ncommand = sh -c 'sleep 0.03; "
        "echo x'\n"
        + TWO_MODES, head="name = t\nrepetitions = 8\nseed = 3\n")
    n_kills = 0
    for i in range(20):
        process = subprocess.Popen([series.memsight, "run", "-q", series.config], cwd=series.folder,
                                   env=environment(), start_new_session=True,
                                   stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=0.05 + 0.013 * (i * 7 % 11))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            n_kills += 1
        for _ in range(PATIENCE_S * 50):  # what it had started ends by itself
            if not running(series.folder):
                break
            time.sleep(0.02)
    outcome = series.execute()
    series.that(n_kills >= 5, f"{n_kills} kills")
    series.that(outcome.status == 0, f"{outcome.status} {outcome.messages}")
    expected = sorted(f"{p}.{m}.{n}" for p in ["other", "short"] for m in ["natural", "traced"]
                      for n in range(1, 9))
    series.that(series.runs() == expected, f"{series.runs()}")
    series.that(all(series.value(name, "result") == "ok" for name in expected), "all are ok")
    left = [name for name in os.listdir(series.output) if name.endswith(".partial")]
    series.that(not left, f"{left}")
    positions = sorted(int(series.value(name, "position")) for name in expected)
    series.that(positions == list(range(1, 33)), f"{positions}")


def a_run_that_fails_is_noted_and_does_not_stop_the_series(series):
    series.write(
        "[workload bad]\ncommand = sh -c 'exit 3'\n[workload killed]\ncommand = sh -c 'kill -SEGV "
        "$$'\n"
        "[workload good]\ncommand = sh -c 'echo fine; exit 4'\nexpected-status = 4\ncheck = grep "
        "-q fine\n"
        "[workload wrong]\ncommand = echo no\ncheck = grep -q fine\n" + TWO_MODES)
    outcome = series.execute()
    series.that(outcome.status == 1 and "12 of 16 not as expected" in outcome.messages,
                outcome.messages)
    series.that("bad.natural.1: failed" in outcome.messages, outcome.messages)
    results = {
        name: (series.value(name, "result"), series.value(name, "exit_status"))
        for name in series.runs()
    }
    for mode in ["natural", "traced"]:
        series.that(results[f"bad.{mode}.1"] == ("failed", "3"), f"{results}")
        series.that(results[f"killed.{mode}.2"] == ("failed", "139"), f"{results}")
        series.that(results[f"good.{mode}.2"] == ("ok", "4"), f"{results}")
        series.that(results[f"wrong.{mode}.1"] == ("check failed", "0"), f"{results}")
    again = series.execute()
    series.that(again.status == 1 and "0 runs done, 12 of 16" in again.messages, again.messages)
    series.that("12 runs done" in series.execute("--retry").messages, "failed ones are done again")
    shutil.rmtree(series.output)
    fast = series.execute("--fail-fast")
    series.that(fast.status == 1 and len(series.runs()) < 16, f"{fast.status} {series.runs()}")


def a_run_that_takes_too_long_is_ended_with_all_that_it_started(series):
    series.write("[workload slow]\ncommand = sh -c 'sleep 987 & sleep 986'\n[workload stubborn]\n"
                 "command = sh -c 'trap \"\" TERM; while :; do sleep 0.05; done'\n"
                 "[mode natural]\ndry = yes\n[mode traced]\nsource = none\nwait = child\n",
                 head="name = t\ntimeout = 300ms\n")
    outcome = series.execute()
    series.that(outcome.status == 1, outcome.messages)
    for name in ["slow.natural.1", "slow.traced.1", "stubborn.natural.1", "stubborn.traced.1"]:
        series.that(series.value(name, "result") == "timeout", series.read(name, "run.ini"))
    left = running('trap "" TERM')
    series.that(not left, f"what did not obey is gone: {left}")
    trace = os.path.join(series.output, "stubborn.traced.1", "trace.mst")
    series.that(
        run([
            series.memsight, "query", "--format", "csv", trace,
            "SELECT count(*) > 0 FROM allocation"
        ]).split() == ["count(*) > 0", "1"] or "1" in run([
            series.memsight, "query", "--format", "csv", trace,
            "SELECT count(*) > 0 AS n FROM allocation"
        ]).splitlines()[1], "its events are kept")


def heimdallrs_command_line_and_modes_are_understood(series):
    modes = os.path.join(series.folder, "modes.lst")
    with open(modes, "w", encoding="utf-8") as file:
        file.write(
            "# mode hms mem cpu dry freq\nplain 0 - - 0 0\nboth 0 0 0 0 200\nnone_DR 0 0 0 1 "
            "0\nperf 0 - - 1 500\n"
        )
    script = os.path.join(series.folder, "foo")
    with open(script, "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\nprintf "%s " "$@"; echo; env\n')
    os.chmod(script, 0o755)
    outcome = Outcome([
        series.memsight, "run", "--modes", modes, "--compat", series.output, "2", "./foo -n 3",
        "./foo 'a b'"
    ], cwd=series.folder)
    if outcome.status == 2 and "node" in outcome.messages:
        skip(outcome.messages)
    series.that(outcome.status == 0, f"{outcome.status} {outcome.messages}")
    expected = sorted(f"{p}.{m}.{n}" for p in ["foo-n3", "fooab"]
                      for m in ["plain", "both", "none_DR", "perf"] for n in [1, 2])
    series.that(series.runs() == expected, f"{series.runs()}")
    series.that(
        series.read("foo-n3.plain.1", "stdout").startswith("-n 3 \n"), "arguments are the words")
    series.that(
        series.read("fooab.both.2", "stdout").startswith("a b \n"), "quotes keep words together")
    for mode, has_library in [("plain", True), ("both", True), ("none_DR", False), ("perf", False)]:
        text = series.read(f"foo-n3.{mode}.1", "stdout")
        series.that(("libtracealloc" in text) == has_library, f"{mode}: {text}")
    order = sorted(series.runs(), key=lambda name: int(series.value(name, "position")))
    series.that([name.split(".")[1] for name in order] == sum(
        ([m] * 4 for m in ["plain", "both", "none_DR", "perf"]), []),
                f"modes run in sequence: {order}")
    plan = Outcome([series.memsight, "run", "--check", "--compat", "x", "8", "./foo"],
                   cwd=series.folder)
    series.that("--min-size=4096" in plan.stdout.decode() or "node 1 is not there" in plan.messages,
                f"{plan.stdout.decode()} {plan.messages}")


def heimdallrs_modes_that_want_more_than_this_host_are_told_and_leave_nothing(series):
    """Node 900 is nowhere; what runs.sh does by itself wants node 1."""
    modes = os.path.join(series.folder, "modes.lst")
    for fields, options, node in [("0 900 - 0 0", ["--modes", modes], 900),
                                  ("0 - 900 0 0", ["--modes", modes], 900), ("", [], 1)]:
        with open(modes, "w", encoding="utf-8") as file:
            file.write(f"far {fields}\n")
        if os.path.exists(f"/sys/devices/system/node/node{node}"):
            continue
        outcome = Outcome(
            [series.memsight, "run", *options, "--compat", series.output, "1", "true"],
            cwd=series.folder)
        series.that(outcome.status == 2 and outcome.messages.count("\n") == 1,
                    f"{outcome.status} {outcome.messages}")
        for words in [f"node {node} is not there", "--modes"]:
            series.that(words in outcome.messages, f"{words!r} in {outcome.messages}")
        series.that(not os.path.exists(series.output), "a folder is left")
    outcome = Outcome([series.memsight, "run", "--compat", series.output, "1", "/nowhere/x"],
                      cwd=series.folder)
    series.that(outcome.status == 2 and not os.path.exists(series.output), outcome.messages)


def the_order_of_a_series_leaves_its_names_alone(series):
    series.write("[workload one]\ncommand = echo 1\n[workload two]\ncommand = echo 2\n" + TWO_MODES,
                 head="name = t\norder = shuffle-within-mode\n")
    outcome = series.execute("--no-analyze")
    series.that(outcome.status == 0, outcome.messages)
    series.that(
        series.runs() == sorted(
            f"{p}.{m}.1" for p in ["one", "two"] for m in ["natural", "traced"]),
        f"{series.runs()}")
    series.that(series.read("two.traced.1", "stdout") == "2\n", "each name has its command")


def wrong_configs_are_told_with_their_line(series):
    for text, words in [
        ("[workload a]\ncommand = true\n[mode m]\nfrequenzy = 5\n",
         "series.ini:10: unknown option --frequenzy"),
        ("[workload a]\ncommand = true\n[mode m]\nfreq = fast\n", "series.ini:10: "),
        ("[workload a]\ncommand = true\n[mode m]\noutput = x\n", "'output' is the series' own"),
        ("[workload a]\ncommand = true\n[mode m]\nfunctions-dry-run = yes\n",
         "'functions-dry-run' is the series' own"),
        ("[workload a]\ncommand = true\n[mode m]\ncounters = page-fault\n",
         "did you mean page-faults?"),
        ("[workload a]\ncommand = /nowhere/x\n[mode m]\n", "cannot run '/nowhere/x'"),
        ("[workload a]\ncommand = ./*.none\n[mode m]\n", "no file fits './*.none'")
    ]:
        series.write(text)
        outcome = series.execute()
        series.that(
            outcome.status == 2 and words in outcome.messages and outcome.messages.count("\n") <= 1,
            f"{words}: {outcome.status} {outcome.messages}")
        series.that(not os.path.exists(series.output), "a folder is left")
    for words in [["run"], ["run", "--compat", "x"], ["run", "--modes", "x", series.config]]:
        outcome = Outcome([series.memsight, *words])
        series.that(outcome.status == 2, f"{words}: {outcome.status} {outcome.messages}")


def a_folder_belongs_to_one_series(series):
    series.write("[workload a]\ncommand = true\n" + TWO_MODES)
    series.that(series.execute().status == 0, "the first series runs")
    for text, head, words in [
            ("[workload a]\ncommand = true\n", "name = other\n", "another series, 't'"),
            ("[workload a]\ncommand = true\n", "name = t\nseed = 4\n", "begun with seed 3"),
            ("[workload a]\ncommand = false\n", "name = t\n", "another program-a")]:
        series.write(text + TWO_MODES, head)
        outcome = series.execute()
        series.that(outcome.status == 1 and words in outcome.messages,
                    f"{words}: {outcome.messages}")
    series.write("[workload a]\ncommand = true\n[workload b]\ncommand = true\n" + TWO_MODES,
                 "name = t\nrepetitions = 3\n")
    outcome = series.execute()
    series.that(outcome.status == 0 and "8 runs done" in outcome.messages,
                f"a series can grow: {outcome.messages}")
    series.write("[workload a]\ncommand = sleep 986\n" + TWO_MODES, "name = t\n")
    series.output = os.path.join(series.folder, "busy")
    series.write("[workload a]\ncommand = sleep 985\n" + TWO_MODES, "name = t\n")
    first = subprocess.Popen([series.memsight, "run", "-q", series.config], cwd=series.folder,
                             env=environment())
    for _ in range(PATIENCE_S * 20):
        if os.path.exists(os.path.join(series.output, "series.lst")):
            break
        time.sleep(0.05)
    outcome = series.execute()
    series.that(outcome.status == 1 and "another memsight" in outcome.messages, outcome.messages)
    first.send_signal(signal.SIGINT)
    series.that(first.wait(timeout=PATIENCE_S) == 130, "a signal stops the series")
    series.that(not series.runs(), "what was under way is not kept")


def a_mode_that_cannot_be_done_here_is_told_before_the_first_run(series):
    for setting in ["heap = hbw", "membind = 63", "heap = pmem:/nowhere,64M"]:
        series.write(
            f"[workload a]\ncommand = true\n[mode fine]\nsource = none\n[mode m]\n{setting}\n")
        outcome = series.execute()
        series.that(outcome.status == 2 and "mode m cannot be done here" in outcome.messages,
                    outcome.messages)
        series.that(not os.path.exists(series.output), "a folder is left")


def events_are_counted_over_a_run(series):
    """A program that touches 1,000 pages more than another one."""
    code = ("import mmap; m = mmap.mmap(-1, 4096000); m.madvise(mmap.MADV_NOHUGEPAGE);"
            " [m.__setitem__(i * 4096, 1) for i in range({n})]")
    workloads = "".join(f'[workload touch{n}]\ncommand = /usr/bin/python3 -c "{code.format(n=n)}"\n'
                        for n in [0, 1000])
    series.write(workloads +
                 "[mode natural]\ndry = yes\ncounters = page-faults,task-clock,r1ffff\n")
    outcome = series.execute()
    series.that(outcome.status == 0, outcome.messages)

    def ask(program, sql):
        trace = os.path.join(series.output, f"{program}.natural.1", "trace.mst")
        return run([series.memsight, "query", "--format", "csv", trace, sql]).splitlines()[1:]

    counted = [
        ask(f"touch{n}", "SELECT value FROM counter WHERE name = 'page-faults'") for n in [0, 1000]
    ]
    if not counted[0]:
        skip(ask("touch0", "SELECT value FROM fact WHERE key = 'counter.page-faults'"))
    n = int(counted[1][0]) - int(counted[0][0])
    print("page faults more:", n)
    series.that(950 <= n <= 1100, f"{n} page faults more")
    known = ask(
        "touch0", "SELECT count(*) FROM counter WHERE name = 'r1ffff' UNION ALL"
        " SELECT count(*) FROM fact WHERE key = 'counter.r1ffff' AND value GLOB 'not supported "
        "here: ?*'"
    )
    series.that(sorted(known) == ["0", "1"], f"an event is counted, or it is said why not: {known}")


def overhead_is_told_by_pairs_against_the_natural_runs(series):
    """A mode whose environment makes the program sleep twice as long; the ratio is known."""
    series.write(
        "[workload nap]\ncommand = sh -c 'sleep $NAP'\n[mode natural]\ndry = yes\nenvironment = "
        "NAP=0.2\n"
        "[mode twice]\nsource = none\nno-alloc = yes\nenvironment = NAP=0.4\n"
        "[mode tracer]\nsource = none\nenvironment = NAP=0.2\n", head="name = t\nrepetitions = 7\n")
    outcome = series.execute()
    series.that(outcome.status == 0 and "--overhead" in outcome.messages, outcome.messages)
    database = os.path.join(series.output, "memsight.db")
    rows = run([series.memsight, "report", "--overhead", "--format", "csv", database]).splitlines()
    print("\n".join(rows))
    series.that(
        rows[0].startswith("run,against,recorded,pairs,wall_ratio,wall_low,wall_high,cpu_ratio"),
        rows[0])
    values = {row.split(",")[0]: row.split(",") for row in rows[1:]}
    series.that(set(values) == {"nap.twice", "nap.tracer"}, f"{values}")
    twice, tracer = values["nap.twice"], values["nap.tracer"]
    series.that(twice[1:4] == ["natural", "nothing", "7"] and tracer[2] == "allocations",
                f"{values}")
    series.that(
        1.5 < float(twice[4]) < 2.3 and float(twice[5]) <= float(twice[4]) <= float(twice[6]),
        f"{twice}")
    series.that(float(tracer[4]) < float(twice[4]), f"{values}")
    text = run([series.memsight, "report", "--overhead", database])
    series.that("nap.twice" in text and "95 %" in text, text)
    text = run([series.memsight, "report", "--overhead", "--run", "nap.tracer", database])
    series.that("nap.tracer" in text and "nap.twice" not in text, f"--run is not obeyed: {text}")
    outcome = series.execute("--only", "nap.nobody.1")
    series.that(outcome.status == 2 and "nap.nobody.1" in outcome.messages,
                f"a run that is none: {outcome.messages}")
    natural = run(
        [series.memsight, "report", "--stat", "--run", "nap.natural", "--format", "csv", database])
    wall = next(line.split(",") for line in natural.splitlines() if ",wall time," in line)
    series.that(0.2e9 <= float(wall[5]) < 1e9, f"wall time is that of the command: {wall}")


def a_check_that_says_no_counts_as_a_failure_in_statistics(series):
    """And an exit status that is expected does not; the lowest good repetition keeps its rows."""
    flag = os.path.join(series.folder, "flag")
    series.write(
        f"[workload three]\ncommand = sh -c 'exit 3'\nexpected-status = 3\n[workload late]\n"
        f"command = sh -c 'cat {flag}; echo good > {flag}'\ncheck = grep -q good\n[mode m]\nsource "
        "= none\n",
        head="name = t\nrepetitions = 3\norder = sequential\n")
    with open(flag, "w", encoding="utf-8") as file:
        file.write("bad\n")
    outcome = series.execute()
    series.that(outcome.status == 1 and "1 of 6 not as expected" in outcome.messages,
                outcome.messages)
    database = os.path.join(series.output, "memsight.db")
    rows = run([series.memsight, "query", "--format", "csv", database,
                "SELECT program, repetition, detail FROM run ORDER BY 1, 2"]).split()[1:]
    series.that(
        rows == [
            "late,1,totals", "late,2,full", "late,3,totals", "three,1,full", "three,2,totals",
            "three,3,totals"
        ], f"{rows}")
    stat = run([series.memsight, "report", "--stat", "--format", "csv", database]).splitlines()
    counts = {line.split(",")[0]: line.split(",")[3:5] for line in stat if ",wall time," in line}
    series.that(counts == {"late.m": ["2", "1"], "three.m": ["3", "0"]}, f"{counts}")


def who_is_stopped_in_a_check_has_not_said_no(series):
    """Ctrl-C goes to the check as well; the run is missing then, and the next call makes it."""
    flag = os.path.join(series.folder, "flag")
    series.write(
        f"[workload one]\ncommand = true\ncheck = test -e {flag} || (echo > {flag}; sleep 60)\n"
        "[mode m]\nsource = none\n", head="name = t\nrepetitions = 1\n")
    process = subprocess.Popen([series.memsight, "run", "-q", series.config], cwd=series.folder,
                               env=environment(), start_new_session=True, stderr=subprocess.DEVNULL)
    for _ in range(PATIENCE_S * 50):
        if os.path.exists(flag):
            break
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    status = process.wait(timeout=PATIENCE_S)
    series.that(status == 130 and series.runs() == [], f"{status} {series.runs()}")
    outcome = series.execute()
    series.that(outcome.status == 0 and series.value("one.m.1", "result") == "ok", outcome.messages)


def parts_of_a_series_warm_up_beside_each_other(series):
    """As the jobs of a cluster do in one folder."""
    series.write("[workload one]\ncommand = sleep 0.05\n[mode m]\nsource = none\n",
                 head="name = t\nrepetitions = 4\nseed = 3\nwarm-ups = 12\n")
    series.that(
        series.execute("--only", "one.m.1").status == 0, "the first, which begins the folder")
    processes = [
        subprocess.Popen([series.memsight, "run", "--only", f"one.m.{i}", series.config],
                         cwd=series.folder, env=environment(), stderr=subprocess.PIPE, text=True)
        for i in [2, 3, 4]
    ]
    for process in processes:
        messages = process.communicate(timeout=PATIENCE_S)[1]
        series.that(process.returncode == 0, f"{process.returncode} {messages}")
    series.that(series.runs() == [f"one.m.{i}" for i in range(1, 5)], f"{series.runs()}")


def main():
    memsight, case = sys.argv[1:]
    series = Series(os.path.abspath(memsight))
    globals()[case](series)
    series.end()


main()
