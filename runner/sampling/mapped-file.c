#include "runner/sampling/mapped-file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "runner/processes/image-proc.h"

struct wanted {
	uint64_t address;
	uint64_t inode; /* 0: no map of a file has been found */
	uint64_t file_offset; /* of the address */
	uint64_t n_bytes; /* to the end of the map */
	char path[PATH_MAX];
};

static void look_at_map(void *user, const struct image_map *map)
{
	struct wanted *wanted = user;

	if (wanted->address - map->start >= map->end - map->start || !(map->prot & PROT_EXEC) ||
	    map->path[0] != '/')
		return;
	wanted->inode = map->inode;
	wanted->file_offset = map->file_offset + (wanted->address - map->start);
	wanted->n_bytes = map->end - wanted->address;
	snprintf(wanted->path, sizeof(wanted->path), "%s", map->path);
}

/* A pipe of that name must not hold up the recorder. */
static int open_file(pid_t pid, const struct wanted *wanted)
{
	char path[PATH_MAX + 32];
	auto_close int fd = -1;
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)pid, wanted->path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) ||
	    status.st_ino != wanted->inode)
		return -1;
	return steal_fd(&fd);
}

size_t mapped_file_read(pid_t pid, uint64_t address, void *bytes, size_t n_bytes)
{
	struct wanted wanted = { .address = address };
	auto_close int fd = -1;

	if (image_each_map(pid, look_at_map, &wanted) < 0 || wanted.inode == 0)
		return 0;
	fd = open_file(pid, &wanted);
	if (fd < 0)
		return 0;
	ssize_t n = pread(fd, bytes, n_bytes < wanted.n_bytes ? n_bytes : (size_t)wanted.n_bytes,
			  (off_t)wanted.file_offset);
	return n > 0 ? (size_t)n : 0;
}

/* Returns the bytes of the page from the address on. */
static size_t read_page(struct mapped_pages *pages, pid_t pid, uint64_t address, void *bytes,
			size_t n_bytes)
{
	uint64_t number = address / MAPPED_PAGE_BYTES;
	size_t at = (size_t)(address % MAPPED_PAGE_BYTES), slot = number % MAPPED_PAGES;

	if (pages->items[slot].pid != pid ||
	    pages->items[slot].address != number * MAPPED_PAGE_BYTES) {
		pages->items[slot].pid = pid;
		pages->items[slot].address = number * MAPPED_PAGE_BYTES;
		pages->items[slot].n_bytes = (uint32_t)mapped_file_read(
			pid, address - at, pages->items[slot].bytes, MAPPED_PAGE_BYTES);
	}
	if (at >= pages->items[slot].n_bytes)
		return 0;
	if (n_bytes > pages->items[slot].n_bytes - at)
		n_bytes = pages->items[slot].n_bytes - at;
	memcpy(bytes, pages->items[slot].bytes + at, n_bytes);
	return n_bytes;
}

size_t mapped_pages_read(struct mapped_pages *pages, pid_t pid, uint64_t address, void *bytes,
			 size_t n_bytes)
{
	size_t done = 0, n;

	do {
		n = read_page(pages, pid, address + done, (uint8_t *)bytes + done, n_bytes - done);
		done += n;
	} while (n > 0 && done < n_bytes);
	return done;
}

void mapped_pages_forget(struct mapped_pages *pages)
{
	for (size_t i = 0; i < MAPPED_PAGES; i++)
		pages->items[i].pid = 0;
}
