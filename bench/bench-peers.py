#!/usr/bin/env python3
"""What recording costs under each tool of the field, in one table, each program and tool once a
round.

usage: bench-peers.py MEMSIGHT CHURN KERNEL [--rounds N] [--programs churn,json,...]

Tools that tell of allocations: memsight (as a user would: samples, page faults and full call
stacks), heaptrack, the LTTng-UST wrapper of libc (no stacks; root only), valgrind's DHAT, uftrace
(library calls of the executable: malloc and free where it calls them itself, no stacks). Tools that
sample what memory is touched, from software events, as there is no PMU: perf record -e cpu-clock
(1 kHz, call graphs, addresses) and perf record -e page-faults (each one); beside them memsight with
allocations left out. Printed: the median of the wall time that a tool adds to the untraced run of
the same round, and in brackets its ratio to memsight's of the same kind. DHAT runs in one round of
five. What is not installed is left out, and said; a tool that ends with an error reads "failed".
"""
import argparse
import importlib.util
import os
import shutil
import statistics
import sys
import tempfile

from measure import Failed, run


def load(name):
    """A bench whose file name has a hyphen."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Prefix:
    """A tool that is words before a command."""

    def __init__(self, name, kind, words, is_slow=False):
        self.name, self.kind, self.words, self.is_slow = name, kind, words, is_slow

    def wall(self, program, env):
        return run([*self.words, *program], env)[0]


class Lttng:
    """bench-record.py knows how to begin and end a session."""
    name, kind, is_slow = "LTTng-UST", "allocations", False

    def __init__(self, record, folder):
        self.tracer, self.folder = record.Lttng(), folder
        record.n_events = lambda output: 0

    def wall(self, program, env):
        # The session's own environment is all that measure() gives: what the program needs goes
        # before it.
        more = [f"{key}={value}" for key, value in env.items() if os.environ.get(key) != value]
        return self.tracer.measure(["env", *more, *program] if more else program, self.folder)[0]


def tools(args, folder):
    """Those that are installed; the first of a kind is memsight."""
    out = os.path.join(folder, "out")
    memsight = [args.memsight, "record", "--quiet", "--force", "-o", out + ".mst"]
    # Without the thread for BPF events, for which perf waits a second when it ends.
    perf = ["perf", "record", "-q", "--no-bpf-event", "-g", "-d", "-o", out]
    found = [
        Prefix("memsight", "allocations", [*memsight, "--"]),
        Prefix("heaptrack", "allocations", ["heaptrack", "-o", out]),
        Prefix("DHAT", "allocations", ["valgrind", "--tool=dhat", "--dhat-out-file=" + out],
               is_slow=True),
        Prefix("uftrace", "allocations", ["uftrace", "record", "--force", "-d", out + ".uftrace"]),
        Prefix("memsight, samples", "samples", [*memsight, "--freq", "1000", "--no-alloc", "--"]),
        Prefix("perf cpu-clock", "samples", [*perf, "-e", "cpu-clock", "-F", "1000", "--"]),
        Prefix("perf page-faults", "samples", [*perf, "-e", "page-faults", "-c", "1", "--"]),
    ]
    if shutil.which("lttng-sessiond") and os.geteuid() == 0:
        found.insert(2, Lttng(load("bench-record"), folder))
    else:
        print("LTTng-UST: not installed or not root, left out")
    for tool in found:
        if isinstance(tool, Prefix) and not shutil.which(tool.words[0]):
            print(f"{tool.name}: not installed, left out")
        else:
            yield tool


def programs(args, folder):
    yield "churn", [args.churn, "-t", "1", "-d", "4", "-n", "4000000"], dict(os.environ)
    whole = load("bench-programs")
    chosen = argparse.Namespace(programs="", kernel=args.kernel)
    for name, command, env in whole.programs(chosen, folder):
        yield name, command, env


def added_times(args, program, env, chosen):
    """The median of what each tool adds, in s; None where it failed."""
    walls = {tool.name: [] for tool in chosen}
    for i in range(args.rounds):
        untraced = run(program, env)[0]
        for tool in chosen:
            if walls[tool.name] is None or (tool.is_slow and i % 5):
                continue
            try:
                walls[tool.name].append(tool.wall(program, env) - untraced)
            except Failed as failure:
                print(f"{tool.name}: {failure}", file=sys.stderr)
                walls[tool.name] = None
    return {name: statistics.median(values) if values else None for name, values in walls.items()}


def cells(added, chosen):
    """Of each tool: the time, and its ratio to memsight's of its kind."""
    ours = {}
    for tool in chosen:
        value = added[tool.name]
        base = ours.setdefault(tool.kind, value)
        if value is None:
            yield "failed"
        elif tool.name.startswith("memsight") or not base or base < 1e-3:
            yield f"{1e3 * value:.0f} ms"
        else:
            yield f"{1e3 * value:.0f} ms ({value / base:.1f}x)"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memsight")
    parser.add_argument("churn")
    parser.add_argument("kernel")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", default="")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memsight-bench-", dir="/var/tmp") as folder:
        chosen = list(tools(args, folder))
        print("| program | untraced | " + " | ".join(tool.name for tool in chosen) + " |")
        print("|" + " --- |" * (len(chosen) + 2))
        for name, program, env in programs(args, folder):
            if args.programs and name not in args.programs.split(","):
                continue
            untraced = run(program, env)[0]
            added = added_times(args, program, env, chosen)
            line = [name, f"{1e3 * untraced:.0f} ms", *cells(added, chosen)]
            print("| " + " | ".join(line) + " |", flush=True)


main()
