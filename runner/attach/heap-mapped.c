/*
 * Memory of malloc that is in no heap: blocks with pages of their own, and pieces of the main arena
 * from mmap(). Both begin at a page. glibc counts them: the search ends when all are found.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "runner/attach/heap-internal.h"

#define MAX_ALIGNMENT_LOG2 40u

/* Pages that may begin something: of anonymous memory outside of all regions. */
struct search {
	struct heap_glibc *glibc;
	const struct heap_range *range;
	uint64_t from; /* of heads */
	size_t n;
	struct attach_head heads[HEAP_MEMORY_MAX_PAGES];
};

/* The end of the region that holds an address, or 0. */
static uint64_t region_end(const struct heap_glibc *glibc, uint64_t address)
{
	uint64_t page = glibc->memory->page_bytes;

	for (size_t i = 0; i < glibc->n_regions; i++) {
		const struct heap_region *region = &glibc->regions[i];

		if (address >= (region->start & ~(page - 1)) && address < region->end)
			return (region->end + page - 1) & ~(page - 1);
	}
	return 0;
}

/* The head at a page. Reads many at once, but one where what is wanted is likely there. */
static int head_at(struct search *search, uint64_t at, size_t n_ahead, struct attach_head *ret_head)
{
	uint64_t page = search->glibc->memory->page_bytes;

	if (at < search->from || at >= search->from + search->n * page) {
		uint64_t n = (search->range->end - at) / page;

		search->from = at;
		search->n = n < n_ahead ? n : n_ahead;
		int r = heap_memory_heads(search->glibc->memory, at, search->n, search->heads);
		if (r < 0)
			return r;
	}
	*ret_head = search->heads[(at - search->from) / page];
	return 0;
}

/*
 * How many bytes a mapping has that begins with this head; 0: it is none. From 2.43 on the size is
 * without the head. There a lowest bit in `before` says that its pages are huge.
 */
static uint64_t mapping_bytes(uint64_t page, struct attach_head head)
{
	uint64_t total = (head.before & ~UINT64_C(1)) + (head.size & ~HEAP_FLAGS);

	if ((head.size & HEAP_FLAGS) != HEAP_MAPPED || (head.size & ~HEAP_FLAGS) < HEAP_HEAD_BYTES)
		return 0;
	if (total % page != 0)
		total += HEAP_HEAD_BYTES;
	return total % page == 0 ? total : 0;
}

/*
 * Where its block is: an aligned one begins later, at a head of its own, which says how far it is
 * from the begin. Until 2.42 the head at the begin stays as it was, also when realloc() changes the
 * size of the mapping: *total is what it says, and then what is so. room: up to where it may be.
 */
static uint64_t find_block(struct heap_glibc *glibc, uint64_t at, uint64_t room, uint64_t *total)
{
	uint64_t page = glibc->memory->page_bytes;
	uint64_t limit = at + (*total < room ? *total : room);

	for (unsigned log2 = 5; log2 < MAX_ALIGNMENT_LOG2; log2++) {
		uint64_t alignment = UINT64_C(1) << log2;
		/* memalign() takes the second place where the first is too near. */
		uint64_t block = (at + HEAP_HEAD_BYTES + alignment - 1) & ~(alignment - 1);

		for (int second = 0; second < 2; second++, block += alignment) {
			struct attach_head head;
			uint64_t offset = block - HEAP_HEAD_BYTES - at;

			if (offset == 0)
				continue;
			if (block >= limit || block < at)
				return at + HEAP_HEAD_BYTES;
			if (heap_memory_word(glibc->memory, block - 16, &head.before) < 0 ||
			    heap_memory_word(glibc->memory, block - 8, &head.size) < 0)
				continue;
			uint64_t is = mapping_bytes(page, head);
			if ((head.before & ~UINT64_C(1)) == offset && is > offset && is <= room) {
				*total = is;
				return block;
			}
		}
	}
	return at + HEAP_HEAD_BYTES;
}

static bool is_dead(const struct heap_glibc *glibc, uint64_t block)
{
	return bsearch(&block, glibc->dead, glibc->n_dead, sizeof(block), heap_glibc_compare);
}

struct tally {
	uint64_t n;
	uint64_t n_bytes;
};

/* Blocks of one range. Strictly: each begins where the one before ended. */
static int search_range(struct search *search, bool is_strict, struct heap_walk *walk,
			struct tally *tally)
{
	struct heap_glibc *glibc = search->glibc;
	uint64_t page = glibc->memory->page_bytes;

	search->n = 0;
	for (uint64_t at = search->range->start; at < search->range->end;) {
		struct attach_head head;
		uint64_t behind = region_end(glibc, at);

		if (behind) {
			at = behind;
			continue;
		}
		if (glibc->has_numbers && tally->n == glibc->n_mapped)
			return 0;
		int r = head_at(search, at, is_strict ? 1 : HEAP_MEMORY_MAX_PAGES, &head);
		if (r < 0)
			return r;
		uint64_t total = head.before & ~UINT64_C(1) ? 0 : mapping_bytes(page, head);
		uint64_t room = search->range->end - at;
		uint64_t block = total ? find_block(glibc, at, room, &total) : 0;
		if (total == 0 || total > room) {
			if (is_strict)
				return 0;
			at += page;
			continue;
		}
		uint64_t size = at + total - block;
		tally->n++;
		tally->n_bytes += total;
		if (is_dead(glibc, block))
			walk->n_cached++;
		else if (heap_walk_add(walk, block, size) < 0)
			return -ENOMEM;
		at += total;
	}
	return 0;
}

static int search_all(struct heap_glibc *glibc, bool is_strict, struct heap_walk *walk,
		      struct tally *tally)
{
	auto_free struct search *search = malloc(sizeof(*search));
	int r = 0;

	if (!search)
		return -ENOMEM;
	*search = (struct search){ .glibc = glibc };
	for (size_t i = 0; i < glibc->memory->n_ranges && r == 0; i++) {
		search->range = &glibc->memory->ranges[i];
		if (search->range->kind != HEAP_RANGE_BRK)
			r = search_range(search, is_strict, walk, tally);
	}
	return r;
}

int heap_mapped_find(struct heap_glibc *glibc, struct heap_walk *walk)
{
	if (glibc->has_numbers && glibc->n_mapped == 0)
		return 0;
	for (int way = 0; way < 2; way++) {
		struct heap_walk before = *walk;
		struct tally tally = { 0 };
		int r = search_all(glibc, way == 0, walk, &tally);

		if (r < 0)
			return r;
		bool is_all = glibc->has_numbers && tally.n == glibc->n_mapped &&
			      tally.n_bytes == glibc->n_mapped_bytes;
		walk->n_mapped = walk->n_blocks - before.n_blocks;
		if (is_all || (way == 1 && glibc->has_numbers && tally.n < glibc->n_mapped &&
			       tally.n_bytes < glibc->n_mapped_bytes)) {
			walk->n_mapped_missing = glibc->n_mapped - tally.n;
			break;
		}
		/* What only looks like a block is none to be believed. */
		walk->n_blocks = before.n_blocks;
		walk->n_block_bytes = before.n_block_bytes;
		walk->n_cached = before.n_cached;
		walk->n_mapped = 0;
		walk->n_mapped_missing = glibc->n_mapped;
	}
	if (!glibc->has_numbers)
		heap_walk_say(walk, "how many blocks have pages of their own was not found");
	else if (walk->n_mapped_missing)
		heap_walk_say(walk, "%" PRIu64 " of %" PRIu64 " blocks with pages of their own",
			      walk->n_mapped_missing, glibc->n_mapped);
	return 0;
}

/* A piece that begins here and ends well? Then it is one of the main arena. */
static int try_region(struct heap_glibc *glibc, uint64_t start, uint64_t end, uint8_t *piece,
		      struct heap_region_end *ret_end)
{
	struct heap_region region = { start, end, 0 };
	const struct heap_arena *arena = &glibc->arenas[0];

	if (arena->top >= start && arena->top < end)
		region.end = arena->top_end < end ? arena->top_end : end;
	return heap_walk_region(glibc, &region, piece, NULL, ret_end);
}

/* Somebody else took memory from brk(): behind it the arena goes on, at any multiple of 16. */
static int search_behind(struct heap_glibc *glibc, uint64_t from, uint64_t end, uint8_t *piece)
{
	while (from + HEAP_MIN_CHUNK_BYTES <= end) {
		struct heap_region_end found;
		uint64_t size;

		if (heap_memory_word(glibc->memory, from + 8, &size) < 0)
			return 0;
		if ((size & HEAP_FLAGS) != HEAP_PREV_IN_USE ||
		    (size & ~HEAP_FLAGS) < HEAP_MIN_CHUNK_BYTES || size >= end - from + 1 ||
		    try_region(glibc, from, end, piece, &found) < 0) {
			from += 16;
			continue;
		}
		struct heap_region region = { from, found.is_top ? glibc->arenas[0].top_end : end,
					      0 };
		if (heap_glibc_add_region(glibc, region) < 0)
			return -ENOMEM;
		if (found.is_top)
			return 0;
		from = found.at;
	}
	return 0;
}

/* Pieces from mmap(), each of 1 MiB at least: at a page, the top of all among them. */
static int search_pages(struct search *search, uint8_t *piece, uint64_t *sum)
{
	struct heap_glibc *glibc = search->glibc;
	uint64_t page = glibc->memory->page_bytes;

	search->n = 0;
	for (uint64_t at = search->range->start; at < search->range->end;) {
		struct heap_region_end found;
		struct attach_head head;
		uint64_t behind = region_end(glibc, at);

		if (behind) {
			at = behind;
			continue;
		}
		int r = head_at(search, at, HEAP_MEMORY_MAX_PAGES, &head);
		if (r < 0)
			return r;
		if ((head.size & HEAP_FLAGS) != HEAP_PREV_IN_USE ||
		    try_region(glibc, at, search->range->end, piece, &found) < 0) {
			at += page;
			continue;
		}
		struct heap_region region = { at,
					      found.is_top ? glibc->arenas[0].top_end : found.at,
					      0 };
		if (heap_glibc_add_region(glibc, region) < 0)
			return -ENOMEM;
		*sum += region.end - region.start;
		at = region.end;
	}
	return 0;
}

int heap_main_find_regions(struct heap_glibc *glibc, uint8_t *piece)
{
	struct heap_region_end found;
	size_t first = 0;

	while (first < glibc->n_regions && glibc->regions[first].arena != 0)
		first++;
	if (first == glibc->n_regions || glibc->arenas[0].top == 0 ||
	    heap_walk_region(glibc, &glibc->regions[first], piece, NULL, &found) < 0 ||
	    found.is_top)
		return 0;

	struct heap_region *region = &glibc->regions[first];
	uint64_t sum = found.at - region->start;
	uint64_t limit = region->end;

	region->end = found.at;
	if (glibc->arenas[0].top >= found.at && glibc->arenas[0].top < limit)
		return search_behind(glibc, found.at, limit, piece);

	auto_free struct search *search = malloc(sizeof(*search));
	int r = 0;

	if (!search)
		return -ENOMEM;
	*search = (struct search){ .glibc = glibc };
	for (size_t i = 0; i < glibc->memory->n_ranges && r == 0; i++) {
		search->range = &glibc->memory->ranges[i];
		if (search->range->kind != HEAP_RANGE_BRK)
			r = search_pages(search, piece, &sum);
	}
	/* All that it got from the system must be there. */
	for (size_t i = 0; i < glibc->n_regions && sum != glibc->arenas[0].system_bytes; i++)
		if (glibc->regions[i].arena == 0)
			glibc->regions[i].end = 0;
	return r;
}
