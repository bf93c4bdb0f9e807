#include "analyze/live/block-pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/live/block-tree-pool.h"

#define ID_BITS	      40 /* of heap_block.id */
#define MAX_ID	      ((UINT64_C(1) << ID_BITS) - 1)
#define FIRST_SLOTS   64
#define LINE_BYTES    64u /* of the cache */
#define SPARSE_PAGES  32000 /* below that memory does not matter */
#define SPARSE_BLOCKS 6 /* fewer in a page, and 128 bytes a page are too many */

_Static_assert(sizeof(struct block_page) == HEAP_PAGE_BYTES, "two lines of the cache");

/* Grains from .. to of a page, and the first n_next ones of the page behind it. */
struct span {
	uint64_t number;
	unsigned from;
	unsigned to;
	unsigned n_next;
};

static uint64_t number_of(uint64_t address)
{
	return address >> BLOCK_PAGE_LOG2;
}

static unsigned grain_of(uint64_t address)
{
	return address >> BLOCK_GRAIN_LOG2 & (BLOCK_PAGE_GRAINS - 1);
}

/* A block of no size takes its place, too. */
static struct span span_of(uint64_t address, uint64_t size)
{
	unsigned n = size ? (unsigned)((size - 1) >> BLOCK_GRAIN_LOG2) + 1 : 1;
	struct span span = { number_of(address), grain_of(address), 0, 0 };

	span.to = span.from + n;
	if (span.to > BLOCK_PAGE_GRAINS) {
		span.n_next = span.to - BLOCK_PAGE_GRAINS;
		span.to = BLOCK_PAGE_GRAINS;
	}
	return span;
}

bool block_pages_fits(const struct heap_block *block)
{
	return block->address % (1u << BLOCK_GRAIN_LOG2) == 0 && block->size <= BLOCK_PAGE_BYTES &&
	       block->id <= MAX_ID && block->previous_id <= MAX_ID &&
	       block->thread < 1u << (64 - ID_BITS) &&
	       block->address < UINT64_MAX - 2 * BLOCK_PAGE_BYTES;
}

/* ---- Bits ---- */

/* The bits of word w that stand for grains from .. to, of which it has some. */
static inline uint64_t mask_of(unsigned w, unsigned from, unsigned to)
{
	uint64_t mask = from > w * 64 ? UINT64_MAX << (from - w * 64) : UINT64_MAX;

	return to < (w + 1) * 64 ? mask & ((UINT64_C(1) << (to - w * 64)) - 1) : mask;
}

/* Whether grains are in one word, as those of most blocks. */
static bool is_one_word(unsigned from, unsigned to)
{
	return from / 64 == (to - 1) / 64;
}

static bool is_taken(const struct block_page *page, unsigned from, unsigned to)
{
	uint64_t taken = 0;

	if (is_one_word(from, to))
		return page->taken[from / 64] & mask_of(from / 64, from, to);
	for (unsigned w = from / 64; w * 64 < to; w++)
		taken |= page->taken[w] & mask_of(w, from, to);
	return taken != 0;
}

/* How many bytes of a block lie in its first page. */
static unsigned first_bytes(uint64_t address, uint64_t size)
{
	uint64_t room = BLOCK_PAGE_BYTES - (address & (BLOCK_PAGE_BYTES - 1));

	return (unsigned)(size < room ? size : room);
}

/* Turn round the bits of a range whose bits are all alike. */
static void turn(struct block_page *page, unsigned from, unsigned to)
{
	if (is_one_word(from, to)) {
		page->taken[from / 64] ^= mask_of(from / 64, from, to);
		return;
	}
	for (unsigned w = from / 64; w * 64 < to; w++)
		page->taken[w] ^= mask_of(w, from, to);
}

/* The last start at or before a grain; -1: none. */
static int start_before(const struct block_page *page, unsigned grain)
{
	unsigned w = grain / 64;
	uint64_t bits = page->starts[w] & UINT64_MAX >> (63 - grain % 64);

	while (bits == 0 && w > 0)
		bits = page->starts[--w];
	return bits ? (int)(w * 64 + 63 - (unsigned)__builtin_clzll(bits)) : -1;
}

/* The first start at or behind a grain, which may be behind the page; -1: none. */
static int start_behind(const struct block_page *page, unsigned grain)
{
	unsigned w = grain / 64;

	if (w == BLOCK_PAGE_WORDS)
		return -1;
	uint64_t bits = page->starts[w] & UINT64_MAX << grain % 64;
	while (bits == 0 && w + 1 < BLOCK_PAGE_WORDS)
		bits = page->starts[++w];
	return bits ? (int)(w * 64 + (unsigned)__builtin_ctzll(bits)) : -1;
}

static bool is_start(const struct block_page *page, unsigned grain)
{
	return page->starts[grain / 64] >> grain % 64 & 1;
}

/* Not __builtin_popcountll(): that is a call where the compiler may not count on an instruction. */
static unsigned count_bits(uint64_t bits)
{
	bits -= bits >> 1 & UINT64_C(0x5555555555555555);
	bits = (bits & UINT64_C(0x3333333333333333)) + (bits >> 2 & UINT64_C(0x3333333333333333));
	bits = (bits + (bits >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	return (unsigned)(bits * UINT64_C(0x0101010101010101) >> 56);
}

/* How many blocks of the page start before a grain. */
static unsigned rank_of(const struct block_page *page, unsigned grain)
{
	uint64_t below = page->starts[grain / 64] & ((UINT64_C(1) << grain % 64) - 1);

	return page->before[grain / 64] + count_bits(below);
}

/* A block starts at a grain, or does not any more. */
static void turn_start(struct block_page *page, unsigned grain, int change)
{
	page->starts[grain / 64] ^= UINT64_C(1) << grain % 64;
	for (unsigned w = grain / 64 + 1; w < BLOCK_PAGE_WORDS; w++)
		page->before[w] = (uint8_t)(page->before[w] + change);
}

/* ---- Which page ---- */

static size_t slot_of(const struct block_pages *pages, uint64_t number)
{
	return number * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (pages->n_slots - 1);
}

static struct block_page *page_at(const struct block_pages *pages, uint64_t number)
{
	if (pages->n_slots == 0)
		return NULL;
	for (size_t i = slot_of(pages, number);; i = (i + 1) & (pages->n_slots - 1)) {
		struct block_page *page = pages->slots[i];
		if (!page || page->number == number)
			return page;
	}
}

static void put_page(const struct block_pages *pages, struct block_page *page)
{
	size_t i = slot_of(pages, page->number);

	while (pages->slots[i])
		i = (i + 1) & (pages->n_slots - 1);
	pages->slots[i] = page;
}

static size_t record_bytes(unsigned n_room)
{
	return n_room * sizeof(struct block_record) + (n_room > BLOCK_PAGE_FEW ? n_room : 0);
}

static void free_page(struct heap_pool *pool, struct block_page *page)
{
	pool->array_bytes -= record_bytes(page->n_room);
	free(page->records);
	heap_store_put(&pool->pages, page);
}

static bool is_empty(const struct block_page *page)
{
	return page->n == 0 && !is_taken(page, 0, BLOCK_PAGE_GRAINS);
}

/* More slots, if there are too few: pages without blocks go. Returns 0, -E2BIG or -ENOMEM. */
static int grow(struct block_pages *pages)
{
	struct block_pages old = *pages;
	size_t n_used = 0;

	for (size_t i = 0; i < old.n_slots; i++)
		n_used += old.slots[i] && !is_empty(old.slots[i]);
	if (n_used >= SPARSE_PAGES && pages->n_blocks / SPARSE_BLOCKS < n_used)
		return -E2BIG;
	pages->n_slots = FIRST_SLOTS;
	while (pages->n_slots < 3 * (n_used + 2))
		pages->n_slots *= 2;
	pages->slots = calloc(pages->n_slots, sizeof(struct block_page *));
	if (!pages->slots) {
		*pages = old;
		return -ENOMEM;
	}
	pages->n_pages = n_used;
	for (size_t i = 0; i < old.n_slots; i++) {
		if (old.slots[i] && is_empty(old.slots[i]))
			free_page(pages->pool, old.slots[i]);
		else if (old.slots[i])
			put_page(pages, old.slots[i]);
	}
	free(old.slots);
	return 0;
}

/* Whether a page has bytes of a block of the tree; if not, that is not asked for again. */
static bool meets_tree(struct block_page *page, const struct heap *tree)
{
	struct heap_block block;

	page->meets_tree = tree->n_blocks > 0 && heap_overlap(tree, page->number << BLOCK_PAGE_LOG2,
							      BLOCK_PAGE_BYTES, &block);
	return page->meets_tree;
}

static bool is_met(struct block_page *page, const struct heap *tree)
{
	return page && page->meets_tree && meets_tree(page, tree);
}

/* The page of a number, for which there is room; NULL without memory. */
static struct block_page *make_page(struct block_pages *pages, const struct heap *tree,
				    uint64_t number)
{
	struct block_page *page = page_at(pages, number);

	if (page)
		return page;
	page = heap_store_take(&pages->pool->pages);
	if (!page)
		return NULL;
	*page = (struct block_page){ .number = number };
	meets_tree(page, tree);
	put_page(pages, page);
	pages->n_pages++;
	return page;
}

/* ---- The blocks of a page ---- */

/* The list of places. */
static uint8_t *places_of(struct block_page *page)
{
	return page->n_room <= BLOCK_PAGE_FEW ? page->few
					      : (uint8_t *)(page->records + page->n_room);
}

/* Room for one more. Returns 0 or -ENOMEM. */
static int reserve_record(struct heap_pool *pool, struct block_page *page)
{
	unsigned n_room = page->n_room ? 2u * page->n_room : 2, n_old = page->n_room;

	if (page->n < n_old)
		return 0;
	struct block_record *records = malloc(record_bytes(n_room));
	if (!records)
		return -ENOMEM;
	if (n_old)
		memcpy(records, page->records, n_old * sizeof(*records));
	uint8_t *old_places = places_of(page);
	struct block_record *old = page->records;
	page->records = records;
	page->n_room = (uint16_t)n_room;
	if (places_of(page) != old_places)
		memcpy(places_of(page), old_places, n_old);
	for (unsigned i = n_old; i < n_room; i++)
		places_of(page)[i] = (uint8_t)i;
	free(old);
	pool->array_bytes += record_bytes(n_room) - record_bytes(n_old);
	return 0;
}

static uint64_t address_of(const struct block_page *page, unsigned grain)
{
	return page->number << BLOCK_PAGE_LOG2 | (uint64_t)grain << BLOCK_GRAIN_LOG2;
}

static struct heap_block block_of(const struct block_record *record, uint64_t address)
{
	return (struct heap_block){
		.address = address,
		.size = record->previous_call_size >> 48,
		.allocated_ns = record->allocated_ns,
		.id = record->id_thread & MAX_ID,
		.previous_id = record->previous_call_size & MAX_ID,
		.thread = (uint32_t)(record->id_thread >> ID_BITS),
		.site = (uint32_t)record->site_interval,
		.call = (uint8_t)(record->previous_call_size >> ID_BITS),
		.interval = (uint8_t)(record->site_interval >> 32),
	};
}

static void write_record(struct block_record *record, const struct heap_block *block)
{
	record->allocated_ns = block->allocated_ns;
	record->id_thread = block->id | (uint64_t)block->thread << ID_BITS;
	record->previous_call_size =
		block->previous_id | (uint64_t)block->call << ID_BITS | block->size << 48;
	record->site_interval = block->site | (uint64_t)block->interval << 32;
}

static struct heap_block block_at(struct block_page *page, unsigned grain)
{
	unsigned place = places_of(page)[rank_of(page, grain)];

	return block_of(&page->records[place], address_of(page, grain));
}

/* Whether nothing is where the block goes. */
static bool is_free(const struct block_page *page, const struct block_page *next,
		    const struct span *span)
{
	return !is_taken(page, span->from, span->to) && (!next || !is_taken(next, 0, span->n_next));
}

/* There is room for it. */
static void put_block(struct block_page *page, unsigned grain, const struct heap_block *block)
{
	unsigned rank = rank_of(page, grain);
	uint8_t *places = places_of(page), place = places[page->n];

	memmove(places + rank + 1, places + rank, page->n - rank);
	places[rank] = place;
	page->n++;
	turn_start(page, grain, 1);
	write_record(&page->records[place], block);
}

static struct heap_block take_block(struct block_page *page, unsigned grain)
{
	unsigned rank = rank_of(page, grain);
	uint8_t *places = places_of(page), place = places[rank];

	/* Mostly not in the cache: let it come while the page is changed. */
	__builtin_prefetch(&page->records[place]);
	page->n--;
	memmove(places + rank, places + rank + 1, page->n - rank);
	places[page->n] = place;
	turn_start(page, grain, -1);
	return block_of(&page->records[place], address_of(page, grain));
}

/* Two lines of the cache: where something of at most so many bytes begins and ends. */
static void fetch_lines(const void *from, size_t n_bytes)
{
	__builtin_prefetch(from);
	__builtin_prefetch((const char *)from + n_bytes - 1);
}

/* Where the record of a block that starts at a grain lies; of another grain anything, or NULL. */
static const struct block_record *record_near(struct block_page *page, unsigned grain)
{
	unsigned rank = rank_of(page, grain);

	return rank < page->n_room ? &page->records[places_of(page)[rank]] : NULL;
}

/*
 * One thing after another, each for all addresses: so their misses of the cache overlap. A record
 * may lie elsewhere when its turn comes; then it is fetched in vain.
 */
void block_pages_fetch(const struct block_pages *pages, const uint64_t *addresses, size_t n)
{
	if (pages->n_pages == 0)
		return;
	for (size_t i = 0; i < n; i++)
		__builtin_prefetch(&pages->slots[slot_of(pages, number_of(addresses[i]))]);
	for (size_t i = 0; i < n; i++) {
		const struct block_page *page =
			pages->slots[slot_of(pages, number_of(addresses[i]))];
		if (page)
			fetch_lines(page, 2 * LINE_BYTES);
	}
	for (size_t i = 0; i < n; i++) {
		struct block_page *page = page_at(pages, number_of(addresses[i]));
		const struct block_record *record =
			page ? record_near(page, grain_of(addresses[i])) : NULL;
		if (record)
			fetch_lines(record, sizeof(*record));
	}
}

int block_pages_insert(struct block_pages *pages, const struct heap *tree,
		       const struct heap_block *block)
{
	struct span span = span_of(block->address, block->size);
	struct heap_block other;
	struct block_page *next = NULL;
	int r = 2 * (pages->n_pages + 2) <= pages->n_slots ? 0 : grow(pages);

	if (r < 0)
		return r;
	struct block_page *page = make_page(pages, tree, span.number);
	if (span.n_next)
		next = make_page(pages, tree, span.number + 1);
	if (!page || (span.n_next && !next) || reserve_record(pages->pool, page) < 0)
		return -ENOMEM;
	if (!is_free(page, next, &span))
		return -EEXIST;
	if ((is_met(page, tree) || is_met(next, tree)) &&
	    heap_overlap(tree, block->address, block->size, &other))
		return -EEXIST;
	unsigned n_bytes = first_bytes(block->address, block->size);
	put_block(page, span.from, block);
	turn(page, span.from, span.to);
	page->bytes = (uint16_t)(page->bytes + n_bytes);
	if (next) {
		turn(next, 0, span.n_next);
		next->bytes = (uint16_t)(next->bytes + block->size - n_bytes);
	}
	pages->n_blocks++;
	return 0;
}

bool block_pages_remove(struct block_pages *pages, uint64_t address, struct heap_block *ret_block)
{
	struct block_page *page = page_at(pages, number_of(address));
	unsigned grain = grain_of(address);

	if (!page || address % (1u << BLOCK_GRAIN_LOG2) || !is_start(page, grain))
		return false;

	*ret_block = take_block(page, grain);
	struct span span = span_of(address, ret_block->size);
	unsigned n_bytes = first_bytes(address, ret_block->size);
	turn(page, span.from, span.to);
	page->bytes = (uint16_t)(page->bytes - n_bytes);
	if (span.n_next) {
		struct block_page *next = page_at(pages, span.number + 1);

		turn(next, 0, span.n_next);
		next->bytes = (uint16_t)(next->bytes - (ret_block->size - n_bytes));
	}
	pages->n_blocks--;
	return true;
}

/* ---- Addresses inside ---- */

/* The last block that starts at or before an address which lies in one's grains. */
static bool block_around(const struct block_pages *pages, uint64_t address,
			 struct heap_block *ret_block)
{
	struct block_page *page = page_at(pages, number_of(address));
	unsigned grain = grain_of(address);

	if (!page || !is_taken(page, grain, grain + 1))
		return false;
	int start = start_before(page, grain);
	if (start < 0) {
		page = page_at(pages, number_of(address) - 1);
		start = start_before(page, BLOCK_PAGE_GRAINS - 1);
	}
	*ret_block = block_at(page, (unsigned)start);
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

/* Pages that bytes lie in: by their numbers, or of all that there are, whatever is less. */
struct walk {
	uint64_t first;
	uint64_t last;
	uint64_t at; /* number, or slot */
	bool is_of_all;
};

static struct walk walk_of(const struct block_pages *pages, uint64_t address, uint64_t size)
{
	uint64_t end = size && size - 1 > UINT64_MAX - address ? UINT64_MAX
							       : address + (size ? size - 1 : 0);
	struct walk walk = { number_of(address), number_of(end), number_of(address), false };

	if (walk.last - walk.first >= pages->n_slots) {
		walk.is_of_all = true;
		walk.at = 0;
	}
	return walk;
}

/* The next of them; NULL: no more. */
static struct block_page *walk_on(const struct block_pages *pages, struct walk *walk)
{
	if (!walk->is_of_all) {
		while (walk->at <= walk->last) {
			struct block_page *page = page_at(pages, walk->at++);
			if (page)
				return page;
		}
		return NULL;
	}
	while (walk->at < pages->n_slots) {
		struct block_page *page = pages->slots[walk->at++];
		if (page && walk->first <= page->number && page->number <= walk->last)
			return page;
	}
	return NULL;
}

size_t block_pages_cost(const struct block_pages *pages, uint64_t size)
{
	uint64_t n = number_of(size) + 1;

	return n < pages->n_slots ? (size_t)n : pages->n_slots;
}

void block_pages_meet(struct block_pages *pages, uint64_t address, uint64_t size)
{
	struct walk walk = walk_of(pages, address, size);

	for (struct block_page *page; (page = walk_on(pages, &walk));)
		page->meets_tree = true;
}

bool block_pages_overlap(const struct block_pages *pages, uint64_t address, uint64_t size,
			 struct heap_block *ret_block)
{
	struct walk walk = walk_of(pages, address, size);
	struct heap_block block;
	bool is_found = false;

	if (block_around(pages, address, &block) &&
	    (block.address == address || address - block.address < block.size)) {
		*ret_block = block;
		return true;
	}
	for (struct block_page *page; (page = walk_on(pages, &walk));) {
		bool is_first = page->number == walk.first;
		int start = start_behind(page, is_first ? grain_of(address) + 1 : 0);
		uint64_t at = start < 0 ? 0 : address_of(page, (unsigned)start);

		if (start < 0 || at - address >= size || (is_found && at > ret_block->address))
			continue;
		*ret_block = block_at(page, (unsigned)start);
		is_found = true;
	}
	return is_found;
}

/* ---- All of them ---- */

static int compare_pages(const void *left, const void *right)
{
	const struct block_page *const *a = left, *const *b = right;

	return (*a)->number < (*b)->number ? -1 : (*a)->number > (*b)->number;
}

int block_pages_begin(const struct block_pages *pages, struct block_page_cursor *ret_cursor)
{
	struct block_page_cursor cursor = { 0 };

	cursor.pages = calloc(pages->n_pages + 1, sizeof(struct block_page *));
	if (!cursor.pages)
		return -ENOMEM;
	for (size_t i = 0; i < pages->n_slots; i++) {
		if (pages->slots[i])
			cursor.pages[cursor.n++] = pages->slots[i];
	}
	qsort(cursor.pages, cursor.n, sizeof(*cursor.pages), compare_pages);
	*ret_cursor = cursor;
	return 0;
}

void block_pages_end(struct block_page_cursor *cursor)
{
	free(cursor->pages);
	cursor->pages = NULL;
}

/* A page is far from the one before: what is visited next comes while this one is. */
static void prefetch(const struct block_page_cursor *cursor)
{
	if (cursor->at + 2 < cursor->n)
		__builtin_prefetch(cursor->pages[cursor->at + 2]);
	if (cursor->at + 1 == cursor->n)
		return;
	const struct block_page *next = cursor->pages[cursor->at + 1];
	const char *bytes = (const char *)next->records;
	for (size_t at = 0; at < record_bytes(next->n_room); at += LINE_BYTES)
		__builtin_prefetch(bytes + at);
}

/* The rest of a page; 1: a block is not below `until`. */
static int walk_page(struct block_page_cursor *cursor, uint64_t until, uint64_t above_id,
		     heap_visit visit, void *context)
{
	struct block_page *page = cursor->pages[cursor->at];
	const uint8_t *places = places_of(page);

	for (;;) {
		while (cursor->starts == 0 && cursor->word < BLOCK_PAGE_WORDS)
			cursor->starts = page->starts[cursor->word++];
		if (cursor->starts == 0)
			return 0;
		unsigned bit = (unsigned)__builtin_ctzll(cursor->starts);
		uint64_t address = address_of(page, (cursor->word - 1) * 64 + bit);
		if (address >= until)
			return 1;
		cursor->starts &= cursor->starts - 1;
		struct heap_block block = block_of(&page->records[places[cursor->rank++]], address);
		int r = block.id > above_id ? visit(context, &block) : 0;
		if (r < 0)
			return r;
	}
}

int block_pages_walk(struct block_page_cursor *cursor, uint64_t until, uint64_t above_id,
		     heap_visit visit, void *context)
{
	int r = 0;

	while (r == 0 && cursor->at < cursor->n) {
		if (cursor->word == 0)
			prefetch(cursor);
		r = walk_page(cursor, until, above_id, visit, context);
		if (r != 0)
			break;
		cursor->at++;
		cursor->word = cursor->rank = 0;
	}
	return r < 0 ? r : 0;
}

const struct block_page *block_pages_next(struct block_page_cursor *cursor, uint64_t until)
{
	while (cursor->at < cursor->n && cursor->pages[cursor->at]->bytes == 0)
		cursor->at++;
	if (cursor->at == cursor->n ||
	    cursor->pages[cursor->at]->number << BLOCK_PAGE_LOG2 >= until)
		return NULL;
	return cursor->pages[cursor->at++];
}

void block_pages_finish(struct block_pages *pages)
{
	for (size_t i = 0; i < pages->n_slots; i++) {
		if (pages->slots[i])
			free_page(pages->pool, pages->slots[i]);
	}
	free(pages->slots);
	*pages = (struct block_pages){ .pool = pages->pool };
}
