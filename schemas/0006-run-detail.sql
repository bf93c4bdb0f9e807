-- Migration 6: how much of a run is in the database, its page faults, and when its first event was.

-- 'full', or 'totals': a later repetition of a results folder, or one that failed. It has its statistics,
-- processes, threads, losses and aggregates (site, total, counter ...), but no rows of allocation,
-- mapping, mapping_event, sample, touch, region, mark, object_name and withheld.
ALTER TABLE run ADD COLUMN detail TEXT NOT NULL DEFAULT 'full';

-- Page faults of the command and its waited-for children, as the kernel counts them; NULL: not known.
ALTER TABLE run ADD COLUMN minor_faults INTEGER;
ALTER TABLE run ADD COLUMN major_faults INTEGER;

-- The first allocation, page fault or sampled access, ns; NULL: there was none. Heimdallr's views count from it.
ALTER TABLE run ADD COLUMN first_event_ns INTEGER;
UPDATE run SET first_event_ns = (SELECT min(first_ns) FROM site WHERE run_id = run.id);
UPDATE run SET first_event_ns = (
    SELECT min(first) FROM (
        SELECT run.first_event_ns AS first UNION ALL
        SELECT min(time_ns) FROM sample JOIN touch ON touch.sample_id = sample.id
        WHERE sample.run_id = run.id AND role IN (0, 3) AND address IS NOT NULL));
