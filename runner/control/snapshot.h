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

struct collector;
struct control_reply;
struct snapshot;

/* Who asked hears what has become of it: the name it has, or an error with a message. */
typedef void snapshot_answer(struct collector *collector, const struct snapshot *snapshot,
			     struct control_reply *answer);

struct snapshot {
	/* Who asks fills in: */
	snapshot_answer *answer;
	int answer_fd; /* whom to answer, for answer(); -1: nobody */
	const char *fired; /* the condition of --trigger, for answer(); NULL: another asks */
	bool is_forced;
	char path[PATH_MAX]; /* "": the next number */

	/* Ours: */
	uint64_t until_ticks; /* all that is stamped before is to be in it, ... */
	uint64_t patience_ns; /* ... unless that takes longer than until then, CLOCK_MONOTONIC */
	bool is_begun; /* that was so; the thread runs */
	int source_fd; /* the trace that is being written; a descriptor of our own */
	int fd; /* the snapshot */
	uint64_t n_bytes; /* to copy */
	int notify_fd; /* an eventfd: +1 when it is done */
	unsigned number; /* 0: its name was given */
	char stem[PATH_MAX]; /* of numbered names */
	char partial[PATH_MAX];
	int result; /* valid when is_done: 0 or a negative errno */
	_Atomic bool is_done;
	pthread_t thread;
};

/*
 * Make the partial file of its path, empty. 0 or a negative errno, -EEXIST: the name is taken;
 * -EBUSY: its partial file is there. *ret_fd is the caller's; the struct has one of its own.
 */
int snapshot_open(struct snapshot *snapshot, int *ret_fd);

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
