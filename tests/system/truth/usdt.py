#!/usr/bin/env python3
"""The static probes (--usdt): how often each fires, and with what. gdb stops at those of one
provider; as root uprobes count all of them by perf_event_open, as eBPF profilers have it, in a run
without stops. Arguments: memsight, libtracealloc.so, victim, and the same of static programs: the
agent and a victim, if there are any."""
import ctypes
import math
import os
import platform
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

import whole

INTERVAL = 4096
UPROBE = "/sys/bus/event_source/devices/uprobe"
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241, "ppc64le": 319}
ARGUMENTS = {("otel_memory", "alloc"): 3, ("otel_memory", "free"): 1, ("memsight", "alloc"): 4,
             ("memsight", "free"): 1}
GO = ["set pagination off", "set debuginfod enabled off"], ["set var go = 1", "continue"]
STOPS = """break -probe-stap PROVIDER:alloc
commands
silent
printf "alloc %#lx %lu %lu %#lx\\n", $_probe_arg0, $_probe_arg1, WEIGHT, SITE
continue
end
break -probe-stap PROVIDER:free
commands
silent
printf "free %#lx\\n", $_probe_arg0
continue
end"""


def notes_of(library):
    """provider and name: (place, semaphore, arguments), by readelf."""
    found = re.findall(r"Provider: (\S+)\s+Name: (\S+)\s+Location: (\w+), Base: \w+, Semaphore: "
                       r"(\w+)\s+Arguments: (.*)", whole.run(["readelf", "-nW", library]))
    return {(provider, name): (int(place, 16), int(semaphore, 16), arguments.split())
            for provider, name, place, semaphore, arguments in found}


def offset_of(library, address):
    """Where in the file it lies."""
    for line in whole.run(["readelf", "-lW", library]).splitlines():
        words = line.split()
        if words and words[0] == "LOAD":
            offset, start, _, n_bytes = (int(word, 16) for word in words[1:5])
            if start <= address < start + n_bytes:
                return address - start + offset
    raise SystemExit(f"{address:#x} is in no segment of the file")


class Counter:
    """A uprobe of one process. count: None without the right to it."""

    def __init__(self, library, note, pid):
        path = ctypes.create_string_buffer(library.encode())
        kind = int(open(UPROBE + "/type", encoding="ascii").read())
        attributes = ctypes.create_string_buffer(struct.pack(
            "IIQQQQQIIQQ", kind, 128, offset_of(library, note[1]) << 32, 0, 0, 0, 0, 0, 0,
            ctypes.addressof(path), offset_of(library, note[0])).ljust(128, b"\0"))
        self.file = ctypes.CDLL(None, use_errno=True).syscall(
            PERF_EVENT_OPEN[platform.machine()], attributes, pid, -1, -1, 0)
        if self.file < 0:
            print(f"{library}, {note}: no uprobe, {os.strerror(ctypes.get_errno())}")

    def count(self):
        return struct.unpack("Q", os.read(self.file, 8))[0] if self.file >= 0 else None


class Recorded:
    """The victim with gdb: what it says, what gdb saw at the probes of a provider (None: it does
    not stop), what uprobes counted while it did not, and what the database has."""

    def __init__(self, checks, paths, provider, options):
        memsight, library, victim = paths
        self.that, self.library = checks.that, library
        self.counts = {}
        with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
            trace = os.path.join(folder, "usdt.mst")
            with subprocess.Popen([memsight, "record", *options, "-s", "none", "-o", trace, "--",
                                   victim], stdout=subprocess.PIPE, text=True,
                                  env=whole.environment()) as running:
                pid = int(running.stdout.readline().split()[1])
                counters = {} if provider else {
                    name: Counter(library, note, pid) for name, note in notes_of(library).items()}
                output = self.let_go(folder, pid, provider, running)
                self.said = [line.split() for line in running.stdout.read().splitlines()]
                self.counts = {name: counter.count() for name, counter in counters.items()}
            self.fired = [line.split() for line in output.splitlines()
                          if line.startswith(("alloc ", "free "))]
            database = os.path.join(folder, "usdt.db")
            whole.run([memsight, "analyze", trace, "-o", database])
            self.rows = whole.Database(database).ask(
                "SELECT address, size, stands_for, freed_ns IS NOT NULL FROM allocation"
                " ORDER BY allocated_ns")

    def agent(self, pid):
        """gdb does not know what a static program has beside itself."""
        if not self.library.endswith("agent.so"):
            return []
        with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
            found = [line.split() for line in maps if line.rstrip().endswith(self.library)]
        start, offset = found[0][0].split("-")[0], found[0][2]
        return [f"add-symbol-file {self.library} -o {int(start, 16) - int(offset, 16):#x}"]

    def let_go(self, folder, pid, provider, running):
        commands = os.path.join(folder, "commands")
        weight, site = (3, "$_probe_arg2") if provider == "memsight" else (2, "0")
        stops = STOPS.replace("WEIGHT", f"$_probe_arg{weight}").replace("SITE", site)
        with open(commands, "w", encoding="ascii") as to:
            lines = GO[0] + self.agent(pid) + GO[1]
            if provider:
                lines[-2:-2] = [stops.replace("PROVIDER", provider)]
            to.write("\n".join(lines) + "\n")
        done = subprocess.run(["gdb", "-nx", "-batch", "-p", str(pid), "-x", commands],
                              capture_output=True, text=True, check=False)
        if "Operation not permitted" in done.stderr:
            os.kill(pid, signal.SIGKILL)
            whole.skip("gdb may not trace a program: " + done.stderr.strip())
        if "exited normally" not in done.stdout:
            os.kill(pid, signal.SIGKILL)
            self.that(False, done.stdout + done.stderr)
        return done.stdout


def check_all(checks, paths):
    """Each block: the same events in the same order, each weighted by its own size."""
    run = Recorded(checks, paths, "otel_memory", ["--usdt"])
    run.that([event[:3] for event in run.fired] == run.said, f"{run.fired} is not {run.said}")
    for event in run.fired:
        run.that(event[0] == "free" or event[3] == event[2], f"weight of {event}")
    n_blocks = sum(event[0] == "alloc" for event in run.said)
    known = {(int(event[1], 16), int(event[2])) for event in run.said if event[0] == "alloc"}
    mine = [row for row in run.rows if (row[0], row[1]) in known]
    run.that(len(mine) == n_blocks, f"{len(mine)} blocks in the database of {n_blocks}")
    run.that(all(row[2] == 1 for row in mine), "a block stands for others")


def check_picked(checks, paths):
    """Picked blocks: those of the trace, weighted as its estimates are."""
    run = Recorded(checks, paths, "memsight",
                   ["--usdt", "--sample-bytes", str(INTERVAL)])
    allocs = [event for event in run.fired if event[0] == "alloc"]
    run.that(allocs, "nothing was picked")
    rows = run.rows[-len(allocs):]  # the first ones were before gdb came
    run.that([(int(event[1], 16), int(event[2])) for event in allocs] ==
             [(row[0], row[1]) for row in rows], f"{allocs} is not {rows}")
    for event, row in zip(allocs, rows):
        expected = -row[1] / math.expm1(-(row[1] + 1) / INTERVAL)
        run.that(abs(int(event[3]) - expected) <= 1, f"weight of {event}: {expected}")
        run.that(math.isclose(row[1] * row[2], expected, rel_tol=1e-9), f"{row}")
        run.that(int(event[4], 16) > 65536, f"site of {event}")
    run.that(sum(event[0] == "free" for event in run.fired) == sum(row[3] for row in rows),
             f"{run.fired}: not the ends of {rows}")


def check_counts(checks, paths):
    """Whoever listens by uprobes, and their semaphores, gets each event once."""
    if os.geteuid() != 0 or not os.path.exists(UPROBE):
        return
    run = Recorded(checks, paths, None, ["--usdt"])
    for (provider, name), count in run.counts.items():
        n = sum(event[0] == name for event in run.said)
        run.that(count in (None, n), f"{provider}:{name} was hit {count} times of {n}")


def check_none(checks, paths):
    """Without --usdt none fires, whoever listens."""
    run = Recorded(checks, paths, "otel_memory", [])
    run.that(not run.fired, f"without --usdt: {run.fired}")


def main(memsight, *pairs):
    checks = whole.Checks()
    for library, victim in zip(pairs[::2], pairs[1::2]):
        notes, is_agent = notes_of(library), library.endswith("agent.so")
        checks.that({name: len(note[2]) for name, note in notes.items()} == ARGUMENTS, f"{notes}")
        for name, (_, semaphore, arguments) in notes.items():
            checks.that((semaphore == 0) == is_agent and
                        all(word.startswith("8@") for word in arguments), name)
        if checks.n_failed == 0 and not shutil.which("gdb"):
            whole.skip("there is no gdb")
        for check in check_all, check_picked, check_counts, check_none:
            check(checks, (memsight, os.path.realpath(library), victim))
    checks.end()


main(*sys.argv[1:])
