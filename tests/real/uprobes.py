#!/usr/bin/env python3
"""The events in a trace against uprobes on the real allocator, in the same run.

Every entry of an allocation function of the C library that comes from libtracealloc.so is a call of
the program that memsight must have recorded, with these differences, which are no events:
  - free(NULL) does nothing;
  - realloc of a failed call (there are none here).
Entries from elsewhere are the C library's own (realloc(NULL, n) enters malloc, a thread that ends gives
back its cache): they never passed the boundary at which a program can be observed, and are printed.

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
IGNORED = {"count-calls", "memsight"}  # the witness itself


def read_probes(path):
    """Calls from tracealloc by function (aliases joined by +), and those from elsewhere."""
    calls, elsewhere = {}, {}
    for line in path.read_text().splitlines():
        name, *numbers = line.split()
        if name == "lost":
            lost = int(numbers[0])
            continue
        ours, with_null, others = map(int, numbers)
        # posix_memalign and the like take no block; realloc(NULL, n) is a birth.
        calls[name] = ours if name == "free" else ours + with_null
        elsewhere[name] = others
    return calls, elsewhere, lost


def read_events(memsight_folder, count_events, trace):
    text = subprocess.run([count_events, trace], cwd=memsight_folder, check=True, text=True,
                          capture_output=True).stdout
    events = {}
    for line in text.splitlines():
        words = line.split()
        if words[0] == "damage":
            damage = int(words[1])
        elif words[1] not in IGNORED:
            events[words[2]] = events.get(words[2], 0) + int(words[3])
    return events, damage


def compare(probes, events):
    calls, elsewhere, lost = probes
    problems = [f"{lost} probe hits were lost"] if lost else []
    for names, n_calls in calls.items():
        n_events = sum(events.get(name, 0) for name in names.split("+"))
        print(f"{names}: {n_calls} calls, {n_events} events; {elsewhere[names]} more inside the C library")
        if n_calls != n_events:
            problems.append(f"{names}: {n_calls} calls, {n_events} events")
    if sum(calls.values()) == 0:
        problems.append("no call came from libtracealloc.so")
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
        problems += compare(read_probes(folder / "calls"), events)
    for problem in problems:
        print(f"WRONG {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*(os.path.abspath(path) for path in sys.argv[1:4]), *sys.argv[4:]))
