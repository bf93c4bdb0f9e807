"""import.py MEMSIGHT PART: perf.data files as traces: the database says what perf says, and every
reader takes them."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import encode as e
import whole

memsight, part = sys.argv[1], sys.argv[2]
folder = os.environ.get("MEMSIGHT_PERF_DATA", "/work/shared/perfdata")
checks = whole.Checks()
scratch = tempfile.TemporaryDirectory(prefix="memsight-test-")
REPORTS = [
    "heatmap", "sites", "leaks", "objects", "flat", "hierarchical", "threads", "timeline", "peak",
    "histogram", "hot", "cold", "sharing", "locality", "losses", "processes", "mappings", "regions",
    "list"
]


def recorded(name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        whole.skip("%s is not here: recordings of others are no part of the project" % path)
    return shutil.copyfile(path, os.path.join(scratch.name, os.path.basename(name)))


def imported(path):
    told = whole.run([memsight, "analyze", "--force", path])
    n_lost = re.search(r"([0-9,]+) lost \(", told)
    why = whole.disagreement(memsight, path + ".db",
                             int(n_lost.group(1).replace(",", "")) if n_lost else 0)
    checks.that(not why, "%s: %s" % (path, why))
    return whole.Database(path + ".db")


def skylake():
    database = imported(recorded("pebs-skx-load-latency.perf.data"))
    wanted = sorted(
        re.match(
            r".*?(\d+)/(\d+) +\[\d+\] +(\d+)\.(\d+): .* ([0-9a-f]+) +([0-9a-f]+) \|.* (\d+) "
            r"+([0-9a-f]+)$",
            line).groups()
        for line in open(os.path.join(folder, "pebs-skx-load-latency.expected.txt")))
    told = database.ask("SELECT tid, sample.time_ns, address, data_src FROM touch JOIN sample"
                        " ON sample.id = sample_id LEFT JOIN thread ON thread.id = thread_id"
                        " ORDER BY sample.time_ns")
    first = min(int(s) * 10**6 + int(us) for _, _, s, us, *_ in wanted)
    by_time = sorted(wanted, key=lambda sample: (int(sample[2]), int(sample[3])))
    checks.that(len(told) == 14, "%d touches" % len(told))
    for (tid, time_ns, address, data_src), (_, wanted_tid, s, us, wanted_address, wanted_source,
                                             *_) in zip(told, by_time):
        checks.that((tid or 0, address % 2**64, data_src) ==
                    (int(wanted_tid), int(wanted_address, 16), int(wanted_source, 16)),
                    "%s, not %s" % ((tid, address, data_src), (wanted_tid, wanted_address)))
        since = int(s) * 10**6 + int(us) - first
        checks.that(abs((time_ns - told[0][1]) / 1000 - since) <= 1, "at %d" % time_ns)
    checks.that(database.ask("SELECT name, unit, period, n_samples FROM source ORDER BY number") ==
                [("pebs", "loads", 10009, 14), ("tasks", "records", 10009, 0)], "the sources")
    checks.that(database.one("SELECT value FROM fact WHERE key = 'cpu_model'") ==
                "Intel(R) Xeon(R) Platinum 8173M CPU @ 2.00GHz", "the processor")


def every_report():
    """Every reader takes each of the files; damaged ones say so in one line."""
    names = ["pebs-cml-cycles-ppp-pipe-zstd.perf.data", "ibs-rebuilt.perf.data",
             "spe-rebuilt-1624.perf.data"]
    names += [
        "robustness/" + name for name in sorted(os.listdir(os.path.join(folder, "robustness")))
    ] if os.path.isdir(os.path.join(folder, "robustness")) else []
    for name in names:
        path = recorded(name)
        imported(path)
        summary = whole.Outcome([memsight, "report", path])
        checks.that(
            summary.status == 0 and b"a perf.data has samples, no allocations" in summary.stdout,
            "%s: %s %s" % (name, summary.stdout, summary.messages))
        for report in REPORTS if "pebs" in name else ["losses"]:
            outcome = whole.Outcome([memsight, "report", path, "--" + report])
            checks.that(outcome.status == 0, "%s --%s: %s" % (name, report, outcome.messages))
    damaged = recorded("robustness/quipper.perf.data.piped.corrupted.zero_size_sample-3.2")
    losses = whole.Database(damaged + ".db").losses()
    checks.that(losses.get(("trace", "unreadable bytes")) == 60640 - 49104, "losses %s" % losses)
    checks.that(
        whole.Database(damaged + ".db").one("SELECT ended_cleanly FROM run") == 0, "cut off")
    lost = imported(recorded("robustness/quipper.perf.data.lost_samples-4.4")).losses()
    checks.that(any(reason == "dropped by the hardware" for _, reason in lost), "losses %s" % lost)
    sites = whole.run([memsight, "report", recorded(names[0]), "--sites"])
    checks.that("has samples, no allocations" in sites, "sites: %s" % sites)
    empty = os.path.join(scratch.name, "empty.data")
    for data in (b"PERFILE2", b"PERFILE2" + bytes(96), b"2ELIFREP" + bytes(200)):
        with open(empty, "wb") as file:
            file.write(data)
        outcome = whole.Outcome([memsight, "report", empty])
        checks.that(outcome.status == 1 and outcome.messages.count("\n") == 1 and
                    "perf.data" in outcome.messages, "%r: %s" % (data, outcome.messages))


def made():
    """Processes, threads, names, maps and what lay in them, out of order and of either byte order.
    """
    for order in "<>":
        event = e.Event(e.IDENTIFIER | e.IP | e.TID | e.TIME | e.ADDR | e.CPU | e.DATA_SRC |
                        e.WEIGHT, e.TYPE_RAW, 0x1cd, 1009, ids=[1], name="loads", precise=2,
                        config1=30)
        file = e.File([event], order)
        file.features = {3: file.string("elsewhere"), 6: file.string("x86_64"),
                         11: file.strings(["perf", "record", "prog", "a b"])}
        sec = 10**9
        # Of another CPU, but later: records of one CPU follow each other.
        file.sample(event, 100, 101, 5 * sec, 0x401000, 0x7f0000002010, weight=40, data_src=0x142)
        file.comm(100, 100, "sh", 1 * sec)
        file.comm(100, 100, "prog", 2 * sec, is_exec=True)
        file.map(100, 100, 0x400000, 0x10000, "/opt/prog", 2 * sec + 10)
        file.map(100, 100, 0x7f0000002000, 0x3000, "//anon", 2 * sec + 20, prot=3, flags=0x22)
        file.fork(100, 101, 100, 100, 3 * sec)
        file.comm(100, 101, "worker", 3 * sec + 1)
        file.sample(event, 100, 100, 4 * sec, 0x401000, 0x7f0000002000, weight=30, data_src=0x142)
        file.round()
        file.lost(17, 6 * sec)
        file.fork(200, 200, 100, 100, 6 * sec)
        file.sample(event, 200, 200, 7 * sec, 0x401008, 0x7f0000004fff, weight=30, data_src=0x142)
        file.round()
        file.sample(event, 100, 100, 8 * sec, 0x401000, 0xffffffff81000000, data_src=0x142)
        file.exit(200, 200, 8 * sec + 5)
        database = imported(file.write(os.path.join(scratch.name, "made%d.data" % ord(order))))
        checks.that(database.ask(
            "SELECT pid, birth, exe, command, (SELECT pid FROM process AS p WHERE p.id ="
            " process.parent_id), start_ns, end_ns, why_not FROM process ORDER BY start_ns") == [
                (100, "exec", "sh", "sh", None, 0, None, "perf.data"),
                (100, "exec", "/opt/prog", "prog", 100, sec, None, "perf.data"),
                (200, "fork", "/opt/prog", "prog", 100, 5 * sec, 7 * sec + 5, "perf.data")],
                    "%s: %s" % (order, database.ask("SELECT * FROM process")))
        touches = database.ask(
            "SELECT sample.time_ns, tid, (SELECT name FROM thread_name WHERE thread_id = thread.id"
            " ORDER BY time_ns DESC LIMIT 1), owner.name, mapping.address, touch.address FROM touch"
            " JOIN sample ON sample.id = sample_id JOIN thread ON thread.id = sample.thread_id"
            " JOIN owner ON owner.id = owner_kind LEFT JOIN mapping ON mapping.id = owner_id"
            " ORDER BY sample.time_ns")
        anonymous = 0x7f0000002000
        checks.that(touches == [
            (3 * sec, 100, "prog", "mapping", anonymous, anonymous),
            (4 * sec, 101, "worker", "mapping", anonymous, anonymous + 0x10),
            (6 * sec, 200, None, "mapping", anonymous, anonymous + 0x2fff),
            (7 * sec, 100, "prog", "kernel", None, 0xffffffff81000000 - 2**64)],
                    "%s: %s" % (order, touches))
        checks.that(database.losses() == {("pebs", "ring overrun"): 17,
                                          ("pebs", "address in the kernel"): 1},
                    "%s: %s" % (order, database.losses()))
        checks.that(database.ask("SELECT program, command, duration_ns FROM run") ==
                    [("prog", "perf record prog 'a b'", 7 * sec + 5)], "the run")


def own():
    """What Debian's perf records here: page faults, with the build-ids that perf tells."""
    path = os.path.join(scratch.name, "perf.data")
    try:
        done = subprocess.run([
            "perf", "record", "-q", "-o", path, "-e", "page-faults", "-d", "-c", "1", "--", "ls",
            "-l", "/"
        ], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except OSError:
        whole.skip("no perf here: scripts/setup --all installs it")
    if done.returncode != 0:
        whole.skip("perf record: " + done.stdout.decode(errors="replace").strip())
    database = imported(path)
    script = subprocess.run(["perf", "script", "-i", path, "-F", "addr"], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, check=True).stdout.decode()
    wanted = sorted(int(word, 16) for word in script.split())
    told = sorted(address % 2**64 for address, in database.ask("SELECT address FROM touch"))
    checks.that(told == wanted and len(told) > 10, "%d faults, not %d" % (len(told), len(wanted)))
    ids = subprocess.run(["perf", "buildid-list", "-i", path], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, check=True).stdout.decode().split("\n")
    wanted = {line.split(" ", 1)[1]: line.split(" ")[0] for line in ids if " /" in line}
    told = dict(database.ask("SELECT path, build_id FROM module WHERE path LIKE '/%'"))
    for module in told:
        checks.that(told[module] == wanted.get(module), "%s: build-id %s, not %s" % (
            module, told[module], wanted.get(module)))
    checks.that("/usr/bin/ls" in told, "modules %s" % told)
    checks.that(database.one("SELECT program FROM run") == "ls", "the program")
    checks.that(database.one("SELECT count(*) FROM process WHERE command = 'ls'") == 1, "ls ran")


{"skylake": skylake, "reports": every_report, "made": made, "own": own}[part]()
checks.end()
