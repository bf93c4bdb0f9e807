#include "analyze/live/pages/touches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/live/live-memory-internal.h"
#include "analyze/live/pages/block-touches.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "store/database.h"
#include "trace/reader.h"
#include "trace/varint.h"

#define MAX_LOOK_BYTES (128u << 20) /* more is damage */
/* Blocks are looked at in each interval: in a run at most so many times, at some 55 ns. */
#define MAX_VISITS (UINT64_C(1) << 27)

static const struct rows_table interval_table = {
	.name = "page_interval",
	.columns = "id, run_id, process_id, begin_ns, end_ns, read_ns, page_bytes, resident,"
		   " touched, own_ns, program_ns, is_end",
	.types = "nnnnnnnnnnnn",
};

static const struct rows_table run_table = {
	.name = "page_run",
	.columns = "run_id, process_id, address, size, kind, has_huge, begin_ns, end_ns,"
		   " n_intervals, resident, touched",
	.types = "nnnntnnnnnn",
};

static const struct rows_table touch_table = {
	.name = "page_touch",
	.columns = "run_id, process_id, kind, stack_id, begin_ns, end_ns, n_intervals, size,"
		   " resident, least, most, has_ended",
	.types = "nntnnnnnnnnn",
};

/* Equal in several intervals one behind the other. */
struct span {
	int64_t begin_ns;
	int64_t end_ns;
	int64_t n_intervals;
};

/* A mapping. */
struct touch_run {
	uint64_t address;
	uint64_t size;
	unsigned bits;
	uint64_t resident;
	uint64_t touched;
	struct span span;
};

/* A call site: of blocks, or of mappings. */
struct touch_site {
	int64_t stack_id;
	bool is_mapping;
	uint64_t size; /* of all pages that its blocks lie in */
	uint64_t resident; /* of them, at least */
	uint64_t least;
	uint64_t most;
	bool has_ended; /* blocks of it did, in the interval */
	struct span span;
	uint64_t n_pages; /* in the current mapping, ... */
	uint64_t next_page; /* those before it are counted */
	bool is_here; /* ... which it has a part of */
};

struct touch_list {
	struct touch_run *runs;
	size_t n_runs;
	size_t n_runs_allocated;
	struct touch_site *sites;
	size_t n_sites;
	size_t n_sites_allocated;
};

/* What is held back of an image: it may go on as it is. */
struct held {
	struct held *next;
	uint32_t process;
	int64_t process_row;
	struct touch_list list;
	struct block_touches blocks;
};

struct touches {
	struct rows *intervals;
	struct rows *runs;
	struct rows *sites;
	struct rows *blocks;
	int64_t run_id;
	int64_t next_id;
	uint64_t n_visits; /* of blocks, so far */
	struct held *held;
};

/* ---- Records ---- */

int touches_gather(struct touch_look *look, const struct trace_record *record)
{
	const struct trace_touches *part = (const struct trace_touches *)record;
	size_t n_runs;
	const char *runs = trace_record_string(record, 0, &n_runs);
	uint8_t *larger;

	if (look->runs &&
	    (look->head.number != part->number || look->head.process_id != part->process_id))
		touches_look_finish(look);
	if (look->n_run_bytes + n_runs > MAX_LOOK_BYTES)
		return -EBADMSG;
	if (!look->runs)
		look->head = *part;
	larger = realloc(look->runs, look->n_run_bytes + n_runs + TRACE_VARINT_SLACK);
	if (!larger)
		return -ENOMEM;
	memcpy(larger + look->n_run_bytes, runs, n_runs);
	look->n_run_bytes += n_runs;
	memset(larger + look->n_run_bytes, 0, TRACE_VARINT_SLACK);
	look->runs = larger;
	return part->is_last;
}

void touches_look_finish(struct touch_look *look)
{
	free(look->runs);
	*look = (struct touch_look){ 0 };
}

/* ---- Rows ---- */

int touches_open(struct db *db, int64_t run_id, struct touches **ret_touches)
{
	struct touches *touches = calloc(1, sizeof(*touches));
	int r;

	if (!touches)
		return -ENOMEM;
	touches->run_id = run_id;
	touches->next_id = db_integer(db, "SELECT max(id) FROM page_interval", 0) + 1;
	r = rows_open(db, &interval_table, &touches->intervals);
	if (r == 0)
		r = rows_open(db, &run_table, &touches->runs);
	if (r == 0)
		r = rows_open(db, &touch_table, &touches->sites);
	if (r == 0)
		r = rows_open(db, &block_touches_table, &touches->blocks);
	if (r < 0)
		touches = touches_close(touches);
	*ret_touches = touches;
	return r;
}

static void finish_list(struct touch_list *list)
{
	free(list->runs);
	free(list->sites);
	*list = (struct touch_list){ 0 };
}

struct touches *touches_close(struct touches *touches)
{
	if (!touches)
		return NULL;
	while (touches->held) {
		struct held *next = touches->held->next;

		finish_list(&touches->held->list);
		block_touches_finish(&touches->held->blocks);
		free(touches->held);
		touches->held = next;
	}
	rows_close(touches->intervals);
	rows_close(touches->runs);
	rows_close(touches->sites);
	rows_close(touches->blocks);
	free(touches);
	return NULL;
}

static const char *kind_of(unsigned bits)
{
	return bits & TRACE_TOUCH_TOOL	    ? "tool"
	       : bits & TRACE_TOUCH_UNKNOWN ? "hugetlb"
	       : bits & TRACE_TOUCH_STACK   ? "stack"
	       : bits & TRACE_TOUCH_FILE    ? "file"
					    : "anonymous";
}

static int write_run(struct touches *touches, const struct held *held, const struct touch_run *run)
{
	union rows_cell *row = rows_add(touches->runs);

	if (!row)
		return rows_error(touches->runs);
	row[0].integer = touches->run_id;
	row[1].integer = held->process_row;
	row[2].integer = (int64_t)run->address;
	row[3].integer = (int64_t)run->size;
	row[4].text = kind_of(run->bits);
	row[5].integer = (run->bits & TRACE_TOUCH_HUGE) != 0;
	row[6].integer = run->span.begin_ns;
	row[7].integer = run->span.end_ns;
	row[8].integer = run->span.n_intervals;
	row[9].integer = (int64_t)run->resident;
	row[10].integer = (int64_t)run->touched;
	return 0;
}

static int write_site(struct touches *touches, const struct held *held,
		      const struct touch_site *site)
{
	union rows_cell *row = rows_add(touches->sites);

	if (!row)
		return rows_error(touches->sites);
	row[0].integer = touches->run_id;
	row[1].integer = held->process_row;
	row[2].text = site->is_mapping ? "mapping" : "heap";
	row[3].integer = site->stack_id;
	row[4].integer = site->span.begin_ns;
	row[5].integer = site->span.end_ns;
	row[6].integer = site->span.n_intervals;
	row[7].integer = (int64_t)site->size;
	row[8].integer = (int64_t)site->resident;
	row[9].integer = (int64_t)site->least;
	row[10].integer = (int64_t)site->most;
	row[11].integer = site->has_ended;
	return 0;
}

static int write_interval(struct touches *touches, const struct held *held,
			  const struct trace_touches *head, const struct touch_times *times)
{
	union rows_cell *row = rows_add(touches->intervals);

	if (!row)
		return rows_error(touches->intervals);
	row[0].integer = touches->next_id++;
	row[1].integer = touches->run_id;
	row[2].integer = held->process_row;
	row[3].integer = times->begin_ns;
	row[4].integer = times->end_ns;
	row[5].integer = times->read_ns;
	row[6].integer = head->page_bytes;
	row[7].integer = (int64_t)head->resident_bytes;
	row[8].integer = (int64_t)head->touched_bytes;
	row[9].integer = (int64_t)head->own_ns;
	row[10].integer = (int64_t)head->program_ns;
	row[11].integer = head->is_end != 0;
	return 0;
}

/* ---- Intervals one behind the other ---- */

/* More time between them than either took is none that they can speak for. */
static bool is_next(const struct span *span, const struct span *before)
{
	int64_t length = (before->end_ns - before->begin_ns) / before->n_intervals;

	if (length < span->end_ns - span->begin_ns)
		length = span->end_ns - span->begin_ns;
	return span->begin_ns - before->end_ns <= length;
}

static void extend(struct span *span, const struct span *before)
{
	span->begin_ns = before->begin_ns;
	span->n_intervals += before->n_intervals;
}

/* Those of the interval before that go on are a part of the new ones; the others are written. */
static int replace_runs(struct touches *touches, const struct held *held, struct touch_list *list)
{
	const struct touch_list *old = &held->list;
	size_t at = 0;
	int r = 0;

	for (size_t i = 0; i < old->n_runs && r == 0; i++) {
		const struct touch_run *run = &old->runs[i];

		while (at < list->n_runs && list->runs[at].address < run->address)
			at++;
		if (at < list->n_runs && list->runs[at].address == run->address &&
		    list->runs[at].size == run->size && list->runs[at].bits == run->bits &&
		    list->runs[at].resident == run->resident &&
		    list->runs[at].touched == run->touched &&
		    is_next(&list->runs[at].span, &run->span))
			extend(&list->runs[at].span, &run->span);
		else
			r = write_run(touches, held, run);
	}
	return r;
}

static int compare_sites(const void *left, const void *right)
{
	const struct touch_site *a = left, *b = right;

	if (a->is_mapping != b->is_mapping)
		return a->is_mapping - b->is_mapping;
	return (a->stack_id > b->stack_id) - (a->stack_id < b->stack_id);
}

static int replace_sites(struct touches *touches, const struct held *held, struct touch_list *list)
{
	const struct touch_list *old = &held->list;
	size_t at = 0;
	int r = 0;

	for (size_t i = 0; i < old->n_sites && r == 0; i++) {
		const struct touch_site *site = &old->sites[i];

		while (at < list->n_sites && compare_sites(&list->sites[at], site) < 0)
			at++;
		if (at < list->n_sites && compare_sites(&list->sites[at], site) == 0 &&
		    list->sites[at].size == site->size &&
		    list->sites[at].resident == site->resident &&
		    list->sites[at].least == site->least && list->sites[at].most == site->most &&
		    !list->sites[at].has_ended && !site->has_ended &&
		    is_next(&list->sites[at].span, &site->span))
			extend(&list->sites[at].span, &site->span);
		else
			r = write_site(touches, held, site);
	}
	return r;
}

/* Takes the list over, also on failure. */
static int replace(struct touches *touches, struct held *held, struct touch_list *list)
{
	int r = replace_runs(touches, held, list);

	if (r == 0)
		r = replace_sites(touches, held, list);
	finish_list(&held->list);
	held->list = *list;
	*list = (struct touch_list){ 0 };
	return r;
}

static struct held *held_of(struct touches *touches, const struct memory_image *image)
{
	struct held *held = touches->held;

	while (held && held->process != image->number)
		held = held->next;
	if (held)
		return held;
	held = calloc(1, sizeof(*held));
	if (!held)
		return NULL;
	held->process = image->number;
	held->process_row = image->row;
	held->next = touches->held;
	touches->held = held;
	return held;
}

int touches_end(struct touches *touches, uint32_t process)
{
	for (struct held *held = touches->held; held; held = held->next) {
		struct touch_list none = { 0 };
		int r;

		if (held->process != process)
			continue;
		r = replace(touches, held, &none);
		if (r == 0)
			r = block_touches_write(&held->blocks, touches->blocks, touches->run_id,
						held->process_row);
		block_touches_finish(&held->blocks);
		return r;
	}
	return 0;
}

int touches_flush(struct touches *touches)
{
	int r = 0;

	for (struct held *held = touches->held; held && r == 0; held = held->next)
		r = touches_end(touches, held->process);
	if (r == 0)
		r = rows_flush(touches->intervals);
	if (r == 0)
		r = rows_flush(touches->runs);
	if (r == 0)
		r = rows_flush(touches->sites);
	return r < 0 ? r : rows_flush(touches->blocks);
}

/* ---- Mappings of an interval ---- */

static int read_runs(const struct touch_look *look, const struct span *span,
		     struct touch_list *list)
{
	const uint8_t *at = look->runs, *stop = look->runs + look->n_run_bytes;
	uint64_t end = 0, page_bytes = look->head.page_bytes;

	while (at < stop) {
		uint64_t fields[4] = { 0 }; /* gap, pages and bits, resident, touched */

		for (unsigned i = 0; i < 4 && at; i++)
			at = at < stop ? trace_varint_get(at, &fields[i]) : NULL;
		uint64_t n = fields[1] >> TRACE_TOUCH_BITS, most = UINT64_MAX / 2 / page_bytes;

		if (!at || at > stop || n == 0 || fields[0] > most - end ||
		    n > most - end - fields[0] || fields[2] > n || fields[3] > fields[2])
			return -EBADMSG;
		if (grow_array(&list->runs, list->n_runs, &list->n_runs_allocated,
			       sizeof(*list->runs)) < 0)
			return -ENOMEM;
		list->runs[list->n_runs++] = (struct touch_run){
			.address = (end + fields[0]) * page_bytes,
			.size = n * page_bytes,
			.bits = fields[1] & ((1u << TRACE_TOUCH_BITS) - 1),
			.resident = fields[2] * page_bytes,
			.touched = fields[3] * page_bytes,
			.span = *span,
		};
		end += fields[0] + n;
	}
	return 0;
}

/* ---- Who lives there ---- */

/* A walk over blocks, or mappings, in order of address. */
struct division {
	struct memory *memory;
	struct memory_image *image;
	struct touch_list *list;
	struct block_touches *blocks;
	uint64_t page_bytes;
	struct span span;
	bool is_mapping;
	size_t run; /* the current one */
	size_t *site_of; /* in the list + 1, by number of the site; 0: none yet */
	size_t n_sites;
	size_t *here; /* sites in the list with a part of the current run */
	size_t n_here;
	size_t n_here_allocated;
};

static ssize_t new_site(struct division *division, int64_t stack_id)
{
	struct touch_list *list = division->list;

	if (grow_array(&list->sites, list->n_sites, &list->n_sites_allocated,
		       sizeof(*list->sites)) < 0)
		return -ENOMEM;
	list->sites[list->n_sites] = (struct touch_site){
		.stack_id = stack_id,
		.is_mapping = division->is_mapping,
		.span = division->span,
	};
	return (ssize_t)list->n_sites++;
}

static ssize_t site_of_block(struct division *division, uint32_t number)
{
	ssize_t site;

	if (number >= division->n_sites)
		return -EBADMSG;
	if (division->site_of[number])
		return (ssize_t)division->site_of[number] - 1;
	site = new_site(division, division->memory->tally->sites[number].stack_id);
	division->site_of[number] = site < 0 ? 0 : (size_t)site + 1;
	return site;
}

static ssize_t site_of_mapping(struct division *division, int64_t stack_id)
{
	const struct touch_site *sites = division->list->sites;

	/* Behind those of blocks. */
	for (size_t i = division->list->n_sites; i-- > 0 && sites[i].is_mapping;)
		if (sites[i].stack_id == stack_id)
			return (ssize_t)i;
	return new_site(division, stack_id);
}

/* The rest of the mapping may have been touched instead, or was not enough for all touches. */
static void end_run(struct division *division)
{
	const struct touch_run *run = &division->list->runs[division->run];
	uint64_t bytes = division->page_bytes;
	struct touch_facts facts = {
		.n_pages = run->size / bytes,
		.touched = run->touched / bytes,
		.resident = run->resident / bytes,
		.page_bytes = bytes,
		.is_unsure = run->bits & (TRACE_TOUCH_UNKNOWN | TRACE_TOUCH_SWAPPED),
		.has_huge = run->bits & TRACE_TOUCH_HUGE,
	};

	if (division->n_here == 0)
		return;
	facts.left = freed_pages_count(&division->image->ends.pages, run->address, run->size);
	if (bytes < FREED_PAGE_BYTES)
		facts.left *= FREED_PAGE_BYTES / bytes;
	for (size_t i = 0; i < division->n_here; i++) {
		struct touch_site *site = &division->list->sites[division->here[i]];
		struct touch_part part = touch_part_of(&facts, site->n_pages);

		site->least += part.least;
		site->most += part.most;
		site->resident += part.resident;
		site->n_pages = 0;
		site->next_page = 0;
		site->is_here = false;
	}
	division->n_here = 0;
	block_touches_end_run(division->blocks, &facts);
}

static uint64_t run_end(const struct division *division)
{
	const struct touch_run *run = &division->list->runs[division->run];

	return run->address + run->size;
}

/* Pages of a site in the current run. */
static int add_here(struct division *division, size_t number, uint64_t first, uint64_t end)
{
	struct touch_site *site = &division->list->sites[number];

	if (!site->is_here && grow_array(&division->here, division->n_here,
					 &division->n_here_allocated, sizeof(*division->here)) < 0)
		return -ENOMEM;
	if (!site->is_here)
		division->here[division->n_here++] = number;
	site->is_here = true;
	if (first < site->next_page)
		first = site->next_page;
	if (first < end) {
		site->n_pages += end - first;
		site->size += (end - first) * division->page_bytes;
		site->next_page = end;
	}
	return 0;
}

/* Memory of a site, behind all that came before. */
struct piece {
	size_t site;
	uint64_t address;
	uint64_t size;
	struct block_meant meant;
};

/* Nothing is resident there. What a mapping has without access, as guards, nobody can touch. */
static void add_absent(struct division *division, size_t site, uint64_t address, uint64_t end)
{
	uint64_t bytes = division->page_bytes;

	if (address < end && !division->is_mapping)
		division->list->sites[site].size +=
			((end - 1) / bytes - address / bytes + 1) * bytes;
}

static int add_memory(struct division *division, const struct piece *piece)
{
	uint64_t bytes = division->page_bytes, address = piece->address;
	uint64_t end = address + piece->size;
	int r = 0;

	while (r == 0 && address < end && division->run < division->list->n_runs) {
		const struct touch_run *run = &division->list->runs[division->run];
		uint64_t stop = end < run_end(division) ? end : run_end(division);

		if (address >= run_end(division)) {
			end_run(division);
			division->run++;
			continue;
		}
		if (stop <= run->address)
			break;
		if (address < run->address) {
			add_absent(division, piece->site, address, run->address);
			address = run->address;
		}
		r = add_here(division, piece->site, address / bytes, (stop + bytes - 1) / bytes);
		if (r == 0 && piece->size >= BLOCK_TOUCHES_BYTES)
			r = block_touches_add(division->blocks, &piece->meant,
					      (stop + bytes - 1) / bytes - address / bytes);
		address = stop;
	}
	add_absent(division, piece->site, address, end);
	return r;
}

static int visit_block(void *context, const struct heap_block *block)
{
	struct division *division = context;
	ssize_t site = site_of_block(division, block->site);

	if (site < 0)
		return (int)site;
	return add_memory(division, &(struct piece){
					    .site = (size_t)site,
					    .address = block->address,
					    .size = block->size,
					    .meant = { division->memory->first_allocation +
							       (int64_t)block->id,
						       false, block->allocated_ns },
				    });
}

static int visit_mappings(struct division *division, const struct mappings *mappings)
{
	const struct mapping *mapping = mappings_next(mappings, 0);
	int r = 0;

	while (r == 0 && mapping) {
		uint64_t end = mapping_end(mapping);

		if (mapping->call && mapping->thread && !mapping->is_nested) {
			ssize_t site = site_of_mapping(division, mapping->stack_id);

			r = site < 0 ? (int)site
				     : add_memory(
					       division,
					       &(struct piece){
						       .site = (size_t)site,
						       .address = mapping->address,
						       .size = end - mapping->address,
						       .meant = { division->memory->first_mapping +
									  (int64_t)mapping->id,
								  true, mapping->allocated_ns },
					       });
		}
		mapping = end > mapping->address ? mappings_next(mappings, end) : NULL;
	}
	return r;
}

static void finish_walk(struct division *division)
{
	if (division->run < division->list->n_runs)
		end_run(division);
	division->run = 0;
}

/* Call sites with blocks that ended: nobody knows how these were touched. */
static int add_ended(struct division *division, struct touch_ends *ends)
{
	ssize_t site = 0;

	for (uint32_t i = 0; i < ends->n_sites && site >= 0; i++) {
		if (!ends->sites[i])
			continue;
		division->is_mapping = false;
		site = site_of_block(division, i);
		if (site >= 0)
			division->list->sites[site].has_ended = true;
	}
	division->is_mapping = true;
	touch_ends_sort(ends);
	for (size_t i = 0; i < ends->n_stacks && site >= 0; i++) {
		if (i > 0 && ends->stacks[i] == ends->stacks[i - 1])
			continue;
		site = site_of_mapping(division, ends->stacks[i]);
	}
	for (size_t i = division->list->n_sites; site >= 0 && i-- > 0;) {
		struct touch_site *each = &division->list->sites[i];

		if (each->is_mapping && touch_ends_has_stack(ends, each->stack_id))
			each->has_ended = true;
	}
	return site < 0 ? (int)site : 0;
}

static int divide(struct division *division)
{
	struct memory_image *image = division->image;
	int r;

	division->n_sites = division->memory->tally->n_sites;
	division->site_of = calloc(division->n_sites + 1, sizeof(*division->site_of));
	if (!division->site_of)
		return -ENOMEM;
	r = live_blocks_walk(&image->blocks, 0, visit_block, division);
	finish_walk(division);
	division->is_mapping = true;
	if (r == 0)
		r = visit_mappings(division, &image->mappings);
	finish_walk(division);
	if (r == 0)
		r = add_ended(division, &image->ends);
	free(division->site_of);
	free(division->here);
	if (r == 0)
		block_touches_end(division->blocks, division->span.begin_ns, division->span.end_ns);
	if (r == 0 && division->list->n_sites > 0)
		qsort(division->list->sites, division->list->n_sites,
		      sizeof(*division->list->sites), compare_sites);
	return r;
}

static bool take_visits(struct touches *touches, uint64_t n)
{
	if (n > MAX_VISITS - touches->n_visits)
		return false;
	touches->n_visits += n;
	return true;
}

int memory_touches(struct memory *memory, uint32_t process, const struct touch_look *look,
		   const struct touch_times *times)
{
	struct memory_image *image = memory_image(memory, process);
	struct held *held = image ? held_of(memory->touches, image) : NULL;
	struct touch_list list = { 0 };
	struct division division = {
		.memory = memory,
		.image = image,
		.list = &list,
		.blocks = held ? &held->blocks : NULL,
		.page_bytes = look->head.page_bytes,
		.span = { times->begin_ns, times->end_ns, 1 },
	};
	bool is_divided;
	int r;

	if (!held)
		return image ? -ENOMEM : 0;
	if (look->head.page_bytes < 512 || look->head.page_bytes > (1u << 30))
		return -EBADMSG;
	is_divided = take_visits(memory->touches, live_blocks_count(&image->blocks));
	r = read_runs(look, &division.span, &list);
	if (r == 0 && is_divided)
		r = divide(&division);
	if (r == 0)
		r = write_interval(memory->touches, held, &look->head, times);
	if (r == -EBADMSG)
		finish_list(&list); /* what goes on behind it is another row */
	if (r == 0 || r == -EBADMSG) {
		int replaced = replace(memory->touches, held, &list);

		r = replaced < 0 ? replaced : r;
	}
	finish_list(&list);
	touch_ends_finish(&image->ends);
	return r == 0 && !is_divided ? 1 : r;
}
