#!/usr/bin/env python3
"""What lies in a block has its share of the block's time: four equal parts 25 % each, fields of
structures by their accesses, in the rows of touch, in --addr, and in the cells of --heatmap.
Arguments: memsight, the victim."""
import json
import sys

from whole import Checks, Recording, run

PART = 32768 * 8
SIGMA = 4.5


def check(checks, what, counts, shares):
    """Counts of draws against what they should be, by the binomial."""
    n = sum(counts)
    checks.that(n >= 100, f"{what}: only {n} samples")
    for i, share in enumerate(shares):
        half = SIGMA * (n * share * (1 - share)) ** 0.5 + 0.01 * n
        checks.that(
            abs(counts[i] - n * share) <= half,
            f"{what}: {counts[i]:.1f} of {n:.1f} in {i}, should be {share:.3f} +-{half / n:.3f}")


def main():
    memsight, victim = sys.argv[1:]
    checks = Checks()
    recording = Recording(memsight, [victim], ["-q"])
    recording.need_source("clock")
    parts, items = (int(address, 16) for address in recording.output.split())
    in_range = (
        "SELECT %s, sum(share) FROM touch WHERE role = 1 AND address >= ? AND address < ? GROUP BY "
        "1"
    )

    def sums(key, n, low, high):
        found = dict(recording.ask(in_range % key, low, high))
        return [found.get(i, 0) for i in range(n)]

    by_part = sums(f"(address - {parts}) / {PART}", 4, parts, parts + 4 * PART)
    check(checks, "parts", by_part, [0.25] * 4)
    fields = sums(f"(address - {items}) % 64 / 8", 8, items, items + 8 * PART)
    check(checks, "fields", fields, [1 / 3, 0, 1 / 3, 0, 1 / 3, 0, 0, 0])
    heat = json.loads(
        run([
            memsight, "report", recording.path, "--heatmap", "--source", "clock", "--cells", "1x4",
            "--addr", f"{parts:#x}-{parts + 4 * PART:#x}", "--format", "json", "--limit", "0"
        ]))
    cells = [0] * 4
    for row in heat:
        cells[row["row"]] += row["touches"]
    check(checks, "cells", cells, [0.25] * 4)
    half = json.loads(
        run([
            memsight, "report", recording.path, "--sites", "--addr",
            f"{parts:#x}-{parts + 2 * PART:#x}", "--format", "json"
        ]))
    whole = json.loads(run([memsight, "report", recording.path, "--sites", "--format", "json"]))
    time = [
        sum(row["time"] or 0 for row in rows if "main" in row["allocated at"])
        for rows in (half, whole)
    ]
    weighted = recording.ask(
        "SELECT sum(share * weight) / (SELECT sum(weight) FROM sample JOIN source ON source.id = "
        "source_id"
        " WHERE name = 'clock') FROM touch JOIN sample ON sample.id = sample_id WHERE role = 1"
        " AND address >= ? AND address < ?", parts, parts + 2 * PART)[0][0]
    checks.that(
        abs(time[0] - weighted) < 0.01,
        f"--addr of half of a block has {time[0]}, its rows {weighted}")
    print([round(c, 1) for c in by_part], [round(c, 1) for c in fields], cells, time)
    checks.end()


main()
