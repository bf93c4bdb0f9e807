"""reader.py DUMP PART: what the reader makes of perf.data files that others recorded on real
hardware, and of ones that Debian's perf records here, record by record."""
import os
import re
import subprocess
import sys
import tempfile

import whole

dump, part = sys.argv[1], sys.argv[2]
folder = os.environ.get("MEMSIGHT_PERF_DATA", "/work/shared/perfdata")
checks = whole.Checks()


def read(path, status=0):
    """The dump's lines as lists of fields, by the first."""
    done = subprocess.run([dump, path], stdout=subprocess.PIPE, check=False)
    checks.that(done.returncode == status, "%s: exit status %d" % (path, done.returncode))
    found = {}
    for line in done.stdout.decode(errors="replace").splitlines():
        kind, *fields = line.split("\t")
        found.setdefault(kind, []).append(fields)
    return found


def recorded(name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        whole.skip("%s is not here: recordings of others are no part of the project" % path)
    return path


# event, id, pid, tid, time, ip, address, period, data_src, weight, cpu, raw bytes, kernel
EVENT, ID, PID, TID, TIME, IP, ADDRESS, PERIOD, DATA_SRC, WEIGHT, CPU, RAW, KERNEL = range(13)


def is_whole(found, path):
    checks.that(found["damage"][0] == ["0"] * 6, "%s: damage %s" % (path, found["damage"]))


def period_of(found, sample):
    """Where a sample does not carry it, that of its event."""
    period = sample[PERIOD]
    return period if period != "0" else found["event"][int(sample[EVENT])][7]


def skylake():
    """Load latency, as perf script tells it."""
    path = recorded("pebs-skx-load-latency.perf.data")
    found = read(path)
    expected = [re.match(r".*?(\d+)/(\d+) +\[(\d+)\] +(\d+)\.(\d+): +(\d+) (.*pinned:) +([0-9a-f]+)"
                         r" +([0-9a-f]+) \|.* (\d+) +([0-9a-f]+)$", line).groups()
                for line in open(recorded("pebs-skx-load-latency.expected.txt")) if line.strip()]
    checks.that(len(found["sample"]) == len(expected) == 14, "14 samples")
    # perf script sorts by time; the file has them by CPU.
    for sample, (pid, tid, cpu, seconds, micro, period, name, address, data_src, weight, ip) in zip(
            sorted(found["sample"], key=lambda sample: int(sample[TIME])), expected):
        told = (sample[PID], sample[TID], int(sample[CPU]), int(sample[TIME]) // 1000,
                period_of(found, sample), int(sample[ADDRESS], 16), int(sample[DATA_SRC], 16),
                sample[WEIGHT], int(sample[IP], 16))
        wanted = (pid, tid, int(cpu), int(seconds) * 1000000 + int(micro), period,
                  int(address, 16), int(data_src, 16), weight, int(ip, 16))
        checks.that(told == wanted, "%s, not %s" % (told, wanted))
        checks.that(found["event"][int(sample[EVENT])][4] + ":" == name, "named %s" % name)
    is_whole(found, path)


def comet_lake():
    """547 samples out of a compressed pipe, as another decoder tells them."""
    path = recorded("pebs-cml-cycles-ppp-pipe-zstd.perf.data")
    found = read(path)
    lines = open(recorded("pebs-cml-cycles-ppp-pipe-zstd.expected.tsv")).read().splitlines()
    checks.that(lines[0].split("\t") == ["id", "pid", "tid", "time", "ip", "addr", "period",
                                         "data_src"], "the columns of the expectation")
    told = sorted((int(s[ID], 16), int(s[PID]), int(s[TID]), int(s[TIME]), int(s[IP], 16),
                   int(s[ADDRESS], 16), int(s[PERIOD]), int(s[DATA_SRC], 16))
                  for s in found["sample"])
    wanted = sorted(tuple(int(field, 0) for field in line.split("\t")) for line in lines[1:])
    checks.that(len(told) == 547, "%d samples" % len(told))
    checks.that(told == wanted, "the samples differ: %s" % (set(told) ^ set(wanted)))
    is_whole(found, path)


def ibs():
    path = recorded("ibs-rebuilt.perf.data")
    found = read(path)
    told = [(s[PID], s[TID], int(s[TIME]), int(s[IP], 16), s[PERIOD], int(s[ADDRESS], 16), s[CPU])
            for s in found["sample"]]
    wanted = [(pid, tid, int(time), int(ip, 16), period, int(address, 16), cpu)
              for cpu, time, pid, tid, ip, period, address in re.findall(
                  r"^(\d+) (\d+) .*PERF_RECORD_SAMPLE\(IP, 0x4002\): (\d+)/(\d+): 0x([0-9a-f]+)"
                  r" period: (\d+) addr: (\d+)$",
                  open(recorded("ibs-rebuilt.expected.txt")).read(), re.M)]
    checks.that(len(wanted) == 2 and told == wanted, "%s, not %s" % (told, wanted))
    checks.that([found["event"][int(s[EVENT])][5] for s in found["sample"]] ==
                ["ibs_fetch", "ibs_op"], "the PMUs' names")
    checks.that([int(s[RAW]) for s in found["sample"]] == [0x24, 0x44], "registers as raw bytes")


def spe():
    path = recorded("spe-rebuilt-1624.perf.data")
    found = read(path)
    checks.that(found["aux"] == [["0", "1624", "0", "-1"]], "the AUX area: %s" % found["aux"])
    checks.that(found["comm"] == [["100", "100", "0", "spe"]], "the name")


# File: samples, maps, names, unread bytes, whether cut.
OTHERS = {
    "mstange.sleep.data": (7, 4, 2, 0, 0),
    "mstange.sleep.compressed.data": (8, 49, 2, 0, 0),
    "mstange.sleep.compressed2.data": (7, 4, 2, 0, 0),
    # Behind its records it has a line that perf wrote to its standard output.
    "mstange.sleep.compressed2.pipe.data": (7, 169, 2, 143, 1),
    "quipper.perf.data.hybrid_topology": (7, 107, 3, 0, 0),
    "quipper.perf.data.intel_pt-4.14": (15, 66, 3, 0, 0),
    "quipper.perf.data.lost_samples-4.4": (191, 45, 3, 0, 0),
    # The first record of all that has no size is at 49104 of 60640 bytes.
    "quipper.perf.data.piped.corrupted.zero_size_sample-3.2": (0, 468, 100, 60640 - 49104, 1),
    "quipper.perf.data.piped.header_features_aligned-6.12": (9, 4, 2, 0, 0),
    "quipper.perf.data.piped.no_attr_ids-4.14": (7, 31, 3, 0, 0),
}


def others():
    """Counts as a walk over the files' heads gives them (record types 9, 1 with 10, 3)."""
    for name, (samples, maps, names, unread, cut) in OTHERS.items():
        found = read(recorded("robustness/" + name))
        told = [len(found.get(kind, [])) for kind in ("sample", "map", "comm")]
        checks.that(told == [samples, maps, names], "%s: %s" % (name, told))
        damage = found["damage"][0]
        checks.that(damage == [str(unread), "0", "0", "0", "0", str(cut)],
                    "%s: damage %s" % (name, damage))
        checks.that("error" not in found and "damaged" not in found, "%s: damaged" % name)
    lost = read(recorded("robustness/quipper.perf.data.lost_samples-4.4"))["lost"]
    checks.that(len(lost) == 2, "records of losses")


def own(options, command):
    """Records with Debian's perf, and compares with its script."""
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as scratch:
        path = os.path.join(scratch, "perf.data")
        done = subprocess.run(["perf", "record", "-q", "-o", path, *options, "--", *command],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            whole.skip("perf record: " + done.stdout.decode(errors="replace").strip())
        script = subprocess.run(
            ["perf", "script", "-i", path, "-F", "pid,tid,time,event,ip,addr,period", "--ns"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True).stdout.decode()
        wanted = [(int(pid), int(tid), int(s) * 10**9 + int(ns), int(period), int(address, 16),
                   int(ip, 16))
                  for pid, tid, s, ns, period, address, ip in re.findall(
                      r"^ *(\d+)/(\d+) +(\d+)\.(\d{9}): +(\d+) +\S+: +([0-9a-f]+) +([0-9a-f]+)",
                      script, re.M)]
        found = read(path)
        told = sorted((int(s[PID]), int(s[TID]), int(s[TIME]),
                       int(period_of(found, s)),
                       int(s[ADDRESS], 16), int(s[IP], 16)) for s in found.get("sample", []))
        checks.that(len(wanted) > 0, "perf script told of no sample")
        checks.that(told == sorted(wanted),
                    "%s: %d samples, not %d" % (" ".join(options), len(told), len(wanted)))
        info = dict((fields[0], fields[1]) for fields in found["info"] if len(fields) > 1)
        checks.that(info["kernel"] == os.uname().release, "kernel %s" % info["kernel"])
        checks.that(" ".join(command) in info["command"], "command %s" % info["command"])
        is_whole(found, path)


BUSY = ["sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; ls /"]


def perf():
    try:
        subprocess.run(["perf", "version"], stdout=subprocess.PIPE, check=True)
    except (OSError, subprocess.CalledProcessError):
        whole.skip("no perf here: scripts/setup --all installs it")
    own(["-e", "page-faults", "-d", "-c", "1"], ["ls", "-l", "/"])
    own(["-e", "page-faults:u", "-e", "cpu-clock:u", "-d", "--user-regs=ip,sp,bp"], BUSY)
    own(["-e", "cpu-clock:u", "-d", "-F", "2000", "-k", "CLOCK_MONOTONIC_RAW"],
        BUSY)
    own(["-e", "page-faults:u", "-d", "-c", "1", "-z"], ["ls", "/"])


{"skylake": skylake, "comet-lake": comet_lake, "ibs": ibs, "spe": spe, "others": others,
 "perf": perf}[part]()
checks.end()
