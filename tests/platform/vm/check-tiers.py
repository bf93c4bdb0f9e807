#!/usr/bin/env python3
"""Nodes without CPUs, of different speed, as an HMAT tells them: node 0 has the least latency and
most memory, node 1 the most bandwidth, node 2 is slow. Runs in the emulated machine `tiers':
scripts/vm-test."""
import guest as machine
from guest import NOBODY, pages
from placed import (blocks_lie_on_a_kind, full_is_told, kinds_are_named, programs_stay_the_same,
                    the_report_names_the_kind)
from whole import Outcome

# What --heap takes, and the node that the firmware's table makes of it.
KINDS = {"hbw": 1, "hbw-preferred": 1, "highest-capacity": 0, "lowest-latency": 0}


def blocks_lie_on_each_kind(guest):
    for kind, node in KINDS.items():
        blocks_lie_on_a_kind(guest, f"{kind},96M", kind, node)


def no_kind_no_program(guest):
    guest.refuses(["--heap", "kmem"], "--heap kmem: no node of persistent or CXL memory")


def buffers_lie_on_a_kind(guest):
    for where, node in [("hbw", 1), ("node:2", 2)]:
        placed, database = guest.recorded(["--buffers", where],
                                          ["grep", "memsight-pool", "/proc/self/numa_maps"])
        text = placed.stdout.decode()
        guest.that(f"bind:{node}" in text and f"N{node}=" in text and text.count(" N") == 1,
                   f"{where}: {text}")
        guest.that(database.one("SELECT count(*) FROM allocation") > 0, f"{where}: nothing arrived")


def lists_are_those_of_numactl(guest):
    for nodes, first in [("!0", 1), ("1-2", 1), ("2", 2)]:
        placed = guest.same(f"--membind {nodes}", ["--membind", nodes], [guest.victim],
                            Outcome(["numactl", f"--membind={nodes}", guest.victim]))
        guest.that(placed.stdout.decode().splitlines()[1:] == pages(first),
                   f"{nodes}: {placed.stdout}")


def main(guest):
    guest.step(kinds_are_named, KINDS)
    guest.step(blocks_lie_on_each_kind)
    guest.step(the_report_names_the_kind, list(KINDS)[-1])
    guest.step(no_kind_no_program)
    guest.step(buffers_lie_on_a_kind)
    guest.step(lists_are_those_of_numactl)
    guest.step(full_is_told, "hbw,64M")
    guest.step(programs_stay_the_same, "hbw,96M")
    guest.step(kinds_are_named, KINDS, user=NOBODY)
    for check in [
            blocks_lie_on_each_kind, no_kind_no_program, buffers_lie_on_a_kind,
            lists_are_those_of_numactl
    ]:
        guest.step(check, user=NOBODY)


machine.main(main)
