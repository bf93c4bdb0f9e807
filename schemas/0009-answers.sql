-- Migration 9: the three answers of a sample of time and registers, kept apart (docs/database.md).

-- touch.role has two values more: 2 stall (what was waited for) and 5 mix (an access of one iteration of
-- the sample's loop, by number); touch.phase has 3: the kernel ran while the instruction was stopped.

ALTER TABLE site ADD COLUMN n_stalls REAL NOT NULL DEFAULT 0;    -- clock: samples that waited for its blocks, sum of shares
ALTER TABLE site ADD COLUMN n_stalls_sq REAL NOT NULL DEFAULT 0; -- clock: sum over samples of (share)^2, for the interval
ALTER TABLE site ADD COLUMN n_imputed REAL NOT NULL DEFAULT 0;   -- clock: samples of time that could not be resolved, and whose instructions access this site otherwise; not in n_samples
ALTER TABLE site ADD COLUMN n_stalls_imputed REAL NOT NULL DEFAULT 0; -- likewise; not in n_stalls

ALTER TABLE object_total ADD COLUMN n_stalls REAL NOT NULL DEFAULT 0;    -- as in site
ALTER TABLE object_total ADD COLUMN n_stalls_sq REAL NOT NULL DEFAULT 0;
ALTER TABLE object_total ADD COLUMN n_imputed REAL NOT NULL DEFAULT 0;
ALTER TABLE object_total ADD COLUMN n_stalls_imputed REAL NOT NULL DEFAULT 0;

-- Whose memory an instruction accessed where its operand could be resolved, for instructions that some
-- samples leave unresolved.
CREATE TABLE instruction_owner (
    run_id      INTEGER NOT NULL,
    frame_id    INTEGER NOT NULL REFERENCES frame(id),
    owner_kind  INTEGER NOT NULL REFERENCES owner(id),
    owner_id    INTEGER NOT NULL,          -- heap: stack.id of the site, else as touch.owner_id; 0: none
    share       REAL NOT NULL,             -- of its accesses that were resolved
    PRIMARY KEY (run_id, frame_id, owner_kind, owner_id)
) WITHOUT ROWID;

-- Loops that samples were taken in: the emulated code came back to the sample's instruction.
CREATE TABLE loop (
    run_id         INTEGER NOT NULL,
    id             INTEGER NOT NULL,       -- in this run, from 1
    frame_id       INTEGER NOT NULL REFERENCES frame(id), -- its lowest instruction
    n_samples      INTEGER NOT NULL,       -- clock: samples in it
    time_ns        INTEGER NOT NULL,       -- clock: CPU time that they stand for
    n_instructions REAL NOT NULL,          -- of one iteration, mean over the samples
    n_accesses     REAL NOT NULL,          -- of one iteration, likewise
    n_pairs        INTEGER NOT NULL,       -- pairs of samples between which iterations were counted by registers
    n_refuted      INTEGER NOT NULL,       -- pairs whose registers contradict each other
    n_replayed     INTEGER NOT NULL,       -- pairs between which every instruction was emulated
    n_not_replayed INTEGER NOT NULL,       -- pairs with which that was tried in vain
    method         TEXT,                   -- registers | replay: where counts are from; NULL: none can be told
    accesses       REAL,                   -- in the whole run, all owners; NULL without method
    accesses_half  REAL,                   -- half of its 95 % interval
    PRIMARY KEY (run_id, id)
) WITHOUT ROWID;

-- The accesses of a loop by owner and direction.
CREATE TABLE loop_access (
    run_id      INTEGER NOT NULL,
    loop_id     INTEGER NOT NULL,          -- loop.id
    owner_kind  INTEGER NOT NULL REFERENCES owner(id),
    owner_id    INTEGER NOT NULL,          -- heap: stack.id of the site, else as touch.owner_id; 0: none
    is_write    INTEGER NOT NULL,          -- 0 only read, 1 written (and perhaps read)
    n_samples   REAL NOT NULL,             -- clock: sum of the shares of the samples' mixes
    n_samples_sq REAL NOT NULL,            -- clock: sum over samples of (share)^2, for the interval
    accesses    REAL,                      -- in the whole run; NULL where loop.method is NULL
    PRIMARY KEY (run_id, loop_id, owner_kind, owner_id, is_write)
) WITHOUT ROWID;
