#!/usr/bin/env python3
"""Two NUMA nodes with a CPU each. Runs in the emulated machine `nodes': scripts/vm-test."""
import json
import os

import guest as machine
import restricted
from guest import LARGE_BYTES, N_LARGE, NOBODY, N_SMALL, SMALL_BYTES, fact, pages, write
from whole import Database, Outcome, run

# Options of record, those of numactl that ask for the same, and the nodes of CPU and pages.
POLICIES = [
    (["--cpunodebind", "0", "--membind", "1"], ["--cpunodebind=0", "--membind=1"], 0, [1]),
    (["--cpunodebind", "1", "--membind", "0"], ["--cpunodebind=1", "--membind=0"], 1, [0]),
    (["--cpunodebind", "1"], ["--cpunodebind=1"], 1, [1]),
    (["--physcpubind", "0", "--interleave", "0,1"], ["--physcpubind=0",
                                                     "--interleave=0,1"], 0, [0, 1]),
    (["--physcpubind", "0", "--preferred", "1"], ["--physcpubind=0", "--preferred=1"], 0, [1]),
]
REFUSED = [
    (["--membind", "7"], "--membind 7"),
    (["--cpunodebind", "2"], "--cpunodebind 2"),
    (["--heap", "hbw"], "--heap hbw"),
    (["--heap", "kmem"], "--heap kmem"),
    (["--buffers", "node:2"], "--buffers"),
]


def pages_lie_where_they_were_asked_for(guest):
    """numactl is asked for the same: what it gives is what the program prints."""
    for ours, theirs, cpu_node, nodes in POLICIES:
        plain = Outcome(["numactl", *theirs, guest.victim])
        lines = plain.stdout.decode().splitlines()
        # Interleaved pages of small blocks are not half and half by themselves.
        guest.that(
            lines[0] == f"cpus {cpu_node}" and (len(nodes) == 2 or lines[1:] == pages(*nodes)),
            f"numactl {theirs}: {lines}")
        placed = guest.same(" ".join(ours), ours, [guest.victim], plain)
        found = placed.stdout.decode().splitlines()
        guest.that(len(nodes) == 1 or found[1] == pages(*nodes)[0], f"{ours}: {found}")
        guest.that(len(lines) == 3 and len(found) == 3, f"{lines} {found}")


def the_database_knows_policy_and_pages(guest):
    """Blocks, the bytes of the process on each node, and the node of each block's page faults."""
    blocks = N_LARGE * LARGE_BYTES + N_SMALL * SMALL_BYTES
    for milliseconds in [1000, 5000, 20000]:
        _, database = guest.recorded(["--cpunodebind", "0", "--membind", "1"],
                                     [guest.victim, str(milliseconds)])
        # Pages by node are looked at for 1 % of the time, which may be once in seconds here.
        most = database.one(
            "SELECT max(json_extract(node_bytes, '$.\"1\"')) FROM process_sample") or 0
        if most >= blocks:
            break
    for size, n in [(LARGE_BYTES, N_LARGE), (SMALL_BYTES, N_SMALL)]:
        guest.that(
            database.one("SELECT count(*) FROM allocation WHERE size = ?", size) == n,
            f"blocks of {size}")
    guest.that(fact(database, "policy_found") == "bind:1", f"{fact(database, 'policy_found')}")
    guest.that(fact(database, "cpus_found") == "0", f"{fact(database, 'cpus_found')}")
    rows, sums = faults_by_node(database)
    guest.that(rows == sums and set(rows) == {1}, f"page faults by node: {rows} {sums}")
    guest.that(blocks <= most < 2 * blocks, f"{most} bytes on node 1, of {blocks}")


def faults_by_node(database):
    """Of the large blocks: {node: page faults}, as rows and added up."""
    rows = dict(
        database.ask(
            "SELECT node, count(*) FROM access_detail JOIN touch USING (sample_id) JOIN owner ON "
            "owner.id"
            " = owner_kind JOIN allocation ON allocation.id = owner_id WHERE role = 3 AND "
            "owner.name ="
            " 'heap' AND allocation.size = ? GROUP BY 1", LARGE_BYTES))
    sums = dict(
        database.ask(
            "SELECT node, sum(n) FROM fault_node JOIN owner ON owner.id = owner_kind WHERE "
            "owner.name ="
            " 'heap' AND owner_id IN (SELECT stack_id FROM allocation WHERE size = ?) GROUP BY 1",
            LARGE_BYTES))
    return rows, sums


def page_faults_tell_their_node(guest):
    """As many on each node as the victim counts pages there, but for the two at each end that are
    others' as well."""
    outcome, database = guest.recorded(["--interleave", "0,1"], [guest.victim, "1000"])
    words = outcome.stdout.decode().splitlines()[1].split()[1:]
    pages_of = {int(node): int(n) for node, n in zip(words[::2], words[1::2])}
    rows, sums = faults_by_node(database)
    guest.that(
        rows == sums and set(rows) == set(pages_of)
        and all(abs(rows[node] - n) <= 2 * N_LARGE for node, n in pages_of.items()),
        f"{rows} {sums} {pages_of}")
    report = run([guest.memsight, "report", "--locality", guest.path("run.db")])
    guest.that(all(f"page faults: node {node}" in report for node in pages_of), report)
    part = run([guest.memsight, "report", "--locality", "--thread", "1", guest.path("run.db")])
    guest.that("page faults: node" not in part, f"of a thread that is not there: {part}")


def touched_pages_tell_their_nodes(guest):
    """What each mapping has on each node, resident and touched: exact where it lies on one."""
    database = guest.mapped("bound")
    mib = 1 << 20
    maps = [("near_map", {"0": 4 * mib}, {"0": [4 * mib, 4 * mib]}),
            ("far_map", {"1": 2 * mib}, {"1": [2 * mib, 2 * mib]}),
            ("both_map", {"0": 2 * mib, "1": 2 * mib}, {"0": [0, 2 * mib], "1": [0, 2 * mib]})]
    for function, resident, touched in maps:
        rows = guest.of_function(database, "page_part", "node_bytes", function,
                                 "snapshot_id = (SELECT max(id) FROM page_snapshot)")
        guest.that([json.loads(row[0]) for row in rows] == [resident], f"{function}: {rows}")
        rows = guest.of_function(database, "page_touch", "node_touched", function,
                                 "least + most > 0")
        guest.that(touched in [json.loads(row[0]) for row in rows], f"{function}: {rows}")
        found = {row[0] for row in database.ask(
            "SELECT node_bytes FROM page_run WHERE resident = ? AND kind = 'anonymous'",
            sum(resident.values()))}
        guest.that(resident in [json.loads(text) for text in found], f"{function}: {found}")
    for question in ["--resident", "--working-set"]:
        text = run([guest.memsight, "report", guest.path("map.db"), question])
        guest.that("1: " in text and "0: " in text, text)


def pages_of_hugetlbfs_are_in_the_parts(guest):
    """And not in VmRSS; whether they were touched the kernel does not tell."""
    write("/proc/sys/vm/nr_hugepages", "8")
    database = guest.mapped("huge")
    write("/proc/sys/vm/nr_hugepages", "0")
    guest.adds_up(database, 6 << 20)
    rows = guest.of_function(database, "page_part", "resident", "huge_map")
    guest.that(rows == [(6 << 20,)], f"huge_map: {rows}")
    rows = database.ask("SELECT DISTINCT resident FROM page_run WHERE kind = 'hugetlb'")
    guest.that(rows == [(6 << 20,)], f"page_run: {rows}")


def the_buffer_lies_on_its_node(guest):
    outcome, database = guest.recorded(["--cpunodebind", "0", "--buffers", "node:1"],
                                       ["grep", "memsight-pool", "/proc/self/numa_maps"])
    text = outcome.stdout.decode()
    guest.that("bind:1" in text and "N1=" in text and "N0=" not in text, f"numa_maps: {text}")
    guest.that(
        database.one("SELECT count(*) FROM allocation") > 0, "nothing came through that buffer")


def what_is_not_there_is_refused(guest):
    for options, words in REFUSED:
        guest.refuses(options, words)


SERIES = """[series]
output = results
repetitions = 2
seed = 5
[workload pages]
command = %s
[mode natural]
dry = yes
[mode near]
cpunodebind = 0
membind = 0
source = none
[mode far]
cpunodebind = 0
membind = 1
source = none
"""


def a_series_compares_the_nodes(guest):
    machine.write(guest.path("series.ini"), SERIES % guest.victim)
    run([guest.memsight, "run", "-q", "series.ini"], cwd=guest.folder)
    results = guest.path("results")
    databases = [name for name in os.listdir(results) if name.endswith(".db")]
    guest.that(len(databases) == 1, f"{os.listdir(results)}")
    database = Database(os.path.join(results, databases[0]))
    found = sorted(
        database.ask(
            "SELECT mode, repetition, (SELECT value FROM fact WHERE run_id = run.id AND key ="
            " 'memsight.policy_found') FROM run"))
    wanted = [("far", 0, "bind:1"), ("far", 1, "bind:1"), ("natural", 0, None),
              ("natural", 1, None), ("near", 0, "bind:0"), ("near", 1, "bind:0")]
    first = min(repetition for _, repetition, _ in found)
    guest.that(found == [(mode, n + first, policy) for mode, n, policy in wanted], f"runs: {found}")
    for mode, node in [("near", 0), ("far", 1)]:
        folder = next(name for name in sorted(os.listdir(results)) if f".{mode}." in name)
        texts = [
            open(os.path.join(results, folder, name), encoding="utf-8", errors="replace").read()
            for name in os.listdir(os.path.join(results, folder)) if name.startswith("stdout")
        ]
        guest.that(texts and texts[0].splitlines()[1:] == pages(node), f"{mode}: {texts}")


def nodes_are_named(guest):
    guest.says(machine.avail(guest), "\nnodes\n", "CPUs 0", "CPUs 1")
    guest.says(machine.doctor(guest), "memory nodes", "CPUs 0), 1 (")


def main(guest):
    guest.step(nodes_are_named)
    guest.step(pages_lie_where_they_were_asked_for)
    guest.step(the_database_knows_policy_and_pages)
    guest.step(page_faults_tell_their_node)
    guest.step(touched_pages_tell_their_nodes)
    guest.step(pages_of_hugetlbfs_are_in_the_parts)
    guest.step(the_buffer_lies_on_its_node)
    guest.step(what_is_not_there_is_refused)
    guest.step(a_series_compares_the_nodes)
    for check in [nodes_are_named, pages_lie_where_they_were_asked_for, the_buffer_lies_on_its_node,
                  what_is_not_there_is_refused, a_series_compares_the_nodes,
                  touched_pages_tell_their_nodes]:
        guest.step(check, user=NOBODY)
    restricted.run_all(guest, [the_database_knows_policy_and_pages, page_faults_tell_their_node])


machine.main(main)
