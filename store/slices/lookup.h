#pragma once
/* The slices of a run (table slice) and which of them a span of time is made of. One thread. */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/slices/blob.h"

struct slice_head {
	int64_t id; /* slice.id */
	unsigned level;
	int64_t number;
	int64_t first_ns;
	int64_t last_ns;
	int64_t first_row;
	int64_t last_row;
	int64_t first_sample;
	int64_t last_sample;
};

struct slice_store {
	sqlite3 *db;
	int64_t run_id;
	struct slice_head *heads; /* by level, the highest first, and number */
	size_t n_heads;
	size_t n_heads_allocated;
	sqlite3_stmt *fetch;
	struct slice_reader *reader;
	int64_t last_thread; /* thread.id at most, ... */
	int64_t last_stack; /* ... and stack.id */
};

/*
 * Those of blocks, or of samples and touches. Returns 0, -ENODATA: the run has none, or another
 * negative errno.
 */
int slice_store_open(sqlite3 *db, int64_t run_id, bool is_blocks, struct slice_store *ret_store);
void slice_store_close(struct slice_store *store); /* accepts what is all zero */
#define auto_slice_store __attribute__((cleanup(slice_store_close)))

/* Read a slice: slice_read(). Returns 0 or a negative errno. */
int slice_store_read(struct slice_store *store, const struct slice_head *head,
		     const struct slice_visitor *visitor);

/*
 * What a span of time is made of, in the order of time: groups and slices that lie within it, and
 * slices that only a part of does. Each returns 0 or a negative errno.
 */
struct slice_walk {
	int64_t from_ns;
	int64_t to_ns; /* not included */
	/*
	 * the slice with this first_row <= row <= last_row counts as lying within in part; 0: none
	 */
	int64_t cut_row;
	bool is_of_rows; /* slices of level 0 only, and all are parts */
	int (*whole)(void *context, const struct slice_head *head);
	int (*part)(void *context, const struct slice_head *head);
	void *context;
};
int slice_store_walk(const struct slice_store *store, const struct slice_walk *walk);
