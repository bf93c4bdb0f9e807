-- Migration 5: memory kinds (record --heap).

-- Kinds of memory that heaps lay in, and two words for what lies elsewhere: 'libc' (the block was left to
-- libc: smaller than --heap-min, or born before the heap was ready) and 'spilled' (--spill: it was full).
CREATE TABLE heap_kind (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);

-- Memory that a process gave its heap; a forked process has that of its parent unless it has rows of its own.
CREATE TABLE heap_range (
    run_id     INTEGER NOT NULL,
    process_id INTEGER NOT NULL REFERENCES process(id),
    kind_id    INTEGER NOT NULL REFERENCES heap_kind(id),
    place      TEXT NOT NULL,              -- folder, or nodes ('node 0,2'); may be empty
    start      INTEGER NOT NULL,           -- address
    size       INTEGER NOT NULL,           -- bytes of addresses; what of it is used, memory lies behind
    birth_ns   INTEGER NOT NULL
);

-- Where the block lay: heap_kind.id; NULL: in libc's heap, as all blocks without --heap.
ALTER TABLE allocation ADD COLUMN kind INTEGER;

-- Aggregate: one row per kind of a run that used --heap, 'libc' among them.
CREATE TABLE kind_total (
    run_id       INTEGER NOT NULL,
    kind_id      INTEGER NOT NULL REFERENCES heap_kind(id),
    n_blocks     INTEGER NOT NULL,
    bytes        INTEGER NOT NULL,         -- asked for in all
    live_blocks  INTEGER NOT NULL,         -- not freed at the end
    live_bytes   INTEGER NOT NULL,
    peak_bytes   INTEGER NOT NULL,         -- the most that was live at once, all processes
    n_samples    REAL NOT NULL,            -- clock: sum of shares
    n_samples_sq REAL NOT NULL,            -- clock: sum over samples of (share)^2, for the interval
    time_ns      REAL NOT NULL,            -- clock: sum of share x weight, ns of CPU time
    n_faults     INTEGER NOT NULL,
    PRIMARY KEY (run_id, kind_id)
) WITHOUT ROWID;
