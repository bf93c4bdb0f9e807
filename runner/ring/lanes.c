#include "runner/ring/lanes.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/worker-thread.h"
#include "runner/ring/chain.h"

/* To wake a thread takes as long as to read one chunk. */
#define FEWEST_CHUNKS 8u

struct job {
	struct chain *chain;
	uint32_t budget; /* chunks that it may still give back */
	int64_t n_slots;
};

struct worker {
	struct lanes *lanes;
	struct lane lane;
	pthread_t thread; /* of the first one: the caller's */
};

struct lanes {
	struct drain *drain;
	struct worker workers[DRAIN_MOST_LANES];
	unsigned n_workers; /* there are */
	unsigned n_wanted; /* of them, in a round */
	struct job *jobs;
	size_t n_jobs;
	size_t n_allocated;
	_Atomic size_t next_job;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	uint64_t turn; /* the last one that has begun */
	unsigned n_in_turn; /* n_wanted when it began: a late one must not join */
	unsigned n_busy; /* that have not ended it */
	bool is_over;
};

static void work(struct worker *worker)
{
	struct lanes *lanes = worker->lanes;
	size_t i;

	while ((i = atomic_fetch_add(&lanes->next_job, 1)) < lanes->n_jobs) {
		struct job *job = &lanes->jobs[i];

		job->chain->lane = &worker->lane;
		job->n_slots = chain_drain(lanes->drain, job->chain, &job->budget, false);
		job->chain->lane = &lanes->drain->own;
	}
}

static void *run(void *context)
{
	struct worker *worker = context;
	struct lanes *lanes = worker->lanes;
	uint64_t turn = 0;

	pthread_mutex_lock(&lanes->mutex);
	while (!lanes->is_over) {
		if (lanes->turn == turn) {
			pthread_cond_wait(&lanes->changed, &lanes->mutex);
			continue;
		}
		turn = lanes->turn;
		if (worker >= &lanes->workers[lanes->n_in_turn])
			continue;
		pthread_mutex_unlock(&lanes->mutex);
		work(worker);
		pthread_mutex_lock(&lanes->mutex);
		if (--lanes->n_busy == 0)
			pthread_cond_broadcast(&lanes->changed);
	}
	pthread_mutex_unlock(&lanes->mutex);
	return NULL;
}

/* All workers go through the jobs at once, the caller's among them. */
static void run_all(struct lanes *lanes)
{
	atomic_store(&lanes->next_job, 0);
	pthread_mutex_lock(&lanes->mutex);
	lanes->turn++;
	lanes->n_in_turn = lanes->n_wanted;
	lanes->n_busy = lanes->n_in_turn - 1;
	pthread_cond_broadcast(&lanes->changed);
	pthread_mutex_unlock(&lanes->mutex);
	work(&lanes->workers[0]);
	pthread_mutex_lock(&lanes->mutex);
	while (lanes->n_busy > 0)
		pthread_cond_wait(&lanes->changed, &lanes->mutex);
	pthread_mutex_unlock(&lanes->mutex);
}

/* ---- Workers ---- */

/* The first one is the thread that drains. */
static int add_worker(struct lanes *lanes)
{
	struct worker *worker = &lanes->workers[lanes->n_workers];
	int r;

	*worker = (struct worker){ .lanes = lanes };
	r = trace_lane_open(&worker->lane.trace);
	if (r == 0 && lanes->n_workers > 0)
		r = quiet_thread_start(&worker->thread, run, worker);
	if (r < 0)
		return worker->lane.trace = trace_lane_close(worker->lane.trace), r;
	lanes->n_workers++;
	return 0;
}

void lanes_destroy(struct lanes *lanes)
{
	if (!lanes)
		return;
	pthread_mutex_lock(&lanes->mutex);
	lanes->is_over = true;
	pthread_cond_broadcast(&lanes->changed);
	pthread_mutex_unlock(&lanes->mutex);
	for (unsigned i = 0; i < lanes->n_workers; i++) {
		if (i > 0)
			pthread_join(lanes->workers[i].thread, NULL);
		trace_lane_close(lanes->workers[i].lane.trace);
		free(lanes->workers[i].lane.nodes);
	}
	pthread_cond_destroy(&lanes->changed);
	pthread_mutex_destroy(&lanes->mutex);
	free(lanes->jobs);
	free(lanes);
}

static struct lanes *lanes_new(struct drain *drain)
{
	struct lanes *lanes = calloc(1, sizeof(*lanes));

	if (!lanes)
		return NULL;
	lanes->drain = drain;
	pthread_mutex_init(&lanes->mutex, NULL);
	pthread_cond_init(&lanes->changed, NULL);
	return lanes;
}

unsigned drain_use_lanes(struct drain *drain, unsigned n)
{
	if (!drain->lanes && n > 1)
		drain->lanes = lanes_new(drain);
	struct lanes *lanes = drain->lanes;
	if (!lanes)
		return 1;
	while (lanes->n_workers < n && lanes->n_workers < DRAIN_MOST_LANES) {
		if (add_worker(lanes) < 0)
			break;
	}
	lanes->n_wanted = n < lanes->n_workers ? n : lanes->n_workers;
	return lanes->n_wanted;
}

/* ---- A round ---- */

/* Whole chunks at hand that follow each other. */
static uint32_t n_full(const struct drain *drain, const struct chain *chain)
{
	uint32_t n = 0;

	for (uint32_t i = chain->first_chunk; i != CHAIN_NO_CHUNK; i = drain->views[i].next) {
		if (drain->views[i].sequence != chain->next_sequence + n ||
		    pool_chunk_state(drain->pool, i) != RING_CHUNK_FULL)
			break;
		n++;
	}
	return n;
}

static void find_job(struct drain *drain, struct chain *chain, uint32_t *n_chunks)
{
	struct lanes *lanes = drain->lanes;
	uint32_t n = chain->has_begun && chain->thread_id ? n_full(drain, chain) : 0;

	if (n == 0)
		return;
	chain->events = trace_writer_events(drain->writer, chain->thread_id);
	if (chain->events && array_add(lanes->jobs, lanes->n_jobs, lanes->n_allocated,
				       (struct job){ .chain = chain, .budget = n }) == 0)
		*n_chunks += n;
}

/* Returns how many chunks the jobs have. */
static uint32_t find_jobs(struct drain *drain)
{
	uint32_t n_chunks = 0;

	drain->lanes->n_jobs = 0;
	for (uint32_t slot = 0; slot < drain->slots_end; slot++) {
		for (struct chain *chain = drain->slots[slot].chains; chain; chain = chain->next)
			find_job(drain, chain, &n_chunks);
	}
	return n_chunks;
}

/* What the lanes have made becomes the writer's; nodes go before the next commit's events. */
static void join(struct drain *drain, struct lane *lane)
{
	int r = trace_writer_join(drain->writer, lane->trace);

	for (size_t i = 0; i < lane->n_nodes; i++)
		r = trace_writer_node(drain->writer, lane->nodes[i].thread_id, &lane->nodes[i].node)
			    ?: r;
	lane->n_nodes = 0;
	drain->own.error = drain->own.error ?: lane->error ?: r;
	lane->error = 0;
	drain->own.n_freed += lane->n_freed;
	lane->n_freed = 0;
}

static bool may_run(const struct drain *drain)
{
	return drain->lanes && drain->lanes->n_wanted > 1 && !drain->is_muted && !drain->net &&
	       !drain->handler.event && !drain->handler.node;
}

int64_t lanes_round(struct drain *drain, uint32_t max_chunks, uint32_t *budget)
{
	struct lanes *lanes = drain->lanes;
	int64_t n_slots = 0;

	if (!may_run(drain))
		return 0;
	uint32_t n_chunks = find_jobs(drain), share;
	if (lanes->n_jobs < 2 || n_chunks < FEWEST_CHUNKS)
		return 0;
	share = max_chunks / lanes->n_jobs ?: 1;
	n_chunks = 0;
	for (size_t i = 0; i < lanes->n_jobs; i++) {
		struct job *job = &lanes->jobs[i];

		if (job->budget > share)
			job->budget = share;
		n_chunks += job->budget;
	}
	run_all(lanes);
	for (size_t i = 0; i < lanes->n_jobs; i++) {
		n_slots += lanes->jobs[i].n_slots;
		n_chunks -= lanes->jobs[i].budget;
	}
	for (unsigned i = 0; i < lanes->n_wanted; i++)
		join(drain, &lanes->workers[i].lane);
	*budget -= n_chunks < *budget ? n_chunks : *budget;
	return n_slots;
}
