#include "common/atomic-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"

#define MAX_TRIES 100

/* Who has made the file has the name; then it may be renamed over. */
static int take_name(const char *temporary, const char *path)
{
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	if (rename(temporary, path) == 0)
		return 0;
	int r = -errno;
	unlink(path);
	return r;
}

int new_file_publish(const char *temporary, const char *path, bool replaces)
{
	unsigned flags = replaces ? 0 : RENAME_NOREPLACE;

	if (renameat2(AT_FDCWD, temporary, AT_FDCWD, path, flags) == 0)
		return 0;
	if (replaces && errno == ENOSYS)
		return rename(temporary, path) < 0 ? -errno : 0;
	if (replaces || (errno != EINVAL && errno != ENOSYS))
		return -errno;
	if (link(temporary, path) == 0)
		return unlink(temporary), 0;
	return errno == EEXIST ? -EEXIST : take_name(temporary, path);
}

/* A name of our own in the folder of a path, which may itself be as long as names can be. */
static int open_beside(const char *path, mode_t mode, char **ret_name)
{
	const char *slash = strrchr(path, '/');
	int folder_length = slash ? (int)(slash + 1 - path) : 0;

	for (unsigned i = 0; i < MAX_TRIES; i++) {
		auto_free char *name = NULL;
		uint64_t number;
		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			return -EIO;
		if (asprintf(&name, "%.*s.memsight-%016llx", folder_length, path,
			     (unsigned long long)number) < 0) {
			name = NULL;
			return -ENOMEM;
		}
		int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
		if (fd >= 0)
			*ret_name = steal_ptr(&name);
		if (fd >= 0 || errno != EEXIST)
			return fd >= 0 ? fd : -errno;
	}
	return -EEXIST;
}

static int write_to_disk(int fd, const void *bytes, size_t n_bytes)
{
	int r = io_write_all(fd, bytes, n_bytes);

	if (r == 0 && fsync(fd) < 0 && errno != EINVAL && errno != EROFS)
		r = -errno;
	return r;
}

static int write_beside(const struct new_file *file, const char *path, const void *bytes,
			size_t n_bytes)
{
	auto_free char *temporary = NULL;
	auto_close int fd = open_beside(path, file->mode, &temporary);

	if (fd < 0)
		return fd;
	int r = write_to_disk(fd, bytes, n_bytes);
	r = r ?: new_file_publish(temporary, path, file->replaces);
	if (r < 0)
		unlink(temporary);
	return r;
}

int new_file_write(const struct new_file *file, const void *bytes, size_t n_bytes)
{
	auto_free char *real = file->replaces ? realpath(file->path, NULL) : NULL;
	const char *path = real ? real : file->path;
	struct stat status;

	if (file->replaces && stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
		auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
		return fd < 0 ? -errno : io_write_all(fd, bytes, n_bytes);
	}
	return write_beside(file, path, bytes, n_bytes);
}
