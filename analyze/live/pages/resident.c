#include "analyze/live/pages/resident.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "analyze/live/live-memory-internal.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "schemas/agent.h"
#include "store/database.h"
#include "trace/reader.h"
#include "trace/varint.h"

static const struct rows_table snapshot_table = {
	.name = "page_snapshot",
	.columns = "id, run_id, process_id, time_ns, end_ns, reason, way, page_bytes, rss,"
		   " rss_after, most_rss, swap, uncounted, resident, heap_pages, half_empty,"
		   " nearly_empty, has_parts, pss",
	.types = "nnnnnttnnnnnnnnnnni",
};

static const struct rows_table part_table = {
	.name = "page_part",
	.columns = "snapshot_id, run_id, kind, stack_id, name, n_blocks, bytes, resident, beside,"
		   " swapped, zero, untouched, huge, shared, node_bytes",
	.types = "nntitnnnnnnnnit",
};

/* page_part.kind */
enum part_kind {
	PART_HEAP,
	PART_FREE,
	PART_MAPPING,
	PART_STACK,
	PART_FILE,
	PART_DATA,
	PART_SHARED,
	PART_TOOL,
	PART_UNMAPPING,
	PART_OTHER,
};
static const char *const kind_names[] = {
	[PART_HEAP] = "heap",	  [PART_FREE] = "free", [PART_MAPPING] = "mapping",
	[PART_STACK] = "stack",	  [PART_FILE] = "file", [PART_DATA] = "data",
	[PART_SHARED] = "shared", [PART_TOOL] = "tool", [PART_UNMAPPING] = "unmapping",
	[PART_OTHER] = "other",
};

/* What one owner has, in bytes. */
struct part {
	enum part_kind kind;
	int64_t stack_id; /* heap and mapping; else 0 */
	const char *name; /* interned; NULL: none */
	uint64_t n_blocks;
	uint64_t bytes;
	uint64_t resident;
	uint64_t beside;
	uint64_t swapped;
	uint64_t zero;
	uint64_t untouched;
	uint64_t huge;
	uint64_t shared; /* of resident and beside */
	uint64_t *nodes; /* of these: on each of PAGES_NODES; NULL: not known of any */
};

struct snapshot {
	struct snapshot *next;
	uint32_t process; /* number */
	int64_t process_row;
	int64_t id;
	int64_t time_ns;
	int64_t end_ns;
	struct trace_pages head;
	uint64_t resident;
	uint64_t heap_pages;
	uint64_t half_empty;
	uint64_t nearly_empty;
	bool is_sum; /* its parts are not divided by call sites */
	struct part *parts;
	size_t n_parts;
	size_t n_allocated;
};

struct residents {
	struct rows *snapshots;
	struct rows *parts;
	int64_t run_id;
	int64_t next_id;
	struct snapshot *peaks; /* the last one of each image that lives */
};

/* A line of /proc/PID/maps, in pages. */
struct area {
	uint64_t first;
	uint64_t end;
	unsigned prot;
	bool is_shared;
	bool is_file; /* it has an inode */
	const char *path; /* interned; "": none */
};

/* A share of a page that several blocks lie in. */
struct slice {
	size_t part;
	uint64_t bytes;
};

/* A walk over all pages in order of address. */
struct sweep {
	struct memory *memory;
	struct memory_image *image;
	struct snapshot *snapshot;
	uint64_t page_bytes; /* a power of two */
	unsigned page_log2;
	const uint8_t *at; /* runs not read yet */
	const uint8_t *runs_end;
	uint64_t first; /* the current run, in pages */
	uint64_t end;
	unsigned bits;
	unsigned node; /* 1 + its number; 0: not known */
	bool is_damaged; /* the runs are */
	struct area *areas;
	size_t n_areas;
	size_t n_areas_allocated;
	size_t area; /* those before it are done */
	bool area_has_blocks; /* of the area `described` */
	bool area_has_stack;
	size_t described; /* number of the area + 1; 0: none */
	size_t *part_of_site; /* + 1; 0: none yet */
	size_t n_sites;
	struct slice *slices; /* of the page that is open */
	size_t n_slices;
	size_t n_slices_allocated;
	uint64_t page;
	unsigned page_bits;
	unsigned page_node;
	uint64_t page_live; /* bytes of blocks in it */
	bool is_open;
	uint64_t next; /* pages before it are done */
};

/* ---- Rows ---- */

static void free_snapshot(struct snapshot *snapshot)
{
	for (size_t i = 0; snapshot && i < snapshot->n_parts; i++)
		free(snapshot->parts[i].nodes);
	if (snapshot)
		free(snapshot->parts);
	free(snapshot);
}

int residents_open(struct db *db, int64_t run_id, struct residents **ret_residents)
{
	struct residents *residents = calloc(1, sizeof(*residents));
	if (!residents)
		return -ENOMEM;
	residents->run_id = run_id;
	residents->next_id = db_integer(db, "SELECT max(id) FROM page_snapshot", 0) + 1;

	int r = rows_open(db, &snapshot_table, &residents->snapshots);
	r = r ?: rows_open(db, &part_table, &residents->parts);
	if (r < 0)
		residents = residents_close(residents);
	*ret_residents = residents;
	return r;
}

struct residents *residents_close(struct residents *residents)
{
	if (!residents)
		return NULL;
	while (residents->peaks) {
		struct snapshot *next = residents->peaks->next;

		free_snapshot(residents->peaks);
		residents->peaks = next;
	}
	rows_close(residents->snapshots);
	rows_close(residents->parts);
	free(residents);
	return NULL;
}

static int write_part(struct memory *memory, const struct snapshot *snapshot,
		      const struct part *part)
{
	struct residents *residents = memory->residents;
	bool is_known =
		snapshot->head.has_shared || part->kind == PART_FILE || part->kind == PART_SHARED;

	return rows_put(
		residents->parts, CELL(snapshot->id), CELL(residents->run_id),
		CELL(kind_names[part->kind]),
		CELL(part->kind == PART_HEAP || part->stack_id ? part->stack_id : ROWS_NULL),
		CELL(part->name && part->name[0] ? part->name : NULL), CELL(part->n_blocks),
		CELL(part->bytes), CELL(part->resident), CELL(part->beside), CELL(part->swapped),
		CELL(part->zero), CELL(part->untouched), CELL(part->huge),
		CELL(is_known ? (int64_t)part->shared : ROWS_NULL),
		CELL(part->nodes ? pages_node_text(memory, part->nodes) : NULL));
}

static int write_snapshot(struct memory *memory, const struct snapshot *snapshot, bool has_parts)
{
	struct residents *residents = memory->residents;
	static const char *const reasons[] = { "peak", "tick", "end" };
	const struct trace_pages *head = &snapshot->head;
	int r = rows_put(
		residents->snapshots, CELL(snapshot->id), CELL(residents->run_id),
		CELL(snapshot->process_row), CELL(snapshot->time_ns), CELL(snapshot->end_ns),
		CELL(head->reason <= TRACE_PAGES_END ? reasons[head->reason] : "unknown"),
		CELL(head->way == TRACE_PAGES_SCAN ? "PAGEMAP_SCAN" : "pagemap"),
		CELL(head->page_bytes), CELL(head->rss_bytes), CELL(head->rss_after_bytes),
		CELL(head->most_bytes), CELL(head->swap_bytes), CELL(head->uncounted_bytes),
		CELL(snapshot->resident), CELL(snapshot->heap_pages), CELL(snapshot->half_empty),
		CELL(snapshot->nearly_empty), CELL(has_parts),
		CELL(head->pss_bytes ? (int64_t)head->pss_bytes : ROWS_NULL));
	for (size_t i = 0; has_parts && r == 0 && i < snapshot->n_parts; i++)
		r = write_part(memory, snapshot, &snapshot->parts[i]);
	return r;
}

/* The peak that an image has kept, taken out; NULL: none. */
static struct snapshot *take_peak(struct residents *residents, uint32_t process)
{
	for (struct snapshot **at = &residents->peaks; *at; at = &(*at)->next) {
		if ((*at)->process != process)
			continue;
		struct snapshot *found = *at;
		*at = found->next;
		return found;
	}
	return NULL;
}

int residents_end(struct memory *memory, uint32_t process)
{
	struct snapshot *peak = take_peak(memory->residents, process);
	/* One that was passed is left if what passed it was damaged. */
	int r = peak ? write_snapshot(memory, peak, !peak->is_sum) : 0;

	free_snapshot(peak);
	return r;
}

int residents_flush(struct residents *residents)
{
	return rows_flush(residents->snapshots) ?: rows_flush(residents->parts);
}

/* What it replaces keeps its sum. Takes over a snapshot on the heap. */
static int keep(struct memory *memory, struct snapshot *snapshot)
{
	struct residents *residents = memory->residents;
	int r;

	if (snapshot->head.reason != TRACE_PAGES_PEAK) {
		r = write_snapshot(memory, snapshot, true);
		free_snapshot(snapshot);
		return r;
	}
	struct snapshot *before = take_peak(residents, snapshot->process);
	r = before ? write_snapshot(memory, before, false) : 0;
	free_snapshot(before);
	snapshot->next = residents->peaks;
	residents->peaks = snapshot;
	return r;
}

/* ---- Parts ---- */

/* Number of the part; < 0: a negative errno. */
static ssize_t new_part(struct snapshot *snapshot, const struct part *part)
{
	if (grow_one(&snapshot->parts, snapshot->n_parts, &snapshot->n_allocated) < 0)
		return -ENOMEM;
	snapshot->parts[snapshot->n_parts] = *part;
	return (ssize_t)snapshot->n_parts++;
}

static ssize_t part_of_site(struct sweep *sweep, uint32_t site)
{
	const struct tally *tally = sweep->memory->tally;
	struct part part = { .kind = PART_HEAP };

	if (sweep->snapshot->is_sum)
		site = 0; /* which is nobody's */
	if (site >= sweep->n_sites)
		return -EBADMSG;
	if (sweep->part_of_site[site])
		return (ssize_t)sweep->part_of_site[site] - 1;
	part.stack_id = tally->sites[site].stack_id;
	ssize_t number = new_part(sweep->snapshot, &part);
	sweep->part_of_site[site] = number < 0 ? 0 : (size_t)number + 1;
	return number;
}

/* The last ones come up again most. */
static ssize_t part_of(struct sweep *sweep, const struct part *wanted)
{
	struct snapshot *snapshot = sweep->snapshot;

	for (size_t i = snapshot->n_parts; i-- > 0;) {
		const struct part *part = &snapshot->parts[i];

		if (part->kind == wanted->kind && part->stack_id == wanted->stack_id &&
		    part->name == wanted->name)
			return (ssize_t)i;
	}
	return new_part(snapshot, wanted);
}

/* Resident bytes of a part on a node, as `sweep->node' has it. */
static void add_node(struct part *part, unsigned node, uint64_t bytes)
{
	if (node == 0 || node > PAGES_NODES)
		return;
	if (!part->nodes)
		part->nodes = calloc(PAGES_NODES, sizeof(*part->nodes));
	if (part->nodes)
		part->nodes[node - 1] += bytes;
}

static void add_bytes(struct sweep *sweep, size_t number, unsigned bits, unsigned node,
		      uint64_t bytes)
{
	struct part *part = &sweep->snapshot->parts[number];

	part->bytes += bytes;
	if (bits & TRACE_PAGE_SWAPPED) {
		part->swapped += bytes;
	} else if (bits & TRACE_PAGE_ZERO) {
		part->zero += bytes;
	} else if (bits & TRACE_PAGE_PRESENT) {
		part->resident += bytes;
		part->huge += bits & TRACE_PAGE_HUGE ? bytes : 0;
		part->shared += bits & TRACE_PAGE_SHARED ? bytes : 0;
		add_node(part, node, bytes);
		sweep->snapshot->resident += bytes;
	} else {
		part->untouched += bytes;
	}
}

/* ---- Runs ---- */

static bool next_run(struct sweep *sweep)
{
	uint64_t gap = 0, n = 0, node = 0;

	if (sweep->at >= sweep->runs_end)
		return false;
	sweep->at = trace_varint_get(sweep->at, &gap);
	if (sweep->at && sweep->at < sweep->runs_end)
		sweep->at = trace_varint_get(sweep->at, &n);
	if (sweep->snapshot->head.has_nodes && sweep->at && sweep->at < sweep->runs_end)
		sweep->at = trace_varint_get(sweep->at, &node);
	if (!sweep->at || sweep->at > sweep->runs_end || gap > UINT64_MAX / 2 - sweep->end ||
	    n >> TRACE_PAGE_BITS > UINT64_MAX / 2 - sweep->end - gap) {
		sweep->at = sweep->runs_end;
		sweep->is_damaged = true;
		return false;
	}
	sweep->first = sweep->end + gap;
	sweep->end = sweep->first + (n >> TRACE_PAGE_BITS);
	sweep->bits = n & ((1u << TRACE_PAGE_BITS) - 1);
	sweep->node = node <= PAGES_NODES ? (unsigned)node : 0;
	return true;
}

/* What pages from `page` on are, alike up to *ret_end, which is `end` at most. Only forwards. */
static unsigned bits_at(struct sweep *sweep, uint64_t page, uint64_t end, uint64_t *ret_end)
{
	while (sweep->end <= page && next_run(sweep))
		;
	*ret_end = end;
	if (sweep->end <= page)
		return 0;
	if (page < sweep->first) {
		*ret_end = sweep->first < end ? sweep->first : end;
		return 0;
	}
	*ret_end = sweep->end < end ? sweep->end : end;
	return sweep->bits;
}

/* ---- Areas without blocks ---- */

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* start-end prot offset major:minor inode path; proc_pid_maps(5). Hostile input. */
static int add_area(struct sweep *sweep, char *line)
{
	struct area area = { 0 };
	unsigned long long start, end, inode;
	char prot[5];
	int path_at = 0;

	if (sscanf(line, "%llx-%llx %4s %*s %*s %llu %n", &start, &end, prot, &inode, &path_at) < 4)
		return 0;
	area.first = start / sweep->page_bytes;
	area.end = end / sweep->page_bytes;
	if (area.end <= area.first ||
	    (sweep->n_areas && area.first < sweep->areas[sweep->n_areas - 1].end))
		return 0;
	area.prot = (prot[0] == 'r' ? PROT_READ : 0u) | (prot[1] == 'w' ? PROT_WRITE : 0u) |
		    (prot[2] == 'x' ? PROT_EXEC : 0u);
	area.is_shared = prot[3] == 's';
	area.is_file = inode != 0;
	area.path = memory_intern(sweep->memory, path_at ? line + path_at : "");
	if (!area.path || grow_one(&sweep->areas, sweep->n_areas, &sweep->n_areas_allocated) < 0)
		return -ENOMEM;
	sweep->areas[sweep->n_areas++] = area;
	return 0;
}

/* Whether a stack of a thread reaches into pages. */
static bool has_stack(const struct sweep *sweep, uint64_t first, uint64_t end)
{
	const struct task_process *process =
		tasks_process(sweep->memory->tasks, sweep->image->number);
	const struct task_thread *thread = process ? process->threads : NULL;

	for (; thread; thread = thread->next) {
		if (thread->stack_end > thread->stack_start &&
		    thread->stack_start < end * sweep->page_bytes &&
		    thread->stack_end > first * sweep->page_bytes)
			return true;
	}
	return false;
}

static void describe(struct sweep *sweep)
{
	const struct area *area = &sweep->areas[sweep->area];
	struct heap_block block;

	if (sweep->described == sweep->area + 1)
		return;
	sweep->described = sweep->area + 1;
	sweep->area_has_stack = has_stack(sweep, area->first, area->end);
	sweep->area_has_blocks =
		live_blocks_overlap(&sweep->image->blocks, area->first * sweep->page_bytes,
				    (area->end - area->first) * sweep->page_bytes, &block);
}

/* Zeros behind the data of a file, which the loader maps without the file. */
static const char *file_before(const struct sweep *sweep)
{
	const struct area *area = &sweep->areas[sweep->area];
	const struct area *before = sweep->area > 0 ? area - 1 : NULL;

	return before && before->end == area->first && before->is_file && !before->is_shared &&
			       before->prot & PROT_WRITE
		       ? before->path
		       : NULL;
}

/* Of files that are memory only; a private mapping of zeros is the process's own. */
static bool is_memory_file(const struct area *area)
{
	return begins(area->path, "/memfd:") || begins(area->path, "/dev/shm/") ||
	       (area->is_shared &&
		(begins(area->path, "/SYSV") || begins(area->path, "/dev/zero")));
}

/* A file of ours that is in the program. */
static bool is_tool(const char *path)
{
	return strstr(path, "libtracealloc") || strstr(path, AGENT_LIBRARY);
}

/* Whose pages of the current area are, which no block lies in; mapping is around them or NULL. */
static struct part owner_of(const struct sweep *sweep, const struct mapping *mapping, uint64_t page,
			    unsigned bits)
{
	const struct area *area = &sweep->areas[sweep->area];
	bool is_called = mapping && mapping->call && mapping->thread;
	struct part part = { .name = area->path };

	if (strstr(area->path, "memsight-pool") || is_tool(area->path)) {
		part.kind = PART_TOOL;
	} else if (begins(area->path, "[stack") ||
		   (sweep->area_has_stack && has_stack(sweep, page, page + 1))) {
		part.kind = PART_STACK;
		part.name = NULL;
	} else if (is_called && !mapping->is_nested) {
		part.kind = PART_MAPPING;
		part.stack_id = mapping->stack_id;
	} else if (is_memory_file(area)) {
		part.kind = PART_SHARED;
	} else if (area->is_shared) {
		part.kind = PART_FILE;
	} else if (area->is_file) {
		part.kind = bits & TRACE_PAGE_FILE || !bits ? PART_FILE : PART_DATA;
	} else if (mapping && mapping_is_unclaimed(mapping)) {
		part.kind = PART_OTHER; /* a library's, ours, or the program's: nobody has said */
	} else if (begins(area->path, "[heap]") || is_called || sweep->area_has_blocks ||
		   strstr(area->path, "malloc")) {
		part.kind = PART_FREE;
		part.name = NULL;
	} else if (!area->path[0] && file_before(sweep)) {
		part.name = file_before(sweep);
		part.kind = is_tool(part.name) ? PART_TOOL : PART_DATA;
	} else {
		part.kind = PART_OTHER;
	}
	return part;
}

/*
 * Pages without a block. Between areas there are none, or those that were mapped while others were
 * looked at.
 */
static int add_pages(struct sweep *sweep, const struct mapping *mapping, uint64_t first,
		     uint64_t end, bool is_in_area)
{
	while (first < end) {
		uint64_t until;
		unsigned bits = bits_at(sweep, first, end, &until);
		struct part wanted = { .kind = PART_OTHER };

		if (is_in_area)
			wanted = owner_of(sweep, mapping, first, bits);
		/* Nobody may touch what is only reserved: nobody has asked for memory there. */
		if (bits || (is_in_area && sweep->areas[sweep->area].prot != PROT_NONE)) {
			ssize_t part = part_of(sweep, &wanted);

			if (part < 0)
				return (int)part;
			add_bytes(sweep, (size_t)part, bits, sweep->node,
				  (until - first) * sweep->page_bytes);
		}
		first = until;
	}
	return 0;
}

/* Pages of one area without a block, by the mappings in it. */
static int add_area_pages(struct sweep *sweep, uint64_t first, uint64_t end)
{
	int r = 0;

	describe(sweep);
	while (r == 0 && first < end) {
		uint64_t address = first * sweep->page_bytes, until = end;
		const struct mapping *mapping = mappings_next(&sweep->image->mappings, address);

		if (mapping && mapping->address > address) {
			if (mapping->address / sweep->page_bytes < end)
				until = mapping->address / sweep->page_bytes;
			mapping = NULL;
		} else if (mapping && mapping_end(mapping) / sweep->page_bytes < end) {
			until = mapping_end(mapping) / sweep->page_bytes;
		}
		if (until <= first)
			until = first + 1;
		r = add_pages(sweep, mapping, first, until, true);
		first = until;
	}
	return r;
}

/* Pages without a block, up to `end`. */
static int add_gap(struct sweep *sweep, uint64_t end)
{
	int r = 0;

	while (r == 0 && sweep->next < end) {
		while (sweep->area < sweep->n_areas && sweep->areas[sweep->area].end <= sweep->next)
			sweep->area++;
		const struct area *area =
			sweep->area < sweep->n_areas ? &sweep->areas[sweep->area] : NULL;
		uint64_t until = end;

		if (area && area->first > sweep->next) {
			until = area->first < end ? area->first : end;
			area = NULL;
		} else if (area && area->end < end) {
			until = area->end;
		}
		r = area ? add_area_pages(sweep, sweep->next, until)
			 : add_pages(sweep, NULL, sweep->next, until, false);
		sweep->next = until;
	}
	return r;
}

/* ---- Blocks ---- */

/* What is left of a page is divided by bytes; the last one has what does not divide. */
static void close_page(struct sweep *sweep)
{
	struct snapshot *snapshot = sweep->snapshot;
	uint64_t live = sweep->page_live, left, rest;
	bool is_resident =
		sweep->page_bits & TRACE_PAGE_PRESENT && !(sweep->page_bits & TRACE_PAGE_ZERO);

	if (!sweep->is_open)
		return;
	left = rest = live < sweep->page_bytes ? sweep->page_bytes - live : 0;
	for (size_t i = 0; is_resident && i < sweep->n_slices; i++) {
		const struct slice *slice = &sweep->slices[i];
		uint64_t share = i + 1 < sweep->n_slices ? left * slice->bytes / live : rest;

		snapshot->parts[slice->part].beside += share;
		if (sweep->page_bits & TRACE_PAGE_SHARED)
			snapshot->parts[slice->part].shared += share;
		add_node(&snapshot->parts[slice->part], sweep->page_node, share);
		rest -= share;
	}
	if (is_resident) {
		snapshot->resident += left;
		snapshot->heap_pages++;
		snapshot->half_empty += 2 * live < sweep->page_bytes;
		snapshot->nearly_empty += 10 * live < sweep->page_bytes;
	}
	sweep->next = sweep->page + 1;
	sweep->is_open = false;
	sweep->n_slices = 0;
	sweep->page_live = 0;
}

static int open_page(struct sweep *sweep, uint64_t page)
{
	uint64_t until;

	if (sweep->is_open && sweep->page == page)
		return 0;
	close_page(sweep);
	int r = add_gap(sweep, page);
	sweep->page = page;
	sweep->page_bits = bits_at(sweep, page, page + 1, &until);
	sweep->page_node = sweep->node;
	sweep->is_open = true;
	return r;
}

/* Bytes of a block in the page that is open. */
static int add_slice(struct sweep *sweep, size_t part, uint64_t bytes)
{
	add_bytes(sweep, part, sweep->page_bits, sweep->page_node, bytes);
	sweep->page_live += bytes;
	if (sweep->n_slices && sweep->slices[sweep->n_slices - 1].part == part) {
		sweep->slices[sweep->n_slices - 1].bytes += bytes;
		return 0;
	}
	return array_add(sweep->slices, sweep->n_slices, sweep->n_slices_allocated,
			 (struct slice){ part, bytes });
}

static void add_inner_pages(struct sweep *sweep, size_t part, uint64_t first, uint64_t end)
{
	while (first < end) {
		uint64_t until;
		unsigned bits = bits_at(sweep, first, end, &until);

		add_bytes(sweep, part, bits, sweep->node, (until - first) * sweep->page_bytes);
		if (bits & TRACE_PAGE_PRESENT && !(bits & TRACE_PAGE_ZERO))
			sweep->snapshot->heap_pages += until - first;
		first = until;
	}
}

static int visit_block(void *context, const struct heap_block *block)
{
	struct sweep *sweep = context;
	uint64_t bytes = sweep->page_bytes, end = block->address + block->size;
	uint64_t first = block->address >> sweep->page_log2, last = (end - 1) >> sweep->page_log2;
	ssize_t part = part_of_site(sweep, block->site);

	if (part < 0)
		return (int)part;
	sweep->snapshot->parts[part].n_blocks++;
	if (block->size == 0 || end < block->address)
		return 0;
	int r = open_page(sweep, first);
	if (r == 0)
		r = add_slice(sweep, (size_t)part,
			      last > first ? (first + 1) * bytes - block->address : block->size);
	if (r < 0 || last == first)
		return r;
	close_page(sweep);
	add_inner_pages(sweep, (size_t)part, first + 1, last);
	sweep->next = last;
	r = open_page(sweep, last);
	return r < 0 ? r : add_slice(sweep, (size_t)part, end - last * bytes);
}

/* The small blocks in a page. */
static int visit_page(void *context, uint64_t number, unsigned n_bytes)
{
	struct sweep *sweep = context;
	ssize_t part = part_of_site(sweep, 0);
	int r = part < 0 ? (int)part : open_page(sweep, number);

	return r < 0 ? r : add_slice(sweep, (size_t)part, n_bytes);
}

/* ---- All of it ---- */

static void finish_sweep(struct sweep *sweep)
{
	free_all(sweep->areas, sweep->part_of_site, sweep->slices);
}

/* What the kernel was about to free: it counts, and lies in no mapping. */
static int add_leaving(struct sweep *sweep)
{
	uint64_t bytes = sweep->snapshot->head.leaving_bytes;
	const struct part part = { .kind = PART_UNMAPPING, .bytes = bytes, .resident = bytes };

	sweep->snapshot->resident += bytes;
	return bytes && new_part(sweep->snapshot, &part) < 0 ? -ENOMEM : 0;
}

static int sweep_all(struct sweep *sweep, char *maps)
{
	int r = 0;

	for (char *line = strsep(&maps, "\n"); line && r == 0; line = strsep(&maps, "\n"))
		r = add_area(sweep, line);
	sweep->n_sites = sweep->memory->tally->n_sites;
	sweep->part_of_site = calloc(sweep->n_sites + 1, sizeof(*sweep->part_of_site));
	if (!sweep->part_of_site)
		return -ENOMEM;
	if (r == 0)
		r = sweep->snapshot->is_sum
			    ? live_blocks_walk_pages(&sweep->image->blocks, visit_page, visit_block,
						     sweep)
			    : live_blocks_walk(&sweep->image->blocks, 0, visit_block, sweep);
	if (r < 0)
		return r;
	close_page(sweep);
	r = add_gap(sweep, UINT64_MAX / sweep->page_bytes) ?: add_leaving(sweep);
	return r == 0 && sweep->is_damaged ? -EBADMSG : r;
}

int memory_look(struct memory *memory, uint32_t process, struct pages_look *look, int64_t time_ns,
		int64_t end_ns)
{
	struct memory_image *image = memory_image(memory, process);
	struct snapshot *snapshot = image ? calloc(1, sizeof(*snapshot)) : NULL;
	uint32_t page_bytes = look->head.pages.page_bytes;
	bool is_good =
		page_bytes >= 512 && page_bytes <= 1u << 30 && (page_bytes & (page_bytes - 1)) == 0;
	struct sweep sweep = {
		.memory = memory,
		.image = image,
		.snapshot = snapshot,
		.page_bytes = look->head.pages.page_bytes,
		.page_log2 = is_good ? (unsigned)__builtin_ctz(look->head.pages.page_bytes) : 0,
		.at = look->runs,
		.runs_end = look->runs + look->n_run_bytes,
	};

	if (!image)
		return 0;
	if (!snapshot)
		return -ENOMEM;
	*snapshot = (struct snapshot){
		.process = process,
		.process_row = image->row,
		.id = memory->residents->next_id++,
		.time_ns = time_ns,
		.end_ns = end_ns,
		.head = look->head.pages,
		.is_sum = look->is_passed && page_bytes == BLOCK_SUM_BYTES,
	};
	int r = is_good ? sweep_all(&sweep, look->maps) : -EBADMSG;
	finish_sweep(&sweep);
	if (r == 0)
		return keep(memory, snapshot);
	free_snapshot(snapshot);
	return r;
}
