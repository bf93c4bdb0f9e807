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

/* A mapping. */
struct touch_run {
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

/* Pages one behind the other of which the same is known. */
struct write_run {
	uint64_t address;
	uint64_t size;
	unsigned bits;
	struct span span;
};

/* Runs of pages in order of address. */
struct touch_runs {
	struct touch_run *runs;
	size_t n;
	size_t n_allocated;
	struct node_bytes *parts; /* while the interval is divided */
	size_t n_parts;
	size_t n_parts_allocated;
};

struct write_runs {
	struct write_run *runs;
	size_t n;
	size_t n_allocated;
};

/* What is held back of an image: it may go on as it is. */
struct held {
	struct held *next;
	uint32_t process;
	int64_t process_row;
	struct touch_runs touches;
	struct page_sites touched;
	struct write_runs writes;
	struct page_sites written;
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
 * Runs and call sites of the next interval: those of the last one that go on alike are a part of
 * the new ones, the others become rows. The new ones are taken over, also on failure, and are empty
 * then. 0 or a negative errno.
 */
int touches_replace(struct touches *touches, struct held *held, struct touch_runs *runs,
		    struct page_sites *sites);
int writes_replace(struct touches *touches, struct held *held, struct write_runs *runs,
		   struct page_sites *sites);
