#include "runner/processes/page-state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "runner/processes/image-proc.h"
#include "runner/processes/page-scan.h"

#define MAX_STATUS_BYTES 8192u
#define MAX_BYTES	 (64u << 20) /* of maps */
#define N_ENTRIES	 4096u /* of /proc/PID/pagemap at once */
#define MAX_CLOSED_BYTES (UINT64_C(1) << 30)
#define N_NODE_PAGES	 512u /* whose nodes are asked for at once */
#define FIT_SHARE	 200 /* one part in so many */
#define FIT_BYTES	 (UINT64_C(256) << 10)
#define LEAST_OWN_BYTES	 (UINT64_C(256) << 10) /* of a map: one more call is cheaper from here on */

/* Documentation/admin-guide/mm/pagemap.rst */
#define ENTRY_PRESENT (UINT64_C(1) << 63)
#define ENTRY_SWAPPED (UINT64_C(1) << 62)
#define ENTRY_FILE    (UINT64_C(1) << 61)
#define ENTRY_OWN     (UINT64_C(1) << 56) /* mapped once */

/* What a map is, as far as pages are asked for in different ways. */
enum map_kind {
	MAP_OF_ITS_OWN,
	MAP_OF_FILE, /* private */
	MAP_OF_SEVERAL, /* shared */
};

/* A look that is under way. */
struct look {
	struct page_state *state;
	pid_t pid;
	int fd; /* of /proc/PID/pagemap */
	int maps; /* /proc/PID/maps, which answers MAP_QUERY; -1: it does not */
	uint64_t page_bytes;
	uint64_t end; /* page behind the last run that is written */
	uint64_t first; /* the run that is still growing, in pages */
	uint64_t n;
	unsigned bits;
	uint64_t mapped_bytes;
	uint64_t range_start; /* maps that are asked for together, as they are of one kind */
	uint64_t range_end;
	enum map_kind range_kind;
	int err;
};

void page_state_finish(struct page_state *state)
{
	free_all(state->runs.bytes, state->maps);
	*state = (struct page_state){ 0 };
}

/* ---- Runs ---- */

/* node: 1 + its number; 0: not known */
static int put_run_of_node(struct look *look, uint64_t first, uint64_t n, unsigned bits,
			   unsigned node)
{
	const uint64_t numbers[] = { first - look->end, n << TRACE_PAGE_BITS | bits, node };

	look->end = first + n;
	return page_runs_put(&look->state->runs, numbers, look->state->record.has_nodes ? 3 : 2);
}

/* Of n pages, at most N_NODE_PAGES: < 0 where there is none, or the kernel refuses. */
static void ask_nodes(const struct look *look, uint64_t first, size_t n, int *ret_nodes)
{
	void *pages[N_NODE_PAGES];

	for (size_t i = 0; i < n; i++) {
		pages[i] = (void *)(uintptr_t)((first + i) * look->page_bytes);
		ret_nodes[i] = -1;
	}
	(void)!syscall(SYS_move_pages, (long)look->pid, n, pages, NULL, ret_nodes, 0);
}

static int put_run(struct look *look, uint64_t first, uint64_t n, unsigned bits)
{
	bool has_node = bits & TRACE_PAGE_PRESENT && !(bits & TRACE_PAGE_ZERO);
	int nodes[N_NODE_PAGES];
	int err = 0;

	if (has_node)
		look->state->resident_bytes += n * look->page_bytes;
	if (has_node && !(bits & TRACE_PAGE_HUGE))
		look->state->small_bytes += n * look->page_bytes;
	if (!look->state->record.has_nodes || !has_node)
		return put_run_of_node(look, first, n, bits, 0);
	while (err == 0 && n > 0) {
		size_t n_now = n < N_NODE_PAGES ? (size_t)n : N_NODE_PAGES, at = 0;

		ask_nodes(look, first, n_now, nodes);
		while (err == 0 && at < n_now) {
			size_t begin = at;

			while (at < n_now && nodes[at] == nodes[begin])
				at++;
			err = put_run_of_node(look, first + begin, at - begin, bits,
					      nodes[begin] < 0 ? 0 : (unsigned)nodes[begin] + 1);
		}
		first += n_now;
		n -= n_now;
	}
	return err;
}

/* A page that went meanwhile counts as it was. */
static int put_by_sharing(struct look *look, uint64_t first, uint64_t n, unsigned bits)
{
	uint64_t entries[N_ENTRIES];
	int err = 0;

	while (err == 0 && n > 0) {
		size_t n_now = n < N_ENTRIES ? (size_t)n : N_ENTRIES, at = 0;
		ssize_t got = pread(look->fd, entries, n_now * sizeof(entries[0]),
				    (off_t)(first * sizeof(entries[0])));

		if (got < (ssize_t)(n_now * sizeof(entries[0])))
			return got < 0 ? -errno : -ESRCH;
		while (err == 0 && at < n_now) {
			size_t begin = at;
			bool is_own = entries[at] & ENTRY_OWN;

			while (at < n_now && !(entries[at] & ENTRY_OWN) == !is_own)
				at++;
			err = put_run(look, first + begin, at - begin,
				      is_own ? bits : bits | TRACE_PAGE_SHARED);
		}
		first += n_now;
		n -= n_now;
	}
	return err;
}

static int write_run(struct look *look)
{
	uint64_t n = look->n;
	bool is_asked = look->bits & TRACE_PAGE_FILE || look->state->record.has_shared;

	look->n = 0;
	if (n == 0)
		return 0;
	if (look->state->record.way == TRACE_PAGES_SCAN && is_asked &&
	    look->bits & TRACE_PAGE_PRESENT && !(look->bits & TRACE_PAGE_ZERO))
		return put_by_sharing(look, look->first, n, look->bits);
	return put_run(look, look->first, n, look->bits);
}

/* Pages in order of address; the same once more is left out (a map may have grown meanwhile). */
static int add_pages(struct look *look, uint64_t first, uint64_t n, unsigned bits)
{
	uint64_t behind = look->n ? look->first + look->n : look->end;

	if (first < behind) {
		n = first + n > behind ? first + n - behind : 0;
		first = behind;
	}
	if (n == 0)
		return 0;
	if (look->n && first == behind && bits == look->bits) {
		look->n += n;
		return 0;
	}
	int err = write_run(look);
	look->first = first;
	look->n = n;
	look->bits = bits;
	return err;
}

/* ---- The two ways ---- */

static unsigned bits_of_categories(uint64_t categories)
{
	return (categories & PAGE_SCAN_PRESENT ? TRACE_PAGE_PRESENT : 0) |
	       (categories & PAGE_SCAN_SWAPPED ? TRACE_PAGE_SWAPPED : 0) |
	       (categories & PAGE_SCAN_FILE ? TRACE_PAGE_FILE : 0) |
	       (categories & PAGE_SCAN_ZERO ? TRACE_PAGE_ZERO : 0) |
	       (categories & PAGE_SCAN_HUGE ? TRACE_PAGE_HUGE : 0);
}

/*
 * In shared memory a page that is there and of no file is a device's: that of a file on persistent
 * memory (DAX before Linux 6.15), or one that a driver has mapped. VmRSS has none of them.
 */
static void count_named(struct look *look, uint64_t n, unsigned bits)
{
	if (look->range_kind == MAP_OF_SEVERAL && bits & TRACE_PAGE_PRESENT &&
	    !(bits & (TRACE_PAGE_FILE | TRACE_PAGE_ZERO)))
		look->state->record.uncounted_bytes += n * look->page_bytes;
}

static int add_named(void *user, struct page_scan *request, const struct page_scan_region *regions,
		     size_t n)
{
	struct look *look = user;
	int err = 0;

	(void)request;
	for (size_t i = 0; i < n && err == 0; i++) {
		uint64_t n_pages = (regions[i].end - regions[i].start) / look->page_bytes;
		unsigned bits = bits_of_categories(regions[i].categories);

		count_named(look, n_pages, bits);
		err = add_pages(look, regions[i].start / look->page_bytes, n_pages, bits);
	}
	return err;
}

/* Pages [start, end) of which the kernel says something. */
static int scan_range(struct look *look, uint64_t start, uint64_t end, enum map_kind kind)
{
	struct page_scan request = {
		.start = start,
		.end = end,
		.category_anyof_mask = PAGE_SCAN_PRESENT | PAGE_SCAN_SWAPPED,
		.return_mask = PAGE_SCAN_PRESENT | PAGE_SCAN_SWAPPED | PAGE_SCAN_ZERO |
			       PAGE_SCAN_HUGE | (kind != MAP_OF_ITS_OWN ? PAGE_SCAN_FILE : 0),
	};

	look->range_kind = kind;
	return page_scan_range(look->fd, &request, add_named, look);
}

/* Whether all of [start, end) is mapped. */
static bool is_mapped(const struct look *look, uint64_t start, uint64_t end)
{
	while (start < end) {
		struct map_query query = { .size = sizeof(query), .address = start };

		if (ioctl(look->maps, MAP_QUERY, &query) < 0 || query.end <= start)
			return false;
		start = query.end;
	}
	return true;
}

/*
 * What lies between the regions that the kernel has named is there, in small pages of its own. So
 * it is with what has been unmapped meanwhile: then they are to be asked for by name.
 */
static int add_unnamed(void *user, struct page_scan *request,
		       const struct page_scan_region *regions, size_t n)
{
	struct look *look = user;
	uint64_t at = request->start / look->page_bytes;
	int err = 0;

	if (!is_mapped(look, request->start, request->walk_end)) {
		request->walk_end = request->start;
		return 1;
	}
	for (size_t i = 0; i < n && err == 0; i++) {
		uint64_t first = regions[i].start / look->page_bytes;
		uint64_t end = regions[i].end / look->page_bytes;
		unsigned bits = bits_of_categories(regions[i].categories);

		err = add_pages(look, at, first - at, TRACE_PAGE_PRESENT);
		if (err == 0 && bits)
			err = add_pages(look, first, end - first, bits);
		at = end;
	}
	return err < 0 ? err
		       : add_pages(look, at, request->walk_end / look->page_bytes - at,
				   TRACE_PAGE_PRESENT);
}

/*
 * A map of memory of its own: nearly all of its pages are alike. So the kernel is asked for those
 * that are not just there, which takes a quarter of the time.
 */
static int scan_own_map(struct look *look, uint64_t start, uint64_t end)
{
	struct page_scan request = {
		.start = start,
		.end = end,
		.category_inverted = PAGE_SCAN_PRESENT,
		.category_anyof_mask = PAGE_SCAN_PRESENT | PAGE_SCAN_ZERO | PAGE_SCAN_HUGE,
		.return_mask =
			PAGE_SCAN_PRESENT | PAGE_SCAN_SWAPPED | PAGE_SCAN_ZERO | PAGE_SCAN_HUGE,
	};
	int err = page_scan_range(look->fd, &request, add_unnamed, look);

	return err < 0 ? err : scan_range(look, request.walk_end, end, MAP_OF_ITS_OWN);
}

static unsigned more_bits(uint64_t entry)
{
	return (entry & ENTRY_FILE ? TRACE_PAGE_FILE : 0) |
	       ((entry & ENTRY_PRESENT) && !(entry & ENTRY_OWN) ? TRACE_PAGE_SHARED : 0);
}

static int read_table(struct look *look)
{
	uint64_t entries[N_ENTRIES];
	uint64_t page = look->range_start / look->page_bytes;
	uint64_t end = look->range_end / look->page_bytes;
	int err = 0;

	while (err == 0 && page < end) {
		size_t n = end - page < N_ENTRIES ? (size_t)(end - page) : N_ENTRIES;
		ssize_t got = pread(look->fd, entries, n * sizeof(entries[0]),
				    (off_t)(page * sizeof(entries[0])));

		if (got <= 0)
			return got < 0 ? -errno : 0;
		n = (size_t)got / sizeof(entries[0]);
		for (size_t i = 0; i < n && err == 0; i++) {
			unsigned bits = (entries[i] & ENTRY_PRESENT ? TRACE_PAGE_PRESENT : 0) |
					(entries[i] & ENTRY_SWAPPED ? TRACE_PAGE_SWAPPED : 0);

			if (!bits)
				continue;
			bits |= more_bits(entries[i]);
			count_named(look, 1, bits);
			err = add_pages(look, page + i, 1, bits);
		}
		page += n;
	}
	return err;
}

static int look_at_range(struct look *look)
{
	if (look->range_end == look->range_start)
		return 0;
	return look->state->record.way == TRACE_PAGES_SCAN
		       ? scan_range(look, look->range_start, look->range_end, look->range_kind)
		       : read_table(look);
}

/* Devices, of which the kernel names no page, have a name. */
static bool is_own_map(const struct look *look, const struct image_map *map)
{
	return look->maps >= 0 && map->inode == 0 && map->flags == MAP_PRIVATE &&
	       (map->path[0] == '\0' || strcmp(map->path, "[heap]") == 0 ||
		strncmp(map->path, "[anon:", 6) == 0) &&
	       map->end - map->start >= LEAST_OWN_BYTES;
}

static void add_own_map(struct look *look, const struct image_map *map)
{
	/* What is mapped meanwhile may lie before it. */
	if (map->start > look->range_end)
		look->range_end = map->start;
	look->err = look_at_range(look);
	if (look->err == 0 && map->end > look->range_end)
		look->err = scan_own_map(look, look->range_end, map->end);
	look->range_start = look->range_end = map->end;
}

/* A scan steps over holes by itself; the table has an entry for each page of them. */
static bool may_join(const struct look *look, const struct image_map *map, enum map_kind kind)
{
	return look->range_kind == kind &&
	       (look->state->record.way == TRACE_PAGES_SCAN || look->range_end == map->start);
}

static void add_map(void *user, const struct image_map *map)
{
	struct look *look = user;
	enum map_kind kind = map->flags == MAP_SHARED			      ? MAP_OF_SEVERAL
			     : map->inode || strcmp(map->path, "[vdso]") == 0 ? MAP_OF_FILE
									      : MAP_OF_ITS_OWN;

	if (map->end <= (uint64_t)INT64_MAX)
		look->mapped_bytes += map->end - map->start;
	/* [vsyscall] is the kernel's. What is only reserved would fill gigabytes of the table. */
	if (look->err < 0 || map->end > (uint64_t)INT64_MAX ||
	    (look->state->record.way == TRACE_PAGES_TABLE && map->prot == PROT_NONE &&
	     map->end - map->start > MAX_CLOSED_BYTES))
		return;
	if (is_own_map(look, map)) {
		add_own_map(look, map);
		return;
	}
	if (!may_join(look, map, kind)) {
		look->err = look_at_range(look);
		/* What is mapped meanwhile may lie between. */
		look->range_start =
			look->state->record.way == TRACE_PAGES_SCAN ? look->range_end : map->start;
	}
	look->range_end = map->end;
	look->range_kind = kind;
}

/* ---- All of it ---- */

static uint64_t status_bytes(const char *text, const char *key)
{
	const char *found = strstr(text, key);

	return found ? strtoull(found + strlen(key), NULL, 10) * 1024 : 0;
}

/* One that ends has no memory any more, and says nothing of it. */
static int read_status(pid_t pid, char **ret_text)
{
	int err = io_read_proc(pid, "status", MAX_STATUS_BYTES, ret_text, NULL);
	if (err < 0)
		return err == -ENOENT ? -ESRCH : err;
	return strstr(*ret_text, "\nVmRSS:") ? 0 : -ESRCH;
}

/* Ask for nothing: does the kernel know the call? */
static int way_of(int fd)
{
	struct page_scan request = {
		.size = sizeof(request),
		.category_anyof_mask = PAGE_SCAN_PRESENT,
		.return_mask = PAGE_SCAN_PRESENT,
	};

	return ioctl(fd, PAGE_SCAN, &request) >= 0 ? TRACE_PAGES_SCAN : TRACE_PAGES_TABLE;
}

static int open_table(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int page_state_way(void)
{
	auto_close int fd = open_table(getpid());

	return fd < 0 ? fd : way_of(fd);
}

static int read_maps(pid_t pid, struct page_state *state)
{
	int err = io_read_proc(pid, "maps", MAX_BYTES, &state->maps, &state->n_map_bytes);
	return err == -EFBIG ? -E2BIG : err;
}

/* 0: the kernel does not tell. */
static uint64_t read_pss(pid_t pid)
{
	auto_free char *text = NULL;

	return io_read_proc(pid, "smaps_rollup", MAX_STATUS_BYTES, &text, NULL) < 0
		       ? 0
		       : status_bytes(text, "\nPss:");
}

/* Its maps by MAP_QUERY (Linux 6.11), or -1. */
static int open_maps(pid_t pid)
{
	struct map_query query = { .size = sizeof(query) };
	int fd = image_open_file(pid, "maps", O_RDONLY);

	/* Nothing is mapped at 0, which is another error than that there is no such question. */
	if (fd < 0 || ioctl(fd, MAP_QUERY, &query) == 0 || errno == ENOENT)
		return fd;
	close(fd);
	return -1;
}

static int look_at_all(pid_t pid, int fd, unsigned asked, struct page_state *state)
{
	auto_free char *maps = strdup(state->maps);
	bool names_each = asked & PAGE_STATE_EACH || state->record.way != TRACE_PAGES_SCAN;
	auto_close int map_file = names_each ? -1 : open_maps(pid);
	struct look look = {
		.state = state,
		.pid = pid,
		.fd = fd,
		.maps = map_file,
		.page_bytes = state->record.page_bytes,
	};

	if (!maps)
		return -ENOMEM;
	image_each_map_of(maps, add_map, &look);
	if (look.err == 0)
		look.err = look_at_range(&look);
	state->mapped_bytes = look.mapped_bytes;
	return look.err < 0 ? look.err : write_run(&look);
}

static uint64_t least_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t above(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t found_bytes(const struct page_state *state)
{
	return above(state->resident_bytes, state->record.uncounted_bytes);
}

/*
 * munmap(2) first takes mappings out of the list, then frees their pages, which VmRSS has as long,
 * and at last takes them off VmSize (vms_complete_munmap_vmas() of Linux). One that is interrupted
 * there may stay so for many ms.
 */
static uint64_t leaving_bytes(const struct page_state *state, const char *before, const char *after)
{
	const struct trace_pages *record = &state->record;
	uint64_t size =
		least_of(status_bytes(before, "\nVmSize:"), status_bytes(after, "\nVmSize:"));
	uint64_t rss = least_of(record->rss_bytes, record->rss_after_bytes);

	return least_of(above(size, state->mapped_bytes), above(rss, found_bytes(state)));
}

int page_state_read(pid_t pid, unsigned asked, struct page_state *ret_state)
{
	auto_free char *before = NULL;
	auto_free char *after = NULL;
	auto_close int fd = open_table(pid);
	struct trace_pages *record = &ret_state->record;
	/* What is forbidden of one that has ended is nothing to look at. */
	int err = read_status(pid, &before);

	if (err < 0 || fd < 0)
		return err < 0 ? err : fd;
	if (record->way != TRACE_PAGES_TABLE)
		record->way = (uint8_t)way_of(fd);
	record->page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);
	record->rss_bytes = status_bytes(before, "\nVmRSS:");
	bool is_small = record->rss_bytes / record->page_bytes <= PAGE_STATE_MAX_SHARED;
	record->has_shared =
		record->way == TRACE_PAGES_TABLE || (asked & PAGE_STATE_RELATED && is_small);
	record->has_nodes = (asked & PAGE_STATE_NODES) != 0;
	err = read_maps(pid, ret_state) ?: look_at_all(pid, fd, asked, ret_state);
	if (err == 0 && is_small && asked & PAGE_STATE_PSS)
		record->pss_bytes = read_pss(pid);
	/* It may have ended meanwhile, whatever that looked like. */
	if (read_status(pid, &after) == -ESRCH || image_memory_has_gone(fd))
		return -ESRCH;
	if (err < 0 || !after)
		return err < 0 ? err : -EIO;
	record->rss_after_bytes = status_bytes(after, "\nVmRSS:");
	record->swap_bytes = status_bytes(before, "\nVmSwap:");
	record->uncounted_bytes += status_bytes(before, "\nHugetlbPages:");
	record->most_bytes = status_bytes(after, "\nVmHWM:");
	record->leaving_bytes = leaving_bytes(ret_state, before, after);
	return 0;
}

bool page_state_fits(const struct page_state *state)
{
	const struct trace_pages *record = &state->record;
	uint64_t before = record->rss_bytes, after = record->rss_after_bytes;
	uint64_t least = least_of(before, after), most = before < after ? after : before;
	uint64_t margin = most / FIT_SHARE + FIT_BYTES;
	uint64_t found = found_bytes(state) + record->leaving_bytes;

	return found + margin >= least && found <= most + margin;
}
