#include "view/server/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/cleanup.h"

#define GONE	      499u
#define CELL_BYTES    6u /* 4 in base64 */
#define PICTURE_BYTES ((size_t)1 << 20)
#define USUAL_BYTES   ((size_t)256 << 10)

struct worker {
	struct view_pool *pool;
	struct view_context *context;
	const struct view_job *job; /* under way */
	pthread_t thread;
	bool is_running;
};

struct view_pool {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct view_job *first;
	struct view_job **last_next;
	bool is_recounting; /* one of them */
	struct view_part *part; /* what was recounted last; of who recounts while one does */
	size_t n_bytes; /* of answers that are unsent, and that are expected of jobs under way */
	atomic_bool is_stopping;
	struct worker workers[VIEW_POOL_WORKERS];
};

/* ---- Who still waits ---- */

static bool has_gone(int client)
{
	char byte;
	ssize_t n = recv(client, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static bool is_over(void *user)
{
	const struct worker *worker = user;

	return atomic_load(&worker->pool->is_stopping) ||
	       (worker->job && has_gone(worker->job->client));
}

/* ---- Jobs ---- */

/* Answers that are counted anew from all rows. */
static bool is_recount(const struct view_job *job)
{
	return (job->answer == VIEW_FLAME || job->answer == VIEW_OBJECTS ||
		job->answer == VIEW_OBJECT) &&
	       (job->values->is_given[VIEW_FROM] || job->values->is_given[VIEW_TO]);
}

/* What an answer may have at most, or so: a picture its cells in base64 and its lists. */
static size_t expect(const struct view_job *job)
{
	const struct view_values *values = job->values;

	if (job->answer != VIEW_PICTURE)
		return USUAL_BYTES;
	return PICTURE_BYTES + (size_t)values->numbers[VIEW_WIDTH] *
				       (size_t)values->numbers[VIEW_HEIGHT] * CELL_BYTES;
}

static bool may_begin(const struct view_pool *pool, const struct view_job *job)
{
	if (atomic_load(&pool->is_stopping))
		return true;
	if (pool->is_recounting && is_recount(job))
		return false;
	return pool->n_bytes == 0 || pool->n_bytes + job->n_expected <= VIEW_POOL_MAX_BYTES;
}

/* The first job that may begin, taken out; NULL: none. */
static struct view_job *take(struct view_pool *pool)
{
	for (struct view_job **at = &pool->first; *at; at = &(*at)->next) {
		struct view_job *job = *at;
		if (!may_begin(pool, job))
			continue;
		*at = job->next;
		if (!*at)
			pool->last_next = at;
		pool->n_bytes += job->n_expected;
		return job;
	}
	return NULL;
}

static void answer(struct worker *worker, struct view_job *job)
{
	job->status = GONE;
	worker->job = job;
	if (!is_over(worker))
		job->status = view_answer_make(worker->context, job->answer, job->values,
					       &job->text, &job->n_bytes);
	worker->job = NULL;
}

/* Under the lock: whether the worker is the one that recounts, who has what was recounted last. */
static bool begin_recount(struct worker *worker, const struct view_job *job)
{
	struct view_pool *pool = worker->pool;

	if (!is_recount(job) || pool->is_recounting)
		return false; /* the latter at the end only, when nothing is made any more */
	pool->is_recounting = true;
	worker->context->part = steal_ptr(&pool->part);
	return true;
}

static void end_recount(struct worker *worker)
{
	worker->pool->is_recounting = false;
	worker->pool->part = steal_ptr(&worker->context->part);
}

static void *work(void *user)
{
	struct worker *worker = user;
	struct view_pool *pool = worker->pool;

	pthread_mutex_lock(&pool->lock);
	for (;;) {
		struct view_job *job = take(pool);
		if (!job && atomic_load(&pool->is_stopping))
			break;
		if (!job) {
			pthread_cond_wait(&pool->changed, &pool->lock);
			continue;
		}
		bool recounts = begin_recount(worker, job);
		pthread_mutex_unlock(&pool->lock);
		answer(worker, job);
		pthread_mutex_lock(&pool->lock);
		pool->n_bytes += job->n_bytes - job->n_expected;
		if (recounts)
			end_recount(worker);
		pthread_cond_broadcast(&pool->changed);
		pthread_mutex_unlock(&pool->lock);
		job->done(job);
		pthread_mutex_lock(&pool->lock);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

void view_pool_add(struct view_pool *pool, struct view_job *job)
{
	job->next = NULL;
	job->text = NULL;
	job->n_bytes = 0;
	job->status = GONE;
	job->n_expected = expect(job);
	pthread_mutex_lock(&pool->lock);
	bool is_ended = atomic_load(&pool->is_stopping);
	if (!is_ended) {
		*pool->last_next = job;
		pool->last_next = &job->next;
		pthread_cond_signal(&pool->changed);
	}
	pthread_mutex_unlock(&pool->lock);
	if (is_ended)
		job->done(job);
}

void view_pool_sent(struct view_pool *pool, size_t n_bytes)
{
	pthread_mutex_lock(&pool->lock);
	pool->n_bytes -= n_bytes;
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->lock);
}

/* ---- Begin and end ---- */

static int start_worker(struct view_pool *pool, struct worker *worker,
			const struct view_files *files)
{
	worker->pool = pool;
	int r = view_context_open(files, &worker->context);
	if (r < 0)
		return r;
	worker->context->patience = (struct view_patience){ is_over, worker };
	r = -pthread_create(&worker->thread, NULL, work, worker);
	worker->is_running = r == 0;
	return r;
}

int view_pool_start(const struct view_files *files, struct view_pool **ret_pool)
{
	struct view_pool *pool = calloc(1, sizeof(*pool));
	int r = 0;

	if (!pool)
		return -ENOMEM;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->changed, NULL);
	pool->last_next = &pool->first;
	for (unsigned i = 0; i < VIEW_POOL_WORKERS && r == 0; i++)
		r = start_worker(pool, &pool->workers[i], files);
	if (r < 0)
		view_pool_free(pool);
	else
		*ret_pool = pool;
	return r;
}

void view_pool_end(struct view_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	atomic_store(&pool->is_stopping, true);
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->lock);
	for (unsigned i = 0; i < VIEW_POOL_WORKERS; i++) {
		struct worker *worker = &pool->workers[i];
		if (worker->is_running)
			pthread_join(worker->thread, NULL);
		worker->is_running = false;
	}
}

struct view_pool *view_pool_free(struct view_pool *pool)
{
	if (!pool)
		return NULL;
	view_pool_end(pool);
	for (unsigned i = 0; i < VIEW_POOL_WORKERS; i++)
		view_context_close(pool->workers[i].context);
	view_part_free(pool->part);
	pthread_cond_destroy(&pool->changed);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
	return NULL;
}
