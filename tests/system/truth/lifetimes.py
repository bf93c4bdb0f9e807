#!/usr/bin/env python3
"""Touches that lie inside the lives of blocks are found there: at least 99.9 %, in four threads.
Arguments: memsight, the victim."""
import sys

from whole import Checks, Recording

TOUCHES = """
SELECT count(*), sum(owner.name = 'heap' AND phase = 0
                     AND sample.time_ns >= allocated_ns AND sample.time_ns <= freed_ns
                     AND touch.address >= allocation.address
                     AND touch.address < allocation.address + allocation.size
                     AND allocation.thread_id = sample.thread_id)
FROM touch JOIN sample ON sample.id = sample_id JOIN owner ON owner.id = owner_kind
JOIN frame ON frame.id = touch.frame_id
LEFT JOIN allocation ON allocation.id = owner_id AND owner.name = 'heap'
WHERE role = 3 AND frame.function = 'touch_block'"""


HEADERS = """
SELECT count(*), count(DISTINCT owner_id)
FROM touch JOIN sample ON sample.id = sample_id
JOIN allocation ON allocation.id = owner_id AND allocation.thread_id = sample.thread_id
WHERE role = 3 AND owner_kind = 1 AND phase = 1 AND touch.address < allocation.address
AND touch.address >= allocation.address - 16 AND allocation.size > 65536"""


def main():
    memsight, victim = sys.argv[1:]
    recording = Recording(memsight, [victim])
    recording.need_source("faults")
    checks = Checks()
    n_true, n_blocks = (int(word) for word in recording.output.split())
    n_seen, n_inside = recording.ask(TOUCHES)[0]
    n_inside = n_inside or 0
    print("%d touches, %d seen, %d inside the life of their own block" % (n_true, n_seen, n_inside))
    checks.that(n_seen == n_true, "every first touch of a page is one fault")
    checks.that(n_inside >= 0.999 * n_true, "99.9 % lie inside the life")

    found = recording.ask(HEADERS)[0]
    print("%d blocks; headers written while they were allocated: %d of %d blocks" %
          (n_blocks, *found))
    checks.that(found == (n_blocks, n_blocks), "malloc's own first touch is its block's allocating")
    checks.end()


main()
