#include "analyze/live/block-pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/live/block-tree-pool.h"
#include "common/array.h"

#define GRAIN_LOG2    4
#define GRAIN_BYTES   (1u << GRAIN_LOG2)
#define PAGE_GRAINS   (BLOCK_PAGE_WORDS * 64)
#define SUM_GRAINS    (unsigned)(BLOCK_SUM_BYTES / GRAIN_BYTES)
#define REGION_GRAINS (unsigned)(BLOCK_REGION_BYTES / GRAIN_BYTES)
#define REGION_WORDS  (REGION_GRAINS / 64)
#define ID_BITS	      40 /* of heap_block.id */
#define MAX_ID	      ((UINT64_C(1) << ID_BITS) - 1)
#define TIME_BITS     48 /* of ns: three days */
#define FIRST_SLOTS   64
#define SPARSE_BYTES  (4u << 20) /* of regions: below that memory does not matter */
#define SPARSE_BLOCK  40u /* bytes of regions for a block, and they are too many */
#define FETCHED	      128 /* addresses at a time */

_Static_assert(sizeof(struct block_region) == HEAP_REGION_BYTES, "what the pool gives");
_Static_assert(BLOCK_SUM_BYTES == 2 * BLOCK_PAGE_BYTES, "two pages are summed");

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
	       block->id <= MAX_ID && block->thread < 1u << (64 - ID_BITS) &&
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
	for (unsigned w = grain / 64; w < REGION_WORDS; w++) {
		uint64_t bits = starts_at(region, w) & mask_of(w, grain, REGION_GRAINS);
		if (bits)
			return (int)(w * 64 + (unsigned)__builtin_ctzll(bits));
	}
	return -1;
}

static void meet(struct block_region *region, unsigned from, unsigned to)
{
	for (unsigned page = from / PAGE_GRAINS; page * PAGE_GRAINS < to; page++)
		region->pages[page].is_met = true;
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
		meet(region, 0, REGION_GRAINS);
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
	struct heap_block block;
	bool is = false;

	for (unsigned i = from / PAGE_GRAINS; i * PAGE_GRAINS < to; i++) {
		struct block_page *page = &region->pages[i];
		if (page->is_met)
			page->is_met = heap_overlap(tree, address_of(number, i * PAGE_GRAINS),
						    BLOCK_PAGE_BYTES, &block);
		is |= page->is_met;
	}
	return is;
}

/* ---- Records ---- */

static struct block_page *page_at(struct block_region *region, unsigned grain)
{
	return &region->pages[grain / PAGE_GRAINS];
}

static struct heap_block block_of(const struct block_record *record, uint64_t address)
{
	uint64_t id = record->id_thread & MAX_ID, distance = record->site_previous >> 32;

	return (struct heap_block){
		.address = address,
		.size = record->size,
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

	record->size = block->size;
	record->time_call = (uint64_t)block->allocated_ns | (uint64_t)block->call << TIME_BITS |
			    (uint64_t)block->interval << (TIME_BITS + 8);
	record->id_thread = block->id | (uint64_t)block->thread << ID_BITS;
	record->site_previous = block->site | distance << 32;
}

/* How many bits of both are set; a processor of 2003 has no instruction for that. */
static inline unsigned count_bits(uint64_t a, uint64_t b)
{
	const uint64_t ones = UINT64_MAX / 3, twos = UINT64_MAX / 5, fours = UINT64_MAX / 17;

	a -= a >> 1 & ones;
	b -= b >> 1 & ones;
	a = (a & twos) + (a >> 2 & twos) + (b & twos) + (b >> 2 & twos);
	a = (a & fours) + (a >> 4 & fours);
	return (unsigned)(a * (UINT64_MAX / 255) >> 56);
}

/* How many blocks start in a page before a grain of its region. */
static inline unsigned rank_of(const struct block_page *page, unsigned grain)
{
	uint64_t below = (UINT64_C(1) << grain % 64) - 1;
	bool is_high = grain & 64;

	return count_bits(page->starts[0] & (is_high ? UINT64_MAX : below),
			  page->starts[1] & (is_high ? below : 0));
}

static unsigned count_of(const struct block_page *page)
{
	return count_bits(page->starts[0], page->starts[1]);
}

static bool is_start(const struct block_page *page, unsigned grain)
{
	return page->starts[grain / 64 % BLOCK_PAGE_WORDS] >> grain % 64 & 1;
}

static uint32_t *numbers_of(struct block_page *page)
{
	return page->many ? page->many : page->few;
}

static unsigned room_of(const struct block_page *page)
{
	return page->many ? HEAP_LIST_LEAST << page->level : BLOCK_PAGE_FEW;
}

/* Of a grain where one starts. */
static struct block_record *record_at(const struct block_pages *pages, struct block_region *region,
				      unsigned grain)
{
	struct block_page *page = page_at(region, grain);

	return heap_pool_record(pages->pool, numbers_of(page)[rank_of(page, grain)]);
}

/* Its n numbers move to a list of a level; -1: into the page. Returns 0 or -ENOMEM. */
static int move_numbers(struct heap_pool *pool, struct block_page *page, unsigned n, int level)
{
	uint32_t *list = level < 0 ? page->few : heap_store_take(&pool->lists[level]);

	if (!list)
		return -ENOMEM;
	memcpy(list, numbers_of(page), n * sizeof(*list));
	if (page->many)
		heap_store_put(&pool->lists[page->level], page->many);
	page->many = level < 0 ? NULL : list;
	page->level = level < 0 ? 0 : (uint8_t)level;
	return 0;
}

/* A block is about to start at a grain: its record. Returns 0 or -ENOMEM. */
static int add_record(struct heap_pool *pool, struct block_page *page, unsigned grain,
		      const struct heap_block *block)
{
	unsigned n = count_of(page), rank = rank_of(page, grain);
	uint32_t number;
	int r = heap_pool_take_record(pool, &number);

	if (r == 0 && n == room_of(page)) {
		r = move_numbers(pool, page, n, page->many ? page->level + 1 : 0);
		if (r < 0)
			heap_pool_put_record(pool, number);
	}
	if (r < 0)
		return r;
	write_record(heap_pool_record(pool, number), block);
	uint32_t *numbers = numbers_of(page);
	if (page->many)
		memmove(numbers + rank + 1, numbers + rank, (n - rank) * sizeof(*numbers));
	else /* always as many steps */
		for (unsigned i = BLOCK_PAGE_FEW - 1; i > 0; i--)
			numbers[i] = numbers[i - (i > rank)];
	numbers[rank] = number;
	return 0;
}

/* The record of a grain where a block starts until now. */
static struct heap_block drop_record(struct heap_pool *pool, struct block_page *page,
				     uint64_t address)
{
	unsigned rank = rank_of(page, grain_of(address));
	uint32_t *numbers = numbers_of(page), number = numbers[rank];
	const struct heap_block block = block_of(heap_pool_record(pool, number), address);

	heap_pool_put_record(pool, number);
	if (!page->many) {
		for (unsigned i = 0; i < BLOCK_PAGE_FEW - 1; i++)
			numbers[i] = numbers[i + (i >= rank)];
		return block;
	}
	unsigned n = count_of(page) - 1;
	memmove(numbers + rank, numbers + rank + 1, (n - rank) * sizeof(*numbers));
	/* Without memory for a shorter list it keeps the long one. */
	if (n <= room_of(page) / 4)
		move_numbers(pool, page, n, page->level - 1);
	return block;
}

/* One thing after another, each for all addresses: so their misses of the cache overlap. */
static void fetch_some(const struct block_pages *pages, const uint64_t *addresses, size_t n)
{
	static struct block_page none;
	struct block_page *found[FETCHED];

	for (size_t i = 0; i < n; i++) {
		struct block_region *region = region_at(pages, number_of(addresses[i]));

		found[i] = region ? page_at(region, grain_of(addresses[i])) : &none;
		__builtin_prefetch(found[i], 1);
	}
	for (size_t i = 0; i < n; i++) {
		if (found[i]->many)
			__builtin_prefetch(
				&found[i]->many[rank_of(found[i], grain_of(addresses[i]))], 1);
	}
	for (size_t i = 0; i < n; i++) {
		unsigned grain = grain_of(addresses[i]);
		/* No branch, as nobody can tell which way it goes: then the first record is. */
		uint32_t is = is_start(found[i], grain) ? UINT32_MAX : 0;
		uint32_t number = numbers_of(found[i])[rank_of(found[i], grain) & is] & is;

		__builtin_prefetch(heap_pool_record(pages->pool, number));
	}
}

void block_pages_fetch(const struct block_pages *pages, const uint64_t *addresses, size_t n)
{
	for (size_t i = 0; pages->n_blocks > 0 && i < n; i += FETCHED)
		fetch_some(pages, addresses + i, n - i < FETCHED ? n - i : FETCHED);
}

/* ---- Blocks ---- */

/* Pages get bytes of a region, or lose them; what lies behind it is not theirs. */
static void count_bytes(struct block_region *region, uint64_t from, uint64_t to, bool is_born)
{
	for (uint64_t i = from / BLOCK_PAGE_BYTES; from < to && i < BLOCK_REGION_PAGES; i++) {
		uint64_t end = (i + 1) * BLOCK_PAGE_BYTES;
		uint16_t n = (uint16_t)((to < end ? to : end) - from);
		region->pages[i].n_bytes += is_born ? n : -n;
		from = end;
	}
}

/* What a block takes is taken now, or is no more. */
static void change(const struct block_pages *pages, struct block_region *region,
		   const struct span *span, uint64_t size, bool is_born)
{
	uint64_t from = (uint64_t)span->from << GRAIN_LOG2;

	turn_start(region, span->from);
	turn(region, span->from, span->to);
	count_bytes(region, from, from + size, is_born);
	if (!span->n_next)
		return;
	struct block_region *next = region_at(pages, span->number + 1);
	turn(next, 0, span->n_next);
	count_bytes(next, 0, from + size - BLOCK_REGION_BYTES, is_born);
}

int block_pages_insert(struct block_pages *pages, const struct heap *tree,
		       const struct heap_block *block)
{
	struct span span = span_of(block->address, block->size);
	struct block_region *region, *next;
	struct heap_block other;
	int r = regions_of(pages, tree, &span, &region, &next);

	if (r < 0)
		return r;
	if (is_taken(region, span.from, span.to) || (next && is_taken(next, 0, span.n_next)))
		return -EEXIST;
	if ((is_met(region, span.number, span.from, span.to, tree) ||
	     (next && is_met(next, span.number + 1, 0, span.n_next, tree))) &&
	    heap_overlap(tree, block->address, block->size, &other))
		return -EEXIST;
	r = add_record(pages->pool, page_at(region, span.from), span.from, block);
	if (r < 0)
		return r;
	change(pages, region, &span, block->size, true);
	pages->n_blocks++;
	return 0;
}

bool block_pages_remove(struct block_pages *pages, uint64_t address, struct heap_block *ret_block)
{
	struct block_region *region = region_at(pages, number_of(address));
	unsigned grain = grain_of(address);

	if (address % GRAIN_BYTES || !region || !is_start(page_at(region, grain), grain))
		return false;
	*ret_block = drop_record(pages->pool, page_at(region, grain), address);
	struct span span = span_of(address, ret_block->size);
	change(pages, region, &span, ret_block->size, false);
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
	if (start < 0) {
		region = region_at(pages, --number);
		start = start_before(region, REGION_GRAINS - 1);
	}
	*ret_block = block_of(record_at(pages, region, (unsigned)start),
			      address_of(number, (unsigned)start));
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
		meet(slot.region, slot.number == walk.first ? grain_of(address) : 0,
		     slot.number == walk.last ? grain_of(end) + 1 : REGION_GRAINS);
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
		block_around(pages, first, ret_block);
	return first != UINT64_MAX;
}

/* ---- All of them ---- */

size_t block_pages_bytes(const struct block_pages *pages)
{
	return pages->n_slots * sizeof(*pages->slots);
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

/* The next block that starts at or behind a grain of the region; -1: none. */
static int next_block(const struct block_page_cursor *cursor, struct heap_block *ret_block)
{
	const struct block_region_slot *slot = &cursor->regions[cursor->at];
	int start = start_behind(slot->region, cursor->grain);

	if (start < 0)
		return -1;
	unsigned grain = (unsigned)start;
	struct block_page *page = page_at(slot->region, grain);
	unsigned rank = rank_of(page, grain);
	/* All records of a page, which lie anywhere, are fetched with the first. */
	for (unsigned i = 0, n = rank == 0 ? count_of(page) : 0; i < n; i++)
		__builtin_prefetch(heap_pool_record(cursor->of->pool, numbers_of(page)[i]));
	*ret_block = block_of(heap_pool_record(cursor->of->pool, numbers_of(page)[rank]),
			      address_of(slot->number, grain));
	return start;
}

int block_pages_walk(struct block_page_cursor *cursor, uint64_t until, uint64_t above_id,
		     heap_visit visit, void *context)
{
	struct heap_block block;

	while (cursor->at < cursor->n) {
		int start = next_block(cursor, &block);
		if (start < 0) {
			cursor->at++;
			cursor->grain = 0;
			continue;
		}
		if (block.address >= until)
			return 0;
		cursor->grain = (unsigned)start + 1;
		int r = block.id > above_id ? visit(context, &block) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

bool block_pages_next(struct block_page_cursor *cursor, uint64_t until, uint64_t *ret_number,
		      unsigned *ret_n_bytes)
{
	while (cursor->at < cursor->n) {
		const struct block_region_slot *slot = &cursor->regions[cursor->at];
		const struct block_page *page = page_at(slot->region, cursor->grain);
		uint64_t from = address_of(slot->number, cursor->grain);

		if (from >= until)
			return false;
		*ret_number = from / BLOCK_SUM_BYTES;
		*ret_n_bytes = page[0].n_bytes + page[1].n_bytes;
		cursor->grain += SUM_GRAINS;
		if (cursor->grain == REGION_GRAINS) {
			cursor->at++;
			cursor->grain = 0;
		}
		if (*ret_n_bytes > 0)
			return true;
	}
	return false;
}

static void finish_region(struct heap_pool *pool, struct block_region *region)
{
	for (unsigned i = 0; i < BLOCK_REGION_PAGES; i++) {
		struct block_page *page = &region->pages[i];

		for (unsigned at = 0, n = count_of(page); at < n; at++)
			heap_pool_put_record(pool, numbers_of(page)[at]);
		if (page->many)
			move_numbers(pool, page, 0, -1);
	}
	heap_store_put(&pool->regions, region);
}

void block_pages_finish(struct block_pages *pages)
{
	for (size_t i = 0; i < pages->n_slots; i++) {
		if (pages->slots[i].region)
			finish_region(pages->pool, pages->slots[i].region);
	}
	free(pages->slots);
	*pages = (struct block_pages){ .pool = pages->pool };
}
