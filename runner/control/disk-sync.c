#include "runner/control/disk-sync.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include "common/worker-thread.h"

#define NOTHING (-1)
#define THE_END (-2)

static void *run(void *context)
{
	struct disk_sync *sync = context;
	int fd;

	do {
		while (sem_wait(&sync->asked) < 0 && errno == EINTR)
			continue;
		fd = atomic_exchange(&sync->fd, NOTHING);
		if (fd >= 0) {
			fdatasync(fd); /* a disk that fails tells who writes */
			close(fd);
		}
	} while (fd != THE_END);
	return NULL;
}

int disk_sync_start(struct disk_sync *sync)
{
	sem_init(&sync->asked, 0, 0);
	atomic_init(&sync->fd, NOTHING);
	int r = quiet_thread_start(&sync->thread, run, sync);
	if (r < 0)
		sem_destroy(&sync->asked);
	return r;
}

static void give(struct disk_sync *sync, int fd)
{
	int before = atomic_exchange(&sync->fd, fd);

	if (before >= 0)
		close(before);
	sem_post(&sync->asked);
}

void disk_sync_ask(struct disk_sync *sync, int fd)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (own >= 0)
		give(sync, own);
}

void disk_sync_stop(struct disk_sync *sync)
{
	give(sync, THE_END);
	pthread_join(sync->thread, NULL);
	sem_destroy(&sync->asked);
}
