-- The tables of a database. scripts/database-page writes docs/database.md from the comments here:
-- the unit of a column stands in brackets, a table's question between asterisks. Whoever changes a
-- table raises DB_VERSION (store/schema.h): a database of another version is refused.
-- Times count from the run's start; addresses are signed 64-bit integers (printf('%x') shows them).

-- ## What ran

-- One recorded execution of a command, `PROGRAM.MODE.REPETITION`. *Which run used the most memory?*
CREATE TABLE run (
    id               INTEGER PRIMARY KEY, -- number of the run in this database; what `--run` takes
    program          TEXT NOT NULL,     -- base name of the command
    mode             TEXT NOT NULL,     -- 'default' outside of a series
    repetition       INTEGER NOT NULL,  -- from 1
    command          TEXT NOT NULL,     -- as a shell would take it
    directory        TEXT NOT NULL,     -- working folder of the command
    trace            TEXT NOT NULL,     -- path of the trace file, or of Heimdallr's folder
    recording_id     TEXT NOT NULL UNIQUE, -- hex: importing a recording twice is noticed
    start_unix_ns    INTEGER NOT NULL,  -- [ns] when it began, since 1970
    duration_ns      INTEGER NOT NULL,  -- [ns] start to the last event or the end of the command
    exit_status      INTEGER,           -- as from wait(): status x 256, or the signal; NULL: not
                                        -- known
    user_ns          INTEGER,           -- [ns] CPU time of the command and its waited-for children
    system_ns        INTEGER,           -- [ns] CPU time in the kernel, of the same
    max_rss          INTEGER,           -- [bytes] most resident memory of the command
    collector_cpu_ns INTEGER,           -- [ns] CPU time of the recorder; NULL: not known
    clock_error_ns   INTEGER NOT NULL,  -- [ns] bound of the error between events and samples
    ended_cleanly    INTEGER NOT NULL,  -- [0 or 1] 0: the trace was cut off (killed, disk full)
    committed_ns     INTEGER NOT NULL,  -- [ns] everything before this time is complete
    detail           TEXT NOT NULL DEFAULT 'full', -- `full`, or `totals`: the run has no rows of
                                        -- `allocation`, `sample`, `touch`, `mapping_event` and
                                        -- `shared_line`
    minor_faults     INTEGER,           -- [page faults] page faults of the command and its
                                        -- waited-for children without reading from a disk, as the
                                        -- kernel counts them; NULL: not known
    major_faults     INTEGER,           -- [page faults] the same, with reading from a disk
    first_event_ns   INTEGER            -- [ns] first allocation, page fault or sampled access;
                                        -- NULL: there was none
);

-- Host, kernel, environment and options, as text. *Was the governor the same in all runs?*
CREATE TABLE fact (
    run_id INTEGER NOT NULL REFERENCES run(id),
    key    TEXT NOT NULL,     -- what it is about: `kernel`, `cpu_model`, `env.NAME` ...; `hint.*`:
                              -- found by analyze; `perf_data.*`: of the perf.data that was joined
                              -- (docs/perf-data.md)
    at_end INTEGER NOT NULL,  -- [0 or 1] 0: at the start, 1: at the end
    value  TEXT NOT NULL,     -- as text
    PRIMARY KEY (run_id, key, at_end)
) WITHOUT ROWID;

-- One image of a process. *Which programs did the command start, and which of them were not
-- traced?*
CREATE TABLE process (
    id        INTEGER PRIMARY KEY, -- one image: fork and exec each open a row
    run_id    INTEGER NOT NULL REFERENCES run(id),
    number    INTEGER NOT NULL,  -- within the run, from 1: process_id of the trace
    parent_id INTEGER REFERENCES process(id), -- `process.id` of the image that forked, or was
                                 -- before exec
    pid       INTEGER NOT NULL,  -- process id, as the recorder sees it
    ns_pid    INTEGER NOT NULL,  -- as the program sees it
    exec_seq  INTEGER NOT NULL,  -- 0 for the first image of this pid, 1 more for each exec
    birth     TEXT NOT NULL,     -- exec or fork
    exe       TEXT NOT NULL,     -- path of the executable
    command   TEXT NOT NULL,     -- with its arguments, as a shell would take it
    rank      INTEGER,           -- MPI rank
    traced    INTEGER NOT NULL,  -- [0 or 1] 1: its allocations were recorded
    why_not   TEXT,              -- static or setuid or 32-bit or chroot or env or ...; NULL when
                                 -- traced
    start_ns  INTEGER NOT NULL,  -- [ns] begin of the image
    end_ns    INTEGER,           -- [ns] NULL: still there when the trace ended
    status    INTEGER            -- as from wait(); NULL: not known
);

-- One life of a thread, in order of creation. *How many threads did each process have?*
CREATE TABLE thread (
    id          INTEGER PRIMARY KEY, -- one life of a thread
    run_id      INTEGER NOT NULL REFERENCES run(id),
    process_id  INTEGER NOT NULL REFERENCES process(id), -- `process.id`: the image that it ran in
    number      INTEGER NOT NULL,  -- thread_id of the trace; 0: known from samples only
    tid         INTEGER NOT NULL,  -- thread id, as the recorder sees it
    is_main     INTEGER NOT NULL,  -- [0 or 1] 1: the first thread of its process
    stack_start INTEGER,           -- [address] lowest address of its stack; NULL: not known
    stack_end   INTEGER,           -- [address] behind its highest address
    start_ns    INTEGER NOT NULL,  -- [ns] begin of its life
    end_ns      INTEGER,           -- [ns] NULL: until its process or the trace ended
    n_events    INTEGER NOT NULL DEFAULT 0 -- [events] allocation events that it recorded
);

-- Names of threads over time. *Which threads were called `worker`?*
CREATE TABLE thread_name (
    thread_id INTEGER NOT NULL REFERENCES thread(id),
    time_ns   INTEGER NOT NULL,  -- [ns] from when on it was called so
    name      TEXT NOT NULL      -- of the thread
);

-- Memory and CPU time of each process over time. *When was resident memory highest?*
CREATE TABLE process_sample (
    run_id     INTEGER NOT NULL, -- `run.id`
    process_id INTEGER NOT NULL, -- `process.id`
    time_ns    INTEGER NOT NULL, -- [ns] when it was read
    rss        INTEGER NOT NULL, -- [bytes] resident memory
    anonymous  INTEGER NOT NULL, -- [bytes] of it, not of files
    user_ns    INTEGER NOT NULL, -- [ns] CPU time in the program so far
    system_ns  INTEGER NOT NULL, -- [ns] CPU time in the kernel so far
    node_bytes TEXT              -- [bytes] JSON {"0": bytes, ...}; NULL: one node
);

-- Looks at all pages of a process. *How much was resident, and is it all explained?*
CREATE TABLE page_snapshot (
    id           INTEGER PRIMARY KEY, -- number of the row
    run_id       INTEGER NOT NULL, -- `run.id`
    process_id   INTEGER NOT NULL, -- `process.id`
    time_ns      INTEGER NOT NULL, -- [ns] when the look began: blocks are those that lived then
    end_ns       INTEGER NOT NULL, -- [ns] when it ended; the process ran on meanwhile, but for
                                   -- `end`
    reason       TEXT NOT NULL,    -- `peak`: more was resident than before, `tick`: `--pages`,
                                   -- `end`: right before the process ended
    way          TEXT NOT NULL,    -- `PAGEMAP_SCAN`, or `pagemap` of older kernels, which does not
                                   -- tell pages of zeros and huge pages apart
    page_bytes   INTEGER NOT NULL, -- [bytes] of a page
    rss          INTEGER NOT NULL, -- [bytes] VmRSS of /proc/PID/status before the look
    rss_after    INTEGER NOT NULL, -- [bytes] and behind it
    most_rss     INTEGER NOT NULL, -- [bytes] VmHWM: the most that had been resident by then
    swap         INTEGER NOT NULL, -- [bytes] VmSwap before it
    uncounted    INTEGER NOT NULL, -- [bytes] in `resident` and not in `rss`: HugetlbPages, pages of
                                   -- persistent memory (DAX), of devices
    resident     INTEGER NOT NULL, -- [bytes] found resident: the sum of its parts
    heap_pages   INTEGER NOT NULL, -- [pages] resident ones in which live blocks lay
    half_empty   INTEGER NOT NULL, -- [pages] of them, with live blocks in less than a half
    nearly_empty INTEGER NOT NULL, -- [pages] of them, in less than a tenth
    has_parts    INTEGER NOT NULL, -- [0 or 1] 0: of a peak that a higher one followed, the sum only
    pss          INTEGER           -- [bytes] Pss behind it: each page divided by who has it; NULL:
                                   -- not asked: more than 65,536 pages, or a peak of a process
                                   -- without relatives by fork
);

-- Whose the pages of a look were: resident + beside add up to `page_snapshot.resident`. *Which call
-- sites explain resident memory?*
CREATE TABLE page_part (
    snapshot_id INTEGER NOT NULL, -- `page_snapshot.id`
    run_id      INTEGER NOT NULL, -- `run.id`
    kind        TEXT NOT NULL,    -- `heap`: live blocks of a call site, `free`: the allocator's,
                                  -- `mapping`: mapped by the program, `stack`, `file`: pages of a
                                  -- file, `data`: written pages of its private mappings and its
                                  -- zeroed data, `shared`: memory shared by mapping, `tool`:
                                  -- memsight itself, `unmapping`: of mappings that were just
                                  -- taken away, not free yet, `other`
    stack_id    INTEGER,          -- `stack.id`: where it was allocated or mapped; 0: no stack
                                  -- recorded; NULL: neither heap nor mapping
    name        TEXT,             -- path or what the kernel calls the mapping; NULL: nothing
    n_blocks    INTEGER NOT NULL, -- [blocks] heap: live
    bytes       INTEGER NOT NULL, -- [bytes] asked for: resident + swapped + zero + untouched
    resident    INTEGER NOT NULL, -- [bytes] of them in memory
    beside      INTEGER NOT NULL, -- [bytes] heap: of pages that its blocks keep resident and no
                                  -- live block fills; divided by bytes where sites share a page
    swapped     INTEGER NOT NULL, -- [bytes] swapped out
    zero        INTEGER NOT NULL, -- [bytes] only read so far: the kernel's page of zeros
    untouched   INTEGER NOT NULL, -- [bytes] never touched, or given back to the kernel
    huge        INTEGER NOT NULL, -- [bytes] of resident, in huge pages
    shared      INTEGER,          -- [bytes] of resident + beside, in pages that other processes
                                  -- have, too; NULL: not asked: no relative by fork was alive, or
                                  -- there were too many pages (docs/pages.md)
    node_bytes  TEXT              -- [bytes] of resident + beside on each NUMA node, JSON {"0":
                                  -- bytes, ...}; NULL: one node
);

-- Intervals of `--source pages`: each touch of a page in one was seen. *How large is the working
-- set?*
CREATE TABLE page_interval (
    id         INTEGER PRIMARY KEY, -- number of the row
    run_id     INTEGER NOT NULL, -- `run.id`
    process_id INTEGER NOT NULL, -- `process.id`
    begin_ns   INTEGER NOT NULL, -- [ns] marks were cleared: from here on each touch was seen
    end_ns     INTEGER NOT NULL, -- [ns] until here; touches up to the next `begin_ns` may be missed
    read_ns    INTEGER NOT NULL, -- [ns] all marks were read: some touches up to here are counted
    page_bytes INTEGER NOT NULL, -- [bytes] of a page
    resident   INTEGER NOT NULL, -- [bytes] in memory at its end, of all mappings but pages of zeros
    touched    INTEGER NOT NULL, -- [bytes] of them, in pages that were read or written
    own_ns     INTEGER NOT NULL, -- [ns] of CPU time that the recorder took for it
    program_ns INTEGER NOT NULL, -- [ns] that marks cost the program, as measured on its host
    is_end     INTEGER NOT NULL  -- [0 or 1] it ended with the process
);

-- Touched pages of each mapping. A row holds for several intervals one behind the other, if nothing
-- changed. *Which mappings are cold?*
CREATE TABLE page_run (
    run_id      INTEGER NOT NULL, -- `run.id`
    process_id  INTEGER NOT NULL, -- `process.id`
    address     INTEGER NOT NULL, -- where the mapping begins
    size        INTEGER NOT NULL, -- [bytes] of it
    kind        TEXT NOT NULL,    -- `anonymous`, `stack` of the main thread, `file`: of a file or
                                  -- shared (touches of others may be among them), `hugetlb`:
                                  -- touches are not known, `tool`: memsight itself
    has_huge    INTEGER NOT NULL, -- [0 or 1] part of it in huge pages, which count as a whole
    begin_ns    INTEGER NOT NULL, -- [ns] the first interval began
    end_ns      INTEGER NOT NULL, -- [ns] the last one ended
    n_intervals INTEGER NOT NULL, -- [intervals] with the same bytes
    resident    INTEGER NOT NULL, -- [bytes] in memory in each of them
    touched     INTEGER NOT NULL, -- [bytes] of them, touched in each of them
    node_bytes  TEXT              -- [bytes] of resident on each NUMA node, JSON {"0": bytes, ...};
                                  -- NULL: one node
);

-- Touched pages of each call site. What is known is the sum of each mapping: so a site has a least
-- and a most. A row holds for several intervals, as in `page_run`. *Which call sites are cold?*
CREATE TABLE page_touch (
    run_id      INTEGER NOT NULL, -- `run.id`
    process_id  INTEGER NOT NULL, -- `process.id`
    kind        TEXT NOT NULL,    -- `heap`: live blocks, `mapping`: mapped by the program
    stack_id    INTEGER NOT NULL, -- `stack.id`: where they were allocated; 0: no stack recorded
    begin_ns    INTEGER NOT NULL, -- [ns] the first interval began
    end_ns      INTEGER NOT NULL, -- [ns] the last one ended
    n_intervals INTEGER NOT NULL, -- [intervals] with the same bytes
    size        INTEGER NOT NULL, -- [bytes] of all pages that they lie in; of a mapping those next
                                  -- to resident ones, with the same access
    resident    INTEGER NOT NULL, -- [bytes] of them that are certainly in memory
    least       INTEGER NOT NULL, -- [bytes] of these that were certainly touched
    most        INTEGER NOT NULL, -- [bytes] that can have been touched: the others were not
    has_ended   INTEGER NOT NULL, -- [0 or 1] blocks of it ended in the interval, which is one then:
                                  -- how these were touched is not known
    node_touched TEXT             -- [bytes] touched on each NUMA node, at least and at most, JSON
                                  -- {"0": [least, most], ...}; NULL: one node
);

-- When each block of 64 KiB or more, and mapping of the program, was touched first and last, as
-- `--source pages` saw it. Before the first interval, and between two, touches are not seen. *When
-- was this buffer used last?*
CREATE TABLE page_block (
    run_id        INTEGER NOT NULL, -- `run.id`
    process_id    INTEGER NOT NULL, -- `process.id`: a fork has its parent's blocks, too
    kind          TEXT NOT NULL,    -- `heap`, `mapping`
    owner_id      INTEGER NOT NULL, -- `allocation.id`, `mapping.id`
    first_from_ns INTEGER,          -- [ns] not touched before; NULL: not touched in any interval
    first_to_ns   INTEGER,          -- [ns] touched by then; NULL: it is not known that it was
    last_from_ns  INTEGER,          -- [ns] touched since then; NULL: as first_to_ns
    last_to_ns    INTEGER,          -- [ns] not touched behind that, nor after its end
    n_intervals   INTEGER NOT NULL, -- [intervals] at whose ends it lived, its mapping resident
    size          INTEGER NOT NULL, -- [bytes] of the pages that it lies in
    resident      INTEGER NOT NULL, -- [bytes] of them certainly in memory, the most of any interval
    least         INTEGER NOT NULL, -- [bytes] certainly touched, the most of any interval
    most          INTEGER NOT NULL, -- [bytes] touched at most, the most of any interval
    write_known   INTEGER NOT NULL, -- [bytes] of pages that lie in it as a whole, of which some
                                    -- interval says whether they were written
    written       INTEGER NOT NULL, -- [bytes] of these pages, written in any; the others never were
    last_write_ns INTEGER           -- [ns] end of the last interval of writes in which one of them
                                    -- was; where last_to_ns is not later, nobody has read it since;
                                    -- NULL: in none
);

-- Intervals of `--source pages` in which the kernel noted each written page by itself. *How much is
-- written?*
CREATE TABLE write_interval (
    run_id     INTEGER NOT NULL, -- `run.id`
    process_id INTEGER NOT NULL, -- `process.id`
    begin_ns   INTEGER NOT NULL, -- [ns] from here on each write was noted
    end_ns     INTEGER NOT NULL, -- [ns] up to here; that of `page_interval` lies within
    page_bytes INTEGER NOT NULL, -- [bytes] of a page
    known      INTEGER NOT NULL, -- [bytes] of pages of which it is known, written or not
    written    INTEGER NOT NULL, -- [bytes] of them, written
    own_ns     INTEGER NOT NULL, -- [ns] of CPU time that asking took
    program_ns INTEGER NOT NULL  -- [ns] that first writes cost the program, as measured on its host
);

-- Pages one behind the other of which the same is known. A row holds for several intervals, as in
-- `page_run`; of pages without a row nothing is known. *Which pages were never written?*
CREATE TABLE page_write (
    run_id      INTEGER NOT NULL, -- `run.id`
    process_id  INTEGER NOT NULL, -- `process.id`
    address     INTEGER NOT NULL, -- of the first one
    size        INTEGER NOT NULL, -- [bytes] of all
    state       TEXT NOT NULL,    -- `written`: each was, `clean`: none was, `huge`, `new` to being
                                  -- watched: not known
    begin_ns    INTEGER NOT NULL, -- [ns] the first interval began
    end_ns      INTEGER NOT NULL, -- [ns] the last one ended
    n_intervals INTEGER NOT NULL  -- [intervals] in each of which it is so
);

-- Written pages of each call site. A page may have parts of several. A row holds for several
-- intervals, as in `page_run`. *Who writes, and what is only read?*
CREATE TABLE site_write (
    run_id      INTEGER NOT NULL, -- `run.id`
    process_id  INTEGER NOT NULL, -- `process.id`
    kind        TEXT NOT NULL,    -- `heap`: blocks that lived at its end, `mapping`
    stack_id    INTEGER NOT NULL, -- `stack.id`: where they were allocated; 0: no stack recorded
    begin_ns    INTEGER NOT NULL, -- [ns] the first interval began
    end_ns      INTEGER NOT NULL, -- [ns] the last one ended
    n_intervals INTEGER NOT NULL, -- [intervals] with the same bytes
    size        INTEGER NOT NULL, -- [bytes] of all pages that they lie in
    known       INTEGER NOT NULL, -- [bytes] of them of which it is known, written or not
    least       INTEGER NOT NULL, -- [bytes] of these, written, and inside one of its blocks as a
                                  -- whole since before the interval
    most        INTEGER NOT NULL  -- [bytes] of these, written: the others were not
);

-- Values counted over the run. *How many cycles did it take?*
CREATE TABLE counter (
    run_id     INTEGER NOT NULL, -- `run.id`
    process_id INTEGER,          -- `process.id`; NULL: the whole run
    name       TEXT NOT NULL,    -- what was counted
    value      INTEGER NOT NULL, -- [`unit`] the count, not scaled
    unit       TEXT NOT NULL,    -- of `value`
    enabled_ns INTEGER,          -- [ns] how long it was meant to count; NULL: not known
    running_ns INTEGER           -- [ns] how long it did: less, where counters took turns
);

-- Everything that was not recorded or cannot be used. No row: nothing was lost. *What is missing?*
CREATE TABLE loss (
    run_id     INTEGER NOT NULL REFERENCES run(id),
    process_id INTEGER,           -- `process.id`; NULL: the whole run
    thread_id  INTEGER,           -- `thread.id`; NULL: the whole process
    source     TEXT NOT NULL,     -- tracealloc or clock or faults or collector or trace or analyze
    reason     TEXT NOT NULL,     -- in words
    count      INTEGER NOT NULL,  -- [by reason] of events, samples or what the reason says
    from_ns    INTEGER,           -- [ns] NULL: not known
    to_ns      INTEGER            -- [ns] NULL: not known
);

-- ## Code

-- A loaded file, for the time that it was mapped. *Which libraries have no line numbers?*
CREATE TABLE module (
    id         INTEGER PRIMARY KEY, -- number of the row
    run_id     INTEGER NOT NULL REFERENCES run(id),
    process_id INTEGER NOT NULL REFERENCES process(id),
    path       TEXT NOT NULL,     -- of the file
    build_id   TEXT,              -- hex
    bias       INTEGER NOT NULL,  -- [address] address = ELF address + bias
    start      INTEGER NOT NULL,  -- [address] first address of it
    end        INTEGER NOT NULL,  -- [address] behind its last address
    load_ns    INTEGER NOT NULL,  -- [ns] when it was mapped
    unload_ns  INTEGER,           -- [ns] NULL: until the process or the trace ended
    debug_info TEXT               -- lines or symbols or none; NULL: not looked at
);

-- A code address, independent of run and process. *Which functions are known of libc?*
CREATE TABLE frame (
    id       INTEGER PRIMARY KEY, -- number of the row
    object   TEXT NOT NULL,     -- build-id in hex, else path; '' = no module
    path     TEXT NOT NULL,     -- of the file; '' = no module
    offset   INTEGER NOT NULL,  -- [address] ELF address (return address - 1 for callers)
    function TEXT,              -- innermost, demangled; "(behind A, B)": it has no name, and A and
                                -- B end in a jump to it; NULL: unknown
    user_depth INTEGER          -- `frame_line.depth` of its innermost function that is the
                                -- program's (0 without lines); NULL: it is a library's, or only
                                -- hands on to an allocator
);

-- Source positions of a frame; inlined functions have a row each. *What was inlined there?*
CREATE TABLE frame_line (
    frame_id INTEGER NOT NULL REFERENCES frame(id),
    depth    INTEGER NOT NULL,  -- 0 is the innermost inlined function
    function TEXT NOT NULL,     -- name, demangled
    file     TEXT,              -- source file, with its folder of compilation where known
                                -- that; NULL: not known
    line     INTEGER,           -- NULL: not known
    line_column INTEGER,        -- [bytes] where in the line, from 1; NULL: not known
    call     TEXT,              -- what other calls of its line do not have: "A = malloc(…)"
                                -- of the source, or ":17", its column; of a static initialiser the
                                -- variable; NULL: nothing need be
    PRIMARY KEY (frame_id, depth)
) WITHOUT ROWID;

-- A path of calls: a row is its innermost frame, `parent_id` its caller's path. *How deep are the
-- stacks that allocate?*
CREATE TABLE stack (
    id        INTEGER PRIMARY KEY, -- the path of calls whose innermost frame this row is
    parent_id INTEGER REFERENCES stack(id), -- the caller's path; NULL: outermost known
    frame_id  INTEGER REFERENCES frame(id), -- `frame.id`: NULL: truncated, see stop
    stop      TEXT,              -- why it could not be followed further out
    depth     INTEGER NOT NULL,  -- [calls] 1 = outermost
    user_id   INTEGER REFERENCES stack(id) -- the program's innermost call on the path: what lies
                                 -- behind it are calls of libraries; NULL: there is none
);

-- ## Memory

-- One row per block of the heap. *Which blocks lived longest?*
CREATE TABLE allocation (
    id                     INTEGER PRIMARY KEY, -- number of the allocation: in order of
                                               -- `allocated_ns`
    run_id                 INTEGER NOT NULL,  -- `run.id`
    process_id             INTEGER NOT NULL,  -- `process.id`
    thread_id              INTEGER NOT NULL,  -- `thread.id`: that allocated
    address                INTEGER NOT NULL,  -- [address] first byte of the block
    size                   INTEGER NOT NULL,  -- [bytes] asked for
    allocated_ns           INTEGER NOT NULL,  -- [ns] when the call that made it returned
    freed_ns               INTEGER,           -- [ns] when it was given back; NULL: not before its
                                              -- process or the trace ended
    freed_thread_id        INTEGER,           -- `thread.id`: who gave it back
    stack_id               INTEGER,           -- `stack.id`: who asked for it; NULL: not recorded
    call                   INTEGER NOT NULL,  -- `call.id`: the function that made it
    end_kind               INTEGER NOT NULL,  -- 0 alive at the end, 1 freed, 2 realloc, 3 missed
                                              -- free, 4 process ended by exec, 5 its pool was
                                              -- reset, 6 what it lies in was given back
    previous_allocation_id INTEGER,           -- the block that realloc turned into this one
    free_call              INTEGER,           -- `call.id`: the function that gave it back; NULL:
                                              -- none did
    kind                   INTEGER,           -- `heap_kind.id`; NULL: libc's heap
    stands_for             REAL NOT NULL DEFAULT 1, -- [blocks] so many: 1, but for those picked by
                                               -- --sample-bytes (docs/production.md)
    within_id              INTEGER,           -- `allocation.id`: the block that it lies in, of
                                              -- which its bytes are no more; NULL: it lies in none
    pool_id                INTEGER            -- `pool.id`; NULL: a block of malloc
);

-- Pools of allocators of the program's own. *Which pool holds how much?*
CREATE TABLE pool (
    id          INTEGER PRIMARY KEY, -- in order of `first_ns`
    run_id      INTEGER NOT NULL,  -- `run.id`
    process_id  INTEGER NOT NULL,  -- `process.id`
    address     INTEGER NOT NULL,  -- [address] the handle by which the program knows it; 0: blocks
                                   -- of no pool
    allocator   TEXT NOT NULL,     -- whose it is: `memsight.h`, or the name of a function or preset
    first_ns    INTEGER NOT NULL,  -- [ns] its first block
    last_ns     INTEGER NOT NULL,  -- [ns] the last begin or end of a block
    n_blocks    INTEGER NOT NULL,  -- [blocks] that it handed out
    bytes       INTEGER NOT NULL,  -- [bytes] of these
    live_blocks INTEGER NOT NULL,  -- [blocks] not given back at the end
    live_bytes  INTEGER NOT NULL,  -- [bytes] of these
    peak_bytes  INTEGER NOT NULL,  -- [bytes] the most that was live at once
    n_resets    INTEGER NOT NULL,  -- times that all its blocks ended at once
    n_cut       INTEGER NOT NULL   -- [blocks] that ended since what they lay in was given back
);

-- Mapped memory. *What was mapped and never unmapped?*
CREATE TABLE mapping (
    id                  INTEGER PRIMARY KEY, -- number of the row
    run_id              INTEGER NOT NULL,  -- `run.id`
    process_id          INTEGER NOT NULL,  -- `process.id`
    thread_id           INTEGER,           -- `thread.id` that mapped it; NULL: not known
    address             INTEGER NOT NULL,  -- [address] first byte
    size                INTEGER NOT NULL,  -- [bytes] whole pages
    allocated_ns        INTEGER NOT NULL,  -- [ns] when it was made
    freed_ns            INTEGER,           -- [ns] when it was unmapped; NULL: not seen
    stack_id            INTEGER,           -- `stack.id`: who asked for it; NULL: not recorded
    call                INTEGER,           -- `call.id`; NULL: it was there before the trace
    prot                INTEGER NOT NULL,  -- PROT_*
    flags               INTEGER NOT NULL,  -- MAP_*
    path                TEXT,              -- of the file, or `[heap]`, `[stack]` ...; NULL: none
    is_nested           INTEGER NOT NULL,  -- [0 or 1] made by an allocator inside a traced call
    previous_mapping_id INTEGER,           -- mremap, or what was left of a partly unmapped one
    seen                INTEGER NOT NULL DEFAULT 0 -- 0 by a call of the program, 1 there when the
                                           -- trace began, 2 by the kernel's records only
                                           -- (see *Names and numbers*)
);

-- Advice, protection and locks of mapped memory, and moves of the break. *How much memory was given
-- back by madvise?*
CREATE TABLE mapping_event (
    id         INTEGER PRIMARY KEY, -- number of the row
    run_id     INTEGER NOT NULL,  -- `run.id`
    process_id INTEGER NOT NULL,  -- `process.id`
    thread_id  INTEGER NOT NULL,  -- `thread.id`
    time_ns    INTEGER NOT NULL,  -- [ns] when
    call       INTEGER NOT NULL,  -- madvise, mprotect, mlock ..., brk, sbrk: names in table call
    address    INTEGER NOT NULL,  -- [address] 0 with size 0: all of the process's memory
    size       INTEGER NOT NULL,  -- [bytes] whole pages; brk, sbrk: bytes that the break moved
    detail     INTEGER NOT NULL,  -- madvise: MADV_*; mprotect: PROT_*; mlock: flags; brk, sbrk: the
                                  -- break afterwards
    mapping_id INTEGER,           -- the mapping that address lay in; NULL: none that is known
    stack_id   INTEGER,           -- `stack.id`: who called; NULL: not recorded
    is_nested  INTEGER NOT NULL   -- [0 or 1] made by an allocator inside a traced call
);

-- Global variables that were touched. *Which variables took time?*
CREATE TABLE symbol (
    id     INTEGER PRIMARY KEY, -- number of the row
    object TEXT NOT NULL,     -- build-id, else path
    path   TEXT NOT NULL,     -- of the file
    name   TEXT NOT NULL,     -- demangled; '[.data]' etc. where no symbol covers it
    offset INTEGER NOT NULL,  -- [address] ELF address
    size   INTEGER NOT NULL,  -- [bytes] of the variable
    UNIQUE (object, offset, name)
);

-- Names of functions. *By which functions were blocks made?*
CREATE TABLE call (
    id   INTEGER PRIMARY KEY, -- enum trace_call of schemas/trace-format.h
    name TEXT NOT NULL      -- `malloc`, `operator new[]`, `mmap` ...
);

-- Kinds of memory. *Which kinds were used?*
CREATE TABLE heap_kind (
    id   INTEGER PRIMARY KEY, -- number of the row
    name TEXT NOT NULL UNIQUE -- `pmem`, `hbw` ..., `libc` or `spilled`
);

-- Addresses of the heap of each process. *Where did the heap lie?*
CREATE TABLE heap_range (
    run_id     INTEGER NOT NULL,  -- `run.id`
    process_id INTEGER NOT NULL REFERENCES process(id),
    kind_id    INTEGER NOT NULL REFERENCES heap_kind(id),
    place      TEXT NOT NULL,     -- folder, or nodes ('node 0,2'); may be empty
    start      INTEGER NOT NULL,  -- [address] address
    size       INTEGER NOT NULL,  -- [bytes] bytes of addresses; what of it is used, memory lies
                                  -- behind
    allocated_ns INTEGER NOT NULL  -- [ns] from when on
);

-- ## Accesses

-- Where samples came from; one that could not be opened stands with its error and remedy. *At what
-- period was CPU time sampled?*
CREATE TABLE source (
    id             INTEGER PRIMARY KEY, -- number of the row
    run_id         INTEGER NOT NULL REFERENCES run(id),
    number         INTEGER NOT NULL,  -- source_id of the trace
    name           TEXT NOT NULL,     -- clock or faults or tasks ...
    measures       TEXT NOT NULL,     -- `time` (of the CPU), `fault`, `access`, `watch` (all
                                      -- accesses to chosen bytes), or `tasks` (nothing: it has no
                                      -- samples)
    unit           TEXT NOT NULL,     -- 'ns of user CPU time', 'page faults' ...
    period         INTEGER,           -- [the source's] in that unit
    exclude_kernel INTEGER NOT NULL,  -- [0 or 1] 1: samples in the kernel are left out
    error          INTEGER NOT NULL,  -- errno; 0: it ran
    remedy         TEXT,              -- what a user can do about the error
    n_samples      INTEGER NOT NULL DEFAULT 0, -- [samples] samples that it gave
    process_ns     INTEGER,           -- [ns] lives of the traced processes, added up; NULL: not
                                      -- known
    withheld_ns    INTEGER,           -- [ns] of them, without samples of this source on request
    n_withheld     INTEGER NOT NULL DEFAULT 0, -- [samples] samples that were left out therefore
    event          TEXT,              -- the event as asked for or found
    kind           INTEGER,           -- 1 time, 2 time and registers, 3 fault, 4 access, 5 IBS, 6
                                      -- SPE, 7 watch, 8 tasks, 9 pages, 10 calls
    direction      INTEGER,           -- 0 each sample says, 1 loads, 2 stores
    precise        INTEGER,           -- precise_ip: 0 arbitrary skid ... 3 none
    min_latency    INTEGER,           -- [cycles] loads below it are not sampled; 0: all
    perf_type      INTEGER,           -- as of perf_event_open
    perf_config    INTEGER,           -- as of perf_event_open
    perf_config1   INTEGER,           -- as of perf_event_open
    watch_address  INTEGER,           -- [address] what is watched: its first byte
    watch_size     INTEGER,           -- [bytes] how much of it
    note           TEXT,              -- what was given up while opening
    passed_over    INTEGER NOT NULL DEFAULT 0, -- [0 or 1] 1: `auto` tried it and took a lesser one;
                                      -- `error` and `remedy` say why
    unsampled_ns   INTEGER            -- [ns] CPU time of the program and its waited-for children
                                      -- (rusage; as far as the source samples user code, the kernel
                                      -- or both) that no sample stands for: of threads that ended
                                      -- before their first sample, and where interrupts came late;
                                      -- less what the kernel's division of time into user and
                                      -- system may err by; it may be anybody's; NULL: not known
);

-- What each source that ran gave, and what it did not. *How many samples found the ring full?*
CREATE TABLE source_ledger (
    source_id       INTEGER PRIMARY KEY REFERENCES source(id),
    run_id          INTEGER NOT NULL,  -- `run.id`
    is_complete     INTEGER NOT NULL,  -- [0 or 1] 1: as the recorder said at the end; 0: it was
                                       -- killed, and this is what the trace shows
    n_taken         INTEGER NOT NULL,  -- [samples] read from the kernel
    n_lost          INTEGER NOT NULL,  -- [samples] found the ring full
    lost_is_exact   INTEGER NOT NULL,  -- [0 or 1] 1: n_lost is the kernel's own count; 0: it misses
                                       -- the last ones
    n_hardware_lost INTEGER NOT NULL,  -- [samples] dropped by hardware or driver
    n_dropped       INTEGER NOT NULL,  -- [samples] read, and not stored: recording had stopped
    n_throttles     INTEGER NOT NULL,  -- [times] times that the kernel stopped the source until its
                                       -- next tick
    throttled_ns    INTEGER NOT NULL,  -- [ns] time without samples for that, added over CPUs
    bad_bytes       INTEGER NOT NULL,  -- [bytes] bytes in which no record was found
    n_aux_truncated INTEGER NOT NULL,  -- [pieces] pieces of AUX bytes: the area was full
    n_aux_partial   INTEGER NOT NULL,  -- [pieces] they have gaps
    n_aux_collision INTEGER NOT NULL,  -- [samples] samples were due while the one before was under
                                       -- way
    n_behind        INTEGER NOT NULL,  -- [times] times that the recorder found a ring more than
                                       -- three quarters full
    weight          INTEGER NOT NULL,  -- [the source's] of all samples that are rows, added up, in
                                       -- the source's unit
    n_undecodable   INTEGER NOT NULL,  -- [samples] damaged, without registers, or without the code
                                       -- that they are in
    n_no_memory     INTEGER NOT NULL,  -- [samples] of instructions that access no memory
    n_outside       INTEGER NOT NULL,  -- [samples] of an unknown process
    n_zero          INTEGER NOT NULL,  -- [samples] address 0: the hardware did not know it
    n_kernel        INTEGER NOT NULL,  -- [samples] address in the kernel
    n_no_clock      INTEGER NOT NULL,  -- [samples] time that nothing converts
    scale           REAL NOT NULL      -- to stand for what was lost as well, counts and times of
                                       -- this source are multiplied by this: (taken + lost) /
                                       -- taken; of CPU time also what was throttled
);

-- One row per sample, whatever it resolved to. *When were samples taken in the kernel?*
CREATE TABLE sample (
    id         INTEGER PRIMARY KEY, -- number of the row, in the order in which owners were decided
    run_id     INTEGER NOT NULL,  -- `run.id`
    source_id  INTEGER NOT NULL REFERENCES source(id),
    process_id INTEGER,           -- `process.id`; NULL: not known
    thread_id  INTEGER,           -- `thread.id`; NULL: not known
    time_ns    INTEGER NOT NULL,  -- [ns] when it was taken
    frame_id   INTEGER,           -- `frame.id`: of the instruction pointer
    stack_id   INTEGER,           -- `stack.id`: NULL: not taken
    weight     INTEGER NOT NULL,  -- [the source's] what it stands for, in its source's unit
    is_kernel  INTEGER NOT NULL   -- [0 or 1] 1: taken in the kernel
);

-- One row per resolved access of a sample; of many that are alike some are drawn, see above.
-- *Which addresses were written to?*
CREATE TABLE touch (
    sample_id  INTEGER NOT NULL,  -- `sample.id`
    run_id     INTEGER NOT NULL,  -- `run.id`
    role       INTEGER NOT NULL,  -- 0 exact, 1 window (time), 2 stall, 3 fault, 5 mix of a loop
    share      REAL NOT NULL,     -- [0 to 1] part of the sample's weight; adds up to 1 per sample
                                  -- and role
    address    INTEGER,           -- [address] NULL: not resolved
    size       INTEGER,           -- [bytes] bytes accessed; NULL: not known
    is_write   INTEGER,           -- [0 or 1] NULL: not known
    owner_kind INTEGER NOT NULL REFERENCES owner(id),
    owner_id   INTEGER,           -- heap: allocation.id, mapping: mapping.id, stack and tls:
                                  -- thread.id, global: symbol.id
    phase      INTEGER NOT NULL,  -- 0 in use, 1 allocating, 2 freeing, 3 the kernel at work for it
    frame_id   INTEGER,           -- `frame.id`: of the accessing instruction
    data_src   INTEGER            -- raw perf word; NULL: the source has none
);

-- What the words of `touch.data_src` and `access_total.data_src` mean, for all that were seen.
-- NULL: the word does not say. *Which of the words mean another node's memory?*
CREATE TABLE data_source (
    data_src  INTEGER PRIMARY KEY, -- perf's word (`union perf_mem_data_src`), in the numbering of
                                 -- little-endian hosts
    op        TEXT,              -- `load`, `store`, `prefetch`, `exec`, or several joined by `and`
    level     TEXT,              -- where the data was: `L1`, `L2`, `L3`, `L4`, `LFB/MAB` (a fill
                                 -- buffer: on its way already), `RAM`, `remote RAM`, `remote
                                 -- cache`, `PMEM`, `CXL`, `I/O`, `uncached` ...
    hit       TEXT,              -- `hit`, or `miss`: it was not there
    snoop     TEXT,              -- what other caches had: `none`, `hit`, `miss`, `HitM` (modified),
                                 -- `forwarded`, `peer`
    tlb       TEXT,              -- such as `L1 or L2 hit`, `L2 miss`, `walker hit`
    is_locked INTEGER,           -- 1: an atomic or locked operation
    is_remote INTEGER,           -- 1: of another node or socket
    hops      INTEGER,           -- 0 none, 1 another core, 2 another node, 3 another socket, 4
                                 -- another board
    blocked   TEXT               -- what a load had to wait for before it was done: `data`,
                                 -- `address`
);

-- What a sampled access or page fault has beside its touch; no row where that is nothing. *Which
-- pages of 4 KiB did the slowest loads touch?*
CREATE TABLE access_detail (
    sample_id        INTEGER PRIMARY KEY, -- `sample.id`
    run_id           INTEGER NOT NULL,  -- `run.id`
    latency          INTEGER,           -- [cycles] as the source measures it: PEBS until the data
                                        -- was there (with what it waited in the pipeline), IBS of
                                        -- loads that missed L1, SPE from issue to completion
    latency_2        INTEGER,           -- [cycles] PEBS with `WEIGHT_STRUCT`: of the instruction;
                                        -- SPE: from dispatch to completion
    latency_3        INTEGER,           -- [cycles] PEBS with `WEIGHT_STRUCT`: until it retired
    physical_address INTEGER,           -- [address] where it was allowed to be recorded
    page_bytes       INTEGER,           -- [bytes] of the page that was accessed
    node             INTEGER            -- page faults: NUMA node on which the page lay when the
                                        -- recorder asked, some ms later at most; NULL: the host has
                                        -- one node, or the page had gone
);

-- Kinds of owners. *What does `freed` mean?*
CREATE TABLE owner (
    id      INTEGER PRIMARY KEY, -- in order of precedence
    name    TEXT NOT NULL,     -- `heap`, `mapping`, `global`, `stack` ...
    meaning TEXT NOT NULL      -- in words
);

-- What `record --watch` watched. *How often was this variable written to?*
CREATE TABLE watch (
    id            INTEGER PRIMARY KEY, -- one row each time that something was armed; refused ones
                                     -- too
    run_id        INTEGER NOT NULL,  -- `run.id`
    number        INTEGER NOT NULL,  -- in order of arming, from 1
    target        TEXT NOT NULL,     -- as it was asked for
    process_id    INTEGER REFERENCES process(id), -- `process.id`: its forks are watched as well;
                                     -- NULL: refused
    address       INTEGER NOT NULL,  -- [address] first byte that is watched
    size          INTEGER NOT NULL,  -- [bytes] how much of it
    is_write_only INTEGER NOT NULL,  -- [0 or 1] 1: reads are not seen
    is_hot        INTEGER NOT NULL,  -- [0 or 1] 1: chosen by --watch-hot
    from_ns       INTEGER NOT NULL,  -- [ns] armed
    to_ns         INTEGER,           -- [ns] disarmed; NULL: refused
    armed_ns      INTEGER NOT NULL,  -- [ns] to_ns - from_ns, less what --watch-rate switched off
    n_reads       INTEGER NOT NULL,  -- [accesses] accesses: by an instruction that only reads
    n_writes      INTEGER NOT NULL,  -- [accesses] that only writes
    n_updates     INTEGER NOT NULL,  -- [accesses] that reads and writes (add to memory, atomics)
    n_unknown     INTEGER NOT NULL,  -- [accesses] whose instruction is not known
    owner_kind    INTEGER,           -- `owner.id`: of the first access; NULL: there was none
    owner_id      INTEGER,           -- as `touch.owner_id`
    note          TEXT               -- why it was refused; what of the object is watched
);
CREATE INDEX watch_run ON watch(run_id);

-- Accesses to what was watched, by thread. *Which thread wrote to it?*
CREATE TABLE watch_thread (
    run_id    INTEGER NOT NULL,  -- `run.id`
    watch_id  INTEGER NOT NULL REFERENCES watch(id),
    thread_id INTEGER REFERENCES thread(id), -- `thread.id`; NULL: not known
    n_reads   INTEGER NOT NULL,  -- [accesses] by instructions that only read
    n_writes  INTEGER NOT NULL,  -- [accesses] that only write
    n_updates INTEGER NOT NULL,  -- [accesses] that read and write
    n_unknown INTEGER NOT NULL   -- [accesses] whose instruction is not known
);
CREATE INDEX watch_thread_watch ON watch_thread(watch_id);

-- Times from one access to the next, in powers of two. *How soon is it used again?*
CREATE TABLE watch_reuse (
    run_id   INTEGER NOT NULL,  -- `run.id`
    watch_id INTEGER NOT NULL REFERENCES watch(id),
    log2_ns  INTEGER NOT NULL,  -- [ns] from 2^log2_ns ns to below twice that; 0: below 2 ns
    n        INTEGER NOT NULL,  -- [pairs of accesses] pairs of accesses
    n_other  INTEGER NOT NULL,  -- [pairs of accesses] of them, those of two threads
    PRIMARY KEY (watch_id, log2_ns)
) WITHOUT ROWID;

-- ## What the program says (api.md)

-- Trips through regions that the program set (at most 200,000 a run). *Which trip took longest?*
CREATE TABLE region (
    id        INTEGER PRIMARY KEY, -- one trip through a region
    run_id    INTEGER NOT NULL,  -- `run.id`
    thread_id INTEGER NOT NULL,  -- `thread.id`
    parent_id INTEGER,           -- `region.id` of the trip around it
    name      TEXT NOT NULL,     -- as the program calls it
    start_ns  INTEGER NOT NULL,  -- [ns] push
    end_ns    INTEGER,           -- [ns] pop; NULL: none
    path_id   INTEGER,           -- region_total.id
    ending    INTEGER NOT NULL DEFAULT 0, -- 0 popped, 1 by the pop of a region around it, 2 its
                                 -- thread or the trace ended
    n_blocks  INTEGER NOT NULL DEFAULT 0, -- [blocks] that the thread allocated in it
    bytes     INTEGER NOT NULL DEFAULT 0, -- [bytes] asked for by them
    n_samples INTEGER NOT NULL DEFAULT 0, -- [samples] clock: samples of the thread
    time_ns   INTEGER NOT NULL DEFAULT 0, -- [ns] clock: CPU time that they stand for, ns
    n_faults  INTEGER NOT NULL DEFAULT 0, -- [page faults] page faults of the thread
    cost_ns   INTEGER NOT NULL DEFAULT 0 -- [ns] what memsight took of start to end: `own_time`
);

-- Marks that the program set. *When was the input read?*
CREATE TABLE mark (
    run_id    INTEGER NOT NULL, -- `run.id`
    thread_id INTEGER,          -- `thread.id`: NULL: set from outside (`memsight ctl mark`)
    time_ns   INTEGER NOT NULL, -- [ns] when
    name      TEXT NOT NULL     -- as the program calls it
);

-- Parts of a run in which it was recorded; none: all of it was. *What did each window see?*
CREATE TABLE window (
    run_id     INTEGER NOT NULL, -- `run.id`
    number     INTEGER NOT NULL, -- from 1, in the order of time
    start_ns   INTEGER NOT NULL, -- [ns] from here on everything is recorded, but for allocations
                                 -- that were under way, at most one of each thread
    end_ns     INTEGER NOT NULL, -- [ns] up to here
    cause      TEXT NOT NULL,    -- why it began: 'start', 'ctl resume', 'after MARK', or the
                                 -- window of --windows
    live_bytes INTEGER NOT NULL, -- [bytes] in recorded blocks that lived when it began
    n_live     INTEGER NOT NULL, -- [blocks] of them
    PRIMARY KEY (run_id, number)
);

-- Names that the program gave to memory. *Which named object was touched most?*
CREATE TABLE object_name (
    id            INTEGER PRIMARY KEY, -- number of the row
    run_id        INTEGER NOT NULL,  -- `run.id`
    process_id    INTEGER NOT NULL,  -- `process.id`
    address       INTEGER NOT NULL,  -- [address] first byte that is named
    size          INTEGER NOT NULL,  -- [bytes] of what is named
    name          TEXT NOT NULL,     -- as the program calls it
    time_ns       INTEGER NOT NULL,  -- [ns] from when on it holds
    end_ns        INTEGER,           -- [ns] NULL: until its process or the trace ended
    allocation_id INTEGER            -- the block that it lies in; NULL: none
);

-- When the program withheld recording. *How long was it paused?*
CREATE TABLE withheld (
    run_id     INTEGER NOT NULL,  -- `run.id`
    process_id INTEGER NOT NULL REFERENCES process(id),
    thread_id  INTEGER,           -- `thread.id`: NULL: all threads of the process
    start_ns   INTEGER NOT NULL,  -- [ns] begin
    end_ns     INTEGER NOT NULL,  -- [ns] its own end, or that of its process or the trace
    classes    TEXT NOT NULL      -- that were collected all the same ('heap,faults'); '': it was
                                  -- paused
);

-- ## Aggregates

-- Aggregate: one row per call stack that allocated. *Who allocated most?*
CREATE TABLE site (
    run_id           INTEGER NOT NULL,  -- `run.id`
    stack_id         INTEGER NOT NULL,  -- `stack.id`: 0: no stack recorded
    n_blocks         INTEGER NOT NULL,  -- [blocks] allocated
    n_frees          INTEGER NOT NULL,  -- [blocks] of them, freed
    bytes            INTEGER NOT NULL,  -- [bytes] asked for in all
    live_blocks      INTEGER NOT NULL,  -- [blocks] not freed at the end
    live_bytes       INTEGER NOT NULL,  -- [bytes] not freed at the end
    exec_blocks      INTEGER NOT NULL DEFAULT 0, -- [blocks] of these, given back by an exec: their
                                        -- process became another program, so they are no leaks
    exec_bytes       INTEGER NOT NULL DEFAULT 0, -- [bytes] likewise
    peak_bytes       INTEGER NOT NULL,  -- [bytes] the most that was live at once, all processes;
                                        -- where blocks were picked: what was live when the run's
                                        -- live bytes were highest
    peak_ns          INTEGER NOT NULL,  -- [ns] when that was
    first_ns         INTEGER NOT NULL,  -- [ns] first allocation
    last_ns          INTEGER NOT NULL,  -- [ns] last free, or the run's end
    n_temporary      INTEGER,           -- [blocks] freed by the next event of the same thread;
                                        -- NULL: not known, blocks were picked
    n_reallocated    INTEGER NOT NULL DEFAULT 0, -- [blocks] that realloc ended: a new one took over
    byte_seconds     REAL NOT NULL,     -- [bytes x s] sum over blocks of size x lifetime in s
    n_samples        REAL NOT NULL,     -- [samples] clock: sum of shares
    n_samples_sq     REAL NOT NULL,     -- [samples] clock: sum over samples of (share)^2, for the
                                        -- interval
    time_ns          REAL NOT NULL,     -- [ns] clock: sum of share x weight
    n_faults         INTEGER NOT NULL,  -- [page faults] page faults in its blocks
    first_touch_ns   INTEGER,           -- [ns] of any sample or fault in use
    last_touch_ns    INTEGER,           -- [ns] the last one
    n_stalls         REAL NOT NULL DEFAULT 0, -- [samples] clock: samples that waited for its
                                        -- blocks, sum of shares
    n_stalls_sq      REAL NOT NULL DEFAULT 0, -- [samples] clock: sum over samples of (share)^2, for
                                        -- the interval
    n_imputed        REAL NOT NULL DEFAULT 0, -- [samples] clock: samples of time that could not be
                                        -- resolved, and whose instructions access this site
                                        -- otherwise; not in n_samples
    n_stalls_imputed REAL NOT NULL DEFAULT 0, -- [samples] likewise; not in n_stalls
    share            REAL,              -- [0 to 1] clock: its part of CPU time; NULL: these samples
                                        -- do not give one, it lies anywhere from `share_low` to
                                        -- `share_high`
    share_low        REAL,              -- [0 to 1] low end of its 95 % interval: of sampling, of
                                        -- what was not resolved, and of time without samples
    share_high       REAL,              -- [0 to 1] high end
    stall_share      REAL,              -- [0 to 1] likewise, of what was waited for
    stall_low        REAL,              -- [0 to 1] low end
    stall_high       REAL,              -- [0 to 1] high end
    n_picked         INTEGER NOT NULL DEFAULT 0, -- [blocks] that numbers of blocks and bytes are
                                        -- estimated from (--sample-bytes); 0: they are counted
    variance         REAL NOT NULL DEFAULT 0, -- [bytes^2] of the estimate `bytes`
    n_variance       REAL NOT NULL DEFAULT 0, -- [blocks^2] of the estimate `n_blocks`
    live_variance    REAL NOT NULL DEFAULT 0, -- [bytes^2] of the estimate `live_bytes`
    PRIMARY KEY (run_id, stack_id)
) WITHOUT ROWID;

-- Who probably made a block that was there before the attach. *Who holds what I did not see made?*
-- A guess from what its first words are, compared with blocks whose calls are known: no fact.
CREATE TABLE probable_site (
    run_id      INTEGER NOT NULL,  -- `run.id`
    process_id  INTEGER NOT NULL,  -- `process.id`
    address     INTEGER NOT NULL,  -- [address] of the block, live when the process was left
    size        INTEGER NOT NULL,  -- [bytes] that may be used
    frame_id    INTEGER NOT NULL,  -- `frame.id`: the program's call that probably made it
    probability REAL NOT NULL,     -- [0 to 1] that this is right, by `probable_test`; at least 0.9
    PRIMARY KEY (run_id, process_id, address)
) WITHOUT ROWID;

-- What such guesses are worth, by kind of block: tested on blocks whose calls are known.
-- *May I believe them?* The probability is made of these numbers (docs/attach.md).
CREATE TABLE probable_test (
    run_id          INTEGER NOT NULL,  -- `run.id`
    process_id      INTEGER NOT NULL,  -- `process.id`
    kind            TEXT NOT NULL,     -- what is known of such a block besides its size
    probability     REAL,              -- [0 to 1] that a guess is right; NULL: below 0.9, no guess
    guessed_blocks  INTEGER NOT NULL,  -- [blocks] of the older half, guessed by the younger one
    right_blocks    INTEGER NOT NULL,  -- [blocks] of them, rightly
    n_calls         INTEGER NOT NULL,  -- calls with 10 blocks or more, withheld one by one
    withheld_blocks INTEGER NOT NULL,  -- [blocks] of all calls that were withheld
    taken_blocks    INTEGER NOT NULL,  -- [blocks] of them, then given to another call
    before_blocks   INTEGER NOT NULL,  -- [blocks] from before the attach
    new_blocks      INTEGER NOT NULL,  -- [blocks] of them, which look like none that is known
    alike_blocks    INTEGER NOT NULL,  -- [blocks] of them, which look like those of one call
    PRIMARY KEY (run_id, process_id, kind)
) WITHOUT ROWID;

-- Aggregate: who was live when the run's live bytes were highest. *What is in the peak?*
CREATE TABLE site_peak (
    run_id   INTEGER NOT NULL, -- `run.id`
    stack_id INTEGER NOT NULL, -- `stack.id`: 0: no stack recorded
    n_blocks INTEGER NOT NULL, -- [blocks] live at that moment
    bytes    INTEGER NOT NULL, -- [bytes] live at that moment
    variance REAL NOT NULL DEFAULT 0, -- [bytes^2] of the estimate `bytes`; 0: counted
    PRIMARY KEY (run_id, stack_id)
) WITHOUT ROWID;

-- Aggregate: one row per thread that allocated, freed or was sampled. *Which thread allocated
-- most?*
CREATE TABLE thread_total (
    run_id      INTEGER NOT NULL, -- `run.id`
    thread_id   INTEGER NOT NULL, -- `thread.id`
    n_blocks    INTEGER NOT NULL, -- [blocks] that it allocated
    bytes       INTEGER NOT NULL, -- [bytes] asked for by it
    n_frees     INTEGER NOT NULL, -- [blocks] by it, of whosever blocks
    n_foreign   INTEGER NOT NULL, -- [blocks] of its blocks, those that another thread freed
    live_blocks INTEGER NOT NULL, -- [blocks] of its blocks, those not freed
    live_bytes  INTEGER NOT NULL, -- [bytes] of its blocks, those not freed
    n_temporary INTEGER NOT NULL, -- [blocks] freed by its next event
    n_samples   INTEGER NOT NULL, -- [samples] clock: taken while it ran
    time_ns     INTEGER NOT NULL, -- [ns] clock: sum of weights
    n_faults    INTEGER NOT NULL, -- [page faults] page faults while it ran
    PRIMARY KEY (run_id, thread_id)
) WITHOUT ROWID;

-- Aggregate: one row per call stack that samples were taken in, of runs whose samples have call
-- stacks of their own (`record --sample-stacks`). *Which call path takes most CPU time?*
CREATE TABLE sample_stack (
    run_id   INTEGER NOT NULL, -- `run.id`
    measures TEXT NOT NULL,    -- as `source.measures`
    stack_id INTEGER NOT NULL, -- `stack.id`
    n        INTEGER NOT NULL, -- [samples] how many
    weight   INTEGER NOT NULL, -- sum of their weights: of time in ns
    PRIMARY KEY (run_id, measures, stack_id)
) WITHOUT ROWID;

-- Aggregate: touches of all but the heap, by owner. *Which stack or variable was touched most?*
CREATE TABLE object_total (
    run_id           INTEGER NOT NULL,  -- `run.id`
    owner_kind       INTEGER NOT NULL,  -- `owner.id`
    owner_id         INTEGER NOT NULL,  -- as touch.owner_id; 0: none
    n_samples        REAL NOT NULL,     -- [samples] clock: sum of shares
    n_samples_sq     REAL NOT NULL,     -- [samples] clock: sum over samples of (share)^2, for the
                                        -- interval
    time_ns          REAL NOT NULL,     -- [ns] clock: sum of share x weight
    n_faults         INTEGER NOT NULL,  -- [page faults] page faults
    first_touch_ns   INTEGER NOT NULL,  -- [ns] the first touch seen
    last_touch_ns    INTEGER NOT NULL,  -- [ns] the last one
    n_stalls         REAL NOT NULL DEFAULT 0, -- [samples] as in `site`
    n_stalls_sq      REAL NOT NULL DEFAULT 0, -- [samples] as in `site`
    n_imputed        REAL NOT NULL DEFAULT 0, -- [samples] as in `site`
    n_stalls_imputed REAL NOT NULL DEFAULT 0, -- [samples] as in `site`
    share            REAL,              -- [0 to 1] clock: its part of CPU time, as in `site`; NULL:
                                        -- these samples do not give one, it lies anywhere from
                                        -- `share_low` to `share_high`
    share_low        REAL,              -- [0 to 1] low end of its 95 % interval: of sampling, of
                                        -- what was not resolved, and of time without samples
    share_high       REAL,              -- [0 to 1] high end
    stall_share      REAL,              -- [0 to 1] likewise, of what was waited for
    stall_low        REAL,              -- [0 to 1] low end
    stall_high       REAL,              -- [0 to 1] high end
    PRIMARY KEY (run_id, owner_kind, owner_id)
) WITHOUT ROWID;

-- Aggregate: the same for each kind of owner. *How much of the time is the heap's, at least and at
-- most?*
CREATE TABLE kind_share (
    run_id           INTEGER NOT NULL, -- `run.id`
    owner_kind       INTEGER NOT NULL, -- `owner.id`; 0: time that could be anybody's, of which
                                       -- `share_high` is the most
    n_samples        REAL NOT NULL,    -- [samples] clock: sum of shares that were resolved
    n_imputed        REAL NOT NULL,    -- [samples] clock: of those that were not, what the same
                                       -- instructions show; not in n_samples
    n_stalls         REAL NOT NULL,    -- [samples] clock: samples that waited for it
    n_stalls_imputed REAL NOT NULL,    -- [samples] likewise; not in n_stalls
    share            REAL,             -- [0 to 1] clock: its part of CPU time, as in `site`; NULL:
                                       -- these samples do not give one, it lies anywhere from
                                       -- `share_low` to `share_high`
    share_low        REAL,             -- [0 to 1] low end of its 95 % interval: of sampling, of
                                       -- what was not resolved, and of time without samples
    share_high       REAL,             -- [0 to 1] high end
    stall_share      REAL,             -- [0 to 1] likewise, of what was waited for
    stall_low        REAL,             -- [0 to 1] low end
    stall_high       REAL,             -- [0 to 1] high end
    PRIMARY KEY (run_id, owner_kind)
) WITHOUT ROWID;

-- Aggregate: samples by kind of owner; adds up to all of a source's samples. *Who owned what was
-- touched?*
CREATE TABLE owner_share (
    run_id     INTEGER NOT NULL, -- `run.id`
    source_id  INTEGER NOT NULL, -- `source.id`
    role       INTEGER NOT NULL, -- as `touch.role`
    owner_kind INTEGER NOT NULL, -- `owner.id`
    phase      INTEGER NOT NULL, -- as `touch.phase`
    n          REAL NOT NULL,    -- [samples] sum of shares
    n_sq       REAL NOT NULL,    -- [samples] sum over samples of (share)^2
    weight     REAL NOT NULL,    -- [the source's] in the source's unit
    PRIMARY KEY (run_id, source_id, role, owner_kind, phase)
) WITHOUT ROWID;

-- Page faults by owner and NUMA node, where the host has several: aggregate. Faults whose page had
-- gone before the recorder could ask are missing, and all where move_pages(2) is refused (`counter`
-- "page faults without a node"). *On which node do the pages of each call site lie?*
CREATE TABLE fault_node (
    run_id     INTEGER NOT NULL, -- `run.id`
    source_id  INTEGER NOT NULL, -- `source.id`
    owner_kind INTEGER NOT NULL, -- `owner.id`
    owner_id   INTEGER NOT NULL, -- heap: `stack_id` of the site; else as `touch.owner_id`; 0: none
    node       INTEGER NOT NULL, -- NUMA node
    n          INTEGER NOT NULL, -- [page faults] samples of the source
    PRIMARY KEY (run_id, source_id, owner_kind, owner_id, node)
) WITHOUT ROWID;

-- Aggregate: sampled accesses by source, owner and data source; adds up to the touches of role 0 of
-- such sources. *Which objects are read from another node's memory?*
CREATE TABLE access_total (
    run_id      INTEGER NOT NULL, -- `run.id`
    source_id   INTEGER NOT NULL, -- `source.id`
    owner_kind  INTEGER NOT NULL, -- `owner.id`
    owner_id    INTEGER NOT NULL, -- heap: `stack.id` of the site; else as `touch.owner_id`; 0: none
    data_src    INTEGER NOT NULL, -- `data_source.data_src`; 0: the source has none
    n           INTEGER NOT NULL, -- [samples] accesses that were sampled
    n_writes    INTEGER NOT NULL, -- [samples] of them, writes
    n_latencies INTEGER NOT NULL, -- [samples] of them, with a latency
    latency     INTEGER NOT NULL, -- [cycles] their sum
    latency_sq  REAL NOT NULL,    -- [cycles^2] sum of their squares
    PRIMARY KEY (run_id, source_id, owner_kind, owner_id, data_src)
) WITHOUT ROWID;

-- Aggregate: pairs of threads that come back to a line of 64 bytes after each other, at least one
-- of them writing. *Where is false sharing?*
CREATE TABLE shared_line (
    run_id           INTEGER NOT NULL, -- `run.id`
    process_id       INTEGER NOT NULL, -- `process.id`
    address          INTEGER NOT NULL, -- [address] of the line
    thread_id        INTEGER NOT NULL, -- `thread.id`
    other_thread_id  INTEGER NOT NULL, -- `thread.id` of the other
    n_touches        INTEGER NOT NULL, -- [touches] of both, between two turns of the other
    n_writes         INTEGER NOT NULL, -- [touches] of them, writes
    n_changes        INTEGER NOT NULL, -- [touches] touches by the one after the other, also the
                                       -- first and the last; at least 4
    n_same           INTEGER NOT NULL, -- [turns] that met bytes which the other touched of late,
                                       -- one of them writing: true sharing
    n_apart          INTEGER NOT NULL, -- [turns] that met other bytes of the line only, one of them
                                       -- writing: false sharing
    time_ns          REAL NOT NULL,    -- [ns] clock: sum of share x weight
    n_samples        REAL NOT NULL,    -- [samples] clock: sum of shares
    n_samples_sq     REAL NOT NULL,    -- [samples] clock: sum over samples of share^2, for the
                                       -- interval
    n_hitm           INTEGER NOT NULL, -- [touches] of the line, by anybody: found it modified in
                                       -- another cache
    bytes            INTEGER NOT NULL, -- [bit mask] bit i: byte i touched by the thread
    other_bytes      INTEGER NOT NULL, -- [bit mask] bit i: byte i touched by the other one
    written          INTEGER NOT NULL, -- [bit mask] bit i: byte i written by the thread
    other_written    INTEGER NOT NULL, -- [bit mask] bit i: byte i written by the other one
    owner_kind       INTEGER NOT NULL, -- `owner.id`: of what the thread touched
    owner_id         INTEGER,          -- as `touch.owner_id`
    stack_id         INTEGER,          -- `stack.id`: of a block, or of the one that a named object
                                       -- lies in: where it was allocated; else NULL
    other_owner_kind INTEGER NOT NULL, -- `owner.id`: of what the other one touched
    other_owner_id   INTEGER,          -- the same of the other
    other_stack_id   INTEGER,          -- the same of the other
    first_ns         INTEGER NOT NULL, -- [ns] the first touch
    last_ns          INTEGER NOT NULL  -- [ns] the last one
);

-- What stands out, by the rules of docs/findings.md; `report --findings` writes the sentences.
-- *What should be looked at first?*
CREATE TABLE finding (
    run_id     INTEGER NOT NULL, -- `run.id`
    number     INTEGER NOT NULL, -- from 1: the largest weight comes first
    rule       TEXT NOT NULL,    -- as docs/findings.md calls it: `leak`, `hot` ...
    text       TEXT NOT NULL,    -- a sentence; `{}` stands for the name of what it is about
    next       TEXT NOT NULL,    -- the option of `memsight report` that shows more: `--leaks` ...
    size       REAL NOT NULL,    -- [by unit] how much it is; `low` where only a range is known
    low        REAL NOT NULL,    -- [by unit] low end of its 95 % interval; counted: `size`
    high       REAL NOT NULL,    -- [by unit] high end; counted: `size`
    unit       TEXT NOT NULL,    -- `bytes`, `blocks`, `page faults`, `CPU time`, `accesses`; the
                                 -- last two as shares, 0 to 1
    whole      REAL NOT NULL,    -- [by unit] what it is a part of; of shares 1
    whole_is   TEXT NOT NULL,    -- what that is: `peak`, `all blocks`, `CPU time` ...
    weight     REAL NOT NULL,    -- [0 to 1] `low` / `whole`
    threshold  TEXT NOT NULL,    -- from which size on the rule says it, in words
    owner_kind INTEGER NOT NULL, -- `owner.id`: of what it is about; 0: of the whole run
    owner_id   INTEGER NOT NULL, -- heap: `stack.id` of its largest site; else as `touch.owner_id`;
                                 -- 0: none
    n_paths    INTEGER NOT NULL, -- [call paths] that the sentence joins, with one name
    PRIMARY KEY (run_id, number)
) WITHOUT ROWID;

-- Aggregate: one row per path of regions, over all threads. *Which region allocated most?*
CREATE TABLE region_total (
    run_id      INTEGER NOT NULL, -- `run.id`
    id          INTEGER NOT NULL, -- of the path in this run, from 1
    parent_id   INTEGER,          -- the path of the region around it; NULL: outermost
    name        TEXT NOT NULL,    -- of the innermost region of the path
    depth       INTEGER NOT NULL, -- [regions] 1 = outermost
    n_trips     INTEGER NOT NULL, -- [trips] pushes
    n_left_open INTEGER NOT NULL, -- [trips] of them, that no pop of their own ended
    all_ns      INTEGER NOT NULL, -- [ns] wall time, added up over trips and threads, without what
                                  -- memsight took
    own_ns      INTEGER NOT NULL, -- [ns] without the regions inside
    all_blocks  INTEGER NOT NULL, -- [blocks] blocks allocated
    own_blocks  INTEGER NOT NULL, -- [blocks] without the regions inside
    all_bytes   INTEGER NOT NULL, -- [bytes] bytes asked for
    own_bytes   INTEGER NOT NULL, -- [bytes] without the regions inside
    all_samples INTEGER NOT NULL, -- [samples] clock: samples
    own_samples INTEGER NOT NULL, -- [samples] without the regions inside
    all_time_ns INTEGER NOT NULL, -- [ns] clock: CPU time that they stand for, ns
    own_time_ns INTEGER NOT NULL, -- [ns] without the regions inside
    all_faults  INTEGER NOT NULL, -- [page faults] page faults
    own_faults  INTEGER NOT NULL, -- [page faults] without the regions inside
    all_cost_ns INTEGER NOT NULL, -- [ns] that memsight took (`own_time`)
    own_cost_ns INTEGER NOT NULL, -- [ns] without the regions inside
    PRIMARY KEY (run_id, id)
) WITHOUT ROWID;
CREATE INDEX region_total_parent ON region_total(run_id, parent_id);

-- What hooks of memsight take, as empty ones took it in the same processes. No row: not measured.
-- *What does a hook cost?*
CREATE TABLE hook_cost (
    run_id    INTEGER NOT NULL, -- `run.id`
    hook      TEXT NOT NULL,    -- `own_time.kind`, of those that are not measured one by one
    n         INTEGER NOT NULL, -- [hooks] that were measured
    mean_ns   REAL NOT NULL,    -- [ns] mean of the middle half
    spread_ns REAL NOT NULL,    -- [ns] so near to that are half of those that were measured
    PRIMARY KEY (run_id, hook)
) WITHOUT ROWID;

-- What memsight took of the time of a thread in regions and functions, which is not in `all_ns` and
-- `own_ns` of `region_total`. *How much was taken off, and how sure is it?*
CREATE TABLE own_time (
    run_id    INTEGER NOT NULL, -- `run.id`
    thread_id INTEGER NOT NULL, -- `thread.id`
    kind      TEXT NOT NULL,    -- counted: functions, callers of functions, regions, blocks, ends
                                -- of blocks; measured: call stacks (new walks, first calls), room
                                -- for records, handlers of samples, plug-ins
    n         INTEGER NOT NULL, -- [hooks] counted; measured: sums that were recorded
    ns        INTEGER NOT NULL, -- [ns] counted: `n` * `hook_cost.mean_ns`
    error_ns  INTEGER,          -- [ns] counted: `n` * `hook_cost.spread_ns`; measured: NULL
    PRIMARY KEY (run_id, thread_id, kind)
) WITHOUT ROWID;

-- Functions whose calls were only counted (`record --trips-only`), by all processes. *Which one is
-- called most?*
CREATE TABLE function_trips (
    run_id  INTEGER NOT NULL, -- `run.id`
    name    TEXT NOT NULL,    -- of the function
    n_trips INTEGER NOT NULL, -- [trips] calls
    PRIMARY KEY (run_id, name)
) WITHOUT ROWID;

-- Components of plug-ins (`record --load`). *What did it cost to ask?*
CREATE TABLE component (
    run_id   INTEGER NOT NULL, -- `run.id`
    id       INTEGER NOT NULL, -- in this run, from 1
    name     TEXT NOT NULL,    -- as the plug-in calls it
    unit     TEXT NOT NULL,    -- of its values, as the plug-in says
    kind     TEXT NOT NULL,    -- counter (grows), gauge (up and down), max (highest so far)
    plugin   TEXT NOT NULL,    -- NAME of memsight_register_NAME()
    n_asked  INTEGER NOT NULL, -- [readings] that gave a value
    asked_ns INTEGER NOT NULL, -- [ns] that they took the program
    PRIMARY KEY (run_id, id)
) WITHOUT ROWID;

-- Aggregate: values of a component in a path of regions, over all threads, and in processes as a
-- whole. *Which region has most page faults?*
CREATE TABLE component_value (
    run_id       INTEGER NOT NULL, -- `run.id`
    component_id INTEGER NOT NULL, -- component.id
    path_id      INTEGER NOT NULL, -- region_total.id; 0: from the begin of processes to their end
    window       INTEGER NOT NULL, -- with `path_id` 0: `window.number`, of processes in it; 0:
                                   -- none; -1: at samples, in the innermost region or none
    n            INTEGER NOT NULL, -- [by kind] counter: trips that began and ended with a value;
                                   -- gauge and max: readings; counter at samples: those that
                                   -- are not the first of their thread
    total        INTEGER,          -- [by unit] counter: grown by, with the regions inside
    own          INTEGER,          -- [by unit] counter: without the regions inside
    mean         REAL NOT NULL,    -- [by unit] of n
    least        INTEGER NOT NULL, -- [by unit] of n
    most         INTEGER NOT NULL, -- [by unit] of n
    PRIMARY KEY (run_id, component_id, path_id, window)
) WITHOUT ROWID;

-- What a component was at a sample of `--source signal`. *Which code runs where it is high?*
CREATE TABLE component_sample (
    run_id       INTEGER NOT NULL, -- `run.id`
    component_id INTEGER NOT NULL, -- `component.id`
    thread_id    INTEGER NOT NULL, -- `thread.id`, as of the sample
    time_ns      INTEGER NOT NULL, -- [ns] `sample.time_ns`
    value        INTEGER NOT NULL, -- [by unit] as the plug-in gave it
    PRIMARY KEY (run_id, component_id, thread_id, time_ns)
) WITHOUT ROWID;

-- Aggregate: one row per memory kind of a run that used `--heap`. *How much lay in the fast
-- memory?*
CREATE TABLE kind_total (
    run_id       INTEGER NOT NULL,  -- `run.id`
    kind_id      INTEGER NOT NULL REFERENCES heap_kind(id),
    n_blocks     INTEGER NOT NULL,  -- [blocks] allocated in it
    bytes        INTEGER NOT NULL,  -- [bytes] asked for in all
    live_blocks  INTEGER NOT NULL,  -- [blocks] not freed at the end
    live_bytes   INTEGER NOT NULL,  -- [bytes] not freed at the end
    peak_bytes   INTEGER NOT NULL,  -- [bytes] the most that was live at once, all processes
    n_samples    REAL NOT NULL,     -- [samples] clock: sum of shares
    n_samples_sq REAL NOT NULL,     -- [samples] clock: sum over samples of (share)^2, for the
                                    -- interval
    time_ns      REAL NOT NULL,     -- [ns] clock: sum of share x weight, ns of CPU time
    n_faults     INTEGER NOT NULL,  -- [page faults] page faults in its blocks
    PRIMARY KEY (run_id, kind_id)
) WITHOUT ROWID;

-- Aggregate: whose memory an instruction accessed, where other samples leave it unresolved. *What
-- does this instruction work on?*
CREATE TABLE instruction_owner (
    run_id       INTEGER NOT NULL,  -- `run.id`
    frame_id     INTEGER NOT NULL REFERENCES frame(id), -- `frame.id` of the instruction
    beside_kind  INTEGER NOT NULL,  -- `owner.id`: in samples that also accessed this owner, by
                                    -- another instruction; 0: in all
    beside_id    INTEGER NOT NULL,  -- heap: stack.id of the site, else as touch.owner_id; 0: none
    n_unresolved INTEGER NOT NULL,  -- [samples] clock: in which it was not resolved
    owner_kind   INTEGER NOT NULL REFERENCES owner(id), -- `owner.id`; unknown: owners beyond six
    owner_id     INTEGER NOT NULL,  -- as `beside_id`
    n            INTEGER NOT NULL,  -- [samples] clock: in which it was this owner's; 0: only page
                                    -- faults show
    time_ns      REAL NOT NULL,     -- [ns] clock: their time at the instruction
    PRIMARY KEY (run_id, frame_id, beside_kind, beside_id, owner_kind, owner_id)
) WITHOUT ROWID;

-- Loops that samples were taken in. *Which loop accessed most?*
CREATE TABLE loop (
    run_id         INTEGER NOT NULL,  -- `run.id`
    id             INTEGER NOT NULL,  -- in this run, from 1
    frame_id       INTEGER NOT NULL REFERENCES frame(id), -- `frame.id` of its lowest instruction
    n_samples      INTEGER NOT NULL,  -- [samples] clock: samples in it
    time_ns        INTEGER NOT NULL,  -- [ns] clock: CPU time that they stand for
    n_instructions REAL NOT NULL,     -- [instructions] of one iteration, mean over the samples
    n_accesses     REAL NOT NULL,     -- [accesses] of one iteration, likewise
    n_pairs        INTEGER NOT NULL,  -- [pairs of samples] pairs of samples between which
                                      -- iterations were counted by registers
    n_refuted      INTEGER NOT NULL,  -- [pairs of samples] pairs whose registers contradict each
                                      -- other
    n_replayed     INTEGER NOT NULL,  -- [pairs of samples] pairs between which every instruction
                                      -- was emulated
    n_not_replayed INTEGER NOT NULL,  -- [pairs of samples] pairs with which that was tried in vain
    method         TEXT,              -- registers or replay: where counts are from; NULL: none
                                      -- is known
    accesses       REAL,              -- [accesses] in the whole run, all owners; NULL without
                                      -- method
    accesses_half  REAL,              -- [accesses] half of its 95 % interval
    PRIMARY KEY (run_id, id)
) WITHOUT ROWID;

-- The accesses of a loop by owner and direction. *Which blocks does the hottest loop write to?*
CREATE TABLE loop_access (
    run_id       INTEGER NOT NULL,  -- `run.id`
    loop_id      INTEGER NOT NULL,  -- `loop.id`
    owner_kind   INTEGER NOT NULL REFERENCES owner(id),
    owner_id     INTEGER NOT NULL,  -- heap: stack.id of the site, else as touch.owner_id; 0: none
    is_write     INTEGER NOT NULL,  -- [0 or 1] 0 only read, 1 written (and perhaps read)
    n_samples    REAL NOT NULL,     -- [samples] clock: sum of the shares of the samples' mixes
    n_samples_sq REAL NOT NULL,     -- [samples] clock: sum over samples of (share)^2, for the
                                    -- interval
    accesses     REAL,              -- [accesses] in the whole run; NULL where loop.method is NULL
    PRIMARY KEY (run_id, loop_id, owner_kind, owner_id, is_write)
) WITHOUT ROWID;

-- Aggregate: blocks by size and lifetime, in powers of two. *How many blocks are small and
-- short-lived?*
CREATE TABLE histogram (
    run_id    INTEGER NOT NULL, -- `run.id`
    size_log2 INTEGER NOT NULL, -- sizes from 2^k bytes to below twice that; -1: 0
    life_log2 INTEGER NOT NULL, -- lifetimes from 2^k ns to below twice that; -1: 0, -2: not freed
    n_blocks  INTEGER NOT NULL, -- [blocks] of this size and lifetime
    bytes     INTEGER NOT NULL, -- [bytes] asked for by them
    PRIMARY KEY (run_id, size_log2, life_log2)
) WITHOUT ROWID;

-- Aggregate: totals of the run. *How many blocks were allocated?*
CREATE TABLE total (
    run_id INTEGER NOT NULL, -- `run.id`
    name   TEXT NOT NULL,    -- `allocations`, `frees`, `bytes` ... (see *Names and numbers*)
    value  INTEGER NOT NULL, -- [by name] see *Names and numbers*
    PRIMARY KEY (run_id, name)
) WITHOUT ROWID;

-- Aggregate: live bytes and rates in equal intervals. *When did memory grow?*
CREATE TABLE timeline (
    run_id         INTEGER NOT NULL, -- `run.id`
    time_ns        INTEGER NOT NULL, -- [ns] start of the interval
    interval_ns    INTEGER NOT NULL, -- [ns] length of the interval
    live_bytes     INTEGER NOT NULL, -- [bytes] at its end
    max_live_bytes INTEGER NOT NULL, -- [bytes] within it
    n_allocations  INTEGER NOT NULL, -- [blocks] in the interval
    n_frees        INTEGER NOT NULL, -- [blocks] in the interval
    n_samples      INTEGER NOT NULL, -- [samples] of all sources, in the interval
    n_faults       INTEGER NOT NULL, -- [page faults] page faults in the interval
    PRIMARY KEY (run_id, time_ns)
) WITHOUT ROWID;

-- Aggregate: sums of a stretch of the run, for reports of a span of time, which count rows at its
-- edges only. Up to 127 stretches, of about as many blocks and samples; none of a short run, and
-- of one whose blocks were picked. *Which stretches of the run have as many blocks and samples?*
CREATE TABLE stretch (
    run_id   INTEGER NOT NULL, -- `run.id`
    from_ns  INTEGER NOT NULL, -- [ns] its begin, since the run's start
    to_ns    INTEGER NOT NULL, -- [ns] its end, where the next one begins; the last one: 2^63 - 1
    blocks   BLOB NOT NULL,    -- sums of blocks: `store/totals/sums.c`
    touches  BLOB,             -- sums of samples and touches; NULL: they do not add up, for there
                               -- are samples of CPU time
    PRIMARY KEY (run_id, from_ns)
) WITHOUT ROWID;

-- ## Pictures of time x address
--
-- What the web view, `report --heatmap` and `memsight plot` draw from, so that a picture costs what
-- its cells cost, and not what all blocks and samples do. Everything in it follows from the rows. A
-- run of which only the totals are there has none. Its addresses are those of `band`: an axis of
-- bytes on which holes between what was used are left out.

-- Addresses that something lay in or that were touched, as ranges without holes of more than 64
-- KiB: the axis of a process. *Where did the program have memory?*
CREATE TABLE band (
    run_id     INTEGER NOT NULL, -- `run.id`
    process_id INTEGER NOT NULL, -- `process.id`
    number     INTEGER NOT NULL, -- from 0, in order of addresses
    start      INTEGER NOT NULL, -- [address] where it begins
    end        INTEGER NOT NULL, -- [address] where it ends; not included
    y          INTEGER NOT NULL, -- [bytes] where it begins on the axis: the sum of the sizes of
                                 -- those before it
    kind       TEXT NOT NULL,    -- heap, mapping, global, stack, tool (memsight's own) or other
    name       TEXT NOT NULL,    -- file, or what else it is called; may be empty
    PRIMARY KEY (run_id, process_id, number)
) WITHOUT ROWID;

-- Aggregate: bytes that the blocks of a call site held over time. *When did a site hold its
-- memory?*
CREATE TABLE site_curve (
    run_id     INTEGER NOT NULL, -- `run.id`
    stack_id   INTEGER NOT NULL, -- as `site.stack_id`
    live_bytes BLOB NOT NULL,    -- [bytes] 32 little-endian numbers, of as many bytes each as the
                                 -- largest needs: the most that was live in each 1/32 of
                                 -- `run.duration_ns`, or at most 1/64 of it before or behind
    PRIMARY KEY (run_id, stack_id)
) WITHOUT ROWID;

-- Aggregate: sampled accesses by memory level over time, in the intervals of `timeline`. *When did
-- accesses go to main memory?*
CREATE TABLE timeline_level (
    run_id  INTEGER NOT NULL, -- `run.id`
    time_ns INTEGER NOT NULL, -- [ns] as `timeline.time_ns`
    level   TEXT NOT NULL,    -- as `data_source.level`; empty where the source has none
    n       INTEGER NOT NULL, -- [samples] samples of sources that say where data was
    PRIMARY KEY (run_id, time_ns, level)
) WITHOUT ROWID;

-- One row per process that has blocks or touches. *How large is the picture of a process?*
CREATE TABLE picture (
    run_id     INTEGER NOT NULL, -- `run.id`
    process_id INTEGER NOT NULL, -- `process.id`
    from_ns    INTEGER NOT NULL, -- [ns] begin of the axis of time
    to_ns      INTEGER NOT NULL, -- [ns] its end; not included
    end_ns     INTEGER NOT NULL, -- [ns] when blocks that were not freed ended: at the end of the
                                 -- process
    height     INTEGER NOT NULL, -- [bytes] of all bands
    n_blocks   INTEGER NOT NULL, -- [blocks] blocks
    n_touches  INTEGER NOT NULL, -- [touches] sampled accesses and page faults with an address, and
                                 -- samples of CPU time, each at one of the addresses that it is
                                 -- charged to, drawn by their shares
    PRIMARY KEY (run_id, process_id)
) WITHOUT ROWID;

-- What touches are coloured by; adds up to `picture.n_touches` for each colour. *Which thread
-- touches most?*
CREATE TABLE picture_category (
    run_id     INTEGER NOT NULL, -- `run.id`
    process_id INTEGER NOT NULL, -- `process.id`
    colour     TEXT NOT NULL,    -- direction, thread, level, latency or source
    number     INTEGER NOT NULL, -- from 0
    item_id    INTEGER NOT NULL, -- of thread and source their id (0: not known); of direction 0
                                 -- read, 1 write, 2 not known, 3 page fault; of level a number (0:
                                 -- not known); of latency 0 not known, 1 below 16 cycles, then one
                                 -- for each power of two, 15 from 2^17 on; -1: all others, where
                                 -- there are more than 16
    name       TEXT NOT NULL,    -- of level `data_source.level`; else empty
    n          INTEGER NOT NULL, -- [touches] touches of this category
    PRIMARY KEY (run_id, process_id, colour, number)
) WITHOUT ROWID;

-- Counts in the cells of a grid over both axes, in tiles of 64 x 64 cells (store/heatmap/draw.h):
-- of processes with more than 1.6 million touches, or 0.8 million blocks.
-- *Which tiles have most touches?*
CREATE TABLE picture_tile (
    run_id     INTEGER NOT NULL, -- `run.id`
    process_id INTEGER NOT NULL, -- `process.id`
    colour     TEXT NOT NULL,    -- as `picture_category.colour`; 'blocks': how much of each cell
                                 -- lay in blocks
    source_id  INTEGER NOT NULL, -- `source.id`; of blocks 0
    number     INTEGER NOT NULL, -- (row of tiles x 32 + column) x 16, + `picture_category.number`
                                 -- (of direction `item_id`); tiles without anything are left out
    n          INTEGER NOT NULL, -- [touches] touches in the tile; of blocks the sum of its cells
    data       BLOB NOT NULL,    -- cells as a compressed column; of blocks 255 is all of a cell
    PRIMARY KEY (run_id, process_id, colour, source_id, number)
) WITHOUT ROWID;
