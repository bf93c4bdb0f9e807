#!/usr/bin/env python3
"""Two NVDIMMs: one with ext4 mounted by DAX at /pm, one as node 2, which has no CPUs, as CXL memory
looks. Runs in the emulated machine `pmem': scripts/vm-test."""
import os

import guest as machine
from guest import NOBODY, fact
from placed import (blocks_lie_on_a_kind, database_says, full_is_told, kinds_are_named,
                    programs_stay_the_same, the_report_names_the_kind)
from whole import run

NODE = 2


def make_file_system(guest):
    """Namespace 0: a file system whose files are mapped without page cache. Asserted, or nothing is
    proven."""
    run(["ndctl", "create-namespace", "-f", "-e", "namespace0.0", "-m", "fsdax", "-M", "mem"])
    run(["mkfs.ext4", "-q", "-b", "4096", "/dev/pmem0"])
    run([
        "/bin/busybox" if os.path.exists("/bin/busybox") else "busybox", "mount", "-t", "ext4",
        "-o", "dax", "/dev/pmem0", "/pm"
    ])
    os.chmod("/pm", 0o1777)
    with open("/proc/mounts", encoding="ascii") as mounts:
        guest.that(any(line.split()[1] == "/pm" and "dax=always" in line for line in mounts),
                   "no DAX on /pm")


def make_node(guest):
    """Namespace 1: ordinary memory, as far as the kernel is concerned."""
    run(["ndctl", "create-namespace", "-f", "-e", "namespace1.0", "-m", "devdax", "-M", "mem"])
    run(["daxctl", "reconfigure-device", "--mode=system-ram", "--no-movable", "dax1.0"])
    with open(f"/sys/devices/system/node/node{NODE}/meminfo", encoding="ascii") as meminfo:
        guest.that("MemTotal:        0 kB" not in meminfo.read(), f"node {NODE} has no memory")


def blocks_lie_on_persistent_memory(guest):
    """Pages of DAX belong to no node that move_pages(2) tells; the heap's file lies in that folder,
    or nothing would be left of the room there. A child has a copy of its own."""
    free = os.statvfs("/pm").f_bavail
    placed, database = guest.recorded(
        ["--heap", "pmem:/pm,96M"],
        ["sh", "-c", f"grep rw-s.*/pm/ /proc/self/maps | head -n 1 >&2; {guest.victim} fork"])
    lines = placed.stdout.decode().splitlines()
    guest.that(
        placed.status == 0 and lines[3] == "child sees its parent's bytes"
        and lines[6] == "parent keeps its bytes" and len(lines) == 9,
        f"{placed.status} {lines} {placed.messages}")
    guest.that(placed.stderr, "no map of a file in /pm")
    guest.that(fact(database, "heap_dax") == "yes", "heap_dax")
    _, database = guest.recorded(["--heap", "pmem:/pm,96M"], [guest.victim, "fork"])
    database_says(guest, database, "pmem", "/pm")
    guest.that(os.listdir("/pm") in ([], ["lost+found"]), f"left: {os.listdir('/pm')}")
    guest.that(
        os.statvfs("/pm").f_bavail == free,
        f"{os.statvfs('/pm').f_bavail} of {free} blocks are free")


def no_page_is_copied_to_memory(guest):
    placed = guest.same(
        "copies", ["--heap", "pmem:/pm,96M"], [guest.heap_victim, "copies"],
        guest.record(["-q", "--heap", "pmem:/pm,96M"], [guest.heap_victim, "copies"]))
    guest.that(placed.stderr.decode().count("copied 0 KiB") == 3, f"{placed.stderr}")


def buffers_lie_on_persistent_memory(guest):
    placed, database = guest.recorded(["--buffers", "pmem:/pm,16M"],
                                      ["grep", "memsight-pool", "/proc/self/maps"])
    guest.that(" /pm/memsight-pool-" in placed.stdout.decode(), f"{placed.stdout}")
    guest.that(database.one("SELECT count(*) FROM allocation") > 0, "nothing arrived")
    placed = guest.record(["-q", "--buffers", "kmem"],
                          ["grep", "memsight-pool", "/proc/self/numa_maps"])
    guest.that(f"bind:{NODE}" in placed.stdout.decode() and f"N{NODE}=" in placed.stdout.decode(),
               f"{placed.stdout}")


def pages_of_persistent_memory_are_in_the_parts(guest):
    """And in VmRSS or not, as the kernel does. Whether they were touched it does not tell."""
    path = f"/pm/file-{os.getuid()}"
    database = guest.mapped("file", path)
    os.unlink(path)
    is_counted = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2])) >= (6, 15)
    guest.adds_up(database, 0 if is_counted else 4 << 20)
    rows = guest.of_function(database, "page_part", "resident", "file_map")
    guest.that(rows == [(4 << 20,)], f"file_map: {rows}")
    rows = guest.of_function(database, "page_touch", "least, most", "file_map")
    guest.that(is_counted or not any(least for least, _ in rows), f"page_touch: {rows}")


def main(guest):
    guest.step(make_file_system)
    guest.step(make_node)
    guest.step(kinds_are_named, {"kmem": NODE}, "pmem:/pm")
    guest.step(blocks_lie_on_a_kind, "kmem,96M", "kmem", NODE)
    guest.step(blocks_lie_on_persistent_memory)
    guest.step(the_report_names_the_kind, "pmem")
    guest.step(no_page_is_copied_to_memory)
    guest.step(buffers_lie_on_persistent_memory)
    guest.step(pages_of_persistent_memory_are_in_the_parts)
    guest.step(full_is_told, "pmem:/pm,64M")
    guest.step(programs_stay_the_same, "pmem:/pm,64M")
    guest.step(kinds_are_named, {"kmem": NODE}, "pmem:/pm", user=NOBODY)
    guest.step(blocks_lie_on_a_kind, "kmem,96M", "kmem", NODE, user=NOBODY)
    for check in [
            blocks_lie_on_persistent_memory, no_page_is_copied_to_memory,
            buffers_lie_on_persistent_memory, pages_of_persistent_memory_are_in_the_parts
    ]:
        guest.step(check, user=NOBODY)


machine.main(main)
