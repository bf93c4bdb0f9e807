#include "analyze/live/pages/touches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/live/live-memory-internal.h"
#include "analyze/live/pages/intervals.h"
#include "common/array.h"
#include "trace/reader.h"
#include "trace/varint.h"

static int write_interval(struct touches *touches, const struct held *held,
			  const struct trace_writes *head, const struct span *span)
{
	return rows_put(touches->rows[WRITES_INTERVALS], CELL(touches->run_id),
			CELL(held->process_row), CELL(span->begin_ns), CELL(span->end_ns),
			CELL(head->page_bytes), CELL(head->known_bytes), CELL(head->written_bytes),
			CELL(head->own_ns), CELL(head->program_ns));
}

static int read_runs(const struct pages_look *look, const struct span *span, struct page_runs *list)
{
	const uint8_t *at = look->runs, *stop = look->runs + look->n_run_bytes;
	uint64_t end = 0, page_bytes = look->head.writes.page_bytes,
		 most = UINT64_MAX / 2 / page_bytes;

	while (at < stop) {
		uint64_t gap = 0, field = 0;

		at = trace_varint_get(at, &gap);
		at = at && at < stop ? trace_varint_get(at, &field) : NULL;
		uint64_t n = field >> TRACE_WRITE_BITS;

		if (!at || at > stop || n == 0 || gap > most - end || n > most - end - gap)
			return -EBADMSG;
		if (grow_one(&list->runs, list->n, &list->n_allocated) < 0)
			return -ENOMEM;
		list->runs[list->n++] = (struct page_run){
			.address = (end + gap) * page_bytes,
			.size = n * page_bytes,
			.bits = field & ((1u << TRACE_WRITE_BITS) - 1),
			.span = *span,
		};
		end += gap + n;
	}
	return 0;
}

/* ---- Whose pages they are ---- */

/* A walk over blocks, or mappings, in order of address. */
struct division {
	const struct page_runs *runs;
	struct page_sites *sites;
	struct block_touches *blocks;
	uint64_t page_bytes;
	struct span span;
	size_t run; /* those before it lie before all that comes */
};

/*
 * Pages [first, end) of a run, which an owner has a part of. Pages that lie in it as a whole since
 * before the interval were written by who used it, and by nobody else.
 */
static int add_pages(struct division *division, struct page_site *site,
		     const struct page_owner *owner, const struct page_run *run)
{
	uint64_t bytes = division->page_bytes, run_first = run->address / bytes;
	uint64_t run_end = run_first + run->size / bytes;
	uint64_t whole = (owner->address + bytes - 1) / bytes;
	uint64_t whole_end = (owner->address + owner->size) / bytes;
	uint64_t first = owner->address / bytes;
	uint64_t end = (owner->address + owner->size + bytes - 1) / bytes;
	uint64_t from = whole > run_first ? whole : run_first;
	uint64_t to = whole_end < run_end ? whole_end : run_end;
	uint64_t n = page_site_count(site, first > run_first ? first : run_first,
				     end < run_end ? end : run_end);
	bool is_written = run->bits & TRACE_WRITE_WRITTEN;

	site->known += n * bytes;
	site->most += is_written ? n * bytes : 0;
	if (from >= to)
		return 0;
	if (is_written && owner->meant.allocated_ns <= division->span.begin_ns)
		site->least += (to - from) * bytes;
	if (owner->size < BLOCK_TOUCHES_BYTES)
		return 0;
	return block_touches_note(division->blocks, &owner->meant,
				  &(struct block_writes){ from - whole, to - from,
							  whole_end - whole, bytes, is_written,
							  division->span.end_ns });
}

static int add_owner(void *user, const struct page_owner *owner)
{
	struct division *division = user;
	const struct page_runs *runs = division->runs;
	uint64_t bytes = division->page_bytes, first = owner->address / bytes;
	uint64_t end = (owner->address + owner->size + bytes - 1) / bytes;
	ssize_t number = page_sites_of(division->sites, owner, &division->span);
	struct page_site *site = number < 0 ? NULL : &division->sites->sites[number];
	uint64_t next = site ? site->next_page : 0;
	int r = 0;

	if (!site || owner->size == 0)
		return number < 0 ? (int)number : 0;
	while (division->run < runs->n &&
	       (runs->runs[division->run].address + runs->runs[division->run].size) / bytes <=
		       first)
		division->run++;
	for (size_t i = division->run; r == 0 && i < runs->n && runs->runs[i].address / bytes < end;
	     i++)
		if (!(runs->runs[i].bits & (TRACE_WRITE_HUGE | TRACE_WRITE_NEW)))
			r = add_pages(division, site, owner, &runs->runs[i]);
	site->next_page = next;
	site->size += page_site_count(site, first, end) * bytes;
	return r;
}

static int divide(struct division *division, struct memory *memory, struct memory_image *image)
{
	int r = 0;

	for (unsigned is_mapping = 0; is_mapping < 2 && r == 0; is_mapping++) {
		division->run = 0;
		r = page_owners_walk(memory, image, is_mapping, add_owner, division);
	}
	page_sites_sort(division->sites);
	return r;
}

int memory_writes(struct memory *memory, uint32_t process, const struct pages_look *look,
		  int64_t begin_ns, int64_t end_ns)
{
	struct memory_image *image = memory_image(memory, process);
	struct held *held = image ? touches_held(memory->touches, image) : NULL;
	uint32_t page_bytes = look->head.writes.page_bytes;
	struct page_interval now = { .runs = { .n = 0 } };
	struct division division = {
		.runs = &now.runs,
		.sites = &now.sites,
		.blocks = held ? &held->blocks : NULL,
		.page_bytes = page_bytes,
		.span = { begin_ns, end_ns, 1 },
	};
	bool is_divided = false;
	int r;

	if (!held)
		return image ? -ENOMEM : 0;
	r = page_bytes >= 512 && page_bytes <= 1u << 30 ? read_runs(look, &division.span, &now.runs)
							: -EBADMSG;
	if (r == 0 && (is_divided = touches_may_visit(memory->touches, image)))
		r = divide(&division, memory, image);
	r = r ?: write_interval(memory->touches, held, &look->head.writes, &division.span);
	r = page_interval_keep(memory->touches, held, PAGES_WRITTEN, &now, r);
	return r == 0 && !is_divided ? 1 : r;
}
