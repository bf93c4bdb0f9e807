#!/usr/bin/env python3
"""Code that is written to the same address in turn: no sample is decoded from bytes that did not run, and
where functions stay for long nearly all samples are decoded. Arguments: memsight, the victim."""
import sys

from whole import Checks, Recording

SHARES = """SELECT symbol.name, 100.0 * sum(share * weight) / (SELECT sum(weight) FROM sample
    WHERE source_id = source.id)
    FROM touch JOIN sample ON sample.id = sample_id JOIN source ON source.id = source_id
    JOIN symbol ON symbol.id = owner_id
    WHERE role = 1 AND owner_kind = (SELECT id FROM owner WHERE name = 'global')
    AND source.name = 'clock' GROUP BY 1"""

# In us: far below, around and far above the time between two readings of a page.
SLOW = ("300000", "400000")
CASES = [(way, *times) for way in ("write", "dual", "protect", "remap", "patch")
         for times in ([SLOW] if way in ("remap", "protect") else [("200", "3000")] if way == "dual" else
                       [("2000", "60000"), SLOW])]


def one_case(memsight, victim, case, options, checks):
    recording = Recording(memsight, [victim, *case, "1000" if case[1:] == SLOW else "400"],
                          ["--source", "clock", *options])
    recording.need_source("clock")
    first, second = (int(word) for word in recording.output.split())
    shares = dict(recording.ask(SHARES))
    found = [shares.get(name, 0) for name in ("first_block", "second_block")]
    true = [100 * first / (first + second), 100 * second / (first + second)]
    print(" ".join([*case, *options]) + ": true %.1f %.1f, found %.1f %.1f %%" % (*true, *found))
    name = " ".join(case)
    checks.that("no_block" not in shares, "%s: decoded from bytes that did not run" % name)
    if case[1:] == SLOW and not options:
        # At most some 20 ms of each 300 at least, on a busy machine more.
        checks.that(sum(found) > 30, "%s: only %.1f %% are decoded" % (name, sum(found)))


def main():
    memsight, victim = sys.argv[1:]
    checks = Checks()
    for case in CASES:
        one_case(memsight, victim, case, [], checks)
    for case in CASES[:2]:
        one_case(memsight, victim, case, ["--private"], checks)
    checks.end()


main()
