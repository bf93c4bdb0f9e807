#include "runner/processes/page-touches.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "runner/processes/image-proc.h"
#include "runner/processes/page-budget.h"
#include "runner/processes/process-sampler.h"
#include "schemas/trace-format.h"

#define N_PAGES		  2048u /* to measure on */
#define MAX_MARK_NS	  UINT64_C(10000) /* more is the machine's load */
#define N_MEASUREMENTS	  3
#define FIELD(line, name) (strncmp(line, name ":", sizeof(name ":") - 1) == 0)

/* A mapping of smaps, as far as it is read. */
struct mapping {
	struct image_map map;
	unsigned bits;
	uint64_t resident_kib;
	uint64_t touched_kib;
	uint64_t unknown_kib;
	unsigned flags; /* HAS_* */
	bool is_there;
};

/* VmFlags of smaps, as far as they say whether writes may be asked for (proc_pid_smaps(5)). */
#define HAS_WRITE 0x1u /* written, or watched by userfaultfd */
#define HAS_WATCH 0x2u
#define HAS_OTHER 0x4u /* devices, hugetlbfs, shadow stacks, pages that are merged or dropped */
static const struct {
	char name[4];
	unsigned flags;
} vm_flags[] = {
	{ "wr ", HAS_WRITE }, { "uw ", HAS_WRITE | HAS_WATCH },
	{ "sh ", HAS_OTHER }, { "io ", HAS_OTHER },
	{ "pf ", HAS_OTHER }, { "mm ", HAS_OTHER },
	{ "ht ", HAS_OTHER }, { "ss ", HAS_OTHER },
	{ "mg ", HAS_OTHER }, { "dp ", HAS_OTHER },
};

/* /proc/PID/numa_maps, which has a line for each mapping in the same order. */
struct node_lines {
	FILE *file; /* NULL: nodes are not asked for, or not told */
	char *line; /* the last one that was read */
	size_t room;
	uint64_t start; /* of its mapping */
};

struct reading {
	struct page_touches *touches;
	struct mapping mapping;
	bool with_nodes;
	struct node_lines nodes;
	uint64_t page_bytes;
	uint64_t end; /* page behind the last run */
};

void page_touches_finish(struct page_touches *touches)
{
	free_all(touches->runs.bytes, touches->areas);
	*touches = (struct page_touches){ 0 };
}

/* The nodes of a mapping: none where it is not the same in both files. */
static size_t nodes_of(struct node_lines *lines, uint64_t start, struct run_node_bytes *ret_nodes)
{
	while (lines->file && lines->start < start) {
		if (getline(&lines->line, &lines->room, lines->file) <= 0) {
			fclose(lines->file);
			lines->file = NULL;
			return 0;
		}
		lines->start = strtoull(lines->line, NULL, 16);
	}
	return lines->file && lines->start == start
		       ? run_parse_numa_maps(lines->line, ret_nodes, RUN_MAX_NODES)
		       : 0;
}

static int put_nodes(struct reading *reading)
{
	struct run_node_bytes nodes[RUN_MAX_NODES];
	size_t n = nodes_of(&reading->nodes, reading->mapping.map.start, nodes);
	uint64_t numbers[1 + 2 * RUN_MAX_NODES] = { n };

	for (size_t i = 0; i < n; i++) {
		numbers[1 + 2 * i] = nodes[i].node;
		numbers[2 + 2 * i] = nodes[i].bytes / reading->page_bytes;
	}
	return page_runs_put(&reading->touches->runs, numbers, 1 + 2 * n);
}

static int put_run(struct reading *reading)
{
	const struct mapping *mapping = &reading->mapping;
	struct page_touches *touches = reading->touches;
	uint64_t first = mapping->map.start / reading->page_bytes;
	uint64_t n = mapping->map.end / reading->page_bytes - first;
	uint64_t resident = mapping->resident_kib + mapping->unknown_kib;
	const uint64_t numbers[] = { first - reading->end, n << TRACE_TOUCH_BITS | mapping->bits,
				     resident * 1024 / reading->page_bytes,
				     mapping->touched_kib * 1024 / reading->page_bytes };

	/* It grew downwards while the one before it was read: once is enough. */
	if (first < reading->end)
		return 0;
	int err = page_runs_put(&touches->runs, numbers, 4);
	if (err < 0)
		return err;
	reading->end = first + n;
	touches->resident_bytes += resident * 1024;
	touches->touched_bytes += mapping->touched_kib * 1024;
	if (!(mapping->bits & TRACE_TOUCH_HUGE))
		touches->small_bytes += mapping->touched_kib * 1024;
	return reading->with_nodes ? put_nodes(reading) : 0;
}

static int add_area(struct reading *reading)
{
	const struct mapping *mapping = &reading->mapping;
	struct page_touches *touches = reading->touches;

	if (!(mapping->flags & HAS_WRITE) || mapping->flags & HAS_OTHER ||
	    mapping->bits & (TRACE_TOUCH_FILE | TRACE_TOUCH_TOOL) ||
	    (touches->n_areas > 0 && touches->areas[touches->n_areas - 1].end > mapping->map.start))
		return 0;
	return array_add(touches->areas, touches->n_areas, touches->n_areas_allocated,
			 (struct page_area){
				 .start = mapping->map.start,
				 .end = mapping->map.end,
				 .is_watched = (mapping->flags & HAS_WATCH) != 0,
				 .has_huge = (mapping->bits & TRACE_TOUCH_HUGE) != 0,
			 });
}

static int end_mapping(struct reading *reading)
{
	const struct mapping *mapping = &reading->mapping;

	if (!mapping->is_there || mapping->map.end > (uint64_t)INT64_MAX)
		return 0;
	if (add_area(reading) < 0)
		return -ENOMEM;
	return mapping->resident_kib + mapping->unknown_kib == 0 ? 0 : put_run(reading);
}

static unsigned bits_of(const struct image_map *map)
{
	unsigned bits = map->inode || map->flags == MAP_SHARED ? TRACE_TOUCH_FILE : 0;

	if (strncmp(map->path, "[stack", 6) == 0)
		bits |= TRACE_TOUCH_STACK;
	if (strstr(map->path, "libtracealloc") || strncmp(map->path, "/memfd:memsight", 15) == 0)
		bits |= TRACE_TOUCH_TOOL;
	return bits;
}

static uint64_t kib_of(const char *line)
{
	return strtoull(line + strcspn(line, ":") + 1, NULL, 10);
}

static void take_flags(struct mapping *mapping, const char *line)
{
	for (const char *at = line + sizeof("VmFlags:"); *at && at[1] && at[2]; at += 3)
		for (size_t i = 0; i < sizeof(vm_flags) / sizeof(vm_flags[0]); i++)
			if (memcmp(at, vm_flags[i].name, 3) == 0)
				mapping->flags |= vm_flags[i].flags;
}

static void take_field(struct mapping *mapping, const char *line)
{
	uint64_t kib = 0;

	if (FIELD(line, "VmFlags")) {
		take_flags(mapping, line);
	} else if (FIELD(line, "Rss")) {
		mapping->resident_kib = kib_of(line);
	} else if (FIELD(line, "Referenced")) {
		mapping->touched_kib = kib_of(line);
	} else if (FIELD(line, "Private_Hugetlb") || FIELD(line, "Shared_Hugetlb")) {
		mapping->unknown_kib += kib = kib_of(line);
		mapping->bits |= kib ? TRACE_TOUCH_UNKNOWN : 0;
	} else if (FIELD(line, "Swap")) {
		mapping->bits |= kib_of(line) ? TRACE_TOUCH_SWAPPED : 0;
	} else if (FIELD(line, "AnonHugePages") || FIELD(line, "ShmemPmdMapped") ||
		   FIELD(line, "FilePmdMapped")) {
		mapping->bits |= kib_of(line) ? TRACE_TOUCH_HUGE : 0;
	}
}

/* A field begins with a capital, the head of a mapping with its address. */
static int take_line(struct reading *reading, char *line)
{
	struct mapping *mapping = &reading->mapping;

	if (line[0] >= 'A' && line[0] <= 'Z') {
		take_field(mapping, line);
		return 0;
	}
	int err = end_mapping(reading);
	*mapping = (struct mapping){ 0 };
	mapping->is_there = image_parse_map(line, &mapping->map);
	if (mapping->is_there)
		mapping->bits = bits_of(&mapping->map);
	return err;
}

/* NULL with errno set. */
static FILE *open_lines(pid_t pid, const char *name)
{
	int fd = image_open_file(pid, name, O_RDONLY);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

	if (fd >= 0 && !file)
		close(fd);
	if (!file)
		errno = fd < 0 ? -fd : ENOMEM;
	return file;
}

static int read_mappings(struct reading *reading, FILE *smaps)
{
	auto_free char *line = NULL;
	size_t room = 0;
	int err = 0;

	errno = 0;
	while (err == 0 && getline(&line, &room, smaps) > 0)
		err = take_line(reading, line);
	if (err == 0 && !feof(smaps))
		err = errno ? -errno : -EIO;
	return err == 0 ? end_mapping(reading) : err;
}

int page_touches_read(pid_t pid, bool with_nodes, struct page_touches *ret_touches)
{
	struct reading reading = { .touches = ret_touches,
				   .with_nodes = with_nodes,
				   .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE) };
	FILE *smaps = open_lines(pid, "smaps");

	if (!smaps)
		return -errno;
	if (with_nodes)
		reading.nodes.file = open_lines(pid, "numa_maps");
	int err = read_mappings(&reading, smaps);
	fclose(smaps);
	if (reading.nodes.file)
		fclose(reading.nodes.file);
	free(reading.nodes.line);
	/* One that ends has no memory any more. */
	return err == 0 && ret_touches->runs.n_bytes == 0 ? -ESRCH : err;
}

/*
 * Does the process itself go by marks of pages? Collectors of garbage do (bdwgc, by soft-dirty
 * marks): without theirs they would free what is in use.
 */
static bool uses_marks(pid_t pid)
{
	char path[64], target[64];
	struct dirent *entry;
	bool does = false;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	auto_folder DIR *folder = opendir(path);
	while (folder && !does && (entry = readdir(folder))) {
		ssize_t n = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);

		target[n < 0 ? 0 : n] = '\0';
		const char *name = strrchr(target, '/');
		does = name && strncmp(target, "/proc/", 6) == 0 &&
		       (strcmp(name, "/pagemap") == 0 || strcmp(name, "/clear_refs") == 0);
	}
	return does;
}

int page_touches_clear(pid_t pid)
{
	auto_close int fd = image_open_file(pid, "clear_refs", O_WRONLY);

	if (fd < 0)
		return fd;
	if (pid != getpid() && uses_marks(pid))
		return -EBUSY;
	/* 4 is about other marks, which Linux need not even have: but it flushes. */
	return write(fd, "1", 1) == 1 && write(fd, "4", 1) == 1 ? 0 : -errno;
}

/* ---- Cost ---- */

uint64_t page_touches_mark_ns(void)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, N_PAGES * page_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t least = UINT64_MAX;

	if (memory == MAP_FAILED)
		return 0;
	madvise(memory, N_PAGES * page_bytes, MADV_NOHUGEPAGE);
	memset(memory, 1, N_PAGES * page_bytes);
	for (unsigned i = 0; i < N_MEASUREMENTS; i++) {
		uint64_t warm = page_sweep_ns(memory, N_PAGES, page_bytes, false), marked;

		if (page_touches_clear(getpid()) < 0)
			break;
		marked = page_sweep_ns(memory, N_PAGES, page_bytes, false);
		if (marked > warm && (marked - warm) / PAGE_SWEEP_PAGES < least)
			least = (marked - warm) / PAGE_SWEEP_PAGES;
	}
	munmap(memory, N_PAGES * page_bytes);
	return least > MAX_MARK_NS ? 0 : least;
}
