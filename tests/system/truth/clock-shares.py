#!/usr/bin/env python3
"""The time shares that the report gives to three arrays, against the CPU time that the program
measured itself: inside the reported 95 % interval in at least 18 of 20 runs, for each array.
Arguments: memsight, the victim, runs."""
import re
import sys

from whole import Checks, Recording, run

LINE = re.compile(r"^\s*([0-9.]*)( ±|-|≤|≥)([0-9.]+) %.* (make_[a-z]+)\b")
ARRAYS = ("make_small", "make_stream", "make_chase")
MAX_OUTSIDE = 2 # of 20


def share_of(first, sign, second):
    """The middle of what stands in the row, and half its width."""
    low, high = {"≤": (0, second), "≥": (second, 100)}.get(sign, (first, second))
    return (low, high) if sign == " ±" else ((low + high) / 2, (high - low) / 2)


def one_run(memsight, victim):
    """{array: (true share, reported share, half width)} in percent."""
    recording = Recording(memsight, [victim], ["--source", "clock"])
    recording.need_source("clock")
    truth = dict(line.split() for line in recording.output.splitlines())
    total = int(truth["total"])
    reported = {}
    for line in run([memsight, "report", recording.path]).splitlines():
        found = LINE.match(line)
        if found:
            reported[found[4]] = share_of(float(found[1] or 0), found[2], float(found[3]))
    n_samples = recording.one("SELECT n_samples FROM source WHERE name = 'clock'")
    return n_samples, {name: (100 * int(truth[name]) / total, *reported.get(name, (-1, 0)))
                       for name in ARRAYS}


def main():
    memsight, victim, n_runs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    checks = Checks()
    outside = dict.fromkeys(ARRAYS, 0)
    errors = {name: [] for name in ARRAYS}
    for number in range(1, n_runs + 1):
        n_samples, shares = one_run(memsight, victim)
        texts = []
        for name, (true, reported, half) in shares.items():
            is_inside = abs(reported - true) <= half
            outside[name] += not is_inside
            errors[name].append(reported - true)
            texts.append("%s %.1f: %.1f ±%.1f%s" % (name, true, reported, half,
                                                    "" if is_inside else " OUTSIDE"))
        print("%2d  %d samples  " % (number, n_samples) + "   ".join(texts), flush=True)
    for name in ARRAYS:
        mean = sum(errors[name]) / n_runs
        spread = (sum((error - mean) ** 2 for error in errors[name]) / n_runs) ** 0.5
        print("%-12s %d of %d inside; error %+.2f points on average, spread %.2f" %
              (name, n_runs - outside[name], n_runs, mean, spread))
        checks.that(outside[name] <= MAX_OUTSIDE * n_runs / 20, name + " is outside too often")
    checks.end()


main()
