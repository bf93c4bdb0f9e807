"""Checks of --heap that hold for each kind of memory. Arguments as `record' takes them."""
import os

from guest import CHILD_BYTES, LARGE_BYTES, N_LARGE, N_SMALL, SMALL_BYTES, avail, doctor, pages
from whole import Outcome

SQL = (
    "create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n where i "
    "< 2000)"
    " insert into t select i % 97, 'label ' || i from n; create index x on t(a);"
    " select a, count(*), max(b) from t group by a order by 2 desc, 1 limit 5;")
BASH = ("for i in 1 2 3; do a=$(echo $i; echo b); echo $a $(( $(echo 4) * i )); done; (echo in a "
        "subshell; exit 3); exit 4")
# What victim-heap can do wrong with each heap (tests/unit/heap): forks, output at exit, blocks of
# others.
CASES = ["foreign", "fork", "output", "align", "exit"]


def kinds_are_named(guest, nodes, *words):
    """`nodes': of each kind the node."""
    guest.says(avail(guest), "heap kinds", "\nnodes\n", "MiB free, no CPUs", *words,
               *(f"{kind:<24} nodes {node}" for kind, node in nodes.items()))
    guest.says(doctor(guest), "memory kinds", "memory nodes", "MiB free, no CPUs",
               *(f"{kind} (nodes {node})" for kind, node in nodes.items()))


def database_says(guest, database, kind, place):
    """What lies where, by blocks, sums and addresses; the last block is one that the forked child
    made."""
    for size, n in [(LARGE_BYTES, N_LARGE), (SMALL_BYTES, N_SMALL), (CHILD_BYTES, 1)]:
        found = database.ask(
            "SELECT heap_kind.name, count(*) FROM allocation LEFT JOIN heap_kind ON"
            " heap_kind.id = allocation.kind WHERE size = ? GROUP BY 1", size)
        guest.that(found == [(kind, n)], f"{kind}: blocks of {size}: {found}")
    total = database.ask(
        "SELECT n_blocks, bytes FROM kind_total JOIN heap_kind ON heap_kind.id = kind_id"
        " WHERE heap_kind.name = ?", kind)
    least = N_LARGE * LARGE_BYTES + N_SMALL * SMALL_BYTES
    guest.that(
        len(total) == 1 and total[0][0] >= N_LARGE + N_SMALL and total[0][1] >= least,
        f"{kind}: {total}")
    outside = database.one(
        "SELECT count(*) FROM allocation JOIN heap_kind ON heap_kind.id = allocation.kind WHERE "
        "heap_kind.name = ? AND"
        " NOT EXISTS (SELECT 1 FROM heap_range WHERE kind_id = heap_kind.id AND allocation.address "
        ">= start AND"
        " allocation.address + allocation.size <= start + heap_range.size)", kind)
    guest.that(outside == 0, f"{kind}: {outside} of its blocks lie outside of its heap")
    faulted = database.ask("SELECT error FROM source WHERE name = 'faults'")
    guest.that(faulted == [(0,)] or os.getuid() != 0, f"{kind}: page faults: {faulted}")
    nodes = {
        node
        for node, in database.ask(
            "SELECT DISTINCT node FROM fault_node JOIN owner ON owner.id = owner_kind JOIN site ON "
            "site.stack_id = owner_id"
            " WHERE owner.name = 'heap' AND site.bytes >= ?", N_SMALL * SMALL_BYTES)
    }
    wanted = {int(place.split()[1])} if place.startswith("node ") and faulted == [(0,)] else set()
    guest.that(nodes == wanted, f"{kind}: page faults on {nodes}, not {wanted}")
    places = database.ask("SELECT DISTINCT place FROM heap_range")
    guest.that(places == [(place,)], f"{kind}: its places are {places}")


def blocks_lie_on_a_kind(guest, heap, kind, node):
    """The pages of all blocks, in the forked child as well, and what the database says."""
    placed, database = guest.recorded(["--heap", heap], [guest.victim, "fork"])
    lines = placed.stdout.decode().splitlines()
    wanted = [
        *pages(node), "child sees its parent's bytes", *pages(node), "parent keeps its bytes",
        *pages(node)
    ]
    guest.that(placed.status == 0 and lines[1:] == wanted,
               f"{heap}: {placed.status} {lines} {placed.messages}")
    database_says(guest, database, kind, f"node {node}")


def the_report_names_the_kind(guest, kind):
    """Of the run that was recorded last."""
    text = Outcome([guest.memsight, "report", guest.path("run.db")]).stdout.decode()
    guest.that(f"blocks in    {kind}: " in text, f"{kind}: {text}")


def full_is_told(guest, heap):
    """200 MiB do not fit: ENOMEM as malloc says it, or libc's memory with --spill."""
    full = guest.record(["-q", "--heap", heap], [guest.victim, "full"])
    text = full.stderr.decode()
    guest.that(
        full.status == 0 and text.endswith(" MiB, ENOMEM\n") and 0 < int(text.split()[0]) < 200,
        f"{heap}: {full.status} {text}")
    spilled, database = guest.recorded(["--heap", heap, "--spill"], [guest.victim, "full"])
    guest.that(spilled.status == 0 and spilled.stderr == b"200 MiB, no end\n",
               f"{heap} --spill: {spilled.stderr}")
    n_spilled = database.one(
        "SELECT count(*) FROM allocation LEFT JOIN heap_kind ON heap_kind.id = allocation.kind"
        " WHERE size = 1 << 20 AND heap_kind.name = 'spilled'")
    guest.that(n_spilled >= 200 - int(text.split()[0]) - 1 > 0,
               f"{heap}: {n_spilled} blocks spilled; {text}")


def programs_stay_the_same(guest, heap):
    """Output, status and what they leave in files, of programs that fork and exit in many ways."""
    for case in CASES:
        guest.same(f"{heap} {case}", ["--heap", heap], [guest.heap_victim, case])
    guest.same(f"{heap} bash", ["--heap", heap], ["bash", "-c", BASH])
    guest.same(f"{heap} sqlite3", ["--heap", heap], ["sqlite3", ":memory:", SQL])
