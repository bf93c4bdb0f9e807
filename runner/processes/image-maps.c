#include "runner/processes/image-proc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/cleanup.h"
#include "common/io.h"

#define MAX_MAPS_BYTES (64u << 20)

static bool read_hex(const char **at, char end, uint64_t *ret_value)
{
	char *behind;

	*ret_value = strtoull(*at, &behind, 16);
	if (behind == *at || *behind != end)
		return false;
	*at = behind + 1;
	return true;
}

/* The kernel writes a newline of a file's name as \012, and nothing else (fs/proc/task_mmu.c). */
static void read_newlines(char *path)
{
	static const char escape[] = "\\012";
	size_t n = sizeof(escape) - 1;

	for (char *at = strstr(path, escape); at; at = strstr(at + 1, escape)) {
		*at = '\n';
		memmove(at + 1, at + n, strlen(at + n) + 1);
	}
}

/* start-end prot offset major:minor inode path; proc_pid_maps(5). */
bool image_parse_map(char *line, struct image_map *ret_map)
{
	struct image_map map = { 0 };
	const char *at = line;
	char *behind;

	line[strcspn(line, "\n")] = '\0';
	if (!read_hex(&at, '-', &map.start) || !read_hex(&at, ' ', &map.end) || strlen(at) < 5)
		return false;
	map.prot = (at[0] == 'r' ? PROT_READ : 0u) | (at[1] == 'w' ? PROT_WRITE : 0u) |
		   (at[2] == 'x' ? PROT_EXEC : 0u);
	map.flags = at[3] == 's' ? MAP_SHARED : MAP_PRIVATE;
	at += 5;
	if (!read_hex(&at, ' ', &map.file_offset) || map.end <= map.start)
		return false;
	/* No sscanf(): some 30 of these are read for each program that starts. */
	at += strcspn(at, " ");
	map.inode = strtoull(at, &behind, 10);
	behind += strspn(behind, " ");
	map.path = behind;
	read_newlines(behind);
	*ret_map = map;
	return true;
}

void image_each_map_of(char *text, void (*call)(void *user, const struct image_map *map),
		       void *user)
{
	for (char *line = strsep(&text, "\n"); line; line = strsep(&text, "\n")) {
		struct image_map map;

		if (image_parse_map(line, &map))
			call(user, &map);
	}
}

int image_each_map(pid_t pid, void (*call)(void *user, const struct image_map *map), void *user)
{
	char path[64];
	auto_free char *text = NULL;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	err = io_read_file(path, MAX_MAPS_BYTES, &text, NULL);
	if (err < 0)
		return err;
	image_each_map_of(text, call, user);
	return 0;
}
