#include "runner/sampling/data-pages.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "runner/sampling/process-read.h"

#define MAX_PAGES    4096u /* some 4.2 KiB each, which take memory when they are wanted */
#define GROUP	     16u /* pages that are read with the first of them, ... */
#define MAX_AHEAD    1024u /* ... of an image so many: some 0.5 us each */
#define MAX_DUE	     1024u
#define REGION_BYTES (UINT64_C(256) << 10)
#define REGIONS	     4096u
#define N_IMAGES     64u
#define TICK_NS	     (UINT64_C(1) << 20) /* of times, which take less room so */

struct data_pages {
	struct data_page *items[MAX_PAGES]; /* by their place, each in room[] */
	struct data_page *room; /* MAX_PAGES, in the order of their coming */
	uint32_t n;
	uint64_t start, end; /* all pages lie there: most of what is forgotten is elsewhere */
	uint64_t regions[REGIONS / 64]; /* one bit for each that has had pages, direct-mapped */
	struct process_pages present;
	uint32_t round;
	uint64_t begin_ns; /* of this round's first reading; 0: there was none */
	uint32_t n_due;
	struct {
		struct data_page *page;
		pid_t pid;
	} due[MAX_DUE];
	struct {
		uint32_t process_id;
		uint32_t n; /* pages that were read ahead */
	} ahead[N_IMAGES]; /* direct-mapped */
	uint8_t bytes[PROCESS_READ_PAGES][DATA_PAGE_BYTES];
};

struct data_pages *data_pages_create(void)
{
	struct data_pages *pages = calloc(1, sizeof(*pages));

	if (!pages || !(pages->room = calloc(MAX_PAGES, sizeof(*pages->room))))
		return data_pages_destroy(pages);
	pages->round = 1;
	return pages;
}

struct data_pages *data_pages_destroy(struct data_pages *pages)
{
	if (!pages)
		return NULL;
	free(pages->room);
	process_pages_finish(&pages->present);
	free(pages);
	return NULL;
}

static size_t page_index(uint32_t process_id, uint64_t address)
{
	uint64_t hash = (address / DATA_PAGE_BYTES ^ (uint64_t)process_id << 40) *
			UINT64_C(0x9e3779b97f4a7c15);

	return (hash >> 32) % MAX_PAGES;
}

static struct data_page **page_slot(struct data_pages *pages, uint32_t process_id, uint64_t address)
{
	return &pages->items[page_index(process_id, address)];
}

/* What was there is what is there now, and what of it has changed. Most pages are as they were. */
static void compare(struct data_page *page, const uint8_t *now)
{
	const size_t n = DATA_WORD_BYTES;

	memset(page->changed, 0, sizeof(page->changed));
	if (memcmp(page->bytes, now, DATA_PAGE_BYTES) == 0)
		return;
	for (size_t i = 0; i < DATA_PAGE_BYTES / n; i++)
		if (memcmp(page->bytes + i * n, now + i * n, n) != 0)
			page->changed[i / 64] |= UINT64_C(1) << i % 64;
	for (size_t i = 0; i < sizeof(page->stored) / sizeof(page->stored[0]); i++)
		page->stored[i] &= ~page->changed[i];
	memcpy(page->bytes, now, DATA_PAGE_BYTES);
}

/* Read some pages of a process, each for the first time or again. Those that cannot be are lost. */
static void read_pages(struct data_pages *pages, const struct data_owner *owner,
		       struct data_page **items, unsigned n)
{
	uint64_t addresses[PROCESS_READ_PAGES] = { 0 };

	for (unsigned i = 0; i < n; i++)
		addresses[i] = items[i]->address;
	uint64_t found =
		process_read_pages(owner->pid, owner->is_forbidden, addresses, n, pages->bytes);
	uint64_t end_ns = (clock_raw_ns() | (TICK_NS - 1)) + 1;
	for (unsigned i = 0; i < n; i++) {
		items[i]->before_ns = items[i]->end_ns;
		items[i]->end_ns = found >> i & 1 ? end_ns : 0;
		items[i]->is_due = false;
		if (found >> i & 1)
			compare(items[i], pages->bytes[i]);
	}
}

static uint64_t begin(struct data_pages *pages)
{
	uint64_t now_ns = clock_raw_ns();

	if (pages->begin_ns == 0)
		pages->begin_ns = now_ns;
	return now_ns;
}

static uint64_t *region_of(struct data_pages *pages, uint64_t address)
{
	return &pages->regions[address / REGION_BYTES % REGIONS / 64];
}

static uint64_t region_bit(uint64_t address)
{
	return UINT64_C(1) << address / REGION_BYTES % 64;
}

static void widen(struct data_pages *pages, uint64_t address)
{
	if (pages->end == 0 || address < pages->start)
		pages->start = address;
	if (address + DATA_PAGE_BYTES > pages->end)
		pages->end = address + DATA_PAGE_BYTES;
	*region_of(pages, address) |= region_bit(address);
}

/* The slot has room for a page that was not there before. */
static void begin_page(struct data_pages *pages, struct data_page *page, uint32_t process_id,
		       uint64_t address)
{
	widen(pages, address);
	page->address = address;
	page->process_id = process_id;
	page->round = 0;
	page->is_wanted = page->is_due = false;
	page->end_ns = page->stored_from_ns = 0;
}

/* The page's place; NULL: another has it that this round has read, perhaps for this sample. */
static struct data_page *take_place(struct data_pages *pages, uint32_t process_id, uint64_t address)
{
	struct data_page **slot = page_slot(pages, process_id, address);
	struct data_page *page = *slot;

	if (page && page->address == address && page->process_id == process_id)
		return page;
	if (page && page->round == pages->round && page->is_wanted)
		return NULL;
	if (!page)
		page = *slot = &pages->room[pages->n++];
	begin_page(pages, page, process_id, address);
	return page;
}

/* How many more pages of an image may be read ahead. */
static uint32_t *count_ahead(struct data_pages *pages, uint32_t process_id)
{
	size_t i = process_id % N_IMAGES;

	if (pages->ahead[i].process_id != process_id)
		pages->ahead[i].n = 0;
	pages->ahead[i].process_id = process_id;
	return &pages->ahead[i].n;
}

static void hold_place(struct data_pages *pages, struct data_page *page, bool is_held)
{
	page->is_wanted = is_held;
	page->round = pages->round;
}

/* A page that is new and those around it, where nothing else has their places. */
static bool read_new(struct data_pages *pages, const struct data_owner *owner,
		     struct data_page *page)
{
	uint32_t *n_ahead = count_ahead(pages, owner->process_id);
	unsigned n_group = *n_ahead < MAX_AHEAD ? GROUP : 1, n = 1;
	uint64_t first = page->address & ~(uint64_t)(n_group * DATA_PAGE_BYTES - 1);
	uint64_t there = process_has_pages(&pages->present, owner->pid, first, n_group);
	struct data_page *group[GROUP] = { page };

	if (!(there >> (page->address - first) / DATA_PAGE_BYTES & 1))
		return false;
	hold_place(pages, page, true);
	for (uint64_t i = 0; i < n_group; i++) {
		uint64_t other = first + i * DATA_PAGE_BYTES;
		struct data_page *place = *page_slot(pages, owner->process_id, other);

		if (other == page->address || !(there >> i & 1) || (place && place->end_ns))
			continue;
		place = take_place(pages, owner->process_id, other);
		if (!place)
			continue;
		hold_place(pages, place, true);
		group[n++] = place;
		++*n_ahead;
	}
	begin(pages);
	read_pages(pages, owner, group, n);
	for (unsigned i = 1; i < n; i++)
		hold_place(pages, group[i], false);
	return page->end_ns != 0;
}

const struct data_page *data_pages_find(struct data_pages *pages, const struct data_owner *owner,
					uint64_t address)
{
	uint64_t start = address & ~(uint64_t)(DATA_PAGE_BYTES - 1);
	struct data_page *page = take_place(pages, owner->process_id, start);

	if (!page)
		return NULL;
	if (page->round != pages->round && page->end_ns && pages->n_due < MAX_DUE) {
		pages->due[pages->n_due].page = page;
		pages->due[pages->n_due++].pid = owner->pid;
		page->before_ns = page->end_ns;
		page->is_due = true;
	} else if (page->round != pages->round && page->end_ns) {
		begin(pages);
		read_pages(pages, owner, &page, 1);
	} else if (page->round != pages->round || page->end_ns == 0) {
		read_new(pages, owner, page);
	}
	hold_place(pages, page, page->end_ns != 0);
	return page->end_ns ? page : NULL;
}

uint64_t data_pages_settle(struct data_pages *pages)
{
	uint64_t begin_ns = begin(pages);

	for (uint32_t i = 0, end; i < pages->n_due; i = end) {
		struct data_page *items[PROCESS_READ_PAGES];
		bool is_forbidden = false;
		const struct data_owner owner = { 0, pages->due[i].pid, &is_forbidden };
		unsigned n = 0;

		for (end = i; end < pages->n_due && n < PROCESS_READ_PAGES &&
			      pages->due[end].pid == owner.pid;
		     end++)
			if (pages->due[end].page->is_due) /* else it was forgotten meanwhile */
				items[n++] = pages->due[end].page;
		if (n)
			read_pages(pages, &owner, items, n);
	}
	pages->n_due = 0;
	return begin_ns;
}

struct data_page *data_pages_settled(const struct data_pages *pages, uint32_t process_id,
				     uint64_t address)
{
	struct data_page *page = pages->items[page_index(process_id, address)];
	bool is_it = page && page->process_id == process_id &&
		     page->address == (address & ~(uint64_t)(DATA_PAGE_BYTES - 1));

	return is_it && page->round == pages->round && page->end_ns && !page->is_due ? page : NULL;
}

bool data_page_store(struct data_page *page, uint64_t address, uint32_t n_words, uint64_t now_ns)
{
	uint64_t first = address % DATA_PAGE_BYTES / DATA_WORD_BYTES;
	bool were_stored = true;

	if (page->stored_from_ns == 0 || now_ns - page->stored_from_ns > DATA_STORED_NS) {
		memset(page->stored, 0, sizeof(page->stored));
		page->stored_from_ns = now_ns;
	}
	for (uint64_t i = first; i < first + n_words; i++) {
		were_stored &= page->stored[i / 64] >> i % 64 & 1;
		page->stored[i / 64] |= UINT64_C(1) << i % 64;
	}
	return were_stored;
}

void data_pages_store_anew(struct data_pages *pages)
{
	for (size_t i = 0; i < MAX_PAGES; i++) {
		if (pages->items[i])
			pages->items[i]->stored_from_ns = 0;
	}
}

uint64_t data_pages_begin_ns(const struct data_pages *pages)
{
	return pages->begin_ns;
}

void data_pages_next_round(struct data_pages *pages)
{
	if (pages->n_due)
		data_pages_settle(pages);
	pages->begin_ns = 0;
	pages->round++;
}

static void forget_page(struct data_page *page, uint32_t process_id, uint64_t start, uint64_t end)
{
	if (!page || page->process_id != process_id || page->address >= end ||
	    page->address + DATA_PAGE_BYTES <= start)
		return;
	page->end_ns = page->round = 0;
	page->is_due = false;
}

void data_pages_forget(struct data_pages *pages, uint32_t process_id, uint64_t start, uint64_t end)
{
	start = start > pages->start ? start & ~(uint64_t)(DATA_PAGE_BYTES - 1) : pages->start;
	end = end < pages->end ? end : pages->end;
	if (start >= end)
		return;
	bool is_small = (end - start) / DATA_PAGE_BYTES < MAX_PAGES;
	for (size_t i = 0; !is_small && i < MAX_PAGES; i++)
		forget_page(pages->items[i], process_id, start, end);
	for (uint64_t at = start, next; is_small && at < end; at = next) {
		next = (at | (REGION_BYTES - 1)) + 1;
		if (!(*region_of(pages, at) & region_bit(at)))
			continue;
		for (; at < next && at < end; at += DATA_PAGE_BYTES)
			forget_page(*page_slot(pages, process_id, at), process_id, start, end);
	}
}

/* ---- Pages that do not change ---- */

static void read_page(struct fixed_pages *pages, const struct data_owner *owner, uint64_t start,
		      size_t i)
{
	pages->items[i].address = start;
	pages->items[i].process_id = owner->process_id;
	pages->items[i].n_bytes = 0;
	code_spans_add(&pages->spans, owner->process_id, start, start + DATA_PAGE_BYTES);
	if (process_has_page(&pages->present, owner->pid, start))
		pages->items[i].n_bytes =
			(uint32_t)process_read(owner->pid, owner->is_forbidden, start,
					       pages->items[i].bytes, DATA_PAGE_BYTES, READ_WANTED);
}

size_t fixed_pages_read(struct fixed_pages *pages, const struct data_owner *owner, uint64_t address,
			void *bytes, size_t n_bytes)
{
	uint64_t start = address & ~(uint64_t)(DATA_PAGE_BYTES - 1), within = address - start;
	uint64_t hash = (start / DATA_PAGE_BYTES ^ (uint64_t)owner->process_id << 40) *
			UINT64_C(0x9e3779b97f4a7c15);
	size_t i = (size_t)(hash >> 40) % FIXED_PAGES;

	if (pages->items[i].n_bytes == 0 || pages->items[i].address != start ||
	    pages->items[i].process_id != owner->process_id)
		read_page(pages, owner, start, i);
	if (within >= pages->items[i].n_bytes)
		return 0;

	size_t n = pages->items[i].n_bytes - (size_t)within;
	n = n < n_bytes ? n : n_bytes;
	memcpy(bytes, pages->items[i].bytes + within, n);
	return n;
}

bool fixed_pages_forget(struct fixed_pages *pages, uint32_t process_id, uint64_t start,
			uint64_t end)
{
	if (!code_spans_forget(&pages->spans, process_id, start, end))
		return false;
	for (size_t i = 0; i < FIXED_PAGES; i++)
		if (pages->items[i].process_id == process_id && pages->items[i].address < end &&
		    pages->items[i].address + DATA_PAGE_BYTES > start)
			pages->items[i].n_bytes = 0;
	return true;
}

void fixed_pages_finish(struct fixed_pages *pages)
{
	process_pages_finish(&pages->present);
}
