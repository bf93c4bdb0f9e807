-- Indexes of the plain tables whose rows are in chunks as well. They are made after the rows are in
-- (much cheaper than with each row), where they are missing. What is read by run and call site lies
-- in the aggregates; these serve the questions behind them.

CREATE INDEX IF NOT EXISTS allocation_live ON allocation(run_id, size) WHERE freed_ns IS NULL;
CREATE INDEX IF NOT EXISTS sample_time ON sample(run_id, time_ns);
CREATE INDEX IF NOT EXISTS touch_sample ON touch(sample_id);
CREATE INDEX IF NOT EXISTS touch_owner ON touch(owner_kind, owner_id);
