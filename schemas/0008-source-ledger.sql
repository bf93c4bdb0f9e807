-- Migration 8: what each source of samples gave and what it did not.

-- More about a source; NULL: not known (traces before 1.2, sources that did not open).
ALTER TABLE source ADD COLUMN event TEXT;                 -- the event as asked for or found
ALTER TABLE source ADD COLUMN kind INTEGER;               -- 1 time, 2 time and registers, 3 fault, 4 access, 5 IBS, 6 SPE, 7 watch, 8 tasks
ALTER TABLE source ADD COLUMN direction INTEGER;          -- 0 each sample tells, 1 loads, 2 stores
ALTER TABLE source ADD COLUMN precise INTEGER;            -- precise_ip: 0 arbitrary skid ... 3 none
ALTER TABLE source ADD COLUMN min_latency INTEGER;        -- cycles: loads below it are not sampled; 0: all
ALTER TABLE source ADD COLUMN perf_type INTEGER;
ALTER TABLE source ADD COLUMN perf_config INTEGER;
ALTER TABLE source ADD COLUMN perf_config1 INTEGER;
ALTER TABLE source ADD COLUMN watch_address INTEGER;      -- what is watched, and how many bytes of it
ALTER TABLE source ADD COLUMN watch_size INTEGER;         -- bytes
ALTER TABLE source ADD COLUMN note TEXT;                  -- what was given up while opening
ALTER TABLE source ADD COLUMN passed_over INTEGER NOT NULL DEFAULT 0; -- 1: auto tried it and took a lesser one; error and remedy say why

-- One row for each source that ran. Counts are of samples, unless said otherwise.
CREATE TABLE source_ledger (
    source_id       INTEGER PRIMARY KEY REFERENCES source(id),
    run_id          INTEGER NOT NULL,
    is_complete     INTEGER NOT NULL,     -- 1: as the recorder told at the end; 0: it was killed, and this is what the trace shows
    -- While recording:
    n_taken         INTEGER NOT NULL,     -- read from the kernel
    n_lost          INTEGER NOT NULL,     -- found the ring full
    lost_is_exact   INTEGER NOT NULL,     -- 1: n_lost is the kernel's own count; 0: it misses the last ones
    n_hardware_lost INTEGER NOT NULL,     -- dropped by hardware or driver
    n_dropped       INTEGER NOT NULL,     -- read, and not stored: recording had stopped
    n_throttles     INTEGER NOT NULL,     -- times that the kernel stopped the source until its next tick
    throttled_ns    INTEGER NOT NULL,     -- time without samples for that, added over CPUs
    bad_bytes       INTEGER NOT NULL,     -- bytes in which no record could be told
    n_aux_truncated INTEGER NOT NULL,     -- pieces of AUX bytes: the area was full
    n_aux_partial   INTEGER NOT NULL,     -- they have gaps
    n_aux_collision INTEGER NOT NULL,     -- samples were due while the one before was under way
    n_behind        INTEGER NOT NULL,     -- times that the recorder found a ring more than three quarters full
    weight          INTEGER NOT NULL,     -- of all samples that are rows, added up, in the source's unit
    -- While analysing, of n_taken:
    n_undecodable   INTEGER NOT NULL,     -- damaged, without registers, or without the code that they are in
    n_no_memory     INTEGER NOT NULL,     -- of instructions that access no memory
    n_outside       INTEGER NOT NULL,     -- of a process that nothing told of
    n_zero          INTEGER NOT NULL,     -- address 0: the hardware did not know it
    n_kernel        INTEGER NOT NULL,     -- address in the kernel
    n_no_clock      INTEGER NOT NULL,     -- time that nothing converts
    -- To stand for what was lost as well, counts and times of this source are multiplied by this.
    -- (taken + lost) / taken; of CPU time also what was throttled: (time + throttled) / time.
    scale           REAL NOT NULL
);
