#!/usr/bin/env python3
"""Time of system calls that copy goes to the program's buffers, in phase 3. Arguments: memsight,
the victim."""
import sys

from whole import Checks, Recording, skip


def main():
    memsight, victim = sys.argv[1:]
    checks = Checks()
    recording = Recording(memsight, [victim], ["-q", "--count", "both"])
    recording.need_source("clock")
    if recording.one("SELECT exclude_kernel FROM source WHERE name = 'clock'"):
        skip("samples of the kernel are not allowed here")
    if not recording.one("SELECT count(*) FROM sample WHERE is_kernel"):
        skip("no samples of the kernel")
    n = recording.one("SELECT n_samples FROM source WHERE name = 'clock'")
    # Samples stand for periods that are drawn at random: a third of the time, not of their number.
    total = recording.one(
        "SELECT sum(weight) FROM sample JOIN source ON source.id = source_id WHERE name = 'clock'")
    true_total = sum(int(line.split()[4]) for line in recording.output.splitlines())
    for line in recording.output.splitlines():
        address, size, is_write, name, ns = line.split()
        share = recording.one(
            "SELECT coalesce(sum(share * weight), 0) FROM touch JOIN sample ON sample.id = "
            "sample_id"
            " WHERE role = 1 AND phase = 3 AND address = ? AND size = ? AND is_write = ?"
            " AND owner_kind = 1", int(address, 16), int(size), int(is_write)) / total
        true = int(ns) / true_total
        half = 4.5 * (true * (1 - true) / n) ** 0.5
        # Entering the kernel and page faults take their part: most of all of a call that copies
        # little.
        least = 0.4 if name == "fstat" else 0.82
        print("%-9s %5.1f %%: %5.1f ±%.1f" % (name, 100 * true, 100 * share, 100 * half))
        checks.that(least * true - half <= share <= true + half,
                    f"{name}'s block has {share:.3f} of {n} samples, not {true:.3f}")
    checks.end()


main()
