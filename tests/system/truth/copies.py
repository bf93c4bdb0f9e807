#!/usr/bin/env python3
"""Time of system calls that copy goes to the program's buffers, in phase 3. Arguments: memsight, the victim."""
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
    total = recording.one("SELECT sum(weight) FROM sample JOIN source ON source.id = source_id WHERE name = 'clock'")
    shares = []
    for i, address in enumerate(int(address, 16) for address in recording.output.split()):
        shares.append(recording.one("SELECT coalesce(sum(share * weight), 0) FROM touch JOIN sample ON sample.id = sample_id"
                                    " WHERE role = 1 AND phase = 3 AND address = ? AND size = 1048576"
                                    " AND is_write = ? AND owner_kind = 1", address, int(i != 1)) / total)
        # A third each; entering the kernel and page faults take their part.
        half = 4.5 * (2 / 9 / n) ** 0.5
        checks.that(1 / 3 - 0.06 - half <= shares[i] <= 1 / 3 + half, f"block {i} has {shares[i]:.3f} of the time of {n} samples, should have a third")
    print(n, [round(share, 3) for share in shares])
    checks.end()


main()
