-- Migration 3: what a program tells by memsight.h.

-- A trip through a region, from push to pop in one thread. At most 200,000 rows a run; the aggregate
-- region_total has all. Numbers are without those of the regions inside.
ALTER TABLE region ADD COLUMN path_id INTEGER;                   -- region_total.id
ALTER TABLE region ADD COLUMN ending INTEGER NOT NULL DEFAULT 0; -- 0 popped, 1 by the pop of a region around it, 2 its thread or the trace ended
ALTER TABLE region ADD COLUMN n_blocks INTEGER NOT NULL DEFAULT 0;  -- that the thread allocated in it
ALTER TABLE region ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;     -- asked for by them
ALTER TABLE region ADD COLUMN n_samples INTEGER NOT NULL DEFAULT 0; -- clock: samples of the thread
ALTER TABLE region ADD COLUMN time_ns INTEGER NOT NULL DEFAULT 0;   -- clock: CPU time that they stand for, ns
ALTER TABLE region ADD COLUMN n_faults INTEGER NOT NULL DEFAULT 0;  -- page faults of the thread

-- Aggregate: one row per run and path of regions (one inside the other), over all threads.
CREATE TABLE region_total (
    run_id      INTEGER NOT NULL,
    id          INTEGER NOT NULL,         -- of the path in this run, from 1
    parent_id   INTEGER,                  -- the path of the region around it; NULL: outermost
    name        TEXT NOT NULL,
    depth       INTEGER NOT NULL,         -- 1 = outermost
    n_trips     INTEGER NOT NULL,         -- pushes
    n_left_open INTEGER NOT NULL,         -- of them, that no pop of their own ended
    -- With the regions inside ("all_"), and without.
    all_ns      INTEGER NOT NULL,         -- wall time, added up over trips and threads, ns
    own_ns      INTEGER NOT NULL,
    all_blocks  INTEGER NOT NULL,         -- blocks allocated
    own_blocks  INTEGER NOT NULL,
    all_bytes   INTEGER NOT NULL,         -- bytes asked for
    own_bytes   INTEGER NOT NULL,
    all_samples INTEGER NOT NULL,         -- clock: samples
    own_samples INTEGER NOT NULL,
    all_time_ns INTEGER NOT NULL,         -- clock: CPU time that they stand for, ns
    own_time_ns INTEGER NOT NULL,
    all_faults  INTEGER NOT NULL,         -- page faults
    own_faults  INTEGER NOT NULL,
    PRIMARY KEY (run_id, id)
) WITHOUT ROWID;

-- Intervals in which the program withheld recording. At most 100,000 rows a run; the totals have all.
CREATE TABLE withheld (
    run_id     INTEGER NOT NULL,
    process_id INTEGER NOT NULL REFERENCES process(id),
    thread_id  INTEGER,                   -- NULL: all threads of the process
    start_ns   INTEGER NOT NULL,
    end_ns     INTEGER NOT NULL,          -- its own end, or that of its process or the trace
    classes    TEXT NOT NULL              -- that were collected all the same ('heap,faults'); '': it was paused
);

-- How much of the run a source counts: what the program withheld is left out.
ALTER TABLE source ADD COLUMN process_ns INTEGER;  -- lives of the traced processes, added up, ns; NULL: not known
ALTER TABLE source ADD COLUMN withheld_ns INTEGER; -- of them, without samples of this source on request, ns
ALTER TABLE source ADD COLUMN n_withheld INTEGER NOT NULL DEFAULT 0; -- samples that were left out therefore

-- Names of objects: how long they held, and the block that was named.
ALTER TABLE object_name ADD COLUMN end_ns INTEGER;        -- NULL: until its process or the trace ended
ALTER TABLE object_name ADD COLUMN allocation_id INTEGER; -- the block that it lies in; NULL: none
