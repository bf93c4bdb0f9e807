-- Migration 15: one number with one interval for each owner's part of CPU time (docs/accuracy.md).

-- Shares of the samples' CPU time, 0 to 1. low and high are the ends of the 95 % interval: of sampling, of what
-- could not be resolved, and of time that no sample stands for. The share itself is NULL where these samples do
-- not tell one: then it lies anywhere from low to high. low and high are NULL without samples of CPU time.
ALTER TABLE site ADD COLUMN share REAL;
ALTER TABLE site ADD COLUMN share_low REAL;
ALTER TABLE site ADD COLUMN share_high REAL;
ALTER TABLE site ADD COLUMN stall_share REAL; -- likewise, of what was waited for
ALTER TABLE site ADD COLUMN stall_low REAL;
ALTER TABLE site ADD COLUMN stall_high REAL;

ALTER TABLE object_total ADD COLUMN share REAL; -- as in site
ALTER TABLE object_total ADD COLUMN share_low REAL;
ALTER TABLE object_total ADD COLUMN share_high REAL;
ALTER TABLE object_total ADD COLUMN stall_share REAL;
ALTER TABLE object_total ADD COLUMN stall_low REAL;
ALTER TABLE object_total ADD COLUMN stall_high REAL;

-- The same for each kind of owner, and in the row of kind 0 what nobody is known to have: how much of the time could be anybody's.
CREATE TABLE kind_share (
    run_id      INTEGER NOT NULL,
    owner_kind  INTEGER NOT NULL,          -- owner.id; 0: time that could be anybody's: share_high is its most
    n_samples   REAL NOT NULL,             -- clock: sum of shares that were resolved
    n_imputed   REAL NOT NULL,             -- clock: of those that were not, what the same instructions tell; not in n_samples
    n_stalls    REAL NOT NULL,
    n_stalls_imputed REAL NOT NULL,
    share       REAL, share_low REAL, share_high REAL,
    stall_share REAL, stall_low REAL, stall_high REAL,
    PRIMARY KEY (run_id, owner_kind)
) WITHOUT ROWID;

-- CPU time of the program that no sample stands for (threads that ended before their first sample); NULL: not known.
-- It may be anybody's: intervals of shares have it.
ALTER TABLE source ADD COLUMN unsampled_ns INTEGER;

-- Whose memory an instruction accessed in samples that tell, for instructions that some samples leave unresolved.
DROP TABLE instruction_owner;
CREATE TABLE instruction_owner (
    run_id      INTEGER NOT NULL,
    frame_id    INTEGER NOT NULL REFERENCES frame(id),
    beside_kind INTEGER NOT NULL,          -- in samples that also accessed this owner by another instruction; 0: in all
    beside_id   INTEGER NOT NULL,          -- heap: stack.id of the site, else as touch.owner_id; 0: none
    n_unresolved INTEGER NOT NULL,         -- clock: samples in which it was not resolved
    owner_kind  INTEGER NOT NULL REFERENCES owner(id), -- unknown: owners beyond six
    owner_id    INTEGER NOT NULL,          -- as beside_id
    n           INTEGER NOT NULL,          -- clock: samples in which it was this owner's; 0: only page faults tell
    time_ns     REAL NOT NULL,             -- clock: their time at the instruction
    PRIMARY KEY (run_id, frame_id, beside_kind, beside_id, owner_kind, owner_id)
) WITHOUT ROWID;
