#include "common/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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

/* at NULL: where the file's position is. */
static ssize_t read_all(int fd, char *bytes, size_t n_bytes, const uint64_t *at)
{
	size_t done = 0;

	while (done < n_bytes) {
		ssize_t n = at ? pread(fd, bytes + done, n_bytes - done, (off_t)(*at + done))
			       : read(fd, bytes + done, n_bytes - done);
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

ssize_t io_read_full(int fd, void *bytes, size_t n_bytes)
{
	return read_all(fd, bytes, n_bytes, NULL);
}

ssize_t io_read_at(int fd, void *bytes, size_t n_bytes, uint64_t at)
{
	return read_all(fd, bytes, n_bytes, &at);
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

pid_t io_next_number(DIR *folder)
{
	const struct dirent *entry = folder ? readdir(folder) : NULL;

	while (entry && atoi(entry->d_name) <= 0)
		entry = readdir(folder);
	return entry ? atoi(entry->d_name) : 0;
}

void io_close_folder(DIR **folder)
{
	if (*folder)
		closedir(*folder);
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

/* Room for the descriptors beside a message. */
union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(2 * sizeof(int))];
};

int io_send(int fd, const struct io_message *message, int flags)
{
	struct iovec part = { .iov_base = (void *)(uintptr_t)message->bytes,
			      .iov_len = message->n_bytes };
	struct msghdr whole = { .msg_iov = &part, .msg_iovlen = 1 };
	union control control = { .head = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
	size_t n_bytes = message->n_fds * sizeof(message->fds[0]);

	if (n_bytes) {
		control.head.cmsg_len = CMSG_LEN(n_bytes);
		memcpy(CMSG_DATA(&control.head), message->fds, n_bytes);
		whole.msg_control = &control;
		whole.msg_controllen = CMSG_SPACE(n_bytes);
	}
	return TEMP_FAILURE_RETRY(sendmsg(fd, &whole, flags | MSG_NOSIGNAL)) < 0 ? -errno : 0;
}

ssize_t io_receive(int fd, void *bytes, size_t n_bytes, int flags, int *ret_fd)
{
	struct iovec part = { .iov_base = bytes, .iov_len = n_bytes };
	union control control = { .head = { .cmsg_len = 0 } };
	struct msghdr whole = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = ret_fd ? &control : NULL,
		/* Not CMSG_SPACE(): that has room for two, and a second one would stay. */
		.msg_controllen = ret_fd ? CMSG_LEN(sizeof(*ret_fd)) : 0
	};
	ssize_t n = TEMP_FAILURE_RETRY(recvmsg(fd, &whole, flags | MSG_CMSG_CLOEXEC));

	if (ret_fd)
		*ret_fd = -1;
	if (n >= 0 && ret_fd && whole.msg_controllen >= CMSG_LEN(sizeof(*ret_fd)) &&
	    control.head.cmsg_level == SOL_SOCKET && control.head.cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(&control.head), sizeof(*ret_fd));
	return n < 0 ? -errno : n;
}
