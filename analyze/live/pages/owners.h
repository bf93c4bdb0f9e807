#pragma once
/*
 * Who lives in the pages of an image: its live blocks, or the program's mappings, in order of
 * address; and their call sites, with bytes that are counted for them. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/live/live-memory-internal.h"
#include "analyze/live/pages/block-touches.h"
#include "store/row-writer.h"

/* Equal in several intervals one behind the other. */
struct span {
	int64_t begin_ns;
	int64_t end_ns;
	int64_t n_intervals;
};

/*
 * Whether a span goes on with one before it: more time between them than an interval of either took
 * is none that they can speak for.
 */
bool span_is_next(const struct span *span, const struct span *before);
void span_extend(struct span *span, const struct span *before);

struct page_owner {
	uint64_t address;
	uint64_t size;
	int64_t stack_id;
	uint32_t site; /* of a block: its number (store/totals/totals.h) */
	struct block_meant meant;
};

/* 0, or a negative errno, which ends the walk. */
typedef int (*take_owner)(void *user, const struct page_owner *owner);

/* Visit all blocks, or all mappings. 0, -EBADMSG, or what take returned. */
int page_owners_walk(struct memory *memory, struct memory_image *image, bool is_mapping,
		     take_owner take, void *user);

/* A call site: of blocks, or of mappings. In bytes. */
struct page_site {
	int64_t stack_id;
	bool is_mapping;
	uint64_t size; /* of all pages that its blocks lie in */
	uint64_t known; /* touches: resident, at least; writes: known, written or not */
	uint64_t least; /* touched, or written */
	uint64_t most;
	bool has_ended; /* touches: blocks of it did, in the interval */
	const char *nodes; /* interned, touches: page_touch.node_touched; NULL: not known */
	struct span span;
	uint64_t n_pages; /* touches: in the current mapping, ... */
	uint64_t next_page; /* those before it are counted */
	bool is_here; /* ... which it has a part of */
};

/* All zero is none. */
struct page_sites {
	struct page_site *sites;
	size_t n;
	size_t n_allocated;
	size_t *of_block; /* place + 1, by number of the site; 0: none yet */
	size_t n_of_block;
};

void page_sites_finish(struct page_sites *sites);

/* The place of an owner's site, which is made when it comes first; < 0: -ENOMEM. */
ssize_t page_sites_of_block(struct page_sites *sites, uint32_t number, int64_t stack_id,
			    const struct span *span);
/* All of blocks must have been made before. */
ssize_t page_sites_of_mapping(struct page_sites *sites, int64_t stack_id, const struct span *span);
ssize_t page_sites_of(struct page_sites *sites, const struct page_owner *owner,
		      const struct span *span);

/* Pages [first, end) of a site, of which those before its next_page are counted: how many more. */
uint64_t page_site_count(struct page_site *site, uint64_t first, uint64_t end);

/* All are there, in the order that page_sites_replace() needs. */
void page_sites_sort(struct page_sites *sites);

/*
 * The next interval of an image: sites of the last one that go on alike are a part of the new ones,
 * the others become rows. The new ones are taken over, also on failure, and are empty then.
 * of_touches: with has_ended and nodes, which are the last columns. 0 or a negative errno.
 */
int page_sites_replace(struct page_sites *held, struct page_sites *sites, struct rows *rows,
		       const int64_t ids[2], bool of_touches);
