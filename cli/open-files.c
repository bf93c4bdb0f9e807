#include "cli/open-files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"

#define SPARE_FILES 128u /* that the recorder itself may need */

struct live_file {
	char *path;
	char *build_id; /* hex; "": not known */
	int fd;
};

struct live_files {
	struct live_file *items;
	size_t n;
	size_t max;
};

struct live_files *live_files_create(void)
{
	struct live_files *files = calloc(1, sizeof(*files));
	struct rlimit limit = { .rlim_cur = 1024 };

	if (!files)
		return NULL;
	getrlimit(RLIMIT_NOFILE, &limit);
	files->max = limit.rlim_cur > 2 * SPARE_FILES ? (size_t)limit.rlim_cur - SPARE_FILES
						      : (size_t)limit.rlim_cur / 2;
	return files;
}

struct live_files *live_files_destroy(struct live_files *files)
{
	if (!files)
		return NULL;
	for (size_t i = 0; i < files->n; i++) {
		free(files->items[i].path);
		free(files->items[i].build_id);
		cleanup_close(&files->items[i].fd);
	}
	free(files->items);
	free(files);
	return NULL;
}

/* By path alone where the build-id is not known: maps tell none. */
static struct live_file *find(const struct live_files *files, const char *path,
			      const char *build_id)
{
	for (size_t i = 0; i < files->n; i++) {
		if (strcmp(files->items[i].path, path) == 0 &&
		    (!build_id || strcmp(files->items[i].build_id, build_id) == 0))
			return &files->items[i];
	}
	return NULL;
}

static char *hex_of(const struct run_file *file)
{
	char *text = calloc(2 * file->build_id_bytes + 1, 1);

	for (size_t i = 0; text && i < file->build_id_bytes; i++)
		snprintf(text + 2 * i, 3, "%02x", file->build_id[i]);
	return text;
}

/* As the process sees it; a relative path starts at its working folder. */
static int open_of_process(const struct run_file *file, const char *path)
{
	auto_free char *place = NULL;
	struct stat st;

	if (asprintf(&place, "/proc/%d/%s%s", (int)file->pid, path[0] == '/' ? "root" : "cwd/",
		     path) < 0)
		return -1;
	auto_close int fd = open(place, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? steal_fd(&fd) : -1;
}

void live_files_add(void *user, const struct run_file *file)
{
	struct live_files *files = user;
	struct live_file item = { .fd = -1 };

	item.path = strndup(file->path, file->path_bytes);
	item.build_id = hex_of(file);
	bool is_new = item.path && item.build_id && files->n < files->max && item.path[0] != '[' &&
		      !find(files, item.path, item.build_id);
	if (is_new)
		item.fd = open_of_process(file, item.path);
	struct live_file *longer =
		item.fd >= 0 ? reallocarray(files->items, files->n + 1, sizeof(*longer)) : NULL;
	if (longer) {
		files->items = longer;
		files->items[files->n++] = item;
		return;
	}
	cleanup_close(&item.fd);
	free(item.path);
	free(item.build_id);
}

int live_files_open(void *user, const char *path, const char *build_id)
{
	const struct live_file *file = find(user, path, build_id);
	char place[64];

	if (!file)
		return -1;
	/* Not dup(): its position would be shared. */
	snprintf(place, sizeof(place), "/proc/self/fd/%d", file->fd);
	return open(place, O_RDONLY | O_CLOEXEC);
}
