#pragma once
/*
 * A whole trace of what is recorded so far, while recording goes on: what comes behind the last
 * segment is written by the collector, into a file of its own; a thread then copies all before it,
 * by reference where the file system can, and gives the file its name.
 */
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define SNAPSHOT_SUFFIX ".partial"

struct snapshot {
	int source_fd; /* the trace that is being written; a descriptor of our own */
	int fd; /* the snapshot */
	uint64_t n_bytes; /* to copy */
	int notify_fd; /* an eventfd: +1 when it is done */
	int answer_fd; /* who asked for it; -1: nobody waits */
	char fired[64]; /* the condition of --trigger that asked for it; "": another did */
	bool is_forced;
	unsigned number; /* 0: its name was given */
	char stem[PATH_MAX]; /* of numbered names */
	char path[PATH_MAX];
	char partial[PATH_MAX];
	int result; /* valid when is_done: 0 or a negative errno */
	_Atomic bool is_done;
	pthread_t thread;
};

/*
 * Make path's partial file, empty. 0 or a negative errno, -EEXIST: the name is taken; -EBUSY: its
 * partial file is there. *ret_fd is the caller's; the struct has one of its own.
 */
int snapshot_open(struct snapshot *snapshot, const char *path, bool is_forced, int *ret_fd);

/*
 * The same with the first name of NAME-1.mst, NAME-2.mst ... that neither a file nor another
 * snapshot has; trace is NAME.mst. Where that name is taken until it is whole, it gets a later one.
 */
int snapshot_open_next(struct snapshot *snapshot, const char *trace, int *ret_fd);

/* Copy and name it, in a thread. source_fd is duplicated. 0 or a negative errno. */
int snapshot_start(struct snapshot *snapshot, int source_fd, uint64_t n_bytes, int notify_fd);

/* Wait for the thread. Returns its result. Closes all but answer_fd. */
int snapshot_finish(struct snapshot *snapshot);

/* It will not be: remove what was made of it. */
void snapshot_abandon(struct snapshot *snapshot);
