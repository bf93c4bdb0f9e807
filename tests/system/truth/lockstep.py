#!/usr/bin/env python3
"""A program that works in frames as long as the sampling period: with --freq the period changes at
random, and the time share of what stands at the beginning of each frame is right. With an exact
--period it may be anything: that is shown, not judged. Threads and processes that live for about a
period are sampled at every age from 0.6 of one on, and what is before is in the interval.
Arguments: memsight, the victim, runs."""
import sys

from whole import Checks, Recording

POINTS = 6  # three times the 95 % interval of one run; a locked sampler is wrong by up to 30

SHARE = """SELECT 100.0 * sum(share * weight) / (SELECT sum(weight) FROM sample
    WHERE source_id = source.id)
    FROM touch JOIN sample ON sample.id = sample_id JOIN source ON source.id = source_id
    JOIN symbol ON symbol.id = owner_id
    WHERE role = 1 AND owner_kind = (SELECT id FROM owner WHERE name = 'global')
    AND source.name = 'clock' AND symbol.name = 'first'"""


def one_run(memsight, victim, options):
    recording = Recording(memsight, [victim, "2"], ["--no-alloc", "--source", "clock", *options])
    recording.need_source("clock")
    n_periods = recording.one("SELECT count(DISTINCT weight) FROM sample JOIN source"
                              " ON source.id = source_id WHERE source.name = 'clock'")
    return 100 * float(recording.output), recording.one(SHARE) or 0, n_periods


INTERVAL = """SELECT share_low, share_high FROM object_total JOIN symbol ON symbol.id = owner_id
    WHERE owner_kind = (SELECT id FROM owner WHERE name = 'global') AND symbol.name = ?"""

# What starting threads and the kernel's time are of the whole.
SLACK = 0.03

# What, how long it works on each array in us, how many; the rate; half of an interval at most.
SHORT = [("threads", 600, 300, 1000, 0.5), ("processes", 400, 300, 1000, 0.5),
         ("threads", 600, 300, 5000, 0.2), ("threads", 100, 800, 5000, 0.5),
         ("processes", 400, 300, 5000, 0.3)]


def short(checks, memsight, victim):
    for what, half_us, n, rate_hz, widest in SHORT:
        recording = Recording(memsight, [victim, what, str(half_us), str(n)],
                              ["--no-alloc", "--source", "clock", "--freq", str(rate_hz)])
        recording.need_source("clock")
        true = float(recording.output)
        for name, part in [("first", true), ("second", 1 - true)]:
            low, high = (recording.ask(INTERVAL, name) or [(0, 1)])[0]
            told = (f"{n} {what} of {half_us} us at {rate_hz} Hz: {name} is {part:.3f}, {low:.3f} "
                    f"to {high:.3f}")
            print(told)
            checks.that(low - SLACK <= part <= high + SLACK, told)
            checks.that(high - low < 2 * widest + 0.01, told)


def main():
    memsight, victim, n_runs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    checks = Checks()
    errors = []
    for _ in range(n_runs):
        true, found, n_periods = one_run(memsight, victim, ["--freq", "1000"])
        print("--freq 1000: true %.1f %%, found %.1f %%, %d periods" % (true, found, n_periods))
        checks.that(n_periods > 1, "the period never changed")
        errors.append(found - true)
    true, found, n_periods = one_run(memsight, victim, ["--period", "1000000"])
    print("--period 1000000: true %.1f %%, found %.1f %%" % (true, found))
    checks.that(n_periods == 1, "an exact --period is not kept to")
    checks.that(abs(sum(errors) / n_runs) <= POINTS, "the share is wrong by %.1f points"
                % (sum(errors) / n_runs))
    short(checks, memsight, victim)
    checks.end()


main()
