"""bench-perf-data.py MEMSIGHT DUMP N: import of a perf.data of N samples of PEBS, beside the
parsing of it alone."""
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time

import encode as e

memsight, dump, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
ROUND = 1 << 18
# Head, id, ip, pid and tid, time, address, cpu, weight, data_src.
SAMPLE = struct.Struct("<IHHQQIIQQIIQQ")


def write(path):
    event = e.Event(e.IDENTIFIER | e.IP | e.TID | e.TIME | e.ADDR | e.CPU | e.WEIGHT | e.DATA_SRC,
                    e.TYPE_RAW, 0x1cd, 10007, ids=[1], name="loads", precise=2, config1=3)
    file = e.File([event])
    file.features = {6: file.string("x86_64"), 12: file.event_names()}
    file.comm(100, 100, "prog", 10**9, is_exec=True)
    file.map(100, 100, 0x400000, 0x100000, "/opt/prog", 10**9 + 1)
    file.map(100, 100, 0x7f0000000000, 1 << 30, "//anon", 10**9 + 2, prot=3, flags=0x22)
    words = [0x68100142, 0x10650100842, 0x11868100242, 0x10450100442]
    for i in range(n):
        address = 0x7f0000000000 + (i * 2654435761 & 0x3fffffff)
        file.records += SAMPLE.pack(e.SAMPLE, e.MISC_USER, SAMPLE.size, 1, 0x400000 + i % 997 * 4,
                                    100, 100, 2 * 10**9 + 500 * i, address, i & 1, 0, 5 + i % 300,
                                    words[i & 3])
        if i % ROUND == ROUND - 1:
            file.round()
    file.round()
    file.write(path)


def timed(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - start, after.ru_utime - before.ru_utime, after.ru_maxrss / 1024


with tempfile.TemporaryDirectory(prefix="memsight-bench-") as folder:
    path = os.path.join(folder, "perf.data")
    write(path)
    print("%d samples, %.0f MB" % (n, os.path.getsize(path) / 1e6))
    for what, command in (("parsing alone", [dump, path, "quiet"]),
                          ("import", [memsight, "analyze", "--force", path])):
        best = min(timed(command) for _ in range(3))
        print("%-14s %6.2f M samples/s  %5.2f s, %5.2f s of CPU, %4.0f MiB at most" % (
            what, n / best[0] / 1e6, *best))
    print("database       %.0f bytes per sample" % (os.path.getsize(path + ".db") / n))
