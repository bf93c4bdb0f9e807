#!/usr/bin/env python3
"""What production mode costs a malloc and a free that are not picked, beside the heap profilers of
jemalloc and tcmalloc, each against its own allocator without:

    bench/bench-picks.py CHURN MEMSIGHT [PAIRS [ROUNDS]]

CPU time of `churn` (bench/churn.c: one thread, blocks of 16 to 528 bytes) for each malloc + free,
in rounds of all variants in turn. The difference to the run without of the same round is given, as
quartiles over the rounds. An allocator that is not installed is left out."""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from measure import Failed, quartiles, run

FOLDER = "/usr/lib/x86_64-linux-gnu/"
JEMALLOC = FOLDER + "libjemalloc.so.2"
TCMALLOC = FOLDER + "libtcmalloc.so.4"
BYTES = "524288"

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
    command = [churn[0], "-n", churn[1], "-d", "2"]
    if options is not None:
        trace = os.path.join(folder, "t.mst")
        command = [memsight, "record", "--force", "-o", trace, "--source", "none", *options,
                   *command]
    _, _, text = run(command, env={**os.environ, **environment})
    n_events, _, seconds = (float(part.split()[0]) for part in text.splitlines()[-1].split(","))
    return seconds * 1e9 / (n_events / 2)


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    churn = sys.argv[1], sys.argv[3] if len(sys.argv) > 3 else "40000000"
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 7
    shown = [variant for variant in VARIANTS if is_there(variant[2])]
    ns = {name: [] for name, *_ in shown}
    folder = tempfile.mkdtemp()
    try:
        for _ in range(rounds):
            for name, _, environment, options in shown:
                ns[name].append(cost_ns(churn, sys.argv[2], environment, options, folder))
    except (Failed, subprocess.SubprocessError) as error:
        raise SystemExit(f"bench-picks: {error}") from error
    finally:
        shutil.rmtree(folder)
    print(f"{'':36} ns a malloc + free   more than without: quartiles")
    for name, base, *_ in shown:
        text = f"{name:36} {statistics.median(ns[name]):6.2f}"
        if base:
            more = quartiles([a - b for a, b in zip(ns[name], ns[base])])
            text += "               " + " ".join(f"{value:6.2f}" for value in more)
        print(text)


if __name__ == "__main__":
    main()
