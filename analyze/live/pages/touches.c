#include "analyze/live/pages/touches.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/live/live-memory-internal.h"
#include "analyze/live/pages/intervals.h"
#include "common/array.h"
#include "trace/reader.h"
#include "trace/varint.h"

static int write_interval(struct touches *touches, const struct held *held,
			  const struct trace_touches *head, const struct touch_times *times)
{
	return rows_put(touches->rows[TOUCHES_INTERVALS], CELL(touches->next_id++),
			CELL(touches->run_id), CELL(held->process_row), CELL(times->begin_ns),
			CELL(times->end_ns), CELL(times->read_ns), CELL(head->page_bytes),
			CELL(head->resident_bytes), CELL(head->touched_bytes), CELL(head->own_ns),
			CELL(head->program_ns), CELL(head->is_end != 0));
}

/* ---- Mappings of an interval ---- */

/* The next number of the runs; *at is NULL behind their end. */
static uint64_t next_number(const uint8_t **at, const uint8_t *stop)
{
	uint64_t number = 0;

	*at = *at && *at < stop ? trace_varint_get(*at, &number) : NULL;
	return number;
}

/* What a run has on each node: 0, or a negative errno. */
static int read_nodes(struct memory *memory, uint64_t page_bytes, struct page_runs *list,
		      const uint8_t **at, const uint8_t *stop)
{
	struct page_run *run = &list->runs[list->n - 1];
	uint64_t n = next_number(at, stop), bytes[PAGES_NODES] = { 0 };

	run->node_at = list->n_parts;
	if (n > PAGES_NODES)
		return -EBADMSG;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t node = next_number(at, stop), n_pages = next_number(at, stop);

		if (!*at || node >= PAGES_NODES || n_pages > UINT64_MAX / 2 / page_bytes)
			return -EBADMSG;
		if (grow_one(&list->parts, list->n_parts, &list->n_parts_allocated) < 0)
			return -ENOMEM;
		bytes[node] = n_pages * page_bytes;
		list->parts[list->n_parts++] = (struct node_bytes){ (unsigned)node, bytes[node] };
		run->n_nodes++;
	}
	run->nodes = n ? pages_node_text(memory, bytes) : NULL;
	return n && !run->nodes ? -ENOMEM : 0;
}

static int read_runs(struct memory *memory, const struct pages_look *look, const struct span *span,
		     struct page_runs *list)
{
	const uint8_t *at = look->runs, *stop = look->runs + look->n_run_bytes;
	uint64_t end = 0, page_bytes = look->head.touches.page_bytes;
	int r = 0;

	while (r == 0 && at < stop) {
		uint64_t fields[4] = { 0 }; /* gap, pages and bits, resident, touched */

		for (unsigned i = 0; i < 4 && at; i++)
			fields[i] = next_number(&at, stop);
		uint64_t n = fields[1] >> TRACE_TOUCH_BITS, most = UINT64_MAX / 2 / page_bytes;

		if (!at || at > stop || n == 0 || fields[0] > most - end ||
		    n > most - end - fields[0] || fields[2] > n || fields[3] > fields[2])
			return -EBADMSG;
		if (grow_one(&list->runs, list->n, &list->n_allocated) < 0)
			return -ENOMEM;
		list->runs[list->n++] = (struct page_run){
			.address = (end + fields[0]) * page_bytes,
			.size = n * page_bytes,
			.bits = fields[1] & ((1u << TRACE_TOUCH_BITS) - 1),
			.resident = fields[2] * page_bytes,
			.touched = fields[3] * page_bytes,
			.span = *span,
		};
		end += fields[0] + n;
		if (look->head.touches.has_nodes)
			r = read_nodes(memory, page_bytes, list, &at, stop);
		if (r == 0 && (!at || at > stop))
			r = -EBADMSG;
	}
	return r;
}

/* ---- Who lives there ---- */

/* A walk over blocks, or mappings, in order of address. */
struct division {
	struct memory_image *image;
	const struct page_runs *runs;
	struct page_sites *sites;
	struct block_touches *blocks;
	uint64_t page_bytes;
	struct span span;
	size_t run; /* the current one */
	size_t *here; /* sites with a part of the current run */
	size_t n_here;
	size_t n_here_allocated;
	unsigned n_nodes; /* highest that a run has, and one */
	uint64_t (*nodes)[2]; /* n_nodes of each site: least and most bytes touched there */
	size_t n_of_nodes; /* sites */
};

/*
 * Which of the mapping's pages were touched is not known, and neither is on which node they lie: on
 * one node no more than are resident there, and at least what does not fit on the others.
 */
static int add_nodes(struct division *division, size_t number, const struct touch_part *part)
{
	const struct page_run *run = &division->runs->runs[division->run];
	size_t site_bytes = division->n_nodes * sizeof(*division->nodes);
	uint64_t all = 0;

	if (run->n_nodes == 0 || part->most == 0)
		return 0;
	const struct node_bytes *here = division->runs->parts + run->node_at;
	if (grow_array_to(&division->nodes, number, &division->n_of_nodes, site_bytes) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < run->n_nodes; i++)
		all += here[i].bytes;
	all = all > run->resident ? all : run->resident;
	for (size_t i = 0; i < run->n_nodes; i++) {
		uint64_t *bounds = division->nodes[number * division->n_nodes + here[i].node];
		uint64_t others = all - here[i].bytes;

		bounds[0] += part->least > others ? part->least - others : 0;
		bounds[1] += part->most < here[i].bytes ? part->most : here[i].bytes;
	}
	return 0;
}

/* As page_touch.node_touched. 0 or -ENOMEM. */
static int name_nodes(struct division *division, struct memory *memory)
{
	for (size_t i = 0; i < division->n_of_nodes && i < division->sites->n; i++) {
		uint64_t(*bounds)[2] = &division->nodes[i * division->n_nodes];
		char text[PAGES_NODES * 52 + 3];
		size_t n = 0;

		for (unsigned node = 0; node < division->n_nodes; node++)
			if (bounds[node][1])
				n += (size_t)snprintf(text + n, sizeof(text) - n,
						      "%s\"%u\": [%llu, %llu]", n ? ", " : "{",
						      node, (unsigned long long)bounds[node][0],
						      (unsigned long long)bounds[node][1]);
		snprintf(text + n, sizeof(text) - n, "}");
		division->sites->sites[i].nodes = n ? memory_intern(memory, text) : NULL;
		if (n && !division->sites->sites[i].nodes)
			return -ENOMEM;
	}
	return 0;
}

/* The rest of the mapping may have been touched instead, or was not enough for all touches. */
static int end_run(struct division *division)
{
	const struct page_run *run = &division->runs->runs[division->run];
	uint64_t bytes = division->page_bytes;
	struct touch_facts facts = {
		.n_pages = run->size / bytes,
		.touched = run->touched / bytes,
		.resident = run->resident / bytes,
		.page_bytes = bytes,
		.is_unsure = run->bits & (TRACE_TOUCH_UNKNOWN | TRACE_TOUCH_SWAPPED),
		.has_huge = run->bits & TRACE_TOUCH_HUGE,
	};

	int r = 0;

	if (division->n_here == 0)
		return 0;
	facts.left = freed_pages_count(&division->image->ends.pages, run->address, run->size);
	if (bytes < FREED_PAGE_BYTES)
		facts.left *= FREED_PAGE_BYTES / bytes;
	for (size_t i = 0; i < division->n_here; i++) {
		struct page_site *site = &division->sites->sites[division->here[i]];
		struct touch_part part = touch_part_of(&facts, site->n_pages);

		site->least += part.least;
		site->most += part.most;
		site->known += part.resident;
		r = r ?: add_nodes(division, division->here[i], &part);
		site->n_pages = 0;
		site->next_page = 0;
		site->is_here = false;
	}
	division->n_here = 0;
	block_touches_end_run(division->blocks, &facts);
	return r;
}

static uint64_t run_end(const struct division *division)
{
	const struct page_run *run = &division->runs->runs[division->run];

	return run->address + run->size;
}

/* Pages of a site in the current run. */
static int add_here(struct division *division, size_t number, uint64_t first, uint64_t end)
{
	struct page_site *site = &division->sites->sites[number];

	if (!site->is_here &&
	    grow_one(&division->here, division->n_here, &division->n_here_allocated) < 0)
		return -ENOMEM;
	if (!site->is_here)
		division->here[division->n_here++] = number;
	site->is_here = true;
	uint64_t n = page_site_count(site, first, end);

	site->n_pages += n;
	site->size += n * division->page_bytes;
	return 0;
}

/* Nothing is resident there. What a mapping has without access, as guards, nobody can touch. */
static void add_absent(struct division *division, struct page_site *site, uint64_t address,
		       uint64_t end)
{
	uint64_t bytes = division->page_bytes;

	if (address < end && !site->is_mapping)
		site->size += ((end - 1) / bytes - address / bytes + 1) * bytes;
}

/* What is behind all that came before. */
static int add_owner(void *user, const struct page_owner *owner)
{
	struct division *division = user;
	uint64_t bytes = division->page_bytes, address = owner->address;
	uint64_t end = address + owner->size;
	ssize_t number = page_sites_of(division->sites, owner, &division->span);
	int r = number < 0 ? (int)number : 0;

	while (r == 0 && address < end && division->run < division->runs->n) {
		const struct page_run *run = &division->runs->runs[division->run];
		uint64_t stop = end < run_end(division) ? end : run_end(division);

		if (address >= run_end(division)) {
			r = end_run(division);
			division->run++;
			continue;
		}
		if (stop <= run->address)
			break;
		if (address < run->address) {
			add_absent(division, &division->sites->sites[number], address,
				   run->address);
			address = run->address;
		}
		r = add_here(division, (size_t)number, address / bytes, (stop + bytes - 1) / bytes);
		if (r == 0 && owner->size >= BLOCK_TOUCHES_BYTES)
			r = block_touches_add(division->blocks, &owner->meant,
					      (stop + bytes - 1) / bytes - address / bytes);
		address = stop;
	}
	if (r == 0)
		add_absent(division, &division->sites->sites[number], address, end);
	return r;
}

/* Call sites with blocks that ended: nobody knows how these were touched. */
static int add_ended(struct division *division, const struct tally *tally, struct touch_ends *ends)
{
	struct page_sites *sites = division->sites;
	ssize_t site = 0;

	touch_ends_sort(ends);
	for (size_t i = 0; i < ends->n_stacks && site >= 0; i++) {
		if (i > 0 && ends->stacks[i] == ends->stacks[i - 1])
			continue;
		site = page_sites_of_mapping(sites, ends->stacks[i], &division->span);
	}
	for (size_t i = sites->n; i-- > 0;)
		if (sites->sites[i].is_mapping &&
		    touch_ends_has_stack(ends, sites->sites[i].stack_id))
			sites->sites[i].has_ended = true;
	for (uint32_t i = 0; i < ends->n_sites && site >= 0; i++) {
		if (!ends->sites[i])
			continue;
		site = i < tally->n_sites ? page_sites_of_block(sites, i, tally->sites[i].stack_id,
								&division->span)
					  : -EBADMSG;
		if (site >= 0)
			sites->sites[site].has_ended = true;
	}
	return site < 0 ? (int)site : 0;
}

static int divide(struct division *division, struct memory *memory)
{
	int r = 0;

	for (size_t i = 0; i < division->runs->n_parts; i++)
		if (division->runs->parts[i].node >= division->n_nodes)
			division->n_nodes = division->runs->parts[i].node + 1;
	for (unsigned is_mapping = 0; is_mapping < 2 && r == 0; is_mapping++) {
		division->run = 0;
		r = page_owners_walk(memory, division->image, is_mapping, add_owner, division);
		if (r == 0 && division->run < division->runs->n)
			r = end_run(division);
	}
	r = r ?: add_ended(division, memory->tally, &division->image->ends);
	r = r ?: name_nodes(division, memory);
	free(division->here);
	free(division->nodes);
	if (r == 0)
		block_touches_end(division->blocks, division->span.begin_ns, division->span.end_ns);
	page_sites_sort(division->sites);
	return r;
}

int memory_touches(struct memory *memory, uint32_t process, const struct pages_look *look,
		   const struct touch_times *times)
{
	struct memory_image *image = memory_image(memory, process);
	struct held *held = image ? touches_held(memory->touches, image) : NULL;
	struct page_interval now = { .runs = { .n = 0 } };
	struct division division = {
		.image = image,
		.runs = &now.runs,
		.sites = &now.sites,
		.blocks = held ? &held->blocks : NULL,
		.page_bytes = look->head.touches.page_bytes,
		.span = { times->begin_ns, times->end_ns, 1 },
	};

	if (!held)
		return image ? -ENOMEM : 0;
	if (division.page_bytes < 512 || division.page_bytes > (1u << 30))
		return -EBADMSG;
	bool is_divided = touches_may_visit(memory->touches, image);
	int r = read_runs(memory, look, &division.span, &now.runs);
	if (r == 0 && is_divided)
		r = divide(&division, memory);
	r = r ?: write_interval(memory->touches, held, &look->head.touches, times);
	r = page_interval_keep(memory->touches, held, PAGES_TOUCHED, &now, r);
	touch_ends_finish(&image->ends);
	return r == 0 && !is_divided ? 1 : r;
}
