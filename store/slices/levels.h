#pragma once
/*
 * For write.c: slices of one kind on their way into the table, and the groups of them. One thread.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/slices/blocks.h"
#include "store/slices/touches.h"

struct db;

#define SLICE_LEVELS 3u
#define SLICE_FANOUT 16u

/* What a row of slice says beside its bytes. */
struct slice_span {
	int64_t first_ns;
	int64_t last_ns;
	int64_t first_row;
	int64_t last_row;
	int64_t first_sample;
	int64_t last_sample;
};

/* Nothing: each first behind its last. */
struct slice_span slice_span_none(void);
void slice_span_add(struct slice_span *span, const struct slice_span *other);

/* Slices, or groups, that wait for the others of theirs. */
struct slice_group {
	unsigned n; /* parts that were added */
	int64_t number;
	struct slice_span span;
	struct slice_blocks blocks; /* one of the two */
	struct slice_touches touches;
};

struct slice_levels {
	struct db *db;
	int64_t run_id;
	bool is_blocks;
	int64_t first_thread;
	sqlite3_stmt *insert;
	struct slice_blob *blob;
	struct slice_reader *reader;
	struct slice_group groups[SLICE_LEVELS]; /* [0]: the slice that is being counted */
};

/* Zeroed before, but for the first four. Returns 0 or a negative errno. */
int slice_levels_init(struct slice_levels *levels);
void slice_levels_finish(struct slice_levels *levels);

/*
 * Write the slice at groups[0], behind what the blob has already, and begin the next one. Returns 0
 * or a negative errno.
 */
int slice_levels_close(struct slice_levels *levels);

/* The last slice is written: close all groups. Returns 0 or a negative errno. */
int slice_levels_flush(struct slice_levels *levels);
