#!/usr/bin/env python3
"""Loops through addresses that were just loaded: nearly all of their time is told, and only to the
objects that they access; what was waited for as well. Arguments: memsight, the victim."""
import sys

from whole import Checks, Recording

# Who is accessed, and the bars: time and stalls that may stay unknown, in percent.
CASES = {
    "list": ({"make_nodes"}, 5, 5),
    "gather": ({"make_table", "make_indices", "make_output"}, 20, 100),
    "tree": ({"make_nodes"}, 5, 100),
    # What can be told of it, but nothing false: what is read behind a sample leads to the decoy.
    "once": ({"make_table", "make_indices", "make_columns", "make_values"}, 100, 100),
    # A byte leads into a table of 256, whatever it is; a number of 16 bits may lead behind one of
    # 1024: who had it is not known.
    "byte": ({"make_table", "make_values"}, 5, 100),
    "short": ({"make_table", "make_values"}, 100, 100),
    # Of one owner's stores what was waited for is told; of two owners' nothing may be, as either
    # may have had it.
    "one-store": ({"make_table"}, 5, 10),
    "two-stores": ({"make_table", "make_output"}, 5, 100),
    # The pointers are global variables, the index lies below the stack pointer.
    "plain": ({"make_table", "make_values", "stack"}, 8, 100),
    "sparse": ({"make_columns", "make_values", "make_vector", "make_result"}, 8, 5),
}
UNKNOWN = "(SELECT id FROM owner WHERE name = 'unknown')"
# The loop's own function; other code is the victim's preparation.
IN_LOOP = """sample s JOIN frame f ON f.id = s.frame_id JOIN touch t ON t.sample_id = s.id
    WHERE f.function IN ('walk', 'multiply', 'gather', 'search', 'read_once', 'store_one',
      'store_both', 'translate', 'translate_short', 'add_plain')
      AND NOT s.is_kernel AND t.role = ?"""


def unknown_share(recording, role):
    return recording.one(
        f"""SELECT 100.0 * sum(CASE WHEN t.owner_kind = {UNKNOWN} THEN s.weight * t.share
        ELSE 0 END)
        / sum(s.weight * t.share) FROM {IN_LOOP}""", role)


def sites(recording, role, has_address=True):
    """Who allocated what the loop's samples touch, or its class."""
    where = IN_LOOP.replace(
        "WHERE", "LEFT JOIN allocation a ON t.owner_kind = 1 AND a.id = t.owner_id"
        " LEFT JOIN stack k ON k.id = a.stack_id LEFT JOIN frame g ON g.id = k.frame_id WHERE"
        f" (t.address IS NOT NULL) = {int(has_address)} AND")
    return {
        name.split(".")[0] if name else kind
        for name, kind in recording.ask(
            "SELECT DISTINCT g.function, (SELECT name FROM owner WHERE id = t.owner_kind) FROM "
            f"{where}",
            role)
    }


def is_of_begin_and_end(recording):
    """Registers are saved and restored once, and where the code's page is not there yet, time
    passes at that: samples of the stack, two at most."""
    return recording.one(
        f"""SELECT count(DISTINCT s.id) FROM {IN_LOOP.replace("t.role = ?", "t.role <= 2")}
        AND t.owner_kind = (SELECT id FROM owner WHERE name = 'stack')""") <= 2


def main():
    memsight, victim = sys.argv[1:]
    checks = Checks()
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        has_avx2 = " avx2" in info.read()
    for name, (objects, most_time, most_stalls) in CASES.items():
        if name == "gather" and not has_avx2:
            print("gather: this processor has none")
            continue
        recording = Recording(memsight, [victim, name], ["-q", "--freq", "2000"])
        recording.need_source("clock")
        n = recording.one(f"SELECT count(DISTINCT s.id) FROM {IN_LOOP}", 1)
        time, stalls = unknown_share(recording, 1), unknown_share(recording, 2)
        found = sites(recording, 1) | sites(recording, 2)
        print(
            f"{name}: {n} samples, unknown {time:.2f} % of time, {stalls:.2f} % of stalls; "
            f"{sorted(found)}"
        )
        checks.that(n >= 100, f"{name}: only {n} samples")
        checks.that(time <= most_time, f"{name}: {time:.2f} % of time is unknown")
        checks.that(stalls <= most_stalls, f"{name}: {stalls:.2f} % of stalls are unknown")
        found.discard("global")  # the pointers to them
        if is_of_begin_and_end(recording):
            found.discard("stack")
        checks.that(found <= objects,
                    f"{name}: charged to {found - objects}, which it never accesses")
        checks.that(sites(recording, 1), f"{name}: nothing is charged")
        if name in ("byte", "short"):
            told = sites(recording, 1, has_address=False) - {"unknown", "code"}
            checks.that(told == ({"make_table"} if name == "byte" else set()),
                        f"{name}: without an address it is of {told}")
        if name == "two-stores":
            told = sites(recording, 2)
            checks.that(not told & objects, f"{name}: stalls of a store are charged to {told}")
            checks.that(
                sites(recording, 1) >= objects, f"{name}: time is of {sites(recording, 1)} only")
    checks.end()


main()
