#!/usr/bin/env python3
"""What is mapped at the end of a victim that maps, unmaps, moves and replaces at random is what the
kernel says there. Arguments: memsight, victim, victim with an own mmap that calls syscall()."""
import sys

import whole

SEEDS = range(1, 13)
STEPS = 3000


def merged(ranges):
    """Neighbours joined: the kernel joins what it can, we only what one call made."""
    result = []
    for start, size in sorted(ranges):
        if result and result[-1][1] >= start:
            if result[-1][1] > start:
                raise SystemExit(f"two mappings on one address: 0x{start:x}")
            result[-1][1] = start + size
        else:
            result.append([start, start + size])
    return result


def check(checks, memsight, victim, options, seed):
    run = whole.Recording(memsight, [victim, str(seed), str(STEPS)], options)
    lines = [line.split() for line in run.output.splitlines()]
    place, size = next((int(line[1]), int(line[2])) for line in lines if line[0] == "place")
    kernel = merged((int(line[1]), int(line[2])) for line in lines if line[0] == "map")
    ours = merged(run.ask("SELECT max(address, ?1), min(address + size, ?2) - max(address, ?1)"
                          " FROM mapping WHERE freed_ns IS NULL AND address < ?2"
                          " AND address + size > ?1", place, place + size))
    kernel = [[max(a, place), min(b, place + size)] for a, b in kernel]
    n_shm = run.one("SELECT count(*) FROM mapping JOIN call ON call.id = call"
                    " WHERE call.name = 'shmat'")
    n_rows = run.one("SELECT count(*) FROM mapping WHERE seen = 0")
    n_late = run.one("SELECT count(*) FROM mapping WHERE seen = 2 AND address BETWEEN ? AND ?",
                     place, place + size - 1)
    print(f"seed {seed}: {len(kernel)} areas, {n_rows} mappings, {n_shm} of segments, {n_late} only"
          " from the kernel")
    checks.that(ours == kernel, f"seed {seed}: {ours} and the kernel has {kernel}")
    checks.that(n_rows > STEPS / 4 and n_shm > 0,
                f"seed {seed}: {n_rows} mappings, {n_shm} segments")
    checks.that(n_late == 0, f"seed {seed}: {n_late} mappings that their calls did not make")
    checks.that(not run.losses(), f"losses: {run.losses()}")


def main(memsight, *victims):
    checks = whole.Checks()
    for seed in SEEDS:
        check(checks, memsight, victims[seed % 4 == 0], ["--source", "none"] if seed % 2 else [],
              seed)
    checks.end()


main(*sys.argv[1:])
