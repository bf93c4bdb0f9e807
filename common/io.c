#include "common/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

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

int io_read_file(const char *path, size_t max_bytes, char **ret_text, size_t *ret_bytes)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;

	auto_free char *text = malloc(max_bytes + 1);
	if (!text)
		return -ENOMEM;

	ssize_t n = io_read_full(fd, text, max_bytes + 1);
	if (n < 0)
		return (int)n;
	if ((size_t)n > max_bytes)
		return -EFBIG;

	text[n] = '\0';
	if (ret_bytes)
		*ret_bytes = (size_t)n;
	*ret_text = steal_ptr(&text);
	return 0;
}
