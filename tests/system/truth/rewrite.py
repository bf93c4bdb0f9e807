#!/usr/bin/env python3
"""Code that is written to the same address in turn: no sample is decoded from bytes that did not
run, and where functions stay for long nearly all samples are decoded. Arguments: memsight, the
victim, two libraries."""
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
EVER = ("60000000", "60000000")
# A way, times, and for how many ms.
CASES = [(way, *times) for way in ("write", "dual", "protect", "remap", "patch")
         for times in ([(*SLOW, "1000")] if way in ("remap", "protect") else [(
             "200", "3000", "400")] if way == "dual" else [("2000", "60000", "400"), (*SLOW,
                                                                                      "1000")])]
# Most of the time one function, which is put back again and again; libraries at the same address.
CASES += [("flip", "20000", "90000", "2000"), ("plugin", "500", "3000", "400"),
          ("plugin", *SLOW, "1000")]
# How many % must be decoded at least, which a busy machine may halve. Of SLOW some 20 ms of each
# 300 at least are not
# known; --private begins when a hundred readings saw the same.
DECODED = {("write", *SLOW, ""): 30, ("dual", *SLOW, ""): 30, ("protect", *SLOW, ""): 30,
           ("remap", *SLOW, ""): 30, ("patch", *SLOW, ""): 30, ("plugin", *SLOW, ""): 90,
           ("plugin", *SLOW, "--private"): 50, ("write", *EVER, "--private"): 30}
PRIVATE = [("write", "2000", "60000", "400"), ("write", *SLOW, "1000"), ("write", *EVER, "4000"),
           ("patch", "2000", "60000", "400"), ("flip", "20000", "90000", "2000"),
           ("plugin", "500", "3000", "400"), ("plugin", *SLOW, "1000")]


def one_case(command, case, option, checks):
    memsight, victim, *libraries = command
    recording = Recording(memsight, [victim, *case, *libraries],
                          ["--source", "clock", *option.split()])
    recording.need_source("clock")
    first, second = (int(word) for word in recording.output.split())
    shares = dict(recording.ask(SHARES))
    found = [shares.get(name, 0) for name in ("first_block", "second_block")]
    true = [100 * first / (first + second), 100 * second / (first + second)]
    name = " ".join([*case, option])
    print(name + ": true %.1f %.1f, found %.1f %.1f, wrong %.2f %%" %
          (*true, *found, shares.get("no_block", 0)))
    checks.that("no_block" not in shares, "%s: decoded from bytes that did not run" % name)
    least = DECODED.get((*case[:3], option), 0)
    checks.that(
        sum(found) >= least, "%s: only %.1f %% are decoded, not %d" % (name, sum(found), least))


def main():
    command = sys.argv[1:]
    checks = Checks()
    for case in CASES:
        one_case(command, case, "", checks)
    for case in PRIVATE:
        one_case(command, case, "--private", checks)
    checks.end()


main()
