#!/usr/bin/env python3
"""What production mode costs a malloc and a free that are not picked, beside the heap profilers of
jemalloc and tcmalloc, each against its own allocator without:

    bench/bench-picks.py CHURN MEMSIGHT [PAIRS [ROUNDS [BYTES]]]

CPU time of `churn` (bench/churn.c: one thread, blocks of 16 to BYTES + 15, 528 unless given) for
each malloc + free, in rounds of all variants in turn. The difference to the run without of the same
round is given, as quartiles over the rounds; and what that is of a CPU where 100 MiB a second are
allocated. An allocator that is not installed is left out.

Then churn allocates 100 MiB a second for PACED_SECONDS, as a service does: with caches that are
cold when a block is picked. What all picks took is measured by the library itself (--budget)."""
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile

from measure import Failed, quartiles, run

FOLDER = "/usr/lib/x86_64-linux-gnu/"
JEMALLOC = FOLDER + "libjemalloc.so.2"
TCMALLOC = FOLDER + "libtcmalloc.so.4"
BYTES = "524288"
RATE = 100 << 20  # bytes a second
PACED_SECONDS = 20

# name, the one without it, environment, options of memsight record (None: not recorded)
VARIANTS = (
    ("glibc", None, {}, None),
    ("glibc, --sample-bytes 512K", "glibc", {}, ["--sample-bytes", "512K"]),
    ("glibc, --sample-bytes 512K, 0.1 %", "glibc", {},
     ["--sample-bytes", "512K", "--budget", "0.1%"]),
    ("glibc, all blocks", "glibc", {}, []),
    ("jemalloc", None, {"LD_PRELOAD": JEMALLOC}, None),
    ("jemalloc, lg_prof_sample:19", "jemalloc",
     {"LD_PRELOAD": JEMALLOC, "MALLOC_CONF": "prof:true,lg_prof_sample:19"}, None),
    ("tcmalloc", None, {"LD_PRELOAD": TCMALLOC, "TCMALLOC_SAMPLE_PARAMETER": "0"}, None),
    ("tcmalloc, sampled", "tcmalloc",
     {"LD_PRELOAD": TCMALLOC, "TCMALLOC_SAMPLE_PARAMETER": BYTES}, None),
)


def is_there(environment):
    return os.path.exists(environment.get("LD_PRELOAD", "/"))


def cost_ns(churn, memsight, environment, options, folder):
    """CPU time of the program, not of the recorder, for each malloc + free."""
    command = [churn[0], "-n", churn[1], "-d", "2", "-b", churn[2]]
    if options is not None:
        trace = os.path.join(folder, "t.mst")
        command = [memsight, "record", "--force", "-o", trace, "--source", "none", *options,
                   *command]
    _, _, text = run(command, env={**os.environ, **environment})
    n_events, _, seconds = (float(part.split()[0]) for part in text.splitlines()[-1].split(","))
    return seconds * 1e9 / (n_events / 2)


def paced(churn, memsight, folder):
    """What a pick takes in ns, and all of them of a CPU; n."""
    trace = os.path.join(folder, "paced.mst")
    n_events = 2 * RATE * PACED_SECONDS // (int(churn[2]) // 2 + 15)
    run([memsight, "record", "-q", "--force", "-o", trace, "--source", "none", "--sample-bytes",
         "512K", "--budget", "50%", churn[0], "-n", str(n_events), "-d", "16", "-b", churn[2],
         "-r", str(RATE >> 20)])
    run([memsight, "analyze", "-f", trace])
    with sqlite3.connect(trace + ".db") as database:
        n = database.execute("SELECT count(*) FROM allocation").fetchone()[0]
        ns = database.execute("SELECT value FROM counter WHERE name = 'cost of picks'").fetchone()
    return ns[0] / n, ns[0] / PACED_SECONDS / 1e9, n


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    given = sys.argv[3:] + ["40000000", "7", "513"][len(sys.argv) - 3:]
    churn = sys.argv[1], given[0], given[2]
    rounds = int(given[1])
    per_second = RATE / (int(churn[2]) / 2 + 15.5)
    shown = [variant for variant in VARIANTS if is_there(variant[2])]
    ns = {name: [] for name, *_ in shown}
    folder = tempfile.mkdtemp()
    try:
        for _ in range(rounds):
            for name, _, environment, options in shown:
                ns[name].append(cost_ns(churn, sys.argv[2], environment, options, folder))
        pick = paced(churn, sys.argv[2], folder)
    except (Failed, subprocess.SubprocessError) as error:
        raise SystemExit(f"bench-picks: {error}") from error
    finally:
        shutil.rmtree(folder)
    print(f"{'':36} ns a malloc + free   more than without: quartiles   at 100 MiB/s")
    for name, base, *_ in shown:
        text = f"{name:36} {statistics.median(ns[name]):6.2f}"
        if base:
            more = quartiles([a - b for a, b in zip(ns[name], ns[base])])
            text += "               " + " ".join(f"{value:6.2f}" for value in more)
            text += f"        {more[1] * per_second / 1e7:8.3f} %"
        print(text)
    print(f"100 MiB/s, paced: {pick[0] / 1000:.1f} us a pick, {100 * pick[1]:.3f} % of a CPU, "
          f"n {pick[2]}")


if __name__ == "__main__":
    main()
