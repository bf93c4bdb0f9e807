-- Migration 1: the database as analyze first makes it. Never edited after release: a change is a
-- new file NNNN-*.sql. Units: times in ns since the run's start, sizes in bytes, addresses as signed
-- 64-bit integers (printf('%x') shows them), shares and weights as said. docs/database.md tells all.

-- One recorded execution of a command: PROGRAM.MODE.REPETITION.
CREATE TABLE run (
    id                INTEGER PRIMARY KEY,
    program           TEXT NOT NULL,      -- base name of the command
    mode              TEXT NOT NULL,      -- 'default' outside of a series
    repetition        INTEGER NOT NULL,   -- from 1
    command           TEXT NOT NULL,      -- as a shell would take it
    directory         TEXT NOT NULL,      -- working folder
    trace             TEXT NOT NULL,      -- path of the trace file
    recording_id      TEXT NOT NULL UNIQUE, -- hex: importing a recording twice is noticed
    start_unix_ns     INTEGER NOT NULL,
    duration_ns       INTEGER NOT NULL,   -- start to the last event or the end of the command
    exit_status       INTEGER,            -- as from wait(); NULL: not known
    user_ns           INTEGER,            -- CPU time of the command and its waited-for children
    system_ns         INTEGER,
    max_rss           INTEGER,            -- bytes
    collector_cpu_ns  INTEGER,
    clock_error_ns    INTEGER NOT NULL,   -- bound of the error between events and samples
    ended_cleanly     INTEGER NOT NULL,   -- 0: the trace was cut off (killed, disk full)
    committed_ns      INTEGER NOT NULL    -- everything before this time is complete
);

-- About host and run, as text: kernel, cpu_model, governor, environment ...
CREATE TABLE fact (
    run_id  INTEGER NOT NULL REFERENCES run(id),
    key     TEXT NOT NULL,
    at_end  INTEGER NOT NULL,             -- 0: at the start, 1: at the end
    value   TEXT NOT NULL,
    PRIMARY KEY (run_id, key, at_end)
) WITHOUT ROWID;

-- One image of a process: fork and exec each open a new row.
CREATE TABLE process (
    id        INTEGER PRIMARY KEY,
    run_id    INTEGER NOT NULL REFERENCES run(id),
    number    INTEGER NOT NULL,           -- within the run, from 1: process_id of the trace
    parent_id INTEGER REFERENCES process(id),
    pid       INTEGER NOT NULL,
    ns_pid    INTEGER NOT NULL,           -- as the program sees it
    exec_seq  INTEGER NOT NULL,
    birth     TEXT NOT NULL,              -- exec | fork
    exe       TEXT NOT NULL,
    command   TEXT NOT NULL,
    rank      INTEGER,                    -- MPI rank
    traced    INTEGER NOT NULL,
    why_not   TEXT,                       -- static | setuid | 32-bit | chroot | env | ...; NULL when traced
    start_ns  INTEGER NOT NULL,
    end_ns    INTEGER,                    -- NULL: still there when the trace ended
    status    INTEGER                     -- as from wait(); NULL: not known
);

-- One incarnation of a thread, in order of creation.
CREATE TABLE thread (
    id          INTEGER PRIMARY KEY,
    run_id      INTEGER NOT NULL REFERENCES run(id),
    process_id  INTEGER NOT NULL REFERENCES process(id),
    number      INTEGER NOT NULL,         -- thread_id of the trace; 0: known from samples only
    tid         INTEGER NOT NULL,
    is_main     INTEGER NOT NULL,
    stack_start INTEGER,
    stack_end   INTEGER,
    start_ns    INTEGER NOT NULL,
    end_ns      INTEGER,
    n_events    INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE thread_name (
    thread_id INTEGER NOT NULL REFERENCES thread(id),
    time_ns   INTEGER NOT NULL,
    name      TEXT NOT NULL
);

-- A loaded file, for the time that it was mapped.
CREATE TABLE module (
    id         INTEGER PRIMARY KEY,
    run_id     INTEGER NOT NULL REFERENCES run(id),
    process_id INTEGER NOT NULL REFERENCES process(id),
    path       TEXT NOT NULL,
    build_id   TEXT,                      -- hex
    bias       INTEGER NOT NULL,          -- address = ELF address + bias
    start      INTEGER NOT NULL,
    end        INTEGER NOT NULL,
    load_ns    INTEGER NOT NULL,
    unload_ns  INTEGER,
    debug_info TEXT                       -- lines | symbols | none; NULL: not looked at
);

-- A code address, independent of run and process: the file (by build-id, else path) and its offset.
CREATE TABLE frame (
    id       INTEGER PRIMARY KEY,
    object   TEXT NOT NULL,               -- build-id in hex, else path; '' = no module
    path     TEXT NOT NULL,
    offset   INTEGER NOT NULL,            -- ELF address (return address - 1 for callers)
    function TEXT,                        -- innermost, demangled; NULL: unknown
    UNIQUE (object, offset)
);

-- Source positions of a frame; depth 0 is the innermost inlined function.
CREATE TABLE frame_line (
    frame_id INTEGER NOT NULL REFERENCES frame(id),
    depth    INTEGER NOT NULL,
    function TEXT NOT NULL,
    file     TEXT,
    line     INTEGER,
    PRIMARY KEY (frame_id, depth)
) WITHOUT ROWID;

-- A path of calls, one row over threads, processes and runs. The row is its innermost frame.
CREATE TABLE stack (
    id        INTEGER PRIMARY KEY,
    parent_id INTEGER REFERENCES stack(id), -- the caller's path; NULL: outermost known
    frame_id  INTEGER REFERENCES frame(id), -- NULL: truncated, see stop
    stop      TEXT,                         -- why it could not be followed further out
    depth     INTEGER NOT NULL,             -- 1 = outermost
    UNIQUE (parent_id, frame_id, stop)
);

-- One row per block of memory that the program asked for (malloc and its family).
CREATE TABLE allocation (
    id              INTEGER PRIMARY KEY,
    run_id          INTEGER NOT NULL,
    process_id      INTEGER NOT NULL,
    thread_id       INTEGER NOT NULL,      -- that allocated
    address         INTEGER NOT NULL,
    size            INTEGER NOT NULL,      -- as asked for
    birth_ns        INTEGER NOT NULL,
    death_ns        INTEGER,               -- NULL: not freed when its process or the trace ended
    death_thread_id INTEGER,               -- that freed
    stack_id        INTEGER,
    call            INTEGER NOT NULL,      -- enum trace_call, names in table call
    death           INTEGER NOT NULL,      -- 0 alive at the end, 1 freed, 2 realloc, 3 missed free, 4 process ended by exec
    previous_allocation_id INTEGER         -- the block that realloc turned into this one
);

-- Names of allocation.call.
CREATE TABLE call (id INTEGER PRIMARY KEY, name TEXT NOT NULL);

-- Memory mapped by the program (mmap), or there before the trace (call NULL).
CREATE TABLE mapping (
    id          INTEGER PRIMARY KEY,
    run_id      INTEGER NOT NULL,
    process_id  INTEGER NOT NULL,
    thread_id   INTEGER,
    address     INTEGER NOT NULL,
    size        INTEGER NOT NULL,
    birth_ns    INTEGER NOT NULL,
    death_ns    INTEGER,
    stack_id    INTEGER,
    call        INTEGER,
    prot        INTEGER NOT NULL,          -- PROT_*
    flags       INTEGER NOT NULL,          -- MAP_*
    path        TEXT,
    is_nested   INTEGER NOT NULL,          -- made by an allocator inside a traced call
    previous_mapping_id INTEGER            -- mremap, or what was left of a partly unmapped one
);

-- Where samples came from; one that could not be opened stands with its error and remedy.
CREATE TABLE source (
    id             INTEGER PRIMARY KEY,
    run_id         INTEGER NOT NULL REFERENCES run(id),
    number         INTEGER NOT NULL,       -- source_id of the trace
    name           TEXT NOT NULL,          -- clock | faults | tasks ...
    unit           TEXT NOT NULL,          -- 'ns of user CPU time', 'page faults' ...
    period         INTEGER,                -- in that unit
    exclude_kernel INTEGER NOT NULL,
    error          INTEGER NOT NULL,       -- errno; 0: it ran
    remedy         TEXT,
    n_samples      INTEGER NOT NULL DEFAULT 0
);

-- One row per sample, whatever it resolved to.
CREATE TABLE sample (
    id         INTEGER PRIMARY KEY,
    run_id     INTEGER NOT NULL,
    source_id  INTEGER NOT NULL REFERENCES source(id),
    process_id INTEGER,
    thread_id  INTEGER,
    time_ns    INTEGER NOT NULL,
    frame_id   INTEGER,                    -- of the instruction pointer
    stack_id   INTEGER,                    -- NULL: not taken
    weight     INTEGER NOT NULL,           -- in the source's unit
    is_kernel  INTEGER NOT NULL
);

-- One row per resolved access of a sample. Of one role, owner and direction up to four addresses of a
-- sample's time (role 1), one of the others (2, 5): where there are more, some are drawn and have the shares of
-- all, so that each address has its share on the average (analyze/samples/sample-accesses.c). Exact accesses are all there.
CREATE TABLE touch (
    sample_id  INTEGER NOT NULL,
    run_id     INTEGER NOT NULL,
    role       INTEGER NOT NULL,           -- 0 exact, 1 window (time), 2 stall, 3 fault
    share      REAL NOT NULL,              -- of the sample's weight; sums to 1 per sample and role
    address    INTEGER,                    -- NULL: not resolved
    size       INTEGER,
    is_write   INTEGER,                    -- NULL: not known
    owner_kind INTEGER NOT NULL REFERENCES owner(id),
    owner_id   INTEGER,                    -- heap: allocation.id, mapping: mapping.id, stack and tls: thread.id, global: symbol.id
    phase      INTEGER NOT NULL,           -- 0 in use, 1 allocating, 2 freeing
    frame_id   INTEGER,                    -- of the accessing instruction
    data_src   INTEGER                     -- raw perf word; NULL: the source has none
);

-- Kinds of owners, in order of precedence (schemas/owner.def).
CREATE TABLE owner (id INTEGER PRIMARY KEY, name TEXT NOT NULL, meaning TEXT NOT NULL);

-- Global variables that were touched.
CREATE TABLE symbol (
    id     INTEGER PRIMARY KEY,
    object TEXT NOT NULL,                  -- build-id, else path
    path   TEXT NOT NULL,
    name   TEXT NOT NULL,                  -- demangled; '[.data]' etc. where no symbol covers it
    offset INTEGER NOT NULL,               -- ELF address
    size   INTEGER NOT NULL,
    UNIQUE (object, offset, name)
);

-- Memory of each process over time.
CREATE TABLE process_sample (
    run_id          INTEGER NOT NULL,
    process_id      INTEGER NOT NULL,
    time_ns         INTEGER NOT NULL,
    rss             INTEGER NOT NULL,
    anonymous       INTEGER NOT NULL,
    user_ns         INTEGER NOT NULL,      -- CPU time so far
    system_ns       INTEGER NOT NULL,
    node_bytes      TEXT                   -- JSON {"0": bytes, ...}; NULL: one node
);

CREATE TABLE region (
    id        INTEGER PRIMARY KEY,
    run_id    INTEGER NOT NULL,
    thread_id INTEGER NOT NULL,
    parent_id INTEGER,
    name      TEXT NOT NULL,
    start_ns  INTEGER NOT NULL,
    end_ns    INTEGER
);
CREATE TABLE mark (
    run_id INTEGER NOT NULL, thread_id INTEGER NOT NULL, time_ns INTEGER NOT NULL, name TEXT NOT NULL
);
CREATE TABLE object_name (
    id       INTEGER PRIMARY KEY,
    run_id   INTEGER NOT NULL, process_id INTEGER NOT NULL,
    address  INTEGER NOT NULL, size INTEGER NOT NULL,
    name     TEXT NOT NULL, time_ns INTEGER NOT NULL
);

-- Values counted over the run.
CREATE TABLE counter (
    run_id     INTEGER NOT NULL, process_id INTEGER,
    name       TEXT NOT NULL, value INTEGER NOT NULL, unit TEXT NOT NULL,
    enabled_ns INTEGER, running_ns INTEGER
);

-- Everything that was not recorded or cannot be used. No row: nothing was lost.
CREATE TABLE loss (
    run_id     INTEGER NOT NULL REFERENCES run(id),
    process_id INTEGER, thread_id INTEGER,
    source     TEXT NOT NULL,              -- tracealloc | clock | faults | collector | trace | analyze
    reason     TEXT NOT NULL,
    count      INTEGER NOT NULL,
    from_ns    INTEGER, to_ns INTEGER
);

-- Aggregates, written at import, equal to what the rows give (a test compares them).

-- One row per run, and call stack that allocated.
CREATE TABLE site (
    run_id       INTEGER NOT NULL,
    stack_id     INTEGER NOT NULL,         -- 0: no stack recorded
    n_blocks     INTEGER NOT NULL,
    n_frees      INTEGER NOT NULL,
    bytes        INTEGER NOT NULL,         -- asked for in all
    live_blocks  INTEGER NOT NULL,         -- not freed at the end
    live_bytes   INTEGER NOT NULL,
    peak_bytes   INTEGER NOT NULL,         -- the most that was live at once, all processes
    peak_ns      INTEGER NOT NULL,
    first_ns     INTEGER NOT NULL,         -- first birth
    last_ns      INTEGER NOT NULL,         -- last death, or the run's end
    n_temporary  INTEGER NOT NULL,         -- freed by the next event of the same thread
    byte_seconds REAL NOT NULL,            -- sum over blocks of size x lifetime in s
    n_samples    REAL NOT NULL,            -- clock: sum of shares
    n_samples_sq REAL NOT NULL,            -- clock: sum over samples of (share)^2, for the interval
    time_ns      REAL NOT NULL,            -- clock: sum of share x weight
    n_faults     INTEGER NOT NULL,
    first_touch_ns INTEGER, last_touch_ns INTEGER, -- of any sample or fault in use
    PRIMARY KEY (run_id, stack_id)
) WITHOUT ROWID;

-- Share of touches per kind of owner, role and phase; adds up to 100 % of a source's samples.
CREATE TABLE owner_share (
    run_id       INTEGER NOT NULL,
    source_id    INTEGER NOT NULL,
    role         INTEGER NOT NULL,
    owner_kind   INTEGER NOT NULL,
    phase        INTEGER NOT NULL,
    n            REAL NOT NULL,            -- sum of shares
    n_sq         REAL NOT NULL,            -- sum over samples of (share)^2
    weight       REAL NOT NULL,            -- in the source's unit
    PRIMARY KEY (run_id, source_id, role, owner_kind, phase)
) WITHOUT ROWID;

-- Totals of the run.
CREATE TABLE total (
    run_id      INTEGER NOT NULL,
    name        TEXT NOT NULL,             -- allocations, frees, bytes, peak_bytes, peak_ns, live_blocks, live_bytes ...
    value       INTEGER NOT NULL,
    PRIMARY KEY (run_id, name)
) WITHOUT ROWID;

-- Live bytes and rates in equal intervals (at most 1,000 a run).
CREATE TABLE timeline (
    run_id      INTEGER NOT NULL,
    time_ns     INTEGER NOT NULL,          -- start of the interval
    interval_ns INTEGER NOT NULL,
    live_bytes  INTEGER NOT NULL,          -- at its end
    max_live_bytes INTEGER NOT NULL,       -- within it
    n_allocations INTEGER NOT NULL,
    n_frees     INTEGER NOT NULL,
    n_samples   INTEGER NOT NULL,
    n_faults    INTEGER NOT NULL,
    PRIMARY KEY (run_id, time_ns)
) WITHOUT ROWID;
