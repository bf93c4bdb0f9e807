#include "runner/sampling/data-pages.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "runner/sampling/process-read.h"

#define MAX_PAGES 4096u /* some 4.2 KiB each, made when they are wanted */
#define GROUP	  16u /* pages that are read with the first of them, ... */
#define MAX_AHEAD 1024u /* ... of an image so many: some 1.5 us each */
#define N_IMAGES  64u
#define TICK_NS	  (UINT64_C(1) << 20) /* of times, which take less room so */

struct data_pages {
	struct data_page *items[MAX_PAGES];
	uint64_t start, end; /* all pages lie there: most of what is forgotten is elsewhere */
	struct process_pages present;
	uint32_t round;
	uint64_t begin_ns; /* of this round's first reading; 0: there was none */
	struct {
		uint32_t process_id;
		uint32_t n; /* pages that were read ahead */
	} ahead[N_IMAGES]; /* direct-mapped */
};

struct data_pages *data_pages_create(void)
{
	struct data_pages *pages = calloc(1, sizeof(*pages));

	if (!pages)
		return NULL;
	pages->round = 1;
	return pages;
}

struct data_pages *data_pages_destroy(struct data_pages *pages)
{
	if (!pages)
		return NULL;
	for (size_t i = 0; i < MAX_PAGES; i++)
		free(pages->items[i]);
	process_pages_finish(&pages->present);
	free(pages);
	return NULL;
}

static struct data_page **page_slot(struct data_pages *pages, uint32_t process_id, uint64_t address)
{
	uint64_t hash = (address / DATA_PAGE_BYTES ^ (uint64_t)process_id << 40) *
			UINT64_C(0x9e3779b97f4a7c15);

	return &pages->items[(hash >> 32) % MAX_PAGES];
}

/* Most pages are as they were. */
static void compare(struct data_page *page, const uint8_t *now)
{
	const size_t n = DATA_WORD_BYTES;

	memset(page->changed, 0, sizeof(page->changed));
	if (memcmp(page->bytes, now, DATA_PAGE_BYTES) == 0)
		return;
	for (size_t i = 0; i < DATA_PAGE_BYTES / n; i++)
		if (memcmp(page->bytes + i * n, now + i * n, n) != 0)
			page->changed[i / 64] |= UINT64_C(1) << i % 64;
}

/* False: it cannot be read. */
static bool read_page(struct data_pages *pages, const struct data_owner *owner,
		      struct data_page *page)
{
	uint8_t now[DATA_PAGE_BYTES];

	if (pages->begin_ns == 0)
		pages->begin_ns = clock_raw_ns();
	/* What was there some ms ago may be gone: then it cannot be read. */
	if ((page->end_ns == 0 && !process_has_page(&pages->present, owner->pid, page->address)) ||
	    process_read(owner->pid, owner->is_forbidden, page->address, now, sizeof(now),
			 READ_WANTED) < sizeof(now))
		return false;
	page->before_ns = page->end_ns;
	compare(page, now);
	memcpy(page->bytes, now, sizeof(now));
	page->end_ns = (clock_raw_ns() | (TICK_NS - 1)) + 1;
	page->is_wanted = false;
	page->round = pages->round;
	return true;
}

static void widen(struct data_pages *pages, uint64_t address)
{
	if (pages->end == 0 || address < pages->start)
		pages->start = address;
	if (address + DATA_PAGE_BYTES > pages->end)
		pages->end = address + DATA_PAGE_BYTES;
}

/* The slot has room for a page that was not there before. */
static void begin_page(struct data_pages *pages, struct data_page *page, uint32_t process_id,
		       uint64_t address)
{
	widen(pages, address);
	page->address = address;
	page->process_id = process_id;
	page->round = 0;
	page->is_wanted = false;
	page->end_ns = 0;
}

/* The page's place; NULL: another has it that this round has read, perhaps for this sample. */
static struct data_page *take_place(struct data_pages *pages, uint32_t process_id, uint64_t address)
{
	struct data_page **slot = page_slot(pages, process_id, address);
	struct data_page *page = *slot;

	if (!page && !(page = *slot = calloc(1, sizeof(*page))))
		return NULL;
	if (page->address == address && page->process_id == process_id)
		return page;
	if (page->round == pages->round && page->is_wanted)
		return NULL;
	begin_page(pages, page, process_id, address);
	return page;
}

/* The pages around one that is new, where nothing else has their places. */
static void read_ahead(struct data_pages *pages, const struct data_owner *owner, uint64_t address)
{
	uint32_t process_id = owner->process_id, *n = &pages->ahead[process_id % N_IMAGES].n;
	uint64_t first = address & ~(uint64_t)(GROUP * DATA_PAGE_BYTES - 1);

	if (pages->ahead[process_id % N_IMAGES].process_id != process_id)
		*n = 0;
	pages->ahead[process_id % N_IMAGES].process_id = process_id;
	for (uint64_t i = 0; i < GROUP && *n < MAX_AHEAD; i++) {
		uint64_t other = first + i * DATA_PAGE_BYTES;
		struct data_page *page = *page_slot(pages, process_id, other);

		if (page && page->end_ns)
			continue;
		++*n;
		page = take_place(pages, process_id, other);
		if (page && page->round != pages->round && !read_page(pages, owner, page))
			page->end_ns = 0;
	}
}

const struct data_page *data_pages_find(struct data_pages *pages, const struct data_owner *owner,
					uint64_t address)
{
	uint64_t start = address & ~(uint64_t)(DATA_PAGE_BYTES - 1);
	struct data_page *page = take_place(pages, owner->process_id, start);

	if (!page)
		return NULL;
	bool is_new = page->end_ns == 0;
	if (page->round != pages->round && !read_page(pages, owner, page)) {
		page->end_ns = 0;
		return NULL;
	}
	page->is_wanted = true;
	if (is_new)
		read_ahead(pages, owner, start);
	return page;
}

uint64_t data_pages_begin_ns(const struct data_pages *pages)
{
	return pages->begin_ns;
}

void data_pages_next_round(struct data_pages *pages)
{
	pages->begin_ns = 0;
	pages->round++;
}

static void forget_page(struct data_page *page, uint32_t process_id, uint64_t start, uint64_t end)
{
	if (page && page->process_id == process_id && page->address < end &&
	    page->address + DATA_PAGE_BYTES > start)
		page->end_ns = page->round = 0;
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
	for (uint64_t at = start; is_small && at < end; at += DATA_PAGE_BYTES)
		forget_page(*page_slot(pages, process_id, at), process_id, start, end);
}
