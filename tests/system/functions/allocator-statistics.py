#!/usr/bin/env python3
"""The functions of allocators that memsight knows, of whole programs: what lives when they stand
still is what the allocator's own statistics say. Arguments: memsight, the allocator, the command,
which prints its statistics and is killed then."""
import bisect
import os
import shutil
import sys
import tempfile

import whole

LIVE = """SELECT size, count(*) FROM allocation JOIN pool ON pool.id = pool_id
    WHERE allocator = ? AND end_kind = 0 GROUP BY 1"""
# Zend/zend_alloc_sizes.h; large ones are whole pages, of huge ones a list of 24 bytes each is kept.
PHP_BINS = [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512,
            640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072]
PHP_PAGE, PHP_HUGE, PHP_LIST = 4096, (2 << 20) - 4096, 24


def php_bytes(size):
    if size <= PHP_BINS[-1]:
        return PHP_BINS[bisect.bisect_left(PHP_BINS, size)]
    return -(-size // PHP_PAGE) * PHP_PAGE + (PHP_LIST if size > PHP_HUGE else 0)


# From rows of sizes and how many live to what the statistics count.
SUMS = {
    "php": lambda rows: sum(php_bytes(size) * n for size, n in rows),
    "sqlite": lambda rows: sum(n for _, n in rows),
    "talloc": lambda rows: sum(size * n for size, n in rows),
    "jemalloc": lambda rows: sum(size * n for size, n in rows),
    "mimalloc": lambda rows: sum(n for _, n in rows),
    "obstack": lambda rows: sum(size * n for size, n in rows),
    "partitionalloc": lambda rows: sum(n for _, n in rows),
}
ENDED_BELOW = {"talloc", "obstack"}
# What a heap of mimalloc is made of is given back with it, and was taken within the library.
LOSSES = {"mimalloc": {("own allocators", "ends of blocks whose begin was not seen"): 1}}


def main():
    memsight, allocator, *command = sys.argv[1:]
    if not shutil.which(command[0]):
        whole.skip(f"there is no {command[0]}")
    checks = whole.Checks()
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        trace, path = os.path.join(folder, "run.mst"), os.path.join(folder, "run.db")
        outcome = whole.Outcome([memsight, "record", "--quiet", "--source", "none", "-o", trace,
                                 "--allocators", allocator, "--", *command])
        if not outcome.stdout:
            whole.skip(f"{command} prints nothing: {outcome.stderr} {outcome.messages}")
        whole.run([memsight, "analyze", "-o", path, trace])
        database = whole.Database(path)
        found, said = SUMS[allocator](database.ask(LIVE, allocator)), int(outcome.stdout)
        checks.that(found == said and said > 0, f"{found}, not {said}")
        checks.that(database.losses() == LOSSES.get(allocator, {}), f"{database.losses()}")
        ended, = database.ask("SELECT count(*), sum(end_kind = 6) FROM allocation JOIN pool ON"
                              " pool.id = pool_id WHERE allocator = ? AND end_kind", allocator)
        # Blocks of talloc and chunks of obstacks end with those of malloc that they lie in.
        checks.that(ended[0] > 1000 and (ended[1] == 0) == (allocator not in ENDED_BELOW),
                    f"{ended}: each ends by its own call")
        print(found, ended)
    checks.end()


main()
