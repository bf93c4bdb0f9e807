-- Indexes of the plain tables whose rows are in chunks as well. They are made after the rows are in
-- (much cheaper than with each row), where they are missing. They serve joins; what takes one look
-- at all rows needs none, as that is what an index costs (decision 087).

CREATE INDEX IF NOT EXISTS touch_sample ON touch(sample_id);
CREATE INDEX IF NOT EXISTS touch_owner ON touch(owner_kind, owner_id);
