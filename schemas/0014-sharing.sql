-- Migration 14: lines that threads share, by pairs of threads. What was told before mixed up the first thread with all others
-- and past blocks with present ones; an import tells it anew.

DROP TABLE shared_line;

-- Two threads that come back to a line of 64 bytes after each other, one of them writing, through one block or other owner
-- each. Counted is what each did between two turns of the other. Page faults and touches of memory that is not known are
-- left out.
CREATE TABLE shared_line (
    run_id       INTEGER NOT NULL,
    process_id   INTEGER NOT NULL,
    address      INTEGER NOT NULL,         -- of the line
    thread_id    INTEGER NOT NULL,
    other_thread_id INTEGER NOT NULL,
    n_touches    INTEGER NOT NULL,         -- of both, between turns of the other
    n_writes     INTEGER NOT NULL,
    n_changes    INTEGER NOT NULL,         -- touches by the one after the other, also the first and the last
    n_same       INTEGER NOT NULL,         -- turns at bytes that the other touched of late, one of them writing: true sharing
    n_apart      INTEGER NOT NULL,         -- turns at other bytes of the line, one of them writing: false sharing
    time_ns      REAL NOT NULL,            -- clock: sum of share x weight
    n_samples    REAL NOT NULL,            -- clock: sum of shares
    n_samples_sq REAL NOT NULL,            -- clock: sum over samples of (share)^2, for the interval
    bytes        INTEGER NOT NULL,         -- bit i: byte i touched by the thread ...
    other_bytes  INTEGER NOT NULL,         -- ... and by the other one
    written      INTEGER NOT NULL,         -- bit i: byte i written by the thread ...
    other_written INTEGER NOT NULL,        -- ... and by the other one
    owner_kind   INTEGER NOT NULL,         -- of what the thread touched, as in touch ...
    owner_id     INTEGER,
    other_owner_kind INTEGER NOT NULL,     -- ... and the other one
    other_owner_id INTEGER,
    first_ns     INTEGER NOT NULL,         -- of the touches
    last_ns      INTEGER NOT NULL
);
