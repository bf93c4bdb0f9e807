#!/usr/bin/env python3
"""What holds in every database, whatever happened to the program or the recorder.

usage: invariants.py DATABASE...    (prints what does not hold; exits with 1 when there is
something)
"""
import sqlite3
import sys

# What is said when it does not hold, and a query that must give no row.
RULES = [
    ("sites add up to the blocks",
     """SELECT * FROM (SELECT run_id, sum(n_blocks) AS a, sum(bytes) AS b FROM site
      GROUP BY run_id) AS s
        JOIN (SELECT run_id, count(*) AS n, sum(size) AS bytes FROM allocation GROUP BY run_id) AS r
            USING (run_id)
        WHERE s.a <> r.n OR s.b <> r.bytes"""),
    ("what sites have live is what was not freed",
     """SELECT * FROM (SELECT run_id, sum(live_blocks) AS n, sum(live_bytes) AS bytes FROM site
      GROUP BY run_id) AS s
        JOIN (SELECT run_id, count(*) AS n, coalesce(sum(size), 0) AS bytes FROM allocation
              WHERE freed_ns IS NULL GROUP BY run_id) AS r USING (run_id)
        WHERE s.n <> r.n OR s.bytes <> r.bytes"""),
    ("threads add up to the blocks",
     """SELECT * FROM (SELECT run_id, sum(n_blocks) AS n FROM thread_total GROUP BY run_id) AS t
        JOIN (SELECT run_id, count(*) AS n FROM allocation GROUP BY run_id) AS r USING (run_id)
            WHERE t.n <> r.n"""),
    ("the histogram adds up to the blocks",
     """SELECT * FROM (SELECT run_id, sum(n_blocks) AS n FROM histogram GROUP BY run_id) AS h
        JOIN (SELECT run_id, count(*) AS n FROM allocation GROUP BY run_id) AS r USING (run_id)
            WHERE h.n <> r.n"""),
    ("the timeline counts each birth and each death",
     """SELECT * FROM (SELECT run_id, sum(n_allocations) AS born, sum(n_frees) AS died FROM timeline
      GROUP BY run_id) AS t
        JOIN (SELECT run_id, count(*) AS born, sum(end_kind IN (1, 2)) AS died FROM allocation
              GROUP BY run_id) AS r USING (run_id) WHERE t.born <> r.born"""),
    ("those live at the peak add up to the peak",
     """SELECT * FROM (SELECT run_id, sum(bytes) AS bytes FROM site_peak GROUP BY run_id) AS p
        JOIN total ON total.run_id = p.run_id AND total.name = 'peak_bytes' WHERE p.bytes <>
            total.value"""),
    ("shares of owners add up to one per sample and role",
     """SELECT * FROM (SELECT sample_id, role, sum(share) AS sum FROM touch WHERE role IN (0, 1, 3)
        GROUP BY 1, 2) WHERE abs(sum - 1) > 1e-6"""),
    ("no block dies before its birth", "SELECT id FROM allocation WHERE freed_ns < allocated_ns"),
    ("no two blocks live at one address",
     """SELECT * FROM (SELECT allocated_ns, lag(coalesce(freed_ns, 9223372036854775807))
        OVER (PARTITION BY process_id, address ORDER BY allocated_ns, id) AS died_before FROM
            allocation)
        WHERE allocated_ns < died_before"""),
    ("each block has its run, process and thread",
     """SELECT allocation.id FROM allocation LEFT JOIN thread ON thread.id = thread_id
        AND thread.process_id = allocation.process_id AND thread.run_id = allocation.run_id WHERE
            thread.id IS NULL"""),
    ("each sample has its source",
     "SELECT sample.id FROM sample LEFT JOIN source ON source.id = source_id"
     " WHERE source.id IS NULL"),
    ("losses are counts", "SELECT * FROM loss WHERE count <= 0"),
]


def problems(path):
    """What does not hold, as sentences."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        whole = database.execute("PRAGMA integrity_check").fetchone()[0]
        if whole != "ok":
            return [f"the file is damaged: {whole}"]
        found = []
        for sentence, sql in RULES:
            rows = database.execute(sql).fetchmany(3)
            if rows:
                found.append(f"not so: {sentence}: {rows}")
        return found


def main(paths):
    if not paths:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    n_found = 0
    for path in paths:
        for problem in problems(path):
            print(f"{path}: {problem}")
            n_found += 1
    return 1 if n_found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
