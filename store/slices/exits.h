#pragma once
/*
 * Blocks that nobody freed while their process lives, by call site: when it ends they end, all at
 * once. A sweep is told of that moment by an end of 0 blocks whose id is the process's.
 */
#include <stdbool.h>

#include "store/row-scan.h"
#include "store/slices/blocks.h"

struct db;
struct slice_exits;

/* Reads when the run's processes end. Returns 0 or a negative errno. */
int slice_exits_open(struct db *db, int64_t run_id, struct slice_exits **ret_exits);
struct slice_exits *slice_exits_close(struct slice_exits *exits); /* accepts NULL */

/* Whether a process has not ended before a time. */
bool slice_exits_may_have(const struct slice_exits *exits, int64_t process_id, int64_t birth_ns);

/* A block that is not freed. Returns 0 or -ENOMEM. */
int slice_exits_add(struct slice_exits *exits, const struct picture_row_block *block,
		    struct sweep *sweep);

/*
 * The moment has come: count the ends, and keep them for slice_exits_pack(). Returns 0 or -ENOMEM.
 */
int slice_exits_take(struct slice_exits *exits, const struct sweep_end *marker,
		     struct slice_blocks *blocks);

/* What was taken since the last time, into SLICE_EXITS. Returns 0 or a negative errno. */
int slice_exits_pack(struct slice_exits *exits, struct slice_blob *blob);
