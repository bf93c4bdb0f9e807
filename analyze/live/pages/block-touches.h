#pragma once
/*
 * When each large block, and mapping of the program, was touched first and last, to the interval of
 * --source pages. Of pages in a mapping only the number is known that were touched: so it may be
 * known that a block was, that it was not, or neither. Of written pages it is known which: they are
 * a set, with a bit for each page. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/hash-map.h"
#include "store/row-writer.h"

#define BLOCK_TOUCHES_BYTES (64u << 10) /* smaller ones are not followed */

/* A mapping of the kernel's within an interval; in pages. */
struct touch_facts {
	uint64_t n_pages;
	uint64_t touched;
	uint64_t resident;
	uint64_t left; /* where a block ended within the interval, which may have touched them */
	uint64_t page_bytes;
	bool is_unsure; /* touches of some pages are not known */
	bool has_huge; /* a huge page counts as a whole, whoever touched a part of it */
};

/* What is known of n of its pages, in bytes: of others, no more than can have been touched was. */
struct touch_part {
	uint64_t least;
	uint64_t most;
	uint64_t resident; /* at least */
};
struct touch_part touch_part_of(const struct touch_facts *facts, uint64_t n);

struct touched_block;

/* Those of an image. All zero is none. */
struct block_touches {
	struct touched_block *blocks;
	size_t n;
	size_t n_allocated;
	struct key_map places; /* of (id, is_mapping): 1 + place in blocks */
	size_t *here; /* places of those with pages in the current mapping */
	size_t n_here;
	size_t n_here_allocated;
	size_t *seen; /* of those with pages in any, in the current interval */
	size_t n_seen;
	size_t n_seen_allocated;
};

void block_touches_finish(struct block_touches *touches);

/* A block, or mapping; its id is that of its row. */
struct block_meant {
	int64_t id;
	bool is_mapping;
	int64_t allocated_ns;
};

/* It has n_pages in the current mapping, which end_run() ends. 0 or -ENOMEM. */
int block_touches_add(struct block_touches *touches, const struct block_meant *meant,
		      uint64_t n_pages);
void block_touches_end_run(struct block_touches *touches, const struct touch_facts *facts);

/*
 * An interval of writes, which ends at end_ns: of pages [first, first + n) of a block, which lie in
 * it as a whole and of which it has n_pages, each was written, or none was. 0 or -ENOMEM.
 */
struct block_writes {
	uint64_t first;
	uint64_t n;
	uint64_t n_pages;
	uint64_t page_bytes;
	bool is_written;
	int64_t end_ns;
};
int block_touches_note(struct block_touches *touches, const struct block_meant *meant,
		       const struct block_writes *writes);

/* The interval ends. */
void block_touches_end(struct block_touches *touches, int64_t begin_ns, int64_t end_ns);

/* Rows of page_block, which follow the image's. 0 or a negative errno. */
extern const struct rows_table block_touches_table;
int block_touches_write(const struct block_touches *touches, struct rows *rows, int64_t run_id,
			int64_t process_row);
