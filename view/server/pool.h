#pragma once
/*
 * Threads that answer, each with a context of its own, so that a long answer holds nobody else up.
 * What recounts rows (a part of a run) is made by one at a time. Answers that are made, or wait to
 * be read by their clients, are bounded in bytes: a large one waits until there is room, smaller
 * ones overtake it.
 */
#include <stddef.h>

#include "view/answers/answers.h"

#define VIEW_POOL_WORKERS   4u
#define VIEW_POOL_MAX_BYTES ((size_t)32 << 20)

struct view_pool;

struct view_job {
	enum view_answer answer;
	const struct view_values *values; /* must stay until done() */
	int client; /* socket of who asked: when it has gone, so has the job */
	void (*done)(struct view_job *job); /* called by a worker; the job is its caller's again */
	/* Set before done() */
	unsigned status;
	char *text; /* allocated; counts as unsent until view_pool_sent(); may be NULL */
	size_t n_bytes;
	struct view_job *next; /* the pool's */
	size_t n_expected; /* likewise: bytes that it may have */
};

/* Open so many contexts, and start a thread for each. Returns 0 or as view_context_open(). */
int view_pool_start(const struct view_files *files, struct view_pool **ret_pool);

/* Have a job done by whichever thread is free. */
void view_pool_add(struct view_pool *pool, struct view_job *job);

/* An answer of so many bytes needs no memory any more. Any thread. */
void view_pool_sent(struct view_pool *pool, size_t n_bytes);

/*
 * Interrupt what is under way, finish all jobs (499) and end the threads. Jobs that are added
 * afterwards are done at once, likewise.
 */
void view_pool_end(struct view_pool *pool);

/* The same, and free it. Accepts NULL, returns NULL. */
struct view_pool *view_pool_free(struct view_pool *pool);
