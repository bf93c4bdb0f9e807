#!/usr/bin/env python3
"""PostgreSQL's memory contexts: what lives in each while a query asks for them is what the server
itself says that the context uses. Argument: memsight."""
import collections
import glob
import os
import re
import sys
import tempfile

import whole

MEMSIGHT = os.path.abspath(sys.argv[1])
QUERY = """CREATE TABLE t AS SELECT i, repeat('x', i % 300) b FROM generate_series(1, 5000) i
SELECT count(DISTINCT b) FROM t
SELECT name, total_nblocks, used_bytes FROM pg_backend_memory_contexts
"""
ASKED = """WITH RECURSIVE s (id) AS (
    SELECT stack_id FROM stack_line WHERE function = 'pg_get_backend_memory_contexts'
    UNION SELECT stack_id FROM stack_line JOIN s ON parent_id = s.id)
    SELECT min(allocated_ns) FROM allocation WHERE stack_id IN (SELECT id FROM s)"""
LIVE = """SELECT pool.address, size FROM allocation JOIN pool ON pool.id = pool_id
    WHERE allocated_ns < ?1 AND coalesce(freed_ns, ?1) >= ?1"""
# backend/utils/mmgr/aset.c: the head of a chunk and of a block; chunks are powers of two up to a
# limit, which is smaller in small contexts.
CHUNK_HEAD, BLOCK_HEAD, LIMITS = 16, 40, (1024, 8192)


def chunk_bytes(size, limit):
    return CHUNK_HEAD + (-(-size // 8) * 8 if size > limit
                         else 1 << max(size - 1, 7).bit_length())


def said(output):
    """(name, bytes of chunks) of each context, by the server."""
    values = re.findall(r'^\s+\d: \w+ = "(.*)"\s+\(typeid', output, re.MULTILINE)[1:]
    rows = [(name, int(blocks), int(used)) for name, blocks, used
            in zip(values[::3], values[1::3], values[2::3])]
    empty = min(used for _, _, used in rows)
    return [(name, used - empty - (blocks - 1) * BLOCK_HEAD) for name, blocks, used in rows]


def found(database):
    """How many contexts hold so many bytes of chunks when the query asks, by memsight."""
    live, sums = collections.defaultdict(list), collections.Counter()
    for pool, size in database.ask(LIVE, database.one(ASKED)):
        live[pool].append(size)
    for sizes in live.values():
        sums.update({sum(chunk_bytes(size, limit) for size in sizes) for limit in LIMITS})
    return sums


def main():
    places = sorted(glob.glob("/usr/lib/postgresql/15/bin/postgres"))
    if not places:
        whole.skip("PostgreSQL 15 is not installed")
    if os.geteuid() == 0:
        whole.skip("PostgreSQL refuses to run as root")
    checks = whole.Checks()
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        data, trace = os.path.join(folder, "data"), os.path.join(folder, "run.mst")
        whole.run([os.path.join(os.path.dirname(places[0]), "initdb"), "-D", data, "--no-sync",
                   "-A", "trust", "-U", "tester"])
        output = whole.run([MEMSIGHT, "record", "--quiet", "--source", "none", "-o", trace,
                            "--allocators", "postgres", "--", places[0], "--single", "-D", data,
                            "template1"], input=QUERY)
        path = os.path.join(folder, "run.db")
        whole.run([MEMSIGHT, "analyze", "-o", path, trace])
        database = whole.Database(path)
        contexts, sums = said(output), found(database)
        differ = []
        for name, n_bytes in contexts:
            if sums[n_bytes] > 0:
                sums[n_bytes] -= 1
            elif n_bytes > 0:
                differ.append((name, n_bytes))
        # The query runs in two of them, which change while it asks.
        checks.that(len(contexts) > 80 and len(differ) <= 3 and
                    {name for name, _ in differ} <= {"ExecutorState", "ExprContext",
                                                     "printtup", "SRF multi-call context"},
                    f"of {len(contexts)} contexts these differ: {differ}")
        checks.that(not database.losses(), f"{database.losses()}")
        print(len(contexts), differ)
    checks.end()


main()
