"""What recording costs the programs, as the rows of docs/compatibility.md: each round runs a
program untraced, recorded, and under heaptrack if that was asked for, in turn, so that all see the
same machine. Of the rounds the best counts: the least time, the most that a server did, the least
CPU time of all processes together, the tool's own and the load's among them."""
import pathlib
import re
import subprocess
import tempfile

import foreign
import servers
from whole import Database, environment

TITLES = [
    "program", "version", "result", "images", "events", "losses", "untraced", "recorded", "CPU",
    "heaptrack", "CPU"
]


def heaptrack(folder):
    return lambda words: ["heaptrack", "-o", str(folder / "heaptrack"), *words]


def version_of(case):
    done = subprocess.run(case.version, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, env=environment(LC_ALL="C.UTF-8"))
    found = re.search(r"\d+(?:[.]\d+)+\w*", done.stdout)
    return found[0] if found else "?"


def best(case, figures):
    return (max if isinstance(case, servers.Server) and case.has_figure else min)(figures)


def cost(case, plain, other):
    """How many times as long it takes, or as little it does."""
    if not plain or not other:
        return "-"
    ratio = plain / other if isinstance(case, servers.Server) and case.has_figure else other / plain
    return f"{ratio:.2f}"


def facts_of(memsight, trace, path):
    subprocess.run([memsight, "analyze", "--force", "-o", path, trace], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    database = Database(path)
    events = database.one("SELECT value FROM total WHERE name = 'events'")
    losses = ", ".join(f"{count:,} {reason}"
                       for (_, reason), count in database.losses().items()) or "none"
    return database.one("SELECT count(*) FROM process"), events, losses


def measure(memsight, case, folder, rounds, with_heaptrack):
    trace = folder / "run.mst"
    wraps = {"untraced": lambda words: words, "recorded": foreign.record(memsight, trace, "-q")}
    # heaptrack's script passes no signal on to a server, and gdb debugs no script.
    if with_heaptrack and not isinstance(case, servers.Server) and "@wrap@" not in case.command:
        wraps["heaptrack"] = heaptrack(folder)
    figures, cpus, outcomes = {name: [] for name in wraps}, {name: [] for name in wraps}, {}
    foreign.prepare(case, folder)
    for _ in range(rounds):
        for name, wrap in wraps.items():
            outcomes[name] = foreign.perform(case, folder, wrap)
            figures[name].append(outcomes[name].figure)
            cpus[name].append(outcomes[name].cpu)
    same = "same" if not outcomes["untraced"].differs_from(outcomes["recorded"]) else "DIFFERENT"
    found = {name: (best(case, figures[name]), min(cpus[name])) for name in wraps}
    return same, facts_of(memsight, trace, folder / "run.db"), found


def row(memsight, case, rounds, with_heaptrack):
    reason = foreign.why_not_here(case)
    if reason:
        return [case.name, reason]
    with tempfile.TemporaryDirectory(prefix="memsight-foreign-") as folder:
        same, (n_images, n_events, losses), found = measure(memsight, case,
                                                            pathlib.Path(folder).resolve(), rounds,
                                                            with_heaptrack)
    plain, plain_cpu = found["untraced"]

    def ratios(name):
        figure, cpu = found.get(name, (None, None))
        return [cost(case, plain, figure), f"{cpu / plain_cpu:.2f}" if cpu and plain_cpu else "-"]
    unit = "/s" if isinstance(case, servers.Server) and case.has_figure else " s"
    return [case.name, version_of(case), same, f"{n_images:,}", f"{n_events:,}", losses,
            f"{plain:,.0f}{unit}" if unit == "/s" else f"{plain:.2f}{unit}", *ratios("recorded"),
            *ratios("heaptrack")]


def print_table(arguments, cases):
    print("| " + " | ".join(TITLES) + " |")
    print("| " + " | ".join("---" for _ in TITLES) + " |")
    for case in cases:
        print("| " + " | ".join(row(str(arguments.memsight.resolve()), case, arguments.rounds,
                                    arguments.heaptrack)) + " |", flush=True)
    return 0
