-- Migration 7: what record --watch watched.

-- One row each time that something was armed; refused ones too. Accesses are counted exactly while it was
-- armed: samples of source 'watch', one for each instruction that accesses at least one of the bytes.
CREATE TABLE watch (
    id            INTEGER PRIMARY KEY,
    run_id        INTEGER NOT NULL,
    number        INTEGER NOT NULL,        -- in order of arming, from 1
    target        TEXT NOT NULL,           -- as it was asked for
    process_id    INTEGER REFERENCES process(id), -- its forks are watched as well; NULL: refused
    address       INTEGER NOT NULL,
    size          INTEGER NOT NULL,        -- bytes
    is_write_only INTEGER NOT NULL,        -- 1: reads are not seen
    is_hot        INTEGER NOT NULL,        -- 1: chosen by --watch-hot
    from_ns       INTEGER NOT NULL,
    to_ns         INTEGER,                 -- NULL: refused
    armed_ns      INTEGER NOT NULL,        -- to_ns - from_ns, less what --watch-rate switched off
    n_reads       INTEGER NOT NULL,        -- accesses: by an instruction that only reads
    n_writes      INTEGER NOT NULL,        -- that only writes
    n_updates     INTEGER NOT NULL,        -- that reads and writes (add to memory, atomics)
    n_unknown     INTEGER NOT NULL,        -- whose instruction could not be told
    owner_kind    INTEGER,                 -- of the first access, as in touch; NULL: there was none
    owner_id      INTEGER,
    note          TEXT                     -- why it was refused; what of the object is watched
);
CREATE INDEX watch_run ON watch(run_id);

-- Accesses by thread.
CREATE TABLE watch_thread (
    run_id    INTEGER NOT NULL,
    watch_id  INTEGER NOT NULL REFERENCES watch(id),
    thread_id INTEGER REFERENCES thread(id), -- NULL: not known
    n_reads   INTEGER NOT NULL,
    n_writes  INTEGER NOT NULL,
    n_updates INTEGER NOT NULL,
    n_unknown INTEGER NOT NULL
);
CREATE INDEX watch_thread_watch ON watch_thread(watch_id);

-- Time from one access to the next, both while it was armed without a break.
CREATE TABLE watch_reuse (
    run_id   INTEGER NOT NULL,
    watch_id INTEGER NOT NULL REFERENCES watch(id),
    log2_ns  INTEGER NOT NULL,             -- from 2^log2_ns ns to below twice that; 0: below 2 ns
    n        INTEGER NOT NULL,             -- pairs of accesses
    n_other  INTEGER NOT NULL,             -- of them, those of two threads
    PRIMARY KEY (watch_id, log2_ns)
) WITHOUT ROWID;
