#include "runner/control/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/atomic-file.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "common/worker-thread.h"

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

int snapshot_open(struct snapshot *snapshot, int *ret_fd)
{
	snapshot->number = 0;
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
		err = err ?: new_file_publish(snapshot->partial, snapshot->path, false);
	}
	return err;
}

static void *run(void *context)
{
	struct snapshot *snapshot = context;
	uint64_t one = 1;
	int r = io_copy_range(snapshot->source_fd, 0, snapshot->fd, 0, snapshot->n_bytes);

	r = r ?: publish(snapshot);
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
