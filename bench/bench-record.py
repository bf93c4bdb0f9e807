#!/usr/bin/env python3
"""What recording allocations costs, beside heaptrack and the LTTng-UST libc wrapper.

usage: bench-record.py MEMSIGHT CHURN [--events N] [--rounds N] [--threads 1,2]
                       [--depth 4 | --stacks 1000]

--stacks: each call comes by a random one of so many distinct paths of 4 to 40 frames.

Every round runs each tool once, in turn, so that all of them see the same machine. Printed is the
median over the rounds of the added wall time per event (until the tool has returned, so with its
collector) and of the added CPU time (program and collector), and the ratio to memsight. With
several threads, per event means per event of one thread: its wall time. The number of events is
checked against memsight's database. A peer that is not installed is left out, and said.
"""
import argparse
import glob
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from measure import Failed, run


def n_events(output):
    return int(re.match(r"(\d+) events", output).group(1))


class Plain:
    name = "untraced"

    def measure(self, churn, folder):
        wall, cpu, out = run(churn)
        return wall, cpu, n_events(out), None


class Memsight:
    def __init__(self, memsight, name="memsight", options=(), churn_options=()):
        self.memsight, self.name = memsight, name
        self.options, self.churn_options = list(options), list(churn_options)

    def measure(self, churn, folder):
        trace = os.path.join(folder, "bench.mst")
        wall, cpu, out = run([self.memsight, "record", "--quiet", "--force", "-o", trace,
                              *self.options, "--", *churn, *self.churn_options])
        return wall, cpu, n_events(out), os.path.getsize(trace)

    def check(self, churn, folder):
        """The events of the trace, by the database, against those that the program made."""
        events = self.measure(churn, folder)[2]
        trace = os.path.join(folder, "bench.mst")
        sql = ("SELECT sum(1) + sum(end_kind = 1), (SELECT coalesce(sum(count), 0) FROM loss)"
               " FROM allocation WHERE size BETWEEN 16 AND 528")
        out = run([self.memsight, "query", "--format", "csv", trace, sql])[2]
        found, lost = (int(x) for x in out.splitlines()[1].split(","))
        # The C library makes a few of its own in this range of sizes.
        good = lost == 0 and events <= found <= events + 64
        print(f"{self.name}: {found:,} events in the database, {events:,} made, {lost:,} lost: "
              f"{'ok' if good else 'WRONG'}")
        return good


class Heaptrack:
    name = "heaptrack"

    def measure(self, churn, folder):
        # With many stacks heaptrack 1.4 takes all memory that there is.
        out_path = os.path.join(folder, "heaptrack")
        wall, cpu, out = run(["prlimit", f"--as={4 << 30}", "heaptrack", "-o", out_path, *churn])
        made = n_events(next(line for line in out.splitlines() if re.match(r"\d+ events", line)))
        size = sum(os.path.getsize(f) for f in glob.glob(os.path.join(folder, "heaptrack*")))
        return wall, cpu, made, size


class Lttng:
    """A session of its own, blocking, so that nothing is lost; its daemons' CPU time is counted."""
    name = "lttng-ust"
    wrapper = "liblttng-ust-libc-wrapper.so.1"

    def measure(self, churn, folder):
        home = os.path.join(folder, "lttng")
        shutil.rmtree(home, ignore_errors=True)
        os.makedirs(home)
        env = dict(os.environ, LTTNG_HOME=home, LTTNG_UST_ALLOW_BLOCKING="1")
        pid_file = os.path.join(home, "sessiond.pid")
        run(["lttng-sessiond", "--daemonize", "--pidfile", pid_file], env)
        try:
            run(["lttng", "create", "bench", "--output", os.path.join(home, "out")], env)
            run(["lttng", "enable-channel", "-u", "c", "--blocking-timeout=inf",
                 "--subbuf-size=4M"], env)
            run(["lttng", "enable-event", "-u", "-c", "c", "lttng_ust_libc:*"], env)
            run(["lttng", "add-context", "-u", "-c", "c", "-t", "vtid"], env)
            run(["lttng", "start"], env)
            daemons = self.daemon_cpu()
            start = time.monotonic()
            _, cpu, out = run(churn, dict(env, LD_PRELOAD=self.wrapper))
            run(["lttng", "stop"], env)
            wall = time.monotonic() - start
            cpu += self.daemon_cpu() - daemons
            run(["lttng", "destroy"], env)
        finally:
            with open(pid_file, encoding="ascii") as file:
                os.kill(int(file.read()), signal.SIGTERM)
            time.sleep(0.5)
        files = glob.glob(os.path.join(home, "out/**/*"), recursive=True)
        size = sum(os.path.getsize(f) for f in files if os.path.isfile(f))
        return wall, cpu, n_events(out), size

    @staticmethod
    def daemon_cpu():
        ticks = 0
        pids = subprocess.run(["pgrep", "lttng-"], stdout=subprocess.PIPE, text=True,
                              check=False).stdout.split()
        for pid in pids:
            try:
                fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


def tools(args):
    yield Plain()
    yield Memsight(args.memsight)
    yield Memsight(args.memsight, "memsight --stacks none", ["--stacks", "none"])
    yield Memsight(args.memsight, "memsight --sink null", ["--sink", "null"])
    yield Memsight(args.memsight, "memsight, paused", churn_options=["-p"])
    if shutil.which("heaptrack"):
        yield Heaptrack()
    else:
        print("heaptrack: not installed, left out")
    if shutil.which("lttng-sessiond") and os.geteuid() == 0:
        yield Lttng()
    else:
        print("lttng-ust: not installed or not root, left out")


def compare(args, threads, folder):
    churn = [args.churn, "-t", str(threads), "-n", str(args.events), "-d", str(args.depth),
             "-s", str(args.stacks)]
    frames = f"{args.stacks:,} stacks of 4 to 40 frames" if args.stacks else f"{args.depth} frames"
    all_tools = list(tools(args))
    results = {tool.name: [] for tool in all_tools}
    for _ in range(args.rounds):
        for tool in list(all_tools):
            try:
                results[tool.name].append(tool.measure(churn, folder))
            except Failed as failure:
                if isinstance(tool, (Plain, Memsight)):
                    raise
                print(f"{tool.name} left out: {failure}")
                all_tools.remove(tool)
    plain = [statistics.median(r[i] for r in results["untraced"]) for i in (0, 1)]
    print(f"\n{threads} thread(s), {frames}, {args.events:,} events each, "
          f"median of {args.rounds} rounds; untraced {plain[0] * 1e9 / args.events:.1f} ns/event")
    print(f"{'':24} {'wall ns/event':>14} {'cpu ns/event':>14} {'bytes/event':>12}"
          f" {'wall ratio':>11}")
    base = None
    for tool in all_tools[1:]:
        rows = results[tool.name]
        made = rows[0][2]
        wall = (statistics.median(r[0] for r in rows) - plain[0]) * 1e9 / (made / threads)
        cpu = (statistics.median(r[1] for r in rows) - plain[1]) * 1e9 / made
        size = statistics.median(r[3] for r in rows) / made
        base = base or wall
        print(f"{tool.name:24} {wall:14.1f} {cpu:14.1f} {size:12.2f} {wall / base:11.2f}")
    return all_tools[1].check(churn, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memsight")
    parser.add_argument("churn")
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--stacks", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memsight-bench-", dir="/var/tmp") as folder:
        try:
            good = [compare(args, int(n), folder) for n in args.threads.split(",")]
        except Failed as failure:
            sys.exit(str(failure))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
