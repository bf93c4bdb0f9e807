-- Aggregates for reports, written at import and equal to what the rows give (a test compares them).

-- Who was live when the run's live bytes were highest (total.peak_ns); adds up to total.peak_bytes.
CREATE TABLE site_peak (
    run_id       INTEGER NOT NULL,
    stack_id     INTEGER NOT NULL,         -- 0: no stack recorded
    n_blocks     INTEGER NOT NULL,         -- live at that moment
    bytes        INTEGER NOT NULL,
    PRIMARY KEY (run_id, stack_id)
) WITHOUT ROWID;

-- One row per thread that allocated, freed or was sampled.
CREATE TABLE thread_total (
    run_id       INTEGER NOT NULL,
    thread_id    INTEGER NOT NULL,
    n_blocks     INTEGER NOT NULL,         -- that it allocated
    bytes        INTEGER NOT NULL,
    n_frees      INTEGER NOT NULL,         -- by it, of whosever blocks
    n_foreign    INTEGER NOT NULL,         -- of its blocks, those that another thread freed
    live_blocks  INTEGER NOT NULL,         -- of its blocks, those not freed
    live_bytes   INTEGER NOT NULL,
    n_temporary  INTEGER NOT NULL,
    n_samples    INTEGER NOT NULL,         -- clock: taken while it ran
    time_ns      INTEGER NOT NULL,         -- clock: sum of weights
    n_faults     INTEGER NOT NULL,
    PRIMARY KEY (run_id, thread_id)
) WITHOUT ROWID;

-- Blocks by size and lifetime, in powers of two: size from 2^size_log2 to below twice that, life in ns
-- likewise. -1: a size or a life of 0. life_log2 -2: not freed.
CREATE TABLE histogram (
    run_id       INTEGER NOT NULL,
    size_log2    INTEGER NOT NULL,
    life_log2    INTEGER NOT NULL,
    n_blocks     INTEGER NOT NULL,
    bytes        INTEGER NOT NULL,
    PRIMARY KEY (run_id, size_log2, life_log2)
) WITHOUT ROWID;

-- What was touched beside the heap (whose blocks are summed up in site), by owner.
CREATE TABLE object_total (
    run_id       INTEGER NOT NULL,
    owner_kind   INTEGER NOT NULL,
    owner_id     INTEGER NOT NULL,         -- as touch.owner_id; 0: none
    n_samples    REAL NOT NULL,            -- clock: sum of shares
    n_samples_sq REAL NOT NULL,            -- clock: sum over samples of (share)^2, for the interval
    time_ns      REAL NOT NULL,            -- clock: sum of share x weight
    n_faults     INTEGER NOT NULL,
    first_touch_ns INTEGER NOT NULL,
    last_touch_ns  INTEGER NOT NULL,
    PRIMARY KEY (run_id, owner_kind, owner_id)
) WITHOUT ROWID;

-- Lines of 64 bytes that several threads of a process were seen to touch, at least one of them
-- writing. Page faults and touches of memory that is not known are left out.
CREATE TABLE shared_line (
    run_id       INTEGER NOT NULL,
    process_id   INTEGER NOT NULL,
    address      INTEGER NOT NULL,         -- of the line
    n_touches    INTEGER NOT NULL,
    n_writes     INTEGER NOT NULL,
    n_changes    INTEGER NOT NULL,         -- touches by another thread than the one before
    time_ns      REAL NOT NULL,            -- clock: sum of share x weight
    thread_id    INTEGER NOT NULL,         -- the first that touched it
    other_thread_id INTEGER NOT NULL,      -- the first other one
    bytes        INTEGER NOT NULL,         -- bit i: byte i touched by the first thread
    other_bytes  INTEGER NOT NULL,         -- bit i: byte i touched by another one
    owner_kind   INTEGER NOT NULL,         -- of the first touch, ...
    owner_id     INTEGER,
    other_owner_kind INTEGER NOT NULL,     -- ... and of the first by another thread
    other_owner_id INTEGER,
    first_ns     INTEGER NOT NULL,         -- of the touches
    last_ns      INTEGER NOT NULL,
    PRIMARY KEY (run_id, process_id, address)
) WITHOUT ROWID;
