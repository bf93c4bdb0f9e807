#!/usr/bin/env python3
"""What clock samples cost the program and the recorder, beside `perf record -e cpu-clock` in the
same run.

The same work, plain, sampled by memsight and by perf, one after the other in each round; CPU time
of the program itself, medians over rounds. Arguments: memsight, fixed-work, rounds.

Bars: at most 4 us a sample at 10 and 25 kHz, 1 % at 1 kHz, 1 us of the recorder for each, nothing
lost.
"""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

RATES = (1000, 10000, 25000)
THREADS = 2
LIMIT = "/proc/sys/kernel/perf_event_max_sample_rate"


def run(words, **options):
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def query(memsight, trace, sql):
    return run([memsight, "query", "--format", "csv", trace, sql]).splitlines()[1].split(",")


class Bench:
    def __init__(self, memsight, load, n_rounds, folder):
        self.memsight, self.folder, self.n_rounds = memsight, folder, n_rounds
        # Before others, where we may, and the recorder before the program.
        self.first, self.own_first = [], []
        if os.geteuid() == 0:
            self.first, self.own_first = ["chrt", "-r", "6"], ["chrt", "-r", "5"]
        n = 4000
        self.load = [load, str(THREADS), str(n)]
        self.load[2] = str(int(n * 1e9 * THREADS / self.plain()))  # a second for each thread
        self.perf = shutil.which("perf")

    def plain(self):
        return int(run([*self.own_first, *self.load]))

    def sampled(self, rate):
        """CPU ns of the program, samples, lost, CPU ns of the recorder."""
        trace = os.path.join(self.folder, "a.mst")
        cpu = int(run([*self.first, self.memsight, "record", "-q", "-f", "--no-alloc", "-o", trace,
                       "--source", f"clock@{rate}", "--", *self.own_first, *self.load]))
        n, lost, throttled, own = query(
            self.memsight, trace, "SELECT n_taken, n_lost, n_throttles, collector_cpu_ns"
            " FROM source_ledger JOIN source ON source.id = source_id"
            " JOIN run ON run.id = source.run_id WHERE name = 'clock'")
        os.remove(trace + ".db")
        return cpu, int(n), int(lost) + int(throttled), int(own)

    def by_perf(self, rate):
        data = os.path.join(self.folder, "perf.data")
        cpu = int(run([*self.first, self.perf, "record", "-q", "-o", data, "-e", "cpu-clock:u",
                       "-c", str(10 ** 9 // rate), "--", *self.own_first, *self.load]).split()[0])
        n = run([self.perf, "script", "-i", data, "-F", "ip"]).count("\n")
        return cpu, n

    def rate(self, rate):
        costs, peers, shares, own, n, lost = [], [], [], [], 0, 0
        for _ in range(self.n_rounds):
            plain = self.plain()
            cpu, n, n_lost, own_ns = self.sampled(rate)
            lost += n_lost
            own.append(own_ns)
            costs.append((cpu - plain) / n / 1000)
            shares.append(100 * (cpu - plain) / plain)
            if self.perf:
                cpu, n_peer = self.by_perf(rate)
                peers.append((cpu - plain) / n_peer / 1000)
        middle = statistics.median
        peer = "       -"
        if peers:
            peer = f"{middle(peers):8.2f} us   ratio {middle(costs) / middle(peers):.2f}"
        print(f"{rate:6d} Hz  {n:7d} samples  {middle(shares):+6.2f} %  {middle(costs):6.2f} us"
              f" each   perf {peer}   lost or throttled {lost}", flush=True)
        return n, middle(own)


def raise_limit(rate):
    """Where root's limit is lower, and we are root: for the time of the bench. What it was."""
    with open(LIMIT, encoding="ascii") as file:
        before = int(file.read())
    if before >= rate or os.geteuid() != 0:
        return None
    with open(LIMIT, "w", encoding="ascii") as file:
        file.write(str(rate))
    return before


def main():
    memsight, load, n_rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    before = raise_limit(2 * RATES[-1])
    try:
        with tempfile.TemporaryDirectory(prefix="memsight-bench-") as folder:
            bench = Bench(memsight, load, n_rounds, folder)
            if not bench.perf:
                print("perf is not here (linux-perf): nothing to compare with")
            found = [bench.rate(rate) for rate in RATES]
            (n_few, few), (n_many, many) = found[0], found[-1]
            each = (many - few) / (n_many - n_few) / 1000
            print(f"recorder: {each:.2f} us of CPU for each sample more")
    finally:
        if before:
            with open(LIMIT, "w", encoding="ascii") as file:
                file.write(str(before))


main()
