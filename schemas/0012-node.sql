-- Migration 12: the node of memory that page faults got.

-- NUMA node of the page some ms after its fault, 0 is a node; NULL: not looked at (one node), or gone by then.
ALTER TABLE access_detail ADD COLUMN node INTEGER;

-- Page faults by owner and node, where the host has several: aggregate.
CREATE TABLE fault_node (
    run_id     INTEGER NOT NULL,
    source_id  INTEGER NOT NULL,
    owner_kind INTEGER NOT NULL,
    owner_id   INTEGER NOT NULL,          -- heap: stack_id of the site; else as touch.owner_id; 0: none
    node       INTEGER NOT NULL,
    n          INTEGER NOT NULL,          -- page faults
    PRIMARY KEY (run_id, source_id, owner_kind, owner_id, node)
) WITHOUT ROWID;
