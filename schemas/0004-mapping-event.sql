-- Migration 4: what happened to mapped memory between its birth and its end, who saw a mapping, and by
-- which function a block was given back.

-- 0: the call that made it; 1: it was there when the trace began; 2: only the kernel's records tell of
-- it: the C library, the loader or memsight's own library made it for itself, and its end may not be seen.
ALTER TABLE mapping ADD COLUMN seen INTEGER NOT NULL DEFAULT 0;
UPDATE mapping SET seen = 1 WHERE call IS NULL;

-- Advice, protection and locks of mapped memory, and moves of the program break.
CREATE TABLE mapping_event (
    id         INTEGER PRIMARY KEY,
    run_id     INTEGER NOT NULL,
    process_id INTEGER NOT NULL,
    thread_id  INTEGER NOT NULL,
    time_ns    INTEGER NOT NULL,
    call       INTEGER NOT NULL,           -- madvise, mprotect, mlock ..., brk, sbrk: names in table call
    address    INTEGER NOT NULL,           -- 0 with size 0: all of the process's memory
    size       INTEGER NOT NULL,           -- whole pages; brk, sbrk: bytes that the break moved
    detail     INTEGER NOT NULL,           -- madvise: MADV_*; mprotect: PROT_*; mlock: flags; brk, sbrk: the break afterwards
    mapping_id INTEGER,                    -- the mapping that address lay in; NULL: none that is known
    stack_id   INTEGER,
    is_nested  INTEGER NOT NULL            -- made by an allocator inside a traced call
);

-- By which function the block was given back, names in table call; NULL: it was not.
ALTER TABLE allocation ADD COLUMN death_call INTEGER;
