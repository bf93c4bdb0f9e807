#!/usr/bin/env python3
"""String instructions that the data ends (repne scasb, repe cmpsb): their time goes to what they
are at, both blocks of a comparison alike, and is spread over the blocks; how many elements follow
is in no access. Arguments: memsight, the victim."""
import sys

from whole import Checks, Recording

PARTS = 4


def main():
    memsight, victim = sys.argv[1:]
    checks = Checks()
    recording = Recording(memsight, [victim], ["--source", "clock", "--freq", "4999"])
    recording.need_source("clock")
    *blocks, times = [line.split() for line in recording.output.splitlines()]
    scanned, compared = (int(time) / sum(map(int, times)) for time in times)
    n = recording.one("SELECT n_samples FROM source WHERE name = 'clock'")
    total = recording.one(
        "SELECT sum(weight) FROM sample JOIN source ON source.id = source_id WHERE name = 'clock'")
    for (address, size), true in zip(blocks, [scanned, compared / 2, compared / 2]):
        address, size = int(address, 16), int(size)
        part = size // PARTS
        rows = recording.ask(
            "SELECT (address - ?) / ?, sum(share * weight), max(size) FROM touch"
            " JOIN sample ON sample.id = sample_id JOIN source ON source.id = source_id AND name = "
            "'clock'"
            # The memset before is a write.
            " WHERE role = 1 AND NOT is_write AND address >= ? AND address < ? GROUP BY 1",
            address, part, address, address + size)
        shares = {where: time / total for where, time, _ in rows}
        print("%.3f of the time: %.3f, in quarters %s" %
              (true, sum(shares.values()), ["%.3f" % shares.get(i, 0) for i in range(PARTS)]))
        for i in range(PARTS):
            half = 4.5 * (true / PARTS / n) ** 0.5
            checks.that(
                abs(shares.get(i, 0) - true / PARTS) <= half + 0.01,
                f"quarter {i} has {shares.get(i, 0):.3f}")
        checks.that(all(size == 1 for *_, size in rows), f"an access of more than one byte: {rows}")
    checks.end()


main()
