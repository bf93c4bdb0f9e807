#include "runner/control/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/fs.h>

#include "common/atomic-file.h"
#include "common/cleanup.h"
#include "common/worker-thread.h"

#define COPY_BYTES	      (1u << 20)
#define SNAPSHOT_TRACE_SUFFIX ".mst"
#define SNAPSHOT_MAX_NUMBER   1000000u

/* Who has made the partial file has the name, as far as recorders are concerned. */
static int claim(struct snapshot *snapshot, int *ret_fd)
{
	struct stat status;
	int n = snprintf(snapshot->partial, sizeof(snapshot->partial), "%s%s", snapshot->path,
			 SNAPSHOT_SUFFIX);

	if (n >= (int)sizeof(snapshot->partial))
		return -ENAMETOOLONG;
	auto_close int fd = open(snapshot->partial, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno == EEXIST && !snapshot->number ? -EBUSY : -errno;
	int err = 0;
	if (lstat(snapshot->path, &status) == 0 &&
	    !(snapshot->is_forced && S_ISREG(status.st_mode)))
		err = S_ISREG(status.st_mode) || snapshot->number ? -EEXIST : -ENOTSUP;
	snapshot->fd = err < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (snapshot->fd < 0) {
		err = err < 0 ? err : -errno;
		unlink(snapshot->partial);
		return err;
	}
	*ret_fd = steal_fd(&fd);
	return 0;
}

int snapshot_open(struct snapshot *snapshot, const char *path, bool is_forced, int *ret_fd)
{
	snapshot->number = 0;
	snapshot->is_forced = is_forced;
	snprintf(snapshot->path, sizeof(snapshot->path), "%s", path);
	return claim(snapshot, ret_fd);
}

/* The name behind this one. */
static int take_next_name(struct snapshot *snapshot)
{
	int n = snprintf(snapshot->path, sizeof(snapshot->path), "%s-%u%s", snapshot->stem,
			 ++snapshot->number, SNAPSHOT_TRACE_SUFFIX);

	return n >= (int)sizeof(snapshot->path)		? -ENAMETOOLONG
	       : snapshot->number > SNAPSHOT_MAX_NUMBER ? -EEXIST
							: 0;
}

int snapshot_open_next(struct snapshot *snapshot, const char *trace, int *ret_fd)
{
	size_t n = strlen(trace), n_suffix = strlen(SNAPSHOT_TRACE_SUFFIX);
	int err;

	if (n >= n_suffix && strcmp(trace + n - n_suffix, SNAPSHOT_TRACE_SUFFIX) == 0)
		n -= n_suffix;
	snprintf(snapshot->stem, sizeof(snapshot->stem), "%.*s", (int)n, trace);
	snapshot->number = 0;
	snapshot->is_forced = false;
	do {
		err = take_next_name(snapshot);
		if (err < 0)
			return err;
		err = claim(snapshot, ret_fd);
	} while (err == -EEXIST);
	return err;
}

/* The name may have been taken since, by who knows nothing of partial files. */
static int publish(struct snapshot *snapshot)
{
	int err = new_file_publish(snapshot->partial, snapshot->path, snapshot->is_forced);

	while (err == -EEXIST && snapshot->number) {
		err = take_next_name(snapshot);
		if (err == 0)
			err = new_file_publish(snapshot->partial, snapshot->path, false);
	}
	return err;
}

/* By read and write, where the kernel cannot copy between these two files. */
static int copy_plainly(const struct snapshot *snapshot, off_t at)
{
	auto_free char *buffer = malloc(COPY_BYTES);

	if (!buffer)
		return -ENOMEM;
	while ((uint64_t)at < snapshot->n_bytes) {
		uint64_t left = snapshot->n_bytes - (uint64_t)at;
		ssize_t n = pread(snapshot->source_fd, buffer,
				  left < COPY_BYTES ? left : COPY_BYTES, at);

		if (n > 0)
			n = pwrite(snapshot->fd, buffer, (size_t)n, at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += n;
	}
	return 0;
}

/* copy_file_range(2) shares blocks where it can. */
static int copy(const struct snapshot *snapshot)
{
	off_t from = 0, to = 0;

	while ((uint64_t)to < snapshot->n_bytes) {
		ssize_t n = copy_file_range(snapshot->source_fd, &from, snapshot->fd, &to,
					    snapshot->n_bytes - (uint64_t)to, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return copy_plainly(snapshot, to);
	}
	return 0;
}

static void *run(void *context)
{
	struct snapshot *snapshot = context;
	uint64_t one = 1;
	int r = copy(snapshot);

	if (r == 0)
		r = publish(snapshot);
	if (r < 0)
		unlink(snapshot->partial);
	snapshot->result = r;
	snapshot->is_done = true;
	/* Only wakes: who does not hear it looks by himself later. */
	if (write(snapshot->notify_fd, &one, sizeof(one)) < 0)
		return NULL;
	return NULL;
}

int snapshot_start(struct snapshot *snapshot, int source_fd, uint64_t n_bytes, int notify_fd)
{
	snapshot->n_bytes = n_bytes;
	snapshot->notify_fd = notify_fd;
	snapshot->source_fd = fcntl(source_fd, F_DUPFD_CLOEXEC, 0);
	if (snapshot->source_fd < 0)
		return -errno;
	return quiet_thread_start(&snapshot->thread, run, snapshot);
}

static void close_files(struct snapshot *snapshot)
{
	cleanup_close(&snapshot->source_fd);
	cleanup_close(&snapshot->fd);
	snapshot->source_fd = snapshot->fd = -1;
}

int snapshot_finish(struct snapshot *snapshot)
{
	pthread_join(snapshot->thread, NULL);
	close_files(snapshot);
	return snapshot->result;
}

void snapshot_abandon(struct snapshot *snapshot)
{
	unlink(snapshot->partial);
	close_files(snapshot);
}
