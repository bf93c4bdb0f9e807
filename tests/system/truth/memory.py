#!/usr/bin/env python3
"""Mappings of every kind, what happens to them, and what libc maps for itself. Arguments: memsight,
victim."""
import json
import mmap
import sys

import whole

PAGE = 4096
PROT_NONE = 0
READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE


def rows(run, address):
    """The mappings that began at an address, in order."""
    return run.ask(
        "SELECT size, call.name, kind, path, seen, is_nested, freed_ns, allocated_ns FROM mapping"
        " JOIN mapping_kind ON mapping_id = mapping.id LEFT JOIN call ON call.id = call"
        " WHERE address = ? AND seen <> 1 ORDER BY allocated_ns", address)


def check_kinds(checks, run, said, has_perf):
    memfd, segment = rows(run, said["memfd"]), rows(run, said["segment"])
    checks.that(memfd[0][:2] == (7 * PAGE, "mmap") and memfd[0][6] is not None,
                f"memfd, until its end was unmapped: {memfd}")
    checks.that(memfd[-1][0] == 6 * PAGE and memfd[-1][6] is None, f"what is left of it: {memfd}")
    checks.that([row[:3] for row in segment] == [(5 * PAGE, "shmat", "segment")],
                f"segment: {segment}")
    checks.that(segment[0][6] is None, f"the segment was not detached: {segment}")
    checks.that(run.one("SELECT count(*) FROM mapping JOIN call ON call.id = call WHERE call.name ="
                        " 'shmat' AND freed_ns IS NOT NULL") == 1, "the other one was")
    if said["huge"]:
        huge = rows(run, said["huge"])
        checks.that([row[:3] for row in huge] == [(2 << 20, "mmap", "huge pages")], f"huge: {huge}")
    if has_perf:
        checks.that(memfd[0][2:4] == ("memfd", "/memfd:victim (deleted)"), f"memfd: {memfd}")
        checks.that(segment[0][3].startswith("/SYSV"), f"segment: {segment}")


def check_changes(checks, run, said):
    found = run.ask(
        "SELECT call.name, address - ?, size, detail, address BETWEEN start AND start + bytes"
        " FROM mapping_event JOIN call ON call.id = call LEFT JOIN (SELECT id AS mapping_id,"
        " address AS start, size AS bytes FROM mapping) USING (mapping_id)"
        " WHERE call.name <> 'sbrk' ORDER BY time_ns", said["memfd"])
    wanted = [("madvise", PAGE, 2 * PAGE, mmap.MADV_DONTNEED, 1),
              ("madvise", PAGE, PAGE, mmap.MADV_WILLNEED, 1),
              ("mprotect", 0, PAGE, PROT_NONE, 1), ("mprotect", 0, PAGE, READ_WRITE, 1)]
    if said["locked"] == 0:
        wanted.append(("mlock", 4 * PAGE, PAGE, 0, 1))
    wanted.append(("munlock", 4 * PAGE, PAGE, 0, 1))
    checks.that(found == wanted, f"events {found}, not {wanted}")


def check_break(checks, run, said):
    moved = run.ask(
        "SELECT address, size, detail - address FROM mapping_event JOIN call ON call.id = call"
        " WHERE call.name = 'sbrk'")
    checks.that(moved == [(said["break"], 3 * PAGE, 3 * PAGE)], f"moves of the break: {moved}")
    own = rows(run, said["break"])
    checks.that([row[:6] for row in own] == [(3 * PAGE, "sbrk", "heap", own[0][3], 0, 0)],
                f"the program's own pages behind the break: {own}")
    checks.that(
        run.one("SELECT value FROM total WHERE name = 'mapped_bytes'") == sum(
            row[0] for row in run.ask("SELECT size FROM mapping JOIN call ON call.id = call"
                                      " WHERE call.name <> 'unknown' AND NOT is_nested"
                                      " AND previous_mapping_id IS NULL")),
        "mapped bytes are those of the program's calls")


def check_libc(checks, run, said):
    """What only the kernel tells: the map of a large block, and the heap."""
    for name, size in [("large", 300001), ("moved", 3000001)]:
        own = rows(run, said[name] - 16)
        died = run.one("SELECT freed_ns FROM allocation WHERE address = ? AND size = ?", said[name],
                       size)
        checks.that(len(own) == 1 and own[0][1] is None and own[0][4:7] == (2, 1, died),
                    f"the map of the {name} block, freed at {died}: {own}")
        checks.that(size + 16 <= own[0][0] < size + 16 + PAGE, f"its size: {own}")
    heap = run.ask(
        "SELECT address, address + size FROM mapping JOIN mapping_kind ON mapping_id = id"
        " WHERE kind = 'heap' AND freed_ns IS NULL ORDER BY address")
    joined = [heap[0][0]] + [b for (a, b), (c, _) in zip(heap, heap[1:]) if b != c] + [heap[-1][1]]
    checks.that(joined == [said["heap_start"], said["heap_end"]],
                f"heap {heap}, the kernel has {said['heap_start']} to {said['heap_end']}")
    checks.that(len(heap) <= 4, f"{len(heap)} rows for one heap in two parts")


def check_report(checks, memsight, run):
    rows = {row["kind"]: row for row in json.loads(whole.run(
        [memsight, "report", "--mappings", "--limit", "0", "--format", "json", run.path]))
            if row["made by"] in ("mmap", "shmat", "sbrk")}
    checks.that((rows["memfd"]["mapped"], rows["memfd"]["at the end"], rows["memfd"]["advised"],
                 rows["memfd"]["mprotect"]) == (7 * PAGE, 6 * PAGE, 3 * PAGE, 2), f"memfd: {rows}")
    checks.that((rows["segment"]["maps"], rows["segment"]["at the end"]) == (2, 5 * PAGE),
                f"segments: {rows}")
    checks.that(rows["reserved"]["mapped"] == 9 * PAGE, f"what cannot be accessed yet: {rows}")
    checks.that(rows["heap"]["mapped"] == 3 * PAGE, f"the program's own heap: {rows}")


def main(memsight, victim):
    checks = whole.Checks()
    for options in [[], ["--source", "none"]]:
        run = whole.Recording(memsight, [victim], options)
        said = {name: int(value) for name, value in
                (line.split("=") for line in run.output.splitlines())}
        has_perf = run.one("SELECT count(*) FROM source WHERE name = 'tasks' AND error = 0") > 0
        print(
            f"options {options}: the kernel's records {'are' if has_perf else 'are not'} there; "
            f"{said}"
        )
        checks.that(
            run.one("SELECT count(*) FROM allocation WHERE size = 20000") == 800, "800 blocks")
        check_kinds(checks, run, said, has_perf)
        check_changes(checks, run, said)
        check_break(checks, run, said)
        if has_perf:
            check_libc(checks, run, said)
            check_report(checks, memsight, run)
        checks.that(not run.losses(), f"losses: {run.losses()}")
    checks.end()


main(*sys.argv[1:])
