#include "runner/sampling/code-maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "runner/processes/image-proc.h"

/* Files that programs make to have the same memory twice: once to write code to, once to run it. */
static bool is_made_by_program(const char *path)
{
	static const char deleted[] = " (deleted)";
	size_t n = strlen(path);

	return strncmp(path, "/memfd:", 7) == 0 || strncmp(path, "/dev/", 5) == 0 ||
	       strncmp(path, "/SYSV", 5) == 0 ||
	       (n >= sizeof(deleted) && strcmp(path + n - (sizeof(deleted) - 1), deleted) == 0);
}

static bool is_fixed_map(const struct image_map *map)
{
	if (!(map->prot & PROT_EXEC) || (map->prot & PROT_WRITE) || map->flags != MAP_PRIVATE)
		return false;
	if (strcmp(map->path, "[vdso]") == 0)
		return true;
	return map->path[0] == '/' && map->inode != 0 && !is_made_by_program(map->path);
}

static void take_map(void *user, const struct image_map *map)
{
	struct code_maps *maps = user;

	if (!is_fixed_map(map))
		return;
	if (grow_array_of(&maps->fixed, maps->n_fixed, 1, sizeof(*maps->fixed)) < 0)
		return; /* taken for code that may change: less is known, nothing wrong */
	maps->fixed[maps->n_fixed++] = (struct code_range){ map->start, map->end };
}

bool code_maps_is_fixed(struct code_maps *maps, pid_t pid, uint64_t address)
{
	if (!maps->is_known) {
		maps->n_fixed = 0;
		if (image_each_map(pid, take_map, maps) < 0)
			return true;
		maps->is_known = true;
	}
	for (size_t i = 0; i < maps->n_fixed; i++)
		if (address >= maps->fixed[i].start && address < maps->fixed[i].end)
			return true;
	return false;
}

/* Of linux/fs.h since Linux 6.11. */
struct procmap_query {
	uint64_t size;
	uint64_t query_flags;
	uint64_t query_addr;
	uint64_t answer[6]; /* start, end, flags, page size, offset, inode */
	uint32_t sizes[4]; /* device, and of what is not asked for */
	uint64_t wanted[2]; /* name and build id: not asked for */
};
#define QUERY		 _IOWR('f', 17, struct procmap_query)
#define QUERY_EXECUTABLE UINT64_C(0x04)

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
	struct procmap_query query = { .size = sizeof(query),
				       .query_flags = QUERY_EXECUTABLE,
				       .query_addr = address };
	struct place place = { .address = address };
	char path[64];
	auto_close int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (ioctl(fd, QUERY, &query) == 0)
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
}

void code_maps_finish(struct code_maps *maps)
{
	free(maps->fixed);
	*maps = (struct code_maps){ 0 };
}
