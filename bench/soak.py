#!/usr/bin/env python3
"""Does anything grow in production mode? A paced program is recorded for a long time:

    bench/soak.py CHURN MEMSIGHT [--minutes 120] [--mib 100] [-- OPTION...]

`churn` (bench/churn.c) allocates MIB a second by 200 call stacks in two threads, which end and are
made anew every five seconds. It is recorded with --sample-bytes 512K --last 60s, or OPTIONs.
Memory of the program and of the recorder, their open files and CPU time, and the size of the trace
are looked at each second. The first tenth warms up. The rest is cut into twelve parts; growth is
the slope of a line through their means, with the 95 % interval of Student's t (10 degrees): parts
of minutes depend on each other far less than looks do. Ends with 1 where memory or files of the
recorder grow, and shows the means: where the interval lies above 0 by more than 0.1 % of the level
an hour. The same program runs beside it unrecorded: what that grows by, allocators do."""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

N_PARTS = 12
T_10 = 2.228  # Student's t, 10 degrees of freedom, two-sided 95 %
HOURS_OF_MONTH = 30 * 24
TICKS = os.sysconf("SC_CLK_TCK")


def memory_kib(pid):
    """VmRSS of a process and its private part (anonymous and shared memory apart)."""
    values = {}
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(("VmRSS", "RssAnon", "Threads")):
                name, value = line.split()[:2]
                values[name.rstrip(":")] = int(value)
    return values


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def child_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return next((int(word) for word in file.read().split()), None)


def look(pid):
    found = memory_kib(pid)
    return {"RSS, KiB": found["VmRSS"], "private memory, KiB": found["RssAnon"],
            "open files": len(os.listdir(f"/proc/{pid}/fd"))}


def parts_of(points):
    size = len(points) // N_PARTS
    return [points[i * size:(i + 1) * size] for i in range(N_PARTS)]


def slope(points):
    """Growth an hour of (seconds, value), half of its 95 % interval, and the level."""
    parts = parts_of(points)
    x = [statistics.fmean(at for at, _ in part) / 3600 for part in parts]
    y = [statistics.fmean(value for _, value in part) for part in parts]
    middle = statistics.fmean(x)
    spread = sum((a - middle) ** 2 for a in x)
    level = statistics.fmean(y)
    growth = sum((a - middle) * (b - level) for a, b in zip(x, y)) / spread
    rest = sum((b - level - growth * (a - middle)) ** 2 for a, b in zip(x, y))
    return growth, T_10 * (rest / (N_PARTS - 2) / spread) ** 0.5, level


def watch(process, alone, trace, seconds):
    """What was seen each second: lists of (time, value) by name."""
    seen = {}
    begin = time.monotonic()
    program = None
    while process.poll() is None:
        at = time.monotonic() - begin
        program = program or child_of(process.pid)
        try:
            for who, pid in (("recorder", process.pid), ("program", program),
                             ("program alone", alone.pid)):
                for name, value in look(pid).items() if pid else ():
                    seen.setdefault(f"{who}: {name}", []).append((at, value))
                if pid:
                    seen.setdefault(f"{who}: CPU", []).append((at, cpu_seconds(pid)))
            seen.setdefault("trace, KiB", []).append(
                (at, os.stat(trace + ".partial").st_size / 1024))
        except (OSError, KeyError):
            pass  # it ends, or its file has just got another name
        if at > seconds + 300:
            process.kill()
        time.sleep(1)
    return seen


def show(seen):
    """A line for each of what was seen. Returns those of the recorder that grow."""
    grows = []
    print(f"{'':36} {'level':>12} {'an hour':>12} {'95 %':>10} {'in 30 days':>14}")
    for name, points in seen.items():
        points = points[len(points) // 10:]
        if len(points) < N_PARTS:
            raise SystemExit("soak: too short: needs a minute at least")
        if name.endswith("CPU"):
            share = (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])
            print(f"{name:36} {100 * share:10.2f} %")
            continue
        growth, half, level = slope(points)
        print(f"{name:36} {level:12,.1f} {growth:+12,.2f} {half:10,.2f} "
              f"{growth * HOURS_OF_MONTH:+14,.0f}")
        if name.startswith("recorder") and growth - half > level * 0.001:
            grows.append(name + ": " + " ".join(
                f"{statistics.fmean(value for _, value in part):,.0f}"
                for part in parts_of(points)))
    return grows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("churn")
    parser.add_argument("memsight")
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--mib", type=float, default=100)
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    given = parser.parse_args(words[:end])
    seconds = given.minutes * 60
    n_events = int(given.mib * 1048576 / 2 / 2064 * 2 * 5)  # of a thread, in five seconds
    options = words[end + 1:] or ["--sample-bytes", "512K", "--last", "60s"]
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "soak.mst")
        program = [given.churn, "-t", "2", "-s", "200", "-b", "4096", "-n", str(n_events),
                   "-r", str(given.mib), "-w", str(seconds)]
        command = [given.memsight, "record", "-q", "-o", trace, "--source", "none", *options, "--",
                   *program]
        with subprocess.Popen(program, stdout=subprocess.DEVNULL) as alone, \
                subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            seen = watch(process, alone, trace, seconds)
            text = process.communicate()[0]
        if process.returncode != 0 or not text:
            raise SystemExit(f"soak: memsight ended with {process.returncode}")
        made = int(text.split()[0])
        print(f"{given.minutes:g} minutes, {made // 2:,} blocks of 2 KiB on the average, "
              f"{' '.join(options)}")
        grows = show(seen)
    for name in grows:
        print(f"grows: {name}")
    return 1 if grows else 0


if __name__ == "__main__":
    sys.exit(main())
