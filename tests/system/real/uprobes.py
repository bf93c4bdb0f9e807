#!/usr/bin/env python3
"""The events in a trace against uprobes on the real allocator, in the same run.

Every entry of an allocation function of the C library that comes from libtracealloc.so is a call of
the program, and must be an event. The differences, all exact: - free(NULL) does nothing and is no
event; - realloc(NULL, n) jumps on into malloc, so malloc is entered once more for each of them; -
libtracealloc.so calls realloc for reallocarray, and malloc and free for new and delete. Entries
from elsewhere are the C library's own (a thread that ends gives back its cache of blocks): they
never passed the boundary at which a program can be observed. They are printed.

Arguments: memsight, count-calls, count-events, the case, and its own program if it has one.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import inputs
import real

SMALLER = {"python-json": 6000, "sqlite": 20000, "gcc": 60}
WITNESS = "1"  # number of the first process: count-calls, whose own calls are none of the program's


def read_probes(path):
    """By function (aliases joined by +): calls from tracealloc, those of them with a null pointer,
    and calls from elsewhere."""
    probes = {}
    for line in path.read_text().splitlines():
        name, *numbers = line.split()
        probes[name] = [int(number) for number in numbers]
    lost = probes.pop("lost")[0]
    return probes, lost


def read_events(memsight_folder, count_events, trace):
    text = subprocess.run([count_events, trace], cwd=memsight_folder, check=True, text=True,
                          capture_output=True).stdout
    events = {}
    for line in text.splitlines():
        words = line.split("\t")
        if words[0] == "damage":
            damage = int(words[1])
        elif words[0] != WITNESS:
            events[words[2]] = events.get(words[2], 0) + int(words[3])
    return events, damage


def expected_events(names, probes):
    """(functions of the events, how many there must be) for the probe on `names`."""
    calls, with_null, _ = probes[names]
    if names == "free":
        return ["free", "operator delete", "operator delete[]"], calls
    if names == "malloc":
        return (["malloc", "operator new", "operator new[]"],
                calls + with_null - probes["realloc"][1])
    if names == "realloc":
        return ["realloc", "reallocarray"], calls + with_null
    if names == "reallocarray":
        return [], calls + with_null
    return names.split("+"), calls + with_null


def compare(probes, lost, events):
    problems = [f"{lost} probe hits were lost"] if lost else []
    for names, (calls, with_null, elsewhere) in probes.items():
        functions, expected = expected_events(names, probes)
        found = sum(events.get(function, 0) for function in functions)
        print(
            f"{names}: {calls} calls, {with_null} with null: {expected} events expected, {found} "
            "found; "
            f"{elsewhere} calls inside the C library")
        if found != expected:
            problems.append(f"{names}: {expected} events expected, {found} found")
    if sum(events.values()) == 0:
        problems.append("no events")
    return problems


def make_case(name, folder, program):
    if name in SMALLER:
        return getattr(inputs, name.replace("-", "_"))(folder, SMALLER[name])
    return real.make_case(name, folder, program)


def main(memsight, count_calls, count_events, name, program=None):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        case = make_case(name, folder, program)
        command = [memsight, "record", "-q", "--source", "none", "-o", "run.mst", "--",
                   count_calls, "calls", *case.command]
        result = real.run(command, case, folder)
        if result["status"] == real.SKIP:
            print(f"skipped: {result['stderr'].strip()}")
            return real.SKIP
        problems = [] if result["status"] == case.status else [f"exit status {result}"]
        events, damage = read_events(folder, count_events, "run.mst")
        problems += [f"{damage} damages in the trace"] if damage else []
        problems += compare(*read_probes(folder / "calls"), events)
    for problem in problems:
        print(f"WRONG {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*(os.path.abspath(path) for path in sys.argv[1:4]), sys.argv[4],
                  *(os.path.abspath(path) for path in sys.argv[5:])))
