#pragma once
/*
 * A thread of the recorder that does next to nothing, and so gets its turn soon, also where there
 * is more work than CPUs. While programs wait for chunks it tells them each millisecond that the
 * recorder lives, which one that is stopped cannot; and it wakes the collector when the first of
 * them begins to wait.
 */
#include <pthread.h>
#include <stdbool.h>

#include "runner/ring/pool.h"

struct pulse {
	pthread_t thread;
	struct pool *pool;
	int event_fd; /* readable: somebody waits; pulse_take() */
	_Atomic bool is_over;
	bool is_running;
};

#define PULSE_CLOSED ((struct pulse){ .event_fd = -1 })

/* Start it for a pool. Returns 0 or a negative errno; the recording can go on without. */
int pulse_start(struct pulse *pulse, struct pool *pool);

/* Take the word that somebody waits. */
void pulse_take(struct pulse *pulse);

/* End the thread. Safe on PULSE_CLOSED and twice. */
void pulse_stop(struct pulse *pulse);
