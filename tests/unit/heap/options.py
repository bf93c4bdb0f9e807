#!/usr/bin/env python3
"""What record says and keeps about kinds, nodes and CPUs. Arguments: memsight, the victim, a
library that audits."""
import os
import shutil
import subprocess
import sys
import tempfile

from whole import Checks, Outcome, Recording, environment, run

GIB = 1 << 30

REFUSED = [
    (["--heap", "fast"], "'fast' is no kind of memory; there are default, hbw"),
    (["--heap", "pmem"], "pmem needs a folder"),
    (["--heap", "pmem:/no/such/folder,1G"], "No such file or directory"),
    (["--heap", "pmem:/proc,1G"], "/proc"),
    (["--heap", "pmem:/tmp,1M"], "at least 32M"),
    (["--heap", "pmem:/tmp,many"], "is not a size"),
    (["--heap", "hbw:/tmp"], "only pmem takes a folder"),
    (["--heap", "default", "--no-alloc"], "--no-alloc"),
    (["--buffers", "node:1000"], "--buffers 1000"),
    (["--buffers", "fast"], "is no kind of memory"),
    (["--membind", "1000"], "--membind 1000"),
    (["--membind", "x"], "--membind x"),
    (["--interleave", "1-1000"], "--interleave 1-1000"),
    (["--preferred", "!0-1023"], "--preferred"),
    (["--cpunodebind", "1000"], "--cpunodebind 1000"),
    (["--physcpubind", "100000"], "--physcpubind 100000"),
    (["--physcpubind", "0", "--cpunodebind", "0"], "exclude each other"),
    (["--membind", "0", "--interleave", "0"], "exclude each other"),
]


def check_refusals(checks, memsight, folder):
    marker = os.path.join(folder, "has-run")
    for options, words in REFUSED:
        outcome = Outcome([
            memsight, "record", "-o",
            os.path.join(folder, "x.mst"), *options, "--", "touch", marker
        ])
        checks.that(
            outcome.status != 0 and words in outcome.messages and outcome.messages.count("\n") == 1,
            f"{options}: {outcome.status} {outcome.messages}")
        checks.that(not os.path.exists(marker), f"{options}: the program was started")
        checks.that(os.listdir(folder) == [], f"{options}: left {os.listdir(folder)}")


def fact(recording, key):
    return recording.one("SELECT value FROM fact WHERE key = ? AND NOT at_end", "memsight." + key)


def allowed(line, *prefix):
    """The list of CPUs in a line of /proc/self/status."""
    text = run([*prefix, "grep", line, "/proc/self/status"]).split()[1]
    cpus = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


def check_cpus(checks, memsight, folder):
    ours = allowed("Cpus_allowed_list")
    trace = os.path.join(folder, "cpus.mst")
    for text, wanted in [(str(ours[0]), ours[:1]), ("all", ours), ("+0", ours[:1]),
                         (f"!{ours[0]}", ours[1:])]:
        if not wanted:
            continue
        found = allowed("Cpus_allowed_list", memsight, "record", "-q", "-f", "-o", trace,
                        "--physcpubind", text, "--")
        checks.that(found == wanted, f"--physcpubind {text}: {found} and not {wanted}")
    recording = Recording(memsight, ["sleep", "0.2"],
                          ["-q", "--cpunodebind", "0", "--membind", "0"])
    checks.that(fact(recording, "policy") == "bind:0", f"policy {fact(recording, 'policy')}")
    checks.that(
        fact(recording, "policy_found") == "bind:0", f"found {fact(recording, 'policy_found')}")
    checks.that(
        fact(recording, "cpus") == fact(recording, "cpus_found") is not None, "CPUs of node 0")
    for option, word in [("--interleave", "interleave:0"), ("--preferred", "prefer:0")]:
        recording = Recording(memsight, ["sleep", "0.2"], ["-q", option, "0"])
        checks.that(
            fact(recording, "policy_found") == word, f"{option}: {fact(recording, 'policy_found')}")


def check_kinds(checks, memsight, victim, pmem):
    """A heap that is too small: what lies where is told, and adds up."""
    recording = Recording(memsight, [victim, "full"], [
        "-q", "--heap", f"pmem:{pmem},64M", "--heap-min", "4000", "--spill"])
    rows = dict(
        recording.ask("SELECT name, n_blocks FROM kind_total JOIN heap_kind ON id = kind_id"))
    print("blocks by kind:", rows)
    checks.that(
        rows.get("pmem", 0) > 10 and rows.get("spilled", 0) > 10 and rows.get("libc", 0) > 0,
        f"{rows}")
    checks.that(
        sum(rows.values()) == recording.one("SELECT count(*) FROM allocation"), "kinds add up")
    outside = recording.one("""
        SELECT count(*) FROM allocation JOIN heap_kind ON heap_kind.id = kind JOIN heap_range USING
            (process_id)
        WHERE (name = 'pmem') <> (allocation.address BETWEEN start AND start + heap_range.size -
            1)""")
    checks.that(outside == 0, f"{outside} blocks are not where their kind lies")
    small = recording.one("SELECT count(*) FROM allocation WHERE kind IS NOT NULL AND size < 4000")
    checks.that(small == 0, f"{small} small blocks were placed")
    checks.that(recording.losses() == {}, f"{recording.losses()}")
    for name, value in [("bytes", "sum(size)"), ("n_blocks", "count(*)")]:
        both = recording.one(f"""SELECT count(*) FROM kind_total WHERE {name} <> (
            SELECT {value} FROM allocation WHERE kind = kind_id) AND kind_id IN (SELECT kind FROM
                allocation)""")
        checks.that(both == 0, f"{name} of kinds and of their blocks differ")
    peak = recording.one(
        "SELECT peak_bytes FROM kind_total JOIN heap_kind ON id = kind_id WHERE name = 'pmem'")
    checks.that(0 < peak <= 64 << 20, f"peak {peak}")
    report = run([memsight, "report", recording.path])
    checks.that("blocks in    pmem: " in report and "spilled: " in report, report[:1000])
    checks.that([row[0] for row in recording.ask("SELECT place FROM heap_range")] == [pmem],
                "the place")
    without = Recording(memsight, [victim, "zeros"])
    checks.that(without.one("SELECT count(*) FROM kind_total") == 0 and
                without.one("SELECT count(kind) FROM allocation") == 0, "kinds without --heap")


def check_follow(checks, memsight, pmem):
    """A program that is started with nothing of our environment has its heap there, too."""
    recording = Recording(memsight, ["env", "-i", "/bin/sh", "-c", "ls / | sort > /dev/null"],
                          ["-q", "--heap", f"pmem:{pmem},64M"])
    placed = {
        os.path.basename(exe)
        for exe, in recording.ask(
            "SELECT exe FROM process WHERE id IN (SELECT process_id FROM allocation WHERE kind IS "
            "NOT NULL)"
        )
    }
    print("placed:", placed)
    checks.that({"ls", "sort"} <= placed, f"placed: {placed}")


def events(memsight, command, options):
    """What was recorded, but for where it lies. (Of no shell: that has a block for each variable.)
    """
    recording = Recording(memsight, command, ["-q", *options])
    return {
        "allocations": recording.ask(
            "SELECT size, call, count(*), count(freed_ns) FROM allocation GROUP BY 1, 2"),
        "maps": recording.ask("SELECT call, count(*), sum(size) FROM mapping_event GROUP BY 1") +
                recording.ask("SELECT count(*), sum(size) FROM mapping WHERE call IS NOT NULL"),
        "losses": recording.losses()
    }


def check_events(checks, memsight, victim, pmem):
    """The heap has no events of its own: what is recorded is the program's, whatever its blocks lie
    in."""
    for command in ([victim, "zeros"], [victim, "align"], ["sort", __file__]):
        plain = events(memsight, command, [])
        checks.that(len(plain["allocations"]) > 3, f"{command}: {plain}")
        for kind in ("default", f"pmem:{pmem},256M"):
            placed = events(memsight, command, ["--heap", kind])
            for what, rows in plain.items():
                checks.that(rows == placed[what],
                            f"{kind}: {command}: {what}: {rows} and {placed[what]}")


def check_libraries(checks, memsight, pmem):
    """No library comes with the heap: each process would pay for loading it, and for its
    constructors."""
    found = {}
    for kind in (None, "default", f"pmem:{pmem},64M"):
        recording = Recording(memsight, ["cat", "/proc/self/maps"],
                              ["-q"] + (["--heap", kind] if kind else []))
        found[kind] = {
            os.path.basename(line.split()[5])
            for line in recording.output.splitlines() if ".so" in line
        }
        more = found[kind] - found[None]
        checks.that(more == ({"libtracealloc_heap.so"} if kind else set()), f"{kind}: {more}")


def check_musl(checks, memsight, folder):
    """A program of another C library runs, as the command and as a child, without a heap: that is
    told."""
    if not shutil.which("musl-gcc"):
        print("no musl-gcc: programs of musl are not tested")
        return
    source, program = os.path.join(folder, "other.c"), os.path.join(folder, "other")
    with open(source, "w", encoding="ascii") as file:
        file.write(
            "#include <stdio.h>\n#include <stdlib.h>\n"
            "int main(void) "
            "{ void *p = malloc(1931); puts(p ? \"there\" : \"none\"); free(p); return 0; }\n"
        )
    subprocess.run(["musl-gcc", "-o", program, source], check=True)
    commands = [[program], ["sh", "-c", f"{program}; exit $?"],
                ["sh", "-c", f"env -i {program}; exit $?"]]
    loader = run(["readelf", "-p", ".interp", program]).split()[-1]
    for command in commands + [[loader, program], ["sh", "-c", f"{loader} {program}; exit $?"]]:
        recording = Recording(memsight, command, ["-q", "--heap", "default"])
        checks.that("there" in str(recording.output), f"{command}: {recording.output}")
        checks.that(
            recording.one("SELECT count(*) FROM allocation WHERE size = 1931 AND kind IS NULL") ==
            1, f"{command}: its block, in no heap")
        losses = [row[0] for row in recording.ask("SELECT reason FROM loss")]
        checks.that(any("not glibc" in reason for reason in losses), f"{command}: losses {losses}")


def check_audit(checks, memsight, folder, victim, audit, pmem):
    """A library that audits each call stands between all others, and takes what room there is for
    thread-local variables."""
    variables = environment(LD_AUDIT=audit)
    for case in ("align", "early", "foreign"):
        plain = Outcome([victim, case], env=variables)
        checks.that(plain.status == 0, f"{case} is audited: {plain.status}")
        for kind in ("default", f"pmem:{pmem},64M"):
            placed = Outcome([
                "env", f"LD_AUDIT={audit}", memsight, "record", "-q", "-f", "-o",
                os.path.join(folder, "a.mst"), "--heap", kind, "--", victim, case
            ])
            checks.that(
                plain.differs_from(placed) == [],
                f"{case} on {kind}: {plain.differs_from(placed)} {placed.messages}")


def check_variables(checks, memsight, victim, pmem):
    """Heimdallr's variables, and that an option of ours wins."""
    variables = environment(HEIMDALLR_PMEMDIR=pmem, HEIMDALLR_PMEMSIZE="", TRAC_THRESHOLD="0x400",
                            TRAC_STACKLEVELS="0x3", TRAC_PMEMDIR=pmem, TRAC_PMEMSIZE="0x1000000")
    recording = Recording(memsight, [victim, "zeros"], env=variables)
    checks.that(fact(recording, "heap") == "pmem" and fact(recording, "heap_bytes") == str(4 * GIB),
                f"heap {fact(recording, 'heap')} {fact(recording, 'heap_bytes')}")
    checks.that(
        fact(recording, "buffers") == "pmem" and fact(recording, "buffer_bytes") == str(1 << 24),
        f"buffers {fact(recording, 'buffers')} {fact(recording, 'buffer_bytes')}")
    checks.that(
        fact(recording, "heap_min_bytes") == fact(recording, "min_bytes") == "1024",
        "the threshold")
    least, depth = recording.ask(
        "SELECT min(size), (SELECT max(depth) FROM stack WHERE frame_id IS NOT NULL)"
        " FROM allocation")[0]
    checks.that(least >= 1024, f"the smallest recorded block has {least} bytes")
    checks.that(depth is not None and depth <= 4, f"the deepest stack has {depth} frames")
    with tempfile.TemporaryDirectory() as folder:
        outcome = Outcome([
            memsight, "record", "-o",
            os.path.join(folder, "x.mst"), "--heap-min", "0", "--heap", "default", "--", "true"
        ], env=variables)
        checks.that("set by TRAC_PMEMDIR, TRAC_THRESHOLD, TRAC_STACKLEVELS" in outcome.messages and
                    "heap default" in outcome.messages, outcome.messages)
        outcome = Outcome([memsight, "record", "-o", os.path.join(folder, "y.mst"), "--", "true"],
                          env=environment(TRAC_THRESHOLD="1k"))
        checks.that(
            outcome.status == 2 and "TRAC_THRESHOLD: '1k' is not a number" in outcome.messages,
            outcome.messages)


def check_buffers(checks, memsight, pmem):
    """The pool lies where it should; what is in it arrives."""
    maps = Recording(memsight, ["grep", "memsight-pool", "/proc/self/numa_maps"],
                     ["-q", "--buffers", "node:0"])
    checks.that("bind:0" in maps.output, f"numa_maps: {maps.output!r}")
    checks.that(fact(maps, "buffers_nodes") == "bind:0", f"{fact(maps, 'buffers_nodes')}")
    file = Recording(memsight, ["grep", "memsight-pool", "/proc/self/maps"], ["-q", "--buffers",
                                                                              f"pmem:{pmem},16M"])
    checks.that(os.path.join(pmem, "memsight-pool-") in file.output, f"maps: {file.output!r}")
    checks.that(file.one("SELECT count(*) FROM allocation") > 0, "nothing arrived")
    checks.that(not [name for name in os.listdir(pmem) if name.startswith("memsight-pool")],
                "a file is left")


def check_full_folder(checks, memsight, victim, folder):
    """No room for a forked child's copy: it lives in DRAM, and the database says so."""
    small = os.path.join(folder, "small")
    os.mkdir(small)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=18M", "tmpfs", small],
                             check=False, stderr=subprocess.DEVNULL)
    if mounted.returncode != 0:
        print("not checked: a folder that is full (needs root and mount)")
        return
    try:
        recording = Recording(memsight, [victim, "copies"], ["-q", "--heap", f"pmem:{small},1G"])
        kinds = {name for name, in recording.ask(
            "SELECT name FROM heap_range JOIN heap_kind ON heap_kind.id = kind_id")}
        checks.that(kinds == {"pmem", "dram"}, f"{kinds}")
        full = Outcome([
            memsight, "record", "-q", "-o",
            os.path.join(folder, "f.mst"), "--heap", f"pmem:{small},1G", "--", victim, "full"
        ])
        checks.that(full.status == 0 and full.stderr.endswith(b"ENOMEM\n"),
                    f"a full disk: {full.stderr}")
    finally:
        subprocess.run(["umount", small], check=False)


def check_file_limit(checks, memsight, folder):
    """A program that lowers its limit of file size and forks: no signal ends it for our copy's
    sake."""
    script = "ulimit -f 8; (exit 0); echo alive"
    outcome = Outcome([memsight, "record", "-q", "-o", os.path.join(folder, "limit.mst"), "--heap",
                       f"pmem:{folder},64M", "--", "sh", "-c", script])
    checks.that(outcome.status == 0 and outcome.stdout == b"alive\n",
                f"ulimit -f, then fork: {outcome.status} {outcome.stdout} {outcome.stderr}")


def main():
    memsight, victim, audit = sys.argv[1:]
    checks = Checks()
    pmem = "/dev/shm" if os.access("/dev/shm", os.W_OK) else os.path.realpath(tempfile.gettempdir())
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        check_refusals(checks, memsight, folder)
        check_cpus(checks, memsight, folder)
        check_full_folder(checks, memsight, victim, folder)
        check_file_limit(checks, memsight, folder)
        check_musl(checks, memsight, folder)
        check_audit(checks, memsight, folder, victim, audit, pmem)
    check_kinds(checks, memsight, victim, pmem)
    check_follow(checks, memsight, pmem)
    check_variables(checks, memsight, victim, pmem)
    check_buffers(checks, memsight, pmem)
    check_events(checks, memsight, victim, pmem)
    check_libraries(checks, memsight, pmem)
    checks.end()


main()
