#include "analyze/process/own-time.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/statistics.h"
#include "store/database.h"

#define MAX_THREAD (1u << 24) /* a number beyond it is damage */
#define MEASURED   (OWN_UPROBES + 1) /* kinds before it are measured */

/* How long something took that was done many times. */
struct durations {
	double *ns;
	size_t n;
	size_t n_allocated;
	double mean_ns; /* of the middle half: stamps are whole ns, and some are interrupted */
	double spread_ns; /* half of them lie so near to the middle */
	size_t n_summed; /* that these two are of */
};

struct thread {
	enum own_cost last; /* empty hook */
	int64_t last_ns; /* 0: none yet */
	struct own_taken taken;
	struct {
		uint64_t n;
		double ns;
	} measured[MEASURED];
};

struct own_time {
	const struct tasks *tasks;
	struct durations costs[OWN_COSTS];
	struct thread *threads;
	size_t n_threads;
	size_t n_threads_allocated;
};

static const char *const cost_names[OWN_COSTS] = {
	[OWN_INSIDE] = "functions",   [OWN_OUTSIDE] = "callers of functions",
	[OWN_REGION] = "regions",     [OWN_BLOCK] = "blocks",
	[OWN_END] = "ends of blocks",
};

static const char *const measured_names[MEASURED] = {
	[TRACE_OWN_WALK] = "call stacks",
	[TRACE_OWN_ROOM] = "room for records",
	[TRACE_OWN_SAMPLE] = "handlers of samples",
	[TRACE_OWN_PLUGIN] = "plug-ins",
	[OWN_UPROBES] = "uprobes",
};

void own_taken_add(struct own_taken *to, const struct own_taken *more)
{
	for (unsigned i = 0; i < OWN_COSTS; i++)
		to->n[i] += more->n[i];
	to->ns += more->ns;
}

struct own_time *own_time_create(const struct tasks *tasks)
{
	struct own_time *own = calloc(1, sizeof(*own));

	if (own)
		own->tasks = tasks;
	return own;
}

struct own_time *own_time_destroy(struct own_time *own)
{
	if (!own)
		return NULL;
	for (unsigned i = 0; i < OWN_COSTS; i++)
		free(own->costs[i].ns);
	free(own->threads);
	free(own);
	return NULL;
}

static struct thread *thread_of(struct own_time *own, uint32_t number)
{
	if (number >= MAX_THREAD)
		return NULL;
	while (own->n_threads <= number) {
		if (grow_one(&own->threads, own->n_threads, &own->n_threads_allocated) < 0)
			return NULL;
		own->threads[own->n_threads++] = (struct thread){ 0 };
	}
	return &own->threads[number];
}

/* A bound for damaged traces, and for many processes. */
static int add_duration(struct durations *durations, double ns)
{
	if (durations->n >= OWN_MAX_EMPTY || ns < 0)
		return 0;
	return array_add(durations->ns, durations->n, durations->n_allocated, ns);
}

/* Calls come by turns. */
static bool is_next(enum own_cost last, enum own_cost cost)
{
	return last == cost || (last <= OWN_OUTSIDE && cost <= OWN_OUTSIDE);
}

int own_time_empty(struct own_time *own, uint32_t thread, const struct own_empty *empty)
{
	struct thread *at = thread_of(own, thread);
	int r = 0;

	if (!at)
		return thread >= MAX_THREAD ? 0 : -ENOMEM;
	if (at->last_ns && is_next(at->last, empty->cost))
		r = add_duration(&own->costs[empty->cost],
				 (double)(empty->time_ns - at->last_ns) - empty->work_ns);
	at->last = empty->cost;
	at->last_ns = empty->time_ns;
	return r;
}

int own_time_count(struct own_time *own, uint32_t thread, enum own_cost cost)
{
	struct thread *at = thread_of(own, thread);

	if (!at)
		return thread >= MAX_THREAD ? 0 : -ENOMEM;
	at->taken.n[cost]++;
	return 0;
}

int own_time_measured(struct own_time *own, uint32_t thread, enum trace_own what, double ns)
{
	struct thread *at = thread_of(own, thread);

	if (!at)
		return thread >= MAX_THREAD ? 0 : -ENOMEM;
	at->measured[what].n++;
	at->measured[what].ns += ns;
	return 0;
}

static void sum_up(struct durations *cost)
{
	size_t from = cost->n / 4, n = cost->n - 2 * from;

	if (cost->n == cost->n_summed)
		return;
	statistics_sort(cost->ns, cost->n);
	cost->mean_ns = statistics_mean(cost->ns + from, n);
	cost->spread_ns = (statistics_quantile(cost->ns, cost->n, 0.75) -
			   statistics_quantile(cost->ns, cost->n, 0.25)) /
			  2;
	cost->n_summed = cost->n;
}

/* Sums are made anew when there are twice as many: each process adds some at its begin. */
double own_time_of(struct own_time *own, const struct own_taken *taken)
{
	double ns = taken->ns;

	for (unsigned i = 0; i < OWN_COSTS; i++) {
		struct durations *cost = &own->costs[i];

		if (taken->n[i] == 0)
			continue;
		if (cost->n >= 2 * cost->n_summed)
			sum_up(cost);
		ns += (double)taken->n[i] * cost->mean_ns;
	}
	return ns;
}

void own_time_settle(struct own_time *own)
{
	for (unsigned i = 0; i < OWN_COSTS; i++)
		sum_up(&own->costs[i]);
}

static int write_cost(const struct own_time *own, struct db *db, int64_t run_id, unsigned i)
{
	const struct durations *cost = &own->costs[i];

	if (cost->n == 0)
		return 0;
	return db_insert(db, "hook_cost(run_id, hook, n, mean_ns, spread_ns)", "ntnrr", run_id,
			 cost_names[i], (int64_t)cost->n, cost->mean_ns, cost->spread_ns);
}

/* error_ns < 0: not known. */
struct row {
	const char *kind;
	uint64_t n;
	double ns;
	double error_ns;
};

static int write_row(struct db *db, int64_t run_id, int64_t thread_id, const struct row *row)
{
	if (row->n == 0)
		return 0;
	return db_insert(db, "own_time(run_id, thread_id, kind, n, ns, error_ns)", "nntnni", run_id,
			 thread_id, row->kind, (int64_t)row->n, llround(row->ns),
			 row->error_ns < 0 ? INT64_MIN : llround(row->error_ns));
}

static int write_thread(const struct own_time *own, struct db *db, int64_t run_id, uint32_t number)
{
	const struct task_thread *task = tasks_thread_of(own->tasks, number);
	const struct thread *thread = &own->threads[number];
	int r = 0;

	for (unsigned i = 0; task && i < OWN_COSTS && r == 0; i++) {
		uint64_t n = thread->taken.n[i];

		r = write_row(db, run_id, task->row,
			      &(struct row){ cost_names[i], own->costs[i].n ? n : 0,
					     (double)n * own->costs[i].mean_ns,
					     (double)n * own->costs[i].spread_ns });
	}
	for (unsigned i = 0; task && i < MEASURED && r == 0; i++)
		r = write_row(db, run_id, task->row,
			      &(struct row){ measured_names[i], thread->measured[i].n,
					     thread->measured[i].ns, -1 });
	return r;
}

int own_time_write(struct own_time *own, struct db *db, int64_t run_id)
{
	int r = 0;

	own_time_settle(own);
	for (unsigned i = 0; i < OWN_COSTS && r == 0; i++)
		r = write_cost(own, db, run_id, i);
	for (uint32_t i = 0; i < own->n_threads && r == 0; i++)
		r = write_thread(own, db, run_id, i);
	return r;
}
