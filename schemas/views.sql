-- Views: the questions that people ask. Dropped and made anew whenever a database is written, so
-- that they may change without a new version of the database. Behind them an index that is made
-- when the rows are in, as those of plain tables (indexes.sql).

DROP VIEW IF EXISTS stack_line;
CREATE VIEW stack_line AS -- each stack with its innermost frame as text
SELECT stack.id AS stack_id, stack.parent_id, stack.depth, stack.stop,
       frame.path AS module, frame.offset,
       coalesce(frame_line.function, frame.function) AS function,
       frame_line.file, frame_line.line
FROM stack
LEFT JOIN frame ON frame.id = stack.frame_id
LEFT JOIN frame_line ON frame_line.frame_id = frame.id AND frame_line.depth = 0;

DROP VIEW IF EXISTS not_freed;
CREATE VIEW not_freed AS -- blocks that nobody gave back, biggest first
SELECT allocation.*, stack_line.function, stack_line.file, stack_line.line
FROM allocation LEFT JOIN stack_line USING (stack_id)
WHERE allocation.freed_ns IS NULL ORDER BY size DESC;

DROP VIEW IF EXISTS mismatched_free;
CREATE VIEW mismatched_free AS -- blocks given back by another family than the one that made them
SELECT allocation.*, born.name AS born_by, died.name AS freed_by
FROM allocation JOIN call AS born ON born.id = allocation.call
JOIN call AS died ON died.id = allocation.free_call
WHERE end_kind = 1
AND CASE WHEN born.name GLOB 'operator new[[][]]*' THEN 'array'
         WHEN born.name GLOB 'operator new*' THEN 'single'
    ELSE 'malloc' END
 <> CASE died.name WHEN 'operator delete[]' THEN 'array'
         WHEN 'operator delete' THEN 'single' ELSE 'malloc' END;

DROP VIEW IF EXISTS region_net;
CREATE VIEW region_net AS -- each trip, with and without what memsight took of its time
SELECT region.*, end_ns - start_ns AS gross_ns, end_ns - start_ns - cost_ns AS net_ns
FROM region;

DROP VIEW IF EXISTS mapping_kind;
CREATE VIEW mapping_kind AS -- what each mapping is, in a word
SELECT mapping.id AS mapping_id,
       CASE WHEN call.name = 'shmat' OR path GLOB '/SYSV*' THEN 'segment'
            WHEN path GLOB '/memfd:*' THEN 'memfd'
            WHEN flags & 262144 OR path GLOB '/anon_hugepage*' THEN 'huge pages'
            WHEN call.name IN ('brk', 'sbrk') OR path = '[heap]' THEN 'heap'
            WHEN path GLOB '[[]*' THEN trim(path, '[]')
            WHEN prot = 0 AND flags & 32 AND seen = 0 THEN 'reserved' -- PROT_NONE: no memory yet
            WHEN coalesce(path, '') = '/dev/zero (deleted)' THEN 'shared'
            WHEN coalesce(path, '') <> '' OR NOT flags & 32 AND seen = 0 THEN 'file'
            WHEN flags & 1 THEN 'shared' ELSE 'anonymous' END AS kind
FROM mapping LEFT JOIN call ON call.id = mapping.call;

-- Heimdallr's tables, with its columns and units, for its own plots: times count from the run's
-- first event, max_rss is KiB as GNU time has it, and of a PROGRAM.MODE the run that has rows
-- comes first.
DROP VIEW IF EXISTS runs;
CREATE VIEW runs AS
SELECT id, program AS prog, mode, repetition AS run, user_ns AS utime_ns, system_ns AS stime_ns,
       coalesce((SELECT value FROM counter WHERE run_id = run.id AND name = 'wall clock'
                 AND unit = 'ns'), duration_ns)
       AS wtime_ns, max_rss / 1024 AS max_rss
FROM run ORDER BY detail, repetition, id;

DROP VIEW IF EXISTS allocs;
CREATE VIEW allocs AS
SELECT allocation.id, allocation.run_id, allocated_ns - run.first_event_ns AS from_ns,
       freed_ns - run.first_event_ns AS to_ns, address AS base, size
FROM allocation JOIN run ON run.id = allocation.run_id;

DROP VIEW IF EXISTS access;
CREATE VIEW access AS
SELECT touch.run_id, sample.time_ns - run.first_event_ns AS at_ns, touch.address AS addr,
       touch.is_write
FROM touch JOIN sample ON sample.id = touch.sample_id JOIN run ON run.id = touch.run_id
WHERE touch.role IN (0, 3) AND touch.address IS NOT NULL;

CREATE INDEX IF NOT EXISTS region_thread ON region(thread_id, start_ns);
