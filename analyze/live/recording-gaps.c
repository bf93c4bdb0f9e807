#include "analyze/live/recording-gaps.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/collect-words.h"
#include "common/hash-map.h"
#include "store/database.h"
#include "store/row-writer.h"

#define N_MASKS (COLLECT_ALL + 1)

/* One image, or one thread, that withheld something once. */
struct scope {
	uint32_t process;
	uint32_t thread; /* 0: the whole image */
	uint32_t pause_depth;
	bool is_off; /* between windows */
	uint32_t n_pushed; /* those beyond COLLECT_MAX_DEPTH count, and change nothing */
	uint8_t pushed[COLLECT_MAX_DEPTH];
	int64_t since_ns; /* that it is as it is */
	uint64_t turn; /* number of the change that made it so */
};

struct withheld {
	int64_t run_id;
	const struct tasks *tasks;
	struct db *db;
	struct scope *scopes;
	size_t n_scopes;
	size_t n_scopes_allocated;
	struct key_map by_number; /* (process or thread, is a thread) -> index + 1 */
	struct key_map
		allocations; /* (thread, turn): it had an allocation where there should be none */
	uint64_t n_turns;
	bool is_off; /* between windows: of all processes */
	int64_t off_ns; /* since then */
	struct rows *rows;
	uint64_t n_rows;
	int64_t samples_ns; /* without samples, of all processes */
	int64_t faults_ns;
	struct withheld_totals totals;
	char words[N_MASKS][COLLECT_TEXT_BYTES]; /* of each set of classes */
};

static const struct rows_table withheld_table = {
	.name = "withheld",
	.columns = "run_id, process_id, thread_id, start_ns, end_ns, classes",
	.types = "nninnt",
};

int withheld_open(struct db *db, int64_t run_id, const struct tasks *tasks,
		  struct withheld **ret_withheld)
{
	struct withheld *withheld = calloc(1, sizeof(*withheld));

	if (!withheld)
		return -ENOMEM;
	withheld->run_id = run_id;
	withheld->tasks = tasks;
	withheld->db = db;
	for (uint32_t mask = 0; mask < N_MASKS; mask++)
		collect_format(mask, withheld->words[mask]);
	int r = rows_open(db, &withheld_table, &withheld->rows);
	if (r < 0)
		return withheld_close(withheld), r;
	*ret_withheld = withheld;
	return 0;
}

struct withheld *withheld_close(struct withheld *withheld)
{
	if (!withheld)
		return NULL;
	rows_close(withheld->rows);
	free(withheld->scopes);
	key_map_finish(&withheld->by_number);
	key_map_finish(&withheld->allocations);
	free(withheld);
	return NULL;
}

const struct withheld_totals *withheld_totals(const struct withheld *withheld)
{
	return &withheld->totals;
}

/* ---- Scopes ---- */

static struct scope *find(const struct withheld *withheld, uint32_t process, uint32_t thread)
{
	uint64_t index = key_map_get(&withheld->by_number, thread ? thread : process, thread != 0);

	return index ? &withheld->scopes[index - 1] : NULL;
}

/* The scope of an image, or of a thread; NULL without memory. */
static struct scope *get(struct withheld *withheld, uint32_t process, uint32_t thread)
{
	return key_map_item(&withheld->by_number, thread ? thread : process, thread != 0,
			    withheld->scopes, withheld->n_scopes, withheld->n_scopes_allocated,
			    (struct scope){ .process = process, .thread = thread });
}

static uint32_t collected(const struct scope *scope)
{
	uint32_t n = scope->n_pushed < COLLECT_MAX_DEPTH ? scope->n_pushed : COLLECT_MAX_DEPTH;

	if (scope->pause_depth > 0 || scope->is_off)
		return 0;
	return n > 0 ? scope->pushed[n - 1] : COLLECT_ALL;
}

static int write_row(struct withheld *withheld, const struct scope *scope, int64_t end_ns)
{
	const struct task_process *process = tasks_process(withheld->tasks, scope->process);
	const struct task_thread *thread = tasks_thread(withheld->tasks, scope->thread);

	if (!process || (scope->thread && !thread))
		return 0;
	if (end_ns == scope->since_ns)
		return 0; /* one window ends where the next one begins */
	if (withheld->n_rows >= WITHHELD_MAX_ROWS) {
		withheld->totals.n_rows++;
		return 0;
	}
	withheld->n_rows++;
	return rows_put(withheld->rows, CELL(withheld->run_id), CELL(process->row),
			CELL(scope->thread ? thread->row : ROWS_NULL), CELL(scope->since_ns),
			CELL(end_ns), CELL(withheld->words[collected(scope)]));
}

/* The scope is about to change: what it was until now is over. */
static int turn(struct withheld *withheld, struct scope *scope, int64_t time_ns)
{
	uint32_t mask = collected(scope);
	int64_t end_ns = time_ns > scope->since_ns ? time_ns : scope->since_ns;
	int64_t length_ns = end_ns - scope->since_ns;
	int r = mask == COLLECT_ALL ? 0 : write_row(withheld, scope, end_ns);

	if (scope->thread && scope->pause_depth > 0)
		withheld->totals.thread_paused_ns += length_ns;
	else if (scope->pause_depth > 0 || scope->is_off)
		withheld->totals.paused_ns += length_ns;
	if (!scope->thread && !(mask & COLLECT_SAMPLES))
		withheld->samples_ns += length_ns;
	if (!scope->thread && !(mask & COLLECT_FAULTS))
		withheld->faults_ns += length_ns;
	scope->since_ns = time_ns;
	scope->turn = ++withheld->n_turns;
	return r;
}

/* The scope of what a thread says; NULL without memory, or for a thread that nobody defined. */
static struct scope *scope_of(struct withheld *withheld, uint32_t thread, bool only_thread)
{
	const struct task_thread *task = tasks_thread(withheld->tasks, thread);

	return task ? get(withheld, task->process, only_thread ? thread : 0) : NULL;
}

int withheld_pause(struct withheld *withheld, uint32_t thread, bool only_thread, int64_t time_ns)
{
	struct scope *scope = scope_of(withheld, thread, only_thread);

	if (!scope)
		return -ENOMEM;
	if (scope->pause_depth++ > 0)
		return 0;
	scope->pause_depth = 0;
	int r = turn(withheld, scope, time_ns);
	scope->pause_depth = 1;
	if (only_thread)
		withheld->totals.n_thread_pauses++;
	else
		withheld->totals.n_pauses++;
	return r;
}

int withheld_resume(struct withheld *withheld, uint32_t thread, bool only_thread, int64_t time_ns)
{
	struct scope *scope = scope_of(withheld, thread, only_thread);

	if (!scope)
		return -ENOMEM;
	if (scope->pause_depth == 0) /* its pause was lost */
		return 0;
	if (scope->pause_depth > 1) {
		scope->pause_depth--;
		return 0;
	}
	int r = turn(withheld, scope, time_ns);
	scope->pause_depth = 0;
	return r;
}

int withheld_push(struct withheld *withheld, uint32_t thread, uint32_t classes, int64_t time_ns)
{
	struct scope *scope = scope_of(withheld, thread, false);

	if (!scope)
		return -ENOMEM;
	int r = turn(withheld, scope, time_ns);
	if (scope->n_pushed < COLLECT_MAX_DEPTH)
		scope->pushed[scope->n_pushed] = (uint8_t)classes;
	scope->n_pushed++;
	withheld->totals.n_collects++;
	return r;
}

int withheld_pop(struct withheld *withheld, uint32_t thread, int64_t time_ns)
{
	struct scope *scope = scope_of(withheld, thread, false);

	if (!scope)
		return -ENOMEM;
	if (scope->n_pushed == 0)
		return 0;
	int r = turn(withheld, scope, time_ns);
	scope->n_pushed--;
	return r;
}

/* From since_ns on recording is off for a process, or on again from there. */
static int switch_scope(struct withheld *withheld, struct scope *scope, bool is_on, int64_t time_ns)
{
	int r = scope->is_off == !is_on ? 0 : turn(withheld, scope, time_ns);

	withheld->totals.n_pauses += !is_on && !scope->is_off;
	scope->is_off = !is_on;
	return r;
}

/* A process that began while it was off has been so since then; one that ended has no scope. */
static int switch_process(struct withheld *withheld, uint32_t number, bool is_on, int64_t time_ns)
{
	const struct task_process *process = tasks_process(withheld->tasks, number);
	int64_t since_ns = withheld->off_ns;

	if (!process || process->why_not != TRACE_TRACED || process->start_ns >= time_ns)
		return 0;
	struct scope *scope = find(withheld, number, 0);
	if (is_on && scope && !scope->is_off)
		return 0; /* it has ended */
	if (!scope && process->end_ns <= since_ns)
		return 0;
	scope = get(withheld, number, 0);
	if (!scope)
		return -ENOMEM;
	int r = 0;
	if (is_on && !scope->is_off)
		r = switch_scope(withheld, scope, false,
				 process->start_ns > since_ns ? process->start_ns : since_ns);
	return r < 0 ? r
		     : switch_scope(withheld, scope, is_on,
				    is_on && process->end_ns < time_ns ? process->end_ns : time_ns);
}

int withheld_switch(struct withheld *withheld, bool is_on, int64_t time_ns)
{
	int r = 0;

	if (withheld->is_off == !is_on)
		return 0;
	if (!is_on)
		withheld->off_ns = time_ns;
	for (uint32_t i = 1; i <= tasks_n_processes(withheld->tasks) && r == 0; i++)
		r = switch_process(withheld, i, is_on, time_ns);
	withheld->is_off = !is_on;
	return r;
}

static int end_scope(struct withheld *withheld, struct scope *scope, int64_t time_ns)
{
	int r = turn(withheld, scope, time_ns);

	scope->is_off = false;
	scope->pause_depth = 0;
	scope->n_pushed = 0;
	return r;
}

static int allocation_in(struct withheld *withheld, struct scope *scope, uint32_t thread,
			 int64_t time_ns)
{
	if (!scope || scope->is_off || withheld->is_off || collected(scope) & COLLECT_HEAP)
		return 0;
	if (!key_map_get(&withheld->allocations, thread, scope->turn))
		return key_map_put(&withheld->allocations, thread, scope->turn, 1);
	withheld->totals.n_lost_ends++;
	return end_scope(withheld, scope, time_ns);
}

int withheld_allocated(struct withheld *withheld, uint32_t thread, int64_t time_ns)
{
	const struct task_thread *task = tasks_thread(withheld->tasks, thread);

	if (withheld->n_scopes == 0 || !task)
		return 0;
	int r = allocation_in(withheld, find(withheld, task->process, 0), thread, time_ns);
	return r < 0 ? r
		     : allocation_in(withheld, find(withheld, task->process, thread), thread,
				     time_ns);
}

int withheld_fork(struct withheld *withheld, uint32_t process, uint32_t parent, int64_t time_ns)
{
	const struct scope *source = find(withheld, parent, 0);

	if (!source || process == parent || find(withheld, process, 0))
		return 0;
	struct scope copy = *source;
	struct scope *scope = get(withheld, process, 0);
	if (!scope)
		return -ENOMEM;
	copy.process = process;
	copy.since_ns = time_ns;
	*scope = copy;
	withheld->totals.n_pauses += copy.pause_depth > 0;
	return 0;
}

int withheld_end(struct withheld *withheld, uint32_t process, int64_t time_ns)
{
	struct scope *scope = find(withheld, process, 0);

	return scope ? end_scope(withheld, scope, time_ns) : 0;
}

bool withheld_collects(const struct withheld *withheld, uint32_t process, uint32_t thread,
		       uint32_t class)
{
	if (withheld->is_off)
		return false;
	if (withheld->n_scopes == 0)
		return true;
	const struct scope *image = find(withheld, process, 0);
	const struct scope *own = thread ? find(withheld, process, thread) : NULL;
	return (!image || collected(image) & class) && (!own || collected(own) & class);
}

/* ---- End ---- */

static int64_t process_ns(const struct withheld *withheld, int64_t end_ns)
{
	int64_t sum_ns = 0;

	for (uint32_t i = 1; i <= tasks_n_processes(withheld->tasks); i++) {
		const struct task_process *process = tasks_process(withheld->tasks, i);

		if (!process || process->why_not != TRACE_TRACED)
			continue;
		int64_t until_ns = process->end_ns < end_ns ? process->end_ns : end_ns;
		if (until_ns > process->start_ns)
			sum_ns += until_ns - process->start_ns;
	}
	return sum_ns;
}

/* When a thread or image ended, as far as anybody told. */
static int64_t end_of(const struct withheld *withheld, const struct scope *scope, int64_t end_ns)
{
	const struct task_process *process = tasks_process(withheld->tasks, scope->process);
	const struct task_thread *thread = tasks_thread(withheld->tasks, scope->thread);

	if (process && process->end_ns < end_ns)
		end_ns = process->end_ns;
	if (scope->thread && thread && thread->end_ns < end_ns)
		end_ns = thread->end_ns;
	return end_ns;
}

int withheld_finish(struct withheld *withheld, int64_t end_ns)
{
	int r = withheld_switch(withheld, true, end_ns);

	for (size_t i = 0; i < withheld->n_scopes && r == 0; i++) {
		struct scope *scope = &withheld->scopes[i];

		r = end_scope(withheld, scope, end_of(withheld, scope, end_ns));
	}
	r = r ?: rows_flush(withheld->rows);
	if (r == 0)
		r = db_run(withheld->db,
			   "UPDATE source SET process_ns = ?2, withheld_ns ="
			   " CASE measures WHEN 'fault' THEN ?4 ELSE ?3 END"
			   " WHERE run_id = ?1 AND error = 0 AND measures <> 'tasks'",
			   "nnnn", withheld->run_id, process_ns(withheld, end_ns),
			   withheld->samples_ns, withheld->faults_ns);
	return r;
}
