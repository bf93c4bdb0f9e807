#pragma once
/*
 * What touches.c and writes.c share: the tables of --source pages, and what is held back of each
 * image's last interval. One thread.
 */
#include "analyze/live/pages/block-touches.h"
#include "analyze/live/pages/owners.h"
#include "analyze/live/pages/touches.h"
#include "store/row-writer.h"

/* What of a mapping is resident on a NUMA node. */
struct node_bytes {
	unsigned node;
	uint64_t bytes;
};

/*
 * Of touches a mapping; of writes pages one behind the other of which the same is known, with the
 * first three and the span only.
 */
struct page_run {
	uint64_t address;
	uint64_t size;
	unsigned bits;
	uint64_t resident;
	uint64_t touched;
	size_t node_at; /* its first one in the list's parts, and how many it has there */
	size_t n_nodes;
	const char *nodes; /* interned: these as page_run.node_bytes; NULL: not known */
	struct span span;
};

/* In order of address. */
struct page_runs {
	struct page_run *runs;
	size_t n;
	size_t n_allocated;
	struct node_bytes *parts; /* while the interval is divided */
	size_t n_parts;
	size_t n_parts_allocated;
};

/* What is known of an interval. All zero is nothing. */
struct page_interval {
	struct page_runs runs;
	struct page_sites sites;
};
void page_interval_finish(struct page_interval *interval);

enum pages_access { PAGES_TOUCHED, PAGES_WRITTEN, PAGES_ACCESSES };

/* What is held back of an image: it may go on as it is. */
struct held {
	struct held *next;
	uint32_t process;
	int64_t process_row;
	struct page_interval of[PAGES_ACCESSES];
	struct block_touches blocks;
};

enum touches_table {
	TOUCHES_INTERVALS,
	TOUCHES_RUNS,
	TOUCHES_SITES,
	WRITES_INTERVALS,
	WRITES_RUNS,
	WRITES_SITES,
	TOUCHES_BLOCKS,
	TOUCHES_TABLES
};

struct touches {
	struct rows *rows[TOUCHES_TABLES];
	int64_t run_id;
	int64_t next_id; /* page_interval.id */
	uint64_t n_visits; /* of blocks, so far */
	struct held *held;
};

/* What is held of an image, made at its first use; NULL: no memory. */
struct held *touches_held(struct touches *touches, const struct memory_image *image);

/* Whether all blocks of an image may be gone through once more. */
bool touches_may_visit(struct touches *touches, const struct memory_image *image);

/*
 * Runs and call sites of the next interval, which was made with r: those of the last one that go on
 * alike are a part of the new ones, the others become rows. The new ones are taken over, also on
 * failure, and are empty then. r, or a negative errno.
 */
int page_interval_keep(struct touches *touches, struct held *held, enum pages_access access,
		       struct page_interval *now, int r);
