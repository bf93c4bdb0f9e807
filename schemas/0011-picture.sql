-- Migration 11: what lies behind pictures of time x address, and small curves.

-- Addresses that something lay in, as ranges without holes between what is used: the squeezed axis of a
-- process. Aggregate; y of the next one is y + (end - start).
CREATE TABLE band (
    run_id     INTEGER NOT NULL,
    process_id INTEGER NOT NULL,
    number     INTEGER NOT NULL,          -- in order of addresses, from 0
    start      INTEGER NOT NULL,          -- address
    end        INTEGER NOT NULL,
    y          INTEGER NOT NULL,          -- bytes: where it begins on the axis
    kind       TEXT NOT NULL,             -- heap | mapping | global | stack | other
    name       TEXT NOT NULL,             -- file or what it is called; may be empty
    PRIMARY KEY (run_id, process_id, number)
) WITHOUT ROWID;

-- Bytes that the blocks of a call site held over time: aggregate.
CREATE TABLE site_curve (
    run_id      INTEGER NOT NULL,
    stack_id    INTEGER NOT NULL,         -- as site.stack_id
    live_bytes  BLOB NOT NULL,            -- 32 little-endian uint64: the most in each 1/32 of run.duration_ns
    PRIMARY KEY (run_id, stack_id)
) WITHOUT ROWID;

-- Sampled accesses by memory level over time, in the intervals of timeline: aggregate.
CREATE TABLE timeline_level (
    run_id  INTEGER NOT NULL,
    time_ns INTEGER NOT NULL,             -- as timeline.time_ns
    level   TEXT NOT NULL,                -- as data_source.level; '' where the source does not tell
    n       INTEGER NOT NULL,             -- samples
    PRIMARY KEY (run_id, time_ns, level)
) WITHOUT ROWID;

-- Where stored pictures of a process lie on both axes: a row for each process that has one.
CREATE TABLE picture (
    run_id     INTEGER NOT NULL,
    process_id INTEGER NOT NULL,
    from_ns    INTEGER NOT NULL,          -- the axis of time
    to_ns      INTEGER NOT NULL,          -- not included
    end_ns     INTEGER NOT NULL,          -- of blocks that were not freed: the end of the process
    height     INTEGER NOT NULL,          -- bytes of all bands
    n_blocks   INTEGER NOT NULL,
    n_touches  INTEGER NOT NULL,          -- with an address; of a sample of CPU time one, drawn by shares
    PRIMARY KEY (run_id, process_id)
) WITHOUT ROWID;

-- What touches are coloured by: adds up to picture.n_touches for each colour.
CREATE TABLE picture_category (
    run_id     INTEGER NOT NULL,
    process_id INTEGER NOT NULL,
    colour     TEXT NOT NULL,             -- direction | thread | level | latency | source
    number     INTEGER NOT NULL,          -- from 0
    item_id    INTEGER NOT NULL,          -- thread.id, source.id; of direction 0 read, 1 write, 2 not known; level and latency: numbers; -1: all others
    name       TEXT NOT NULL,             -- of level data_source.level; else empty
    n          INTEGER NOT NULL,          -- touches
    PRIMARY KEY (run_id, process_id, colour, number)
) WITHOUT ROWID;

-- Touches, or blocks, that lie near each other in time and address: up to 16,384 of them.
CREATE TABLE picture_part (
    id          INTEGER PRIMARY KEY,
    run_id      INTEGER NOT NULL,
    process_id  INTEGER NOT NULL,
    is_blocks   INTEGER NOT NULL,         -- 0: touches
    n           INTEGER NOT NULL,
    from_ns     INTEGER NOT NULL,
    to_ns       INTEGER NOT NULL,         -- of the last touch; of blocks of the last end
    low         INTEGER NOT NULL,         -- address
    high        INTEGER NOT NULL,         -- the last byte
    max_size    INTEGER NOT NULL,         -- bytes of the largest block
    max_life_ns INTEGER NOT NULL          -- of the block that lived longest
);

-- Their columns, compressed (store/heatmap/parts.h).
CREATE TABLE picture_data (
    id     INTEGER PRIMARY KEY,           -- picture_part.id * 4 + 0: one in 16, 1: the rest of one in 4, 2: all others
    run_id INTEGER NOT NULL,
    data   BLOB NOT NULL
);

-- Counts in cells of a grid over both axes, for pictures of more than is looked at one by one (store/heatmap/tiles.h).
CREATE TABLE picture_tile (
    run_id     INTEGER NOT NULL,
    process_id INTEGER NOT NULL,
    colour     TEXT NOT NULL,             -- as picture_category.colour; 'blocks': how much of each cell lay in blocks
    source_id  INTEGER NOT NULL,          -- source.id; of blocks 0
    number     INTEGER NOT NULL,          -- row of tiles * 32 + column; tiles without anything are left out
    n          INTEGER NOT NULL,          -- touches
    data       BLOB NOT NULL,
    PRIMARY KEY (run_id, process_id, colour, source_id, number)
) WITHOUT ROWID;
