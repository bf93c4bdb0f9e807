-- Migration 10: what sampled accesses say of where their data was.

-- Meaning of the words in touch.data_src; NULL: the word does not tell.
CREATE TABLE data_source (
    data_src  INTEGER PRIMARY KEY,        -- union perf_mem_data_src, as perf numbers it
    op        TEXT,                       -- load | store | prefetch | exec
    level     TEXT,                       -- L1 | L2 | L3 | LFB/MAB | RAM | remote RAM | remote cache | PMEM | CXL | uncached ...
    hit       TEXT,                       -- hit | miss
    snoop     TEXT,                       -- none | hit | miss | HitM (modified in another cache) | forwarded | peer
    tlb       TEXT,                       -- such as 'L1 or L2 hit', 'L2 miss', 'walker hit'
    is_locked INTEGER,                    -- 1: an atomic or locked operation
    is_remote INTEGER,                    -- 1: of another node or socket
    hops      INTEGER,                    -- 0 none, 1 another core, 2 node, 3 socket, 4 board
    blocked   TEXT                        -- data | address: what a load had to wait for
);

-- One row per sample of a source of accesses that tells more than touch holds.
CREATE TABLE access_detail (
    sample_id        INTEGER PRIMARY KEY,
    run_id           INTEGER NOT NULL,
    latency          INTEGER,             -- cycles, as the source measures them (perf's weight)
    latency_2        INTEGER,             -- second and third part of PERF_SAMPLE_WEIGHT_STRUCT, cycles: on Intel that
    latency_3        INTEGER,             -- of the instruction and until it retires; SPE: 2 is from dispatch to completion
    physical_address INTEGER,
    page_bytes       INTEGER              -- bytes of the page that was accessed
);

-- Sampled accesses by source, owner and data source, added up: aggregate.
CREATE TABLE access_total (
    run_id      INTEGER NOT NULL,
    source_id   INTEGER NOT NULL,
    owner_kind  INTEGER NOT NULL,
    owner_id    INTEGER NOT NULL,         -- heap: stack_id of the site; else as touch.owner_id; 0: none
    data_src    INTEGER NOT NULL,         -- 0: the source has none
    n           INTEGER NOT NULL,         -- samples
    n_writes    INTEGER NOT NULL,
    n_latencies INTEGER NOT NULL,         -- samples with a latency
    latency     INTEGER NOT NULL,         -- their sum, cycles
    latency_sq  REAL NOT NULL,            -- sum of squares
    PRIMARY KEY (run_id, source_id, owner_kind, owner_id, data_src)
) WITHOUT ROWID;
