-- Views: the questions that people ask. Dropped and made anew whenever a database is written, so
-- that they may change without a migration.

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
WHERE allocation.death_ns IS NULL ORDER BY size DESC;

-- Heimdallr's tables, for its own plots.
DROP VIEW IF EXISTS runs;
CREATE VIEW runs AS
SELECT id, program AS prog, mode, repetition AS run, user_ns AS utime_ns, system_ns AS stime_ns,
       duration_ns AS wtime_ns, max_rss
FROM run;

DROP VIEW IF EXISTS allocs;
CREATE VIEW allocs AS
SELECT id, run_id, birth_ns AS from_ns, death_ns AS to_ns, address AS base, size FROM allocation;

DROP VIEW IF EXISTS access;
CREATE VIEW access AS
SELECT touch.run_id, sample.time_ns AS at_ns, touch.address AS addr, touch.is_write
FROM touch JOIN sample ON sample.id = touch.sample_id
WHERE touch.role IN (0, 3) AND touch.address IS NOT NULL;
