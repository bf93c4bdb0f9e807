#include "runner/sampling/code-maps.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "runner/processes/image-proc.h"
#include "runner/processes/page-scan.h"

/* ---- Spans of addresses ---- */

/* What is that near to a span becomes part of it: code of one file. */
#define NEAR_BYTES (UINT64_C(256) << 10)

static bool is_near(const struct code_spans *spans, size_t i, uint64_t start, uint64_t end)
{
	uint64_t low = spans->items[i].start, high = spans->items[i].end;

	return (start <= high || start - high <= NEAR_BYTES) &&
	       (end >= low || low - end <= NEAR_BYTES);
}

void code_spans_add(struct code_spans *spans, uint32_t process_id, uint64_t start, uint64_t end)
{
	size_t i = 0;

	while (i < spans->n &&
	       (spans->items[i].process_id != process_id || !is_near(spans, i, start, end)))
		i++;
	if (i == CODE_SPANS) {
		spans->is_full = true;
		return;
	}
	if (i == spans->n) {
		spans->items[spans->n].start = start;
		spans->items[spans->n].end = end;
		spans->items[spans->n++].process_id = process_id;
	}
	if (start < spans->items[i].start)
		spans->items[i].start = start;
	if (end > spans->items[i].end)
		spans->items[i].end = end;
}

bool code_spans_forget(struct code_spans *spans, uint32_t process_id, uint64_t start, uint64_t end)
{
	bool is_whole = start == 0 && end == UINT64_MAX, is_kept = spans->is_full;

	for (size_t i = spans->n; i-- > 0;) {
		if (spans->items[i].process_id != process_id || spans->items[i].start >= end ||
		    spans->items[i].end <= start)
			continue;
		is_kept = true;
		if (is_whole)
			spans->items[i] = spans->items[--spans->n];
	}
	return is_kept;
}

/* Files that programs make to have the same memory twice: once to write code to, once to run it. */
static bool is_made_by_program(const char *path)
{
	static const char deleted[] = " (deleted)";
	size_t n = strlen(path);

	return strncmp(path, "/memfd:", 7) == 0 || strncmp(path, "/dev/", 5) == 0 ||
	       strncmp(path, "/SYSV", 5) == 0 ||
	       (n >= sizeof(deleted) && strcmp(path + n - (sizeof(deleted) - 1), deleted) == 0);
}

/* What the process runs, wherever it lies, removed or not: the kernel lets nobody write there. */
static void read_executable(pid_t pid, char ret_path[PATH_MAX])
{
	char link[32];

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	ssize_t n = readlink(link, ret_path, PATH_MAX - 1);
	ret_path[n > 0 ? n : 0] = '\0';
}

static bool is_fixed_map(const struct image_map *map, const char *executable)
{
	if ((map->prot & PROT_WRITE) || map->flags != MAP_PRIVATE)
		return false;
	if (strcmp(map->path, "[vdso]") == 0)
		return true;
	return map->path[0] == '/' && map->inode != 0 &&
	       (strcmp(map->path, executable) == 0 || !is_made_by_program(map->path));
}

/* Without memory it is taken for one that may change: less is known, nothing wrong. */
static void add_range(struct code_range **ranges, size_t *n, const struct image_map *map)
{
	if (grow_array_of(ranges, *n, 1, sizeof(**ranges)) < 0)
		return;
	(*ranges)[(*n)++] = (struct code_range){ map->start, map->end };
}

struct reading {
	struct code_maps *maps;
	char executable[PATH_MAX];
};

static void take_map(void *user, const struct image_map *map)
{
	const struct reading *reading = user;
	struct code_maps *maps = reading->maps;

	if (!is_fixed_map(map, reading->executable))
		return;
	if (map->prot & PROT_EXEC)
		add_range(&maps->fixed, &maps->n_fixed, map);
	else if (map->prot & PROT_READ)
		add_range(&maps->constant, &maps->n_constant, map);
}

/* False: they cannot be read. */
static bool read_maps(struct code_maps *maps, pid_t pid)
{
	struct reading reading = { .maps = maps };

	if (maps->is_known)
		return true;
	read_executable(pid, reading.executable);
	maps->n_fixed = maps->n_constant = 0;
	maps->is_known = image_each_map(pid, take_map, &reading) >= 0;
	return maps->is_known;
}

static const struct code_range *find_range(const struct code_range *ranges, size_t n,
					   uint64_t address)
{
	return array_find(ranges, n, it, address >= it->start && address < it->end);
}

bool code_maps_is_fixed(struct code_maps *maps, pid_t pid, uint64_t address)
{
	return !read_maps(maps, pid) || find_range(maps->fixed, maps->n_fixed, address);
}

uint64_t code_maps_constant(struct code_maps *maps, pid_t pid, uint64_t address)
{
	const struct code_range *range =
		read_maps(maps, pid) ? find_range(maps->constant, maps->n_constant, address) : NULL;

	return range ? range->end - address : 0;
}

struct place {
	uint64_t address;
	bool is_code;
};

static void look_for_place(void *user, const struct image_map *map)
{
	struct place *place = user;

	if ((map->prot & PROT_EXEC) && place->address >= map->start && place->address < map->end)
		place->is_code = true;
}

bool code_maps_is_code_now(pid_t pid, uint64_t address)
{
	struct map_query query = { .size = sizeof(query),
				   .flags = MAP_QUERY_EXECUTABLE,
				   .address = address };
	struct place place = { .address = address };
	auto_close int fd = image_open_file(pid, "maps", O_RDONLY);

	if (fd < 0)
		return false;
	if (ioctl(fd, MAP_QUERY, &query) == 0)
		return true;
	if (errno == ENOENT)
		return false;
	return image_each_map(pid, look_for_place, &place) == 0 && place.is_code;
}

void code_maps_changed(struct code_maps *maps, uint64_t start, uint64_t size, bool is_file)
{
	uint64_t end = start + size < start ? UINT64_MAX : start + size;

	if (is_file)
		maps->is_known = false;
	for (size_t i = 0; i < maps->n_fixed; i++)
		if (maps->fixed[i].start < end && maps->fixed[i].end > start)
			maps->is_known = false;
	for (size_t i = 0; i < maps->n_constant; i++)
		if (maps->constant[i].start < end && maps->constant[i].end > start)
			maps->is_known = false;
}

void code_maps_finish(struct code_maps *maps)
{
	free_all(maps->fixed, maps->constant);
	*maps = (struct code_maps){ 0 };
}
