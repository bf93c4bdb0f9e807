#pragma once
/*
 * Brings a file to the disk in a thread of its own, so that a power cut loses what was written
 * since the last time only. Who asks never waits.
 */
#include <pthread.h>
#include <semaphore.h>

struct disk_sync {
	pthread_t thread;
	sem_t asked;
	_Atomic int fd; /* of the next turn; -1: none. -2: the end */
};

/* Returns 0 or a negative errno. The struct stays where it is until disk_sync_stop(). */
int disk_sync_start(struct disk_sync *sync);

/* Bring a file to the disk: it is duplicated. Where the last one still waits, this one counts. */
void disk_sync_ask(struct disk_sync *sync, int fd);

/* End the thread, when what is under way is done. */
void disk_sync_stop(struct disk_sync *sync);
