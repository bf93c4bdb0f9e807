#!/usr/bin/env python3
"""Blocks that static probes of the program's own allocators report (record --usdt-from): each is
there once, with its size, end, call stack and weight, and the program is as without us. Arguments:
memsight, victims."""
import csv
import os
import sys

import whole

MEMSIGHT = os.path.abspath(sys.argv[1])
VICTIMS = [os.path.abspath(path) for path in sys.argv[2:]]
PROBES = {"otel_memory:alloc", "otel_memory:free", "shop:memsight_alloc", "shop:memsight_free",
          "memsight:alloc", "memsight:free"}
checks = whole.Checks()

BLOCKS = """SELECT count(*), total(size), round(total(size * stands_for)),
    sum(freed_ns IS NOT NULL), sum(within_id IS NOT NULL)
    FROM allocation JOIN pool ON pool.id = pool_id WHERE allocator = ?"""
CALLERS = """SELECT DISTINCT own.function, caller.function FROM allocation
    JOIN pool ON pool.id = pool_id JOIN stack_line own ON own.stack_id = allocation.stack_id
    LEFT JOIN stack_line caller ON caller.stack_id = own.parent_id"""
# What of malloc, and of pools that do not lie in it, is there in the end.
LIVE = """SELECT total(size * stands_for) FROM allocation WHERE freed_ns IS NULL
    AND within_id IS NULL"""
ALLOCATORS = {"exact_alloc", "sampled_alloc", "plain_alloc", "keeps_all"}


def said(output):
    """exact N BYTES sampled N BYTES kept SUM heard N N"""
    words = output.split()
    return [int(word) for word in words if word.isdigit()]


def check_listed(victim):
    rows = list(csv.DictReader(whole.run([
        MEMSIGHT, "record", "--usdt-from", "all", "--functions-dry-run", "--format", "csv", "--",
        victim]).splitlines()))
    # Of a static program they are listed beside its allocator.
    rows = [row for row in rows if ", by " not in row["module"]]
    checks.that({row["function"] for row in rows} == PROBES and len(rows) >= 8, f"{rows}")
    for row in rows:
        checks.that(row["how"] == "jump" and not row["why_not"], f"{row}")


def check_blocks(victim, select):
    """Of the exact ones all sizes, of the sampled ones what they stand for."""
    run = whole.Recording(MEMSIGHT, [victim], ["--source", "none", "--usdt-from", select])
    n, n_bytes, n_sampled, stands_for, kept, *heard = said(run.output)
    checks.that(kept == 46, f"{victim}: registers, flags and red zone give {kept}")
    checks.that(all(heard), f"{victim}: nobody listens: {heard}")
    row, = run.ask(BLOCKS, "otel_memory")
    checks.that(row == (n, n_bytes, n_bytes, n // 2, 0), f"{victim}: exact {row}")
    row, = run.ask(BLOCKS, "memsight")
    checks.that(row[0] == n_sampled and abs(row[2] / stands_for - 1) < 2e-6 and
                row[3:] == (n_sampled // 4, 0), f"{victim}: sampled {row} of {stands_for}")
    row, = run.ask(BLOCKS, "shop")
    checks.that(row == (101, 4832, 4832, 30, 101), f"{victim}: in a block of malloc {row}")
    live, all_live = run.one("SELECT value FROM total WHERE name = 'live_bytes'"), run.one(LIVE)
    checks.that(abs(live - all_live) <= n_sampled, f"{victim}: {live} of {all_live} bytes live")
    losses = {reason: count for (source, reason), count in run.losses().items()
              if source in ("own allocators", "tracealloc", "functions")}
    checks.that(losses == {"estimates of probes for blocks that are recorded": 1},
                f"{victim}: {losses}")
    callers = set(run.ask(CALLERS))
    checks.that(callers == {(name, "main") for name in ALLOCATORS}, f"{victim}: {callers}")


def check_unasked(victim):
    """Without the option nothing of the program is changed."""
    run = whole.Recording(MEMSIGHT, [victim], ["--source", "none"])
    checks.that(said(run.output)[4:] == [46, 0, 0], run.output)
    checks.that(run.one("SELECT count(*) FROM pool") == 0, "there are pools")


def check_mistakes(victim):
    for options, status, words in [
            (["--usdt-from", "libnone.so"], 1, "no probe of an allocator"),
            (["--usdt-from", "all", "--sample-bytes", "4K"], 2, "exclude each other"),
            (["--usdt-from", "all", "--events", "mmap"], 2, "needs `heap'"),
            (["--usdt-from", "all", "--no-alloc"], 2, "--no-alloc leaves out")]:
        outcome = whole.Outcome([MEMSIGHT, "record", *options, "-o", os.devnull, "--", victim])
        checks.that(outcome.status == status and words in outcome.messages,
                    f"{options}: {outcome.status}, {outcome.messages}")


for path in VICTIMS:
    check_listed(path)
    check_blocks(path, "all")
check_blocks(VICTIMS[0], "victim-usdt-*")
check_unasked(VICTIMS[0])
check_mistakes(VICTIMS[0])
checks.end()
