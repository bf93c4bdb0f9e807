#!/usr/bin/env python3
"""One CPU, one node, and a time stamp counter that is not invariant, as emulated ones are not:
stamps come from clock_gettime then. Runs in the emulated machine `single': scripts/vm-test."""
import threading
import time

import guest as machine
from guest import LARGE_BYTES, N_LARGE, N_SMALL, NOBODY, SMALL_BYTES, write


def there_is_one_of_each(guest):
    with open("/proc/cpuinfo", encoding="ascii") as cpuinfo:
        text = cpuinfo.read()
    guest.that(text.count("processor\t") == 1 and "nonstop_tsc" not in text, text)
    guest.says(machine.doctor(guest), "no invariant time stamp counter", "memory nodes")
    guest.refuses(["--membind", "1"], "--membind 1")
    guest.refuses(["--physcpubind", "1"], "--physcpubind 1")


def stamps_of_another_clock_join_as_well(guest):
    """Ticks are nanoseconds; blocks end after they began, and the time spent in them is found in
    them."""
    _, database = guest.recorded([], [guest.victim, "fork"])
    guest.that(
        database.one("SELECT value FROM fact WHERE key = 'invariant_tsc'") == "no", "invariant_tsc")
    for size, n in [(LARGE_BYTES, N_LARGE), (SMALL_BYTES, N_SMALL)]:
        guest.that(
            database.one("SELECT count(*) FROM allocation WHERE size = ?", size) == n,
            f"blocks of {size}")
    guest.that(
        database.one("SELECT count(*) FROM allocation WHERE freed_ns < allocated_ns") == 0,
        "a block ends before it began")
    guest.that(database.losses() == {}, f"{database.losses()}")
    heap = database.ask(
        "SELECT sum(share * (owner.name = 'heap')), sum(share) FROM touch JOIN sample ON sample.id "
        "="
        " sample_id JOIN source ON source.id = source_id JOIN owner ON owner.id = owner_kind"
        " WHERE role = 1 AND source.name = 'clock' AND sample.frame_id IN (SELECT id FROM frame "
        "WHERE"
        " function LIKE '%memset%')")[0]
    guest.that(heap[1] and heap[0] > 0.9 * heap[1], f"of memset's time in blocks: {heap}")
    faults = database.one(
        "SELECT count(*) FROM touch JOIN allocation ON allocation.id = owner_id JOIN owner ON"
        " owner.id = owner_kind WHERE role = 3 AND owner.name = 'heap' AND allocation.size = ?",
        LARGE_BYTES)
    guest.that(faults >= N_LARGE * machine.LARGE_PAGES, f"{faults} faults at the large blocks")
    guest.that(
        database.one("SELECT count(*) FROM process_sample WHERE node_bytes IS NOT NULL") == 0,
        "nodes, of one")


def threads_take_turns(guest):
    """Sixteen threads on one CPU, each a collector's rival: nothing is lost."""
    program = ("import threading\n"
               "def work():\n"
               "    for i in range(300): bytearray(5000 + i)\n"
               "threads = [threading.Thread(target=work) for _ in range(16)]\n"
               "[t.start() for t in threads]; [t.join() for t in threads]; print('done')\n")
    write(guest.path("threads.py"), program)
    outcome, database = guest.recorded([], ["/usr/bin/python3", guest.path("threads.py")])
    guest.that(outcome.stdout == b"done\n" and outcome.status == 0,
               f"{outcome.status} {outcome.stdout}")
    guest.that(database.losses() == {}, f"{database.losses()}")
    n = database.one("SELECT count(*) FROM allocation WHERE size BETWEEN 5000 AND 5400")
    guest.that(n >= 16 * 300, f"{n} blocks")


def jump(is_over):
    """The clock on the wall, an hour forth and two hours back, five times a second."""
    while not is_over.wait(0.2):
        for seconds in (3600, -7200, 3600):
            time.clock_settime(time.CLOCK_REALTIME, time.time() + seconds)


def the_clock_on_the_wall_may_jump(guest):
    """No time of a run is taken from it but that of its start."""
    is_over = threading.Event()
    jumper = threading.Thread(target=jump, args=(is_over,))
    jumper.start()
    began = time.monotonic()
    try:
        stamps_of_another_clock_join_as_well(guest)
        _, database = guest.recorded([], [guest.victim, "fork"])
    finally:
        is_over.set()
        jumper.join()
    took_ns = (time.monotonic() - began) * 1e9
    guest.that(0 < database.one("SELECT duration_ns FROM run") < took_ns,
               "the run is no longer than it took")
    last = database.one(
        "SELECT max(time) FROM (SELECT max(allocated_ns) AS time FROM allocation UNION ALL"
        " SELECT max(time_ns) FROM sample UNION ALL SELECT max(time_ns) FROM process_sample)")
    guest.that(0 < last <= database.one("SELECT duration_ns FROM run"),
               f"the last event is at {last} ns")


def main(guest):
    guest.step(there_is_one_of_each)
    guest.step(stamps_of_another_clock_join_as_well)
    guest.step(threads_take_turns)
    guest.step(the_clock_on_the_wall_may_jump)
    write("/proc/sys/kernel/perf_event_paranoid", "2")
    guest.step(stamps_of_another_clock_join_as_well, user=NOBODY)


machine.main(main)
