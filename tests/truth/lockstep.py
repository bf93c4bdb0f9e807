#!/usr/bin/env python3
"""A program that works in frames as long as the sampling period: with --freq the period changes at
random, and the time share of what stands at the beginning of each frame is right. With an exact
--period it may be anything: that is shown, not judged.
Arguments: memsight, the victim, runs."""
import sys

from whole import Checks, Recording

POINTS = 6  # three times the 95 % interval of one run; a locked sampler is wrong by up to 30

SHARE = """SELECT 100.0 * sum(share * weight) / (SELECT sum(weight) FROM sample WHERE source_id = source.id)
    FROM touch JOIN sample ON sample.id = sample_id JOIN source ON source.id = source_id
    JOIN symbol ON symbol.id = owner_id
    WHERE role = 1 AND owner_kind = (SELECT id FROM owner WHERE name = 'global')
    AND source.name = 'clock' AND symbol.name = 'first'"""


def one_run(memsight, victim, options):
    recording = Recording(memsight, [victim, "3"], ["--no-alloc", "--source", "clock", *options])
    recording.need_source("clock")
    n_periods = recording.one("SELECT count(DISTINCT weight) FROM sample JOIN source"
                              " ON source.id = source_id WHERE source.name = 'clock'")
    return 100 * float(recording.output), recording.one(SHARE) or 0, n_periods


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
    checks.end()


main()
