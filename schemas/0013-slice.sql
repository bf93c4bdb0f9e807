-- Migration 13: a run's sums in slices of time, so that any part of its time is counted without reading all rows.

-- What reports count, in slices of some ten thousand events: slices of level 0, groups of 16 of them (1) and of 256 (2).
-- A part of the run's time is the sum of the largest that lie within it, and of the rows of the slices at its ends.
CREATE TABLE slice (
    id           INTEGER PRIMARY KEY,
    run_id       INTEGER NOT NULL,
    is_blocks    INTEGER NOT NULL,        -- 1: births and ends of blocks; 0: samples and touches
    level        INTEGER NOT NULL,        -- 0, 1, 2
    number       INTEGER NOT NULL,        -- from 0; number / 16 is that of the next level
    first_ns     INTEGER NOT NULL,        -- the first of its events ...
    last_ns      INTEGER NOT NULL,        -- ... and the last; before first_ns: there are none
    first_row    INTEGER NOT NULL,        -- allocation.id of blocks born in it, touch.rowid of its touches ...
    last_row     INTEGER NOT NULL,        -- ... up to this one
    first_sample INTEGER NOT NULL,        -- sample.id of its samples; of blocks 0
    last_sample  INTEGER NOT NULL,
    data         BLOB NOT NULL,           -- compressed columns (store/slices/blob.h)
    UNIQUE (run_id, is_blocks, level, number)
);
