#include "analyze/live/block-pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/live/block-tree-pool.h"
#include "common/array.h"
#include "common/large.h"

#define GRAIN_LOG2    4
#define GRAIN_BYTES   (1u << GRAIN_LOG2)
#define PAGE_GRAINS   (BLOCK_PAGE_WORDS * 64)
#define REGION_GRAINS (BLOCK_REGION_PAGES * PAGE_GRAINS)
#define REGION_WORDS  (REGION_GRAINS / 64)
#define ID_BITS	      40 /* of heap_block.id */
#define MAX_ID	      ((UINT64_C(1) << ID_BITS) - 1)
#define PLACE_BITS    44 /* of an address in units of 16 bytes */
#define TIME_BITS     48 /* of ns: three days */
#define FIRST_SLOTS   64
#define FIRST_INDEX   64
#define SPARSE_BYTES  (8u << 20) /* of regions: below that memory does not matter */
#define SPARSE_BLOCK  24u /* bytes of regions for a block, and they are too many */

_Static_assert(sizeof(struct block_region) == HEAP_REGION_BYTES, "what the pool gives");

/* Grains from .. to of a region, and the first n_next ones of the region behind it. */
struct span {
	uint64_t number;
	unsigned from;
	unsigned to;
	unsigned n_next;
};

static uint64_t number_of(uint64_t address)
{
	return address >> BLOCK_REGION_LOG2;
}

static unsigned grain_of(uint64_t address)
{
	return address >> GRAIN_LOG2 & (REGION_GRAINS - 1);
}

static uint64_t address_of(uint64_t number, unsigned grain)
{
	return number << BLOCK_REGION_LOG2 | (uint64_t)grain << GRAIN_LOG2;
}

/* A block of no size takes its place, too. */
static struct span span_of(uint64_t address, uint64_t size)
{
	unsigned n = size ? (unsigned)((size - 1) >> GRAIN_LOG2) + 1 : 1;
	struct span span = { number_of(address), grain_of(address), 0, 0 };

	span.to = span.from + n;
	if (span.to > REGION_GRAINS) {
		span.n_next = span.to - REGION_GRAINS;
		span.to = REGION_GRAINS;
	}
	return span;
}

bool block_pages_fits(const struct heap_block *block)
{
	return block->address % GRAIN_BYTES == 0 && block->size <= BLOCK_REGION_BYTES &&
	       block->address >> (PLACE_BITS + GRAIN_LOG2) == 0 && block->id <= MAX_ID &&
	       block->thread < 1u << (64 - ID_BITS) &&
	       (uint64_t)block->allocated_ns >> TIME_BITS == 0 &&
	       (block->previous_id == 0 ||
		(block->previous_id < block->id && block->id - block->previous_id <= UINT32_MAX));
}

/* ---- Bits ---- */

static uint64_t *taken_at(struct block_region *region, unsigned word)
{
	return &region->pages[word / BLOCK_PAGE_WORDS].taken[word % BLOCK_PAGE_WORDS];
}

static uint64_t starts_at(const struct block_region *region, unsigned word)
{
	return region->pages[word / BLOCK_PAGE_WORDS].starts[word % BLOCK_PAGE_WORDS];
}

/* The bits of word w that stand for grains from .. to, of which it has some. */
static inline uint64_t mask_of(unsigned w, unsigned from, unsigned to)
{
	uint64_t mask = from > w * 64 ? UINT64_MAX << (from - w * 64) : UINT64_MAX;

	return to < (w + 1) * 64 ? mask & ((UINT64_C(1) << (to - w * 64)) - 1) : mask;
}

static inline bool is_taken(struct block_region *region, unsigned from, unsigned to)
{
	uint64_t taken = 0;

	for (unsigned w = from / 64; w * 64 < to; w++)
		taken |= *taken_at(region, w) & mask_of(w, from, to);
	return taken != 0;
}

/* Turn round the bits of a range whose bits are all alike. */
static inline void turn(struct block_region *region, unsigned from, unsigned to)
{
	for (unsigned w = from / 64; w * 64 < to; w++)
		*taken_at(region, w) ^= mask_of(w, from, to);
}

static void turn_start(struct block_region *region, unsigned grain)
{
	region->pages[grain / PAGE_GRAINS].starts[grain / 64 % BLOCK_PAGE_WORDS] ^= UINT64_C(1)
										    << grain % 64;
}

/* The last start at or before a grain; -1: none. */
static int start_before(const struct block_region *region, unsigned grain)
{
	unsigned w = grain / 64;
	uint64_t bits = starts_at(region, w) & UINT64_MAX >> (63 - grain % 64);

	while (bits == 0 && w > 0)
		bits = starts_at(region, --w);
	return bits ? (int)(w * 64 + 63 - (unsigned)__builtin_clzll(bits)) : -1;
}

/* The first start at or behind a grain, which may be behind the region; -1: none. */
static int start_behind(const struct block_region *region, unsigned grain)
{
	unsigned w = grain / 64;

	if (w == REGION_WORDS)
		return -1;
	uint64_t bits = starts_at(region, w) & UINT64_MAX << grain % 64;
	while (bits == 0 && w + 1 < REGION_WORDS)
		bits = starts_at(region, ++w);
	return bits ? (int)(w * 64 + (unsigned)__builtin_ctzll(bits)) : -1;
}

/* ---- Which region ---- */

static size_t slot_of(const struct block_pages *pages, uint64_t number)
{
	return number * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (pages->n_slots - 1);
}

static struct block_region *region_at(const struct block_pages *pages, uint64_t number)
{
	if (pages->n_slots == 0)
		return NULL;
	for (size_t i = slot_of(pages, number);; i = (i + 1) & (pages->n_slots - 1)) {
		const struct block_region_slot *slot = &pages->slots[i];
		if (!slot->region || slot->number == number)
			return slot->region;
	}
}

static void put_region(const struct block_pages *pages, const struct block_region_slot *slot)
{
	size_t i = slot_of(pages, slot->number);

	while (pages->slots[i].region)
		i = (i + 1) & (pages->n_slots - 1);
	pages->slots[i] = *slot;
}

/* Whether it has blocks: else it goes when there are more slots. */
static bool is_used(const struct block_region_slot *slot)
{
	return slot->region && is_taken(slot->region, 0, REGION_GRAINS);
}

/* More slots, where there are too few. Returns 0, -E2BIG or -ENOMEM. */
static int grow_slots(struct block_pages *pages)
{
	size_t n_slots = FIRST_SLOTS, n_old = pages->n_slots, n_used = 0;
	struct block_region_slot *old = pages->slots;

	for (size_t i = 0; i < n_old; i++)
		n_used += is_used(&old[i]);
	if (n_used * sizeof(struct block_region) > SPARSE_BYTES &&
	    n_used * sizeof(struct block_region) / SPARSE_BLOCK > pages->n_blocks)
		return -E2BIG;
	while (n_slots < 3 * (n_used + 2))
		n_slots *= 2;
	struct block_region_slot *slots = calloc(n_slots, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	pages->slots = slots;
	pages->n_slots = n_slots;
	pages->n_regions = n_used;
	for (size_t i = 0; i < n_old; i++) {
		if (is_used(&old[i]))
			put_region(pages, &old[i]);
		else if (old[i].region)
			heap_store_put(&pages->pool->regions, old[i].region);
	}
	free(old);
	return 0;
}

static bool has_room(const struct block_pages *pages)
{
	return 2 * (pages->n_regions + 2) <= pages->n_slots;
}

/* The region of a number, for which there is room; NULL without memory. */
static struct block_region *make_region(struct block_pages *pages, const struct heap *tree,
					uint64_t number)
{
	struct block_region *region = region_at(pages, number);
	struct heap_block block;

	if (region)
		return region;
	region = heap_store_take(&pages->pool->regions);
	if (!region)
		return NULL;
	memset(region, 0, sizeof(*region));
	/* Any of its pages may have bytes of a block of the tree: they are asked one by one. */
	if (tree->n_blocks > 0 &&
	    heap_overlap(tree, address_of(number, 0), BLOCK_REGION_BYTES, &block))
		region->met = UINT64_MAX;
	put_region(pages, &(struct block_region_slot){ number, region });
	pages->n_regions++;
	return region;
}

/* The regions of a span; *ret_next is NULL where it has one only. 0 or a negative errno. */
static int regions_of(struct block_pages *pages, const struct heap *tree, const struct span *span,
		      struct block_region **ret_region, struct block_region **ret_next)
{
	int r = has_room(pages) ? 0 : grow_slots(pages);

	if (r < 0)
		return r;
	*ret_region = make_region(pages, tree, span->number);
	*ret_next = span->n_next ? make_region(pages, tree, span->number + 1) : NULL;
	return !*ret_region || (span->n_next && !*ret_next) ? -ENOMEM : 0;
}

/*
 * Whether a block of the tree may share a byte with grains of a region. A page that has none any
 * more is not asked again.
 */
static bool is_met(struct block_region *region, uint64_t number, unsigned from, unsigned to,
		   const struct heap *tree)
{
	uint64_t span = mask_of(0, from / PAGE_GRAINS, (to - 1) / PAGE_GRAINS + 1);
	struct heap_block block;

	for (uint64_t left = region->met & span; left; left &= left - 1) {
		unsigned page = (unsigned)__builtin_ctzll(left);
		if (!heap_overlap(tree, address_of(number, page * PAGE_GRAINS), BLOCK_PAGE_BYTES,
				  &block))
			region->met &= ~(UINT64_C(1) << page);
	}
	return region->met & span;
}

/* ---- Records ---- */

static struct heap_block block_of(const struct block_record *record)
{
	uint64_t id = record->id_thread & MAX_ID, distance = record->site_previous >> 32;

	return (struct heap_block){
		.address = (record->place_size & ((UINT64_C(1) << PLACE_BITS) - 1)) << GRAIN_LOG2,
		.size = record->place_size >> PLACE_BITS,
		.allocated_ns = (int64_t)(record->time_call & ((UINT64_C(1) << TIME_BITS) - 1)),
		.id = id,
		.previous_id = distance ? id - distance : 0,
		.thread = (uint32_t)(record->id_thread >> ID_BITS),
		.site = (uint32_t)record->site_previous,
		.call = (uint8_t)(record->time_call >> TIME_BITS),
		.interval = (uint8_t)(record->time_call >> (TIME_BITS + 8)),
	};
}

static void write_record(struct block_record *record, const struct heap_block *block)
{
	uint64_t distance = block->previous_id ? block->id - block->previous_id : 0;

	record->place_size = block->address >> GRAIN_LOG2 | block->size << PLACE_BITS;
	record->time_call = (uint64_t)block->allocated_ns | (uint64_t)block->call << TIME_BITS |
			    (uint64_t)block->interval << (TIME_BITS + 8);
	record->id_thread = block->id | (uint64_t)block->thread << ID_BITS;
	record->site_previous = block->site | distance << 32;
}

static uint32_t tag_of(uint64_t address)
{
	return (uint32_t)((address >> GRAIN_LOG2) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

static size_t behind(const struct block_pages *pages, size_t at)
{
	return (at + 1) & (pages->n_index - 1);
}

static uint32_t record_of(uint64_t entry)
{
	return (uint32_t)entry - 1;
}

/* Where in the index the block that starts at an address stands, which has one. */
static bool find_entry(const struct block_pages *pages, uint64_t address, size_t *ret_at)
{
	uint32_t tag = tag_of(address);
	uint64_t entry, place = address >> GRAIN_LOG2;

	if (pages->n_index == 0)
		return false;
	for (size_t at = tag >> pages->shift; (entry = pages->index[at]); at = behind(pages, at)) {
		if (entry >> 32 != tag)
			continue;
		const struct block_record *record = heap_pool_record(pages->pool, record_of(entry));
		if ((record->place_size & ((UINT64_C(1) << PLACE_BITS) - 1)) == place) {
			*ret_at = at;
			return true;
		}
	}
	return false;
}

/* Of an address where one starts. */
static struct heap_block block_at(const struct block_pages *pages, uint64_t address)
{
	size_t at = 0;

	find_entry(pages, address, &at);
	return block_of(heap_pool_record(pages->pool, record_of(pages->index[at])));
}

static void put_entry(const struct block_pages *pages, uint64_t entry)
{
	size_t at = (uint32_t)(entry >> 32) >> pages->shift;

	while (pages->index[at])
		at = behind(pages, at);
	pages->index[at] = entry;
}

/* What stands behind it moves up, if it may: a search ends where nothing stands. */
static void take_entry(const struct block_pages *pages, size_t hole)
{
	size_t last = pages->n_index - 1;
	uint64_t entry;

	for (size_t at = behind(pages, hole); (entry = pages->index[at]); at = behind(pages, at)) {
		size_t home = (uint32_t)(entry >> 32) >> pages->shift;
		if (((at - home) & last) < ((at - hole) & last))
			continue;
		pages->index[hole] = entry;
		hole = at;
	}
	pages->index[hole] = 0;
}

/* The index is kept three quarters full at most. Returns 0 or -ENOMEM. */
static int reserve_entry(struct block_pages *pages)
{
	struct block_pages old = *pages;

	if (4 * (old.n_blocks + 1) <= 3 * old.n_index)
		return 0;
	if (old.n_index > UINT32_MAX / 2)
		return -ENOMEM;
	pages->n_index = old.n_index ? 2 * old.n_index : FIRST_INDEX;
	pages->shift = 32 - (unsigned)__builtin_ctzll(pages->n_index);
	pages->index = large_alloc(pages->n_index * sizeof(*pages->index));
	if (!pages->index) {
		*pages = old;
		return -ENOMEM;
	}
	for (size_t i = 0; i < old.n_index; i++) {
		if (old.index[i])
			put_entry(pages, old.index[i]);
	}
	free(old.index);
	return 0;
}

/*
 * One thing after another, each for all addresses: so their misses of the cache overlap. A record
 * may lie elsewhere when its turn comes; then it is fetched in vain.
 */
void block_pages_fetch(const struct block_pages *pages, const uint64_t *addresses, size_t n)
{
	if (pages->n_index == 0)
		return;
	for (size_t i = 0; i < n; i++) {
		const struct block_region *region = region_at(pages, number_of(addresses[i]));

		__builtin_prefetch(&pages->index[tag_of(addresses[i]) >> pages->shift]);
		if (!region)
			continue;
		__builtin_prefetch(&region->pages[grain_of(addresses[i]) / PAGE_GRAINS], 1);
		__builtin_prefetch(&region->met);
	}
	for (size_t i = 0; i < n; i++) {
		uint32_t tag = tag_of(addresses[i]);
		size_t at = tag >> pages->shift;

		while (pages->index[at] && pages->index[at] >> 32 != tag)
			at = behind(pages, at);
		if (pages->index[at])
			__builtin_prefetch(
				heap_pool_record(pages->pool, record_of(pages->index[at])));
	}
}

/* ---- Blocks ---- */

/* What a block takes is taken now, or is no more. */
static void change(const struct block_pages *pages, struct block_region *region,
		   const struct span *span)
{
	turn_start(region, span->from);
	turn(region, span->from, span->to);
	if (span->n_next)
		turn(region_at(pages, span->number + 1), 0, span->n_next);
}

int block_pages_insert(struct block_pages *pages, const struct heap *tree,
		       const struct heap_block *block)
{
	struct span span = span_of(block->address, block->size);
	struct block_region *region, *next;
	struct heap_block other;
	uint32_t number;
	int r = regions_of(pages, tree, &span, &region, &next) ?: reserve_entry(pages);

	if (r < 0)
		return r;
	if (is_taken(region, span.from, span.to) || (next && is_taken(next, 0, span.n_next)))
		return -EEXIST;
	if ((is_met(region, span.number, span.from, span.to, tree) ||
	     (next && is_met(next, span.number + 1, 0, span.n_next, tree))) &&
	    heap_overlap(tree, block->address, block->size, &other))
		return -EEXIST;
	r = heap_pool_take_record(pages->pool, &number);
	if (r < 0)
		return r;
	write_record(heap_pool_record(pages->pool, number), block);
	put_entry(pages, (uint64_t)tag_of(block->address) << 32 | (number + 1));
	change(pages, region, &span);
	pages->n_blocks++;
	return 0;
}

bool block_pages_remove(struct block_pages *pages, uint64_t address, struct heap_block *ret_block)
{
	size_t at;

	if (address % GRAIN_BYTES || !find_entry(pages, address, &at))
		return false;
	uint32_t number = record_of(pages->index[at]);
	*ret_block = block_of(heap_pool_record(pages->pool, number));
	struct span span = span_of(address, ret_block->size);
	take_entry(pages, at);
	heap_pool_put_record(pages->pool, number);
	change(pages, region_at(pages, span.number), &span);
	pages->n_blocks--;
	return true;
}

/* ---- Addresses inside ---- */

/* The last block that starts at or before an address which lies in one's grains. */
static bool block_around(const struct block_pages *pages, uint64_t address,
			 struct heap_block *ret_block)
{
	uint64_t number = number_of(address);
	struct block_region *region = region_at(pages, number);
	unsigned grain = grain_of(address);

	if (!region || !is_taken(region, grain, grain + 1))
		return false;
	int start = start_before(region, grain);
	if (start < 0)
		start = start_before(region_at(pages, --number), REGION_GRAINS - 1);
	*ret_block = block_at(pages, address_of(number, (unsigned)start));
	return true;
}

bool block_pages_find(const struct block_pages *pages, uint64_t address,
		      struct heap_block *ret_block)
{
	struct heap_block block;

	if (!block_around(pages, address, &block) || address - block.address >= block.size)
		return false;
	*ret_block = block;
	return true;
}

void block_pages_starts(const struct block_pages *pages, uint64_t *addresses, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct block_region *region = region_at(pages, number_of(addresses[i]));

		if (region)
			__builtin_prefetch(&region->pages[grain_of(addresses[i]) / PAGE_GRAINS]);
	}
	for (size_t i = 0; i < n; i++) {
		struct block_region *region = region_at(pages, number_of(addresses[i]));
		unsigned grain = grain_of(addresses[i]);
		int start = -1;

		if (region && is_taken(region, grain, grain + 1))
			start = start_before(region, grain);
		if (start >= 0)
			addresses[i] = address_of(number_of(addresses[i]), (unsigned)start);
	}
}

/* The last of that many bytes. */
static uint64_t last_of(uint64_t address, uint64_t size)
{
	uint64_t n = size ? size - 1 : 0;

	return n > UINT64_MAX - address ? UINT64_MAX : address + n;
}

/* Regions that bytes lie in: by their numbers, or of all that there are, whatever is less. */
struct walk {
	uint64_t first;
	uint64_t last;
	uint64_t at; /* number, or slot */
	bool is_of_all;
};

static struct walk walk_of(const struct block_pages *pages, uint64_t address, uint64_t size)
{
	uint64_t end = last_of(address, size);
	struct walk walk = { number_of(address), number_of(end), number_of(address), false };

	if (walk.last - walk.first >= pages->n_slots) {
		walk.is_of_all = true;
		walk.at = 0;
	}
	return walk;
}

/* The next of them; region NULL: no more. */
static struct block_region_slot walk_on(const struct block_pages *pages, struct walk *walk)
{
	if (!walk->is_of_all) {
		while (walk->at <= walk->last) {
			uint64_t number = walk->at++;
			struct block_region *region = region_at(pages, number);
			if (region)
				return (struct block_region_slot){ number, region };
		}
		return (struct block_region_slot){ 0 };
	}
	while (walk->at < pages->n_slots) {
		const struct block_region_slot *slot = &pages->slots[walk->at++];
		if (slot->region && walk->first <= slot->number && slot->number <= walk->last)
			return *slot;
	}
	return (struct block_region_slot){ 0 };
}

size_t block_pages_cost(const struct block_pages *pages, uint64_t size)
{
	uint64_t n = number_of(size) + 1;

	return n < pages->n_slots ? (size_t)n : pages->n_slots;
}

void block_pages_meet(struct block_pages *pages, uint64_t address, uint64_t size)
{
	struct walk walk = walk_of(pages, address, size);
	uint64_t end = last_of(address, size);

	for (struct block_region_slot slot; (slot = walk_on(pages, &walk)).region;) {
		unsigned from = slot.number == walk.first ? grain_of(address) / PAGE_GRAINS : 0;
		unsigned to = slot.number == walk.last ? grain_of(end) / PAGE_GRAINS + 1
						       : BLOCK_REGION_PAGES;
		slot.region->met |= mask_of(0, from, to);
	}
}

bool block_pages_overlap(const struct block_pages *pages, uint64_t address, uint64_t size,
			 struct heap_block *ret_block)
{
	struct walk walk = walk_of(pages, address, size);
	uint64_t first = UINT64_MAX;
	struct heap_block block;

	if (block_around(pages, address, &block) &&
	    (block.address == address || address - block.address < block.size)) {
		*ret_block = block;
		return true;
	}
	for (struct block_region_slot slot; (slot = walk_on(pages, &walk)).region;) {
		bool is_first = slot.number == walk.first;
		int start = start_behind(slot.region, is_first ? grain_of(address) + 1 : 0);
		uint64_t at = start < 0 ? UINT64_MAX : address_of(slot.number, (unsigned)start);

		if (start >= 0 && at - address < size && at < first)
			first = at;
	}
	if (first != UINT64_MAX)
		*ret_block = block_at(pages, first);
	return first != UINT64_MAX;
}

/* ---- All of them ---- */

size_t block_pages_bytes(const struct block_pages *pages)
{
	return pages->n_index * sizeof(*pages->index) + pages->n_slots * sizeof(*pages->slots);
}

DEFINE_ORDER(compare_regions, struct block_region_slot, BY(number));

int block_pages_begin(const struct block_pages *pages, struct block_page_cursor *ret_cursor)
{
	struct block_page_cursor cursor = { .of = pages };

	cursor.regions = calloc(pages->n_regions + 1, sizeof(*cursor.regions));
	if (!cursor.regions)
		return -ENOMEM;
	for (size_t i = 0; i < pages->n_slots; i++) {
		if (pages->slots[i].region)
			cursor.regions[cursor.n++] = pages->slots[i];
	}
	qsort(cursor.regions, cursor.n, sizeof(*cursor.regions), compare_regions);
	*ret_cursor = cursor;
	return 0;
}

void block_pages_end(struct block_page_cursor *cursor)
{
	free(cursor->regions);
	cursor->regions = NULL;
}

static const struct block_region_slot *region_of(const struct block_page_cursor *cursor)
{
	return &cursor->regions[cursor->at / BLOCK_REGION_PAGES];
}

/* All records of a page, which lie anywhere, come at once. */
static void fetch_page(const struct block_page_cursor *cursor)
{
	const struct block_region_slot *slot = region_of(cursor);
	unsigned from = cursor->at % BLOCK_REGION_PAGES * PAGE_GRAINS;
	uint64_t addresses[PAGE_GRAINS];
	size_t n = 0;

	for (unsigned word = from / 64; word < (from + PAGE_GRAINS) / 64; word++) {
		for (uint64_t left = starts_at(slot->region, word); left; left &= left - 1)
			addresses[n++] = address_of(slot->number,
						    word * 64 + (unsigned)__builtin_ctzll(left));
	}
	block_pages_fetch(cursor->of, addresses, n);
}

/* The rest of a page; 1: a block is not below `until`. */
static int walk_page(struct block_page_cursor *cursor, uint64_t until, uint64_t above_id,
		     heap_visit visit, void *context)
{
	const struct block_region_slot *slot = region_of(cursor);
	unsigned page = cursor->at % BLOCK_REGION_PAGES;

	for (;;) {
		while (cursor->starts == 0 && cursor->word < BLOCK_PAGE_WORDS)
			cursor->starts = slot->region->pages[page].starts[cursor->word++];
		if (cursor->starts == 0)
			return 0;
		unsigned bit = (unsigned)__builtin_ctzll(cursor->starts);
		uint64_t address = address_of(slot->number,
					      page * PAGE_GRAINS + (cursor->word - 1) * 64 + bit);
		if (address >= until)
			return 1;
		cursor->starts &= cursor->starts - 1;
		struct heap_block block = block_at(cursor->of, address);
		int r = block.id > above_id ? visit(context, &block) : 0;
		if (r < 0)
			return r;
	}
}

int block_pages_walk(struct block_page_cursor *cursor, uint64_t until, uint64_t above_id,
		     heap_visit visit, void *context)
{
	int r = 0;

	while (r == 0 && cursor->at < cursor->n * BLOCK_REGION_PAGES) {
		if (cursor->word == 0)
			fetch_page(cursor);
		r = walk_page(cursor, until, above_id, visit, context);
		if (r != 0)
			break;
		cursor->at++;
		cursor->word = 0;
	}
	return r < 0 ? r : 0;
}

/* How many bytes of blocks lie in the page that is next. */
static unsigned bytes_of(struct block_page_cursor *cursor)
{
	const struct block_region_slot *slot = region_of(cursor);
	unsigned page = cursor->at % BLOCK_REGION_PAGES;
	uint64_t from = address_of(slot->number, page * PAGE_GRAINS), end = from + BLOCK_PAGE_BYTES;
	uint64_t n = cursor->end < from ? 0 : (cursor->end < end ? cursor->end : end) - from;

	fetch_page(cursor);
	for (unsigned word = 0; word < BLOCK_PAGE_WORDS; word++) {
		for (uint64_t left = slot->region->pages[page].starts[word]; left;
		     left &= left - 1) {
			unsigned bit = word * 64 + (unsigned)__builtin_ctzll(left);
			uint64_t address = from + ((uint64_t)bit << GRAIN_LOG2);

			cursor->end = address + block_at(cursor->of, address).size;
			n += (cursor->end < end ? cursor->end : end) - address;
		}
	}
	return (unsigned)n;
}

bool block_pages_next(struct block_page_cursor *cursor, uint64_t until, uint64_t *ret_number,
		      unsigned *ret_n_bytes)
{
	while (cursor->at < cursor->n * BLOCK_REGION_PAGES) {
		uint64_t number = region_of(cursor)->number * BLOCK_REGION_PAGES +
				  cursor->at % BLOCK_REGION_PAGES;

		if (number << BLOCK_PAGE_LOG2 >= until)
			return false;
		*ret_number = number;
		*ret_n_bytes = bytes_of(cursor);
		cursor->at++;
		if (*ret_n_bytes > 0)
			return true;
	}
	return false;
}

void block_pages_finish(struct block_pages *pages)
{
	for (size_t i = 0; i < pages->n_index; i++) {
		if (pages->index[i])
			heap_pool_put_record(pages->pool, record_of(pages->index[i]));
	}
	for (size_t i = 0; i < pages->n_slots; i++) {
		if (pages->slots[i].region)
			heap_store_put(&pages->pool->regions, pages->slots[i].region);
	}
	free(pages->index);
	free(pages->slots);
	*pages = (struct block_pages){ .pool = pages->pool };
}
