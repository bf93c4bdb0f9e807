#include "common/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"

int io_write_all(int fd, const void *bytes, size_t n_bytes)
{
	const char *next = bytes;

	while (n_bytes > 0) {
		ssize_t n = write(fd, next, n_bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		next += n;
		n_bytes -= (size_t)n;
	}
	return 0;
}

ssize_t io_read_full(int fd, void *bytes, size_t n_bytes)
{
	char *next = bytes;
	size_t done = 0;

	while (done < n_bytes) {
		ssize_t n = read(fd, next + done, n_bytes - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

#define FIRST_READ_BYTES 4096u

/*
 * Files in /proc and /sys do not tell their size: read until there is no more. The buffer grows
 * with what is there: max_bytes is a bound, and most files are far below it.
 */
static int read_growing(int fd, size_t max_bytes, char **text, size_t *ret_bytes)
{
	size_t n_bytes = 0, room = 0;

	for (;;) {
		if (grow_array_by(text, n_bytes, FIRST_READ_BYTES, &room, 1) < 0)
			return -ENOMEM;
		ssize_t n = io_read_full(fd, *text + n_bytes, room - 1 - n_bytes);
		if (n < 0)
			return (int)n;
		n_bytes += (size_t)n;
		if (n_bytes > max_bytes)
			return -EFBIG;
		if (n_bytes < room - 1)
			break;
	}
	*ret_bytes = n_bytes;
	return 0;
}

int io_read_file(const char *path, size_t max_bytes, char **ret_text, size_t *ret_bytes)
{
	auto_free char *text = NULL;
	size_t n_bytes = 0;
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	int r = read_growing(fd, max_bytes, &text, &n_bytes);
	if (r < 0)
		return r;

	text[n_bytes] = '\0';
	if (ret_bytes)
		*ret_bytes = n_bytes;
	*ret_text = steal_ptr(&text);
	return 0;
}

int io_read_proc(pid_t pid, const char *name, size_t max_bytes, char **ret_text, size_t *ret_bytes)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return io_read_file(path, max_bytes, ret_text, ret_bytes);
}

int io_open_unnamed(const char *folder)
{
	auto_free char *path = NULL;
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	if (asprintf(&path, "%s/.memsight-XXXXXX", folder) < 0)
		return -ENOMEM;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	return fd;
}

#define COPY_BYTES (1u << 20)

/* By read and write, where the kernel cannot copy between these two files. */
static int copy_plainly(int from_fd, off_t from, int to_fd, off_t to, uint64_t n_bytes)
{
	auto_free char *buffer = malloc(COPY_BYTES);

	if (!buffer)
		return -ENOMEM;
	while (n_bytes > 0) {
		ssize_t n =
			pread(from_fd, buffer, n_bytes < COPY_BYTES ? n_bytes : COPY_BYTES, from);

		if (n > 0)
			n = pwrite(to_fd, buffer, (size_t)n, to);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		from += n;
		to += n;
		n_bytes -= (uint64_t)n;
	}
	return 0;
}

int io_copy_range(int from_fd, uint64_t from, int to_fd, uint64_t to, uint64_t n_bytes)
{
	off_t at = (off_t)from, to_at = (off_t)to;

	while (n_bytes > 0) {
		ssize_t n = copy_file_range(from_fd, &at, to_fd, &to_at, n_bytes, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return copy_plainly(from_fd, at, to_fd, to_at, n_bytes);
		n_bytes -= (uint64_t)n;
	}
	return 0;
}
