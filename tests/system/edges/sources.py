#!/usr/bin/env python3
"""Sources of samples that this machine does not have (case 76): each says why and what helps, and
the run goes on with those that it has."""
import gzip
import os
import sys

from edges import Traced, case, main
from whole import Outcome, run, skip

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "view"))
import served  # noqa: E402 (it lies beside the tests of the page)

HARDWARE = ["pebs", "spe", "marked", "ibs"]  # each of one maker's processors
SPIN = ["sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo $i"]


def users(edge):
    return [[], edge.ordinary_user()] if os.getuid() == 0 else [[]]


def record_as(edge, words, options):
    """The trace of that user's recording, and what it looked like from outside."""
    edge.n_runs += 1
    trace = os.path.join(edge.folder, f"{edge.n_runs}.mst")
    command = [*words, edge.memsight, "record", "-o", trace, *options, "--", *SPIN]
    return trace, Outcome(command, cwd=edge.folder)


def sources(edge, trace):
    """{name: (error, remedy, passed over, samples)} of a trace."""
    run([edge.memsight, "analyze", "-o", trace + ".db", trace])
    return {name: row for name, *row in Traced(trace + ".db", Outcome(["true"])).ask(
        "SELECT name, error, remedy, passed_over, n_samples FROM source")}


@case
def hardware_that_is_not_here_is_told_and_the_clock_goes_on(edge):
    for words in users(edge):
        trace, outcome = record_as(edge, words, ["--source", "auto"])
        edge.that(outcome.status == 0 and outcome.stdout == b"60000\n",
                  f"{words}: {outcome.status} {outcome.stdout} {outcome.messages}")
        found = sources(edge, trace)
        opened = [name for name in [*HARDWARE, "clock"] if name in found and found[name][0] == 0]
        if not opened:
            skip(f"not even the clock may be opened here: {found['clock'][1]}")
        edge.that(len(opened) == 1, f"{words}: auto takes one source of accesses, not {opened}")
        edge.that(found[opened[0]][3] > 0, f"{words}: {opened[0]} gave no sample")
        # In order of preference: what is behind the one that opened was not tried.
        for name in HARDWARE if opened == ["clock"] else []:
            error, remedy, passed_over, n_samples = found[name]
            edge.that(error > 0 and passed_over == 1 and n_samples == 0,
                      f"{words}: {name} {found[name]}")
            edge.that(remedy and "; " in remedy and "--source clock" in remedy,
                      f"{words}: {name} has no remedy: {remedy}")
            why = remedy.split("; ")[0]
            edge.that(why in outcome.messages and name in outcome.messages,
                      f"{words}: nothing of {name} and '{why}' in {outcome.messages}")
        edge.that(
            outcome.messages.count("\n") <= 3,
            f"{words}: more than three lines: {outcome.messages}")


@case
def a_source_that_is_refused_leaves_the_others_unless_strict(edge):
    for words in users(edge):
        trace, outcome = record_as(edge, words, ["--source", ",".join([*HARDWARE, "clock"])])
        found = sources(edge, trace)
        refused = [name for name in HARDWARE if found[name][0]]
        edge.that(outcome.status == 0 and outcome.stdout == b"60000\n",
                  f"{words}: {outcome.messages}")
        edge.that(len(refused) >= 3, f"a processor of several makers? {found}")
        edge.that(f"no {refused[0]} samples: " in outcome.messages, f"{words}: {outcome.messages}")
        if found["clock"][0]:
            skip(f"the clock may not be opened here: {found['clock'][1]}")
        edge.that(found["clock"][3] > 0, f"{words}: the clock gave no sample")
        _, outcome = record_as(edge, words, ["--strict", "--source", refused[0]])
        edge.that(outcome.status == 2 and outcome.stdout == b"",
                  f"{words}: --strict starts the program: {outcome.status} {outcome.stdout}")
        edge.that(refused[0] in outcome.messages, f"{words}: {outcome.messages}")


# Time of the kernel at blocks, and time of the program at blocks.
COPY = [
    "sh", "-c",
    "dd if=/dev/zero of=/dev/null bs=4M count=1000 status=none; seq 200000 | LC_ALL=C sort -r | "
    "tail -n 1"
]


@case
def time_of_the_kernel_is_called_so(edge):
    """--count says whose time samples are of, and so does every report; what is not allowed says
    what it takes."""
    for words in users(edge):
        for count in ["user", "both", "kernel"]:
            trace = os.path.join(edge.folder, f"{len(words)}{count}.mst")
            outcome = Outcome([
                *words, edge.memsight, "record", "-o", trace, "--source", "clock", "--count", count,
                "--", *COPY
            ])
            run([edge.memsight, "analyze", "-o", trace + ".db", trace])
            database = Traced(trace + ".db", outcome)
            error, unit, remedy = database.ask(
                "SELECT error, unit, remedy FROM source WHERE name = 'clock'")[0]
            paranoid = int(open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii").read())
            if error and paranoid <= 2:
                edge.that(
                    count == "kernel" and (words or os.getuid()) and "kernel code need" in remedy
                    and "another user" not in remedy, f"{words} {count}: {error} {remedy}")
            if error or not database.one("SELECT n_samples FROM source WHERE name = 'clock'"):
                continue
            check_time(edge, trace + ".db", unit, count)


def check_time(edge, path, unit, count):
    """The name of the time in reports, exports and the page."""
    names = {
        "ns of user CPU time": "user CPU time", "ns of kernel CPU time": "kernel CPU time",
        "ns of CPU time": "CPU time"
    }
    edge.that(
        unit == f"ns of {count} CPU time" if count != "both" else unit
        in ["ns of CPU time", "ns of user CPU time"], f"--count {count}: {unit}")
    others = [name for name in ["user CPU time", "kernel CPU time"] if name != names[unit]]

    def check(text, what):
        # Of so short a program it may be that no sample fell on a block.
        edge.that((names[unit] in text or text.startswith("Nothing to show."))
                  and not any(name in text for name in others),
                  f"{what} of --count {count}: {text}")

    for report in [[], ["--sites"], ["--objects"], ["--threads"], ["--flat", "--by", "time"],
                   ["--hierarchical", "--by", "time"]]:
        check(run([edge.memsight, "report", path, *report]), report)
    check(run([edge.memsight, "export", path, "--by", "time", "--format", "callgrind"]),
          "callgrind")
    check(run([edge.memsight, "diff", path, path, "--by", "time"]), "diff")
    told = Outcome([edge.memsight, "export", path, "--format", "pprof"]).stdout
    check(gzip.decompress(told).decode(errors="replace"), "pprof")
    with served.Server(edge.memsight, path) as server:
        answer = server.answer("flame", by="time")["unit"], server.answer(
            "diff", a="1", b="1", by="time")["unit"]
        check(answer[0], "flame")
        check(answer[1], "diff of the page")


@case
def an_event_that_nobody_takes_is_told(edge):
    for words in users(edge):
        trace, outcome = record_as(edge, words, ["--load-event", "MEM_INST_RETIRED:ALL_LAODS"])
        found = sources(edge, trace)
        edge.that(outcome.status == 0 and outcome.stdout == b"60000\n",
                  f"{words}: {outcome.messages}")
        edge.that("--load-event" in outcome.messages or "ALL_LAODS" in outcome.messages,
                  f"{words}: not a word of it: {outcome.messages}")
        edge.that(all(found[name][0] for name in HARDWARE if name in found),
                  f"{words}: an event that is not there was opened: {found}")


if __name__ == "__main__":
    main()
