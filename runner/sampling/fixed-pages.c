#include "runner/sampling/fixed-pages.h"

#include <string.h>

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
