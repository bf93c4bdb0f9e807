/* The tables process, thread and thread_name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/process/processes-internal.h"
#include "schemas/ring.h"
#include "store/statement.h"
#include "trace/names.h"

/* NULL for an image that was traced. */
static const char *why_not_text(uint16_t why_not)
{
	return why_not == TRACE_TRACED ? NULL : trace_why_not_name(why_not);
}

static int write_process(const struct tasks *tasks, const struct task_process *process,
			 sqlite3_stmt *statement, int64_t run_id)
{
	const struct task_process *parent = tasks_process(tasks, process->parent);
	const char *exe = process->exe ? process->exe : "";

	statement_integer(statement, 1, process->row);
	statement_integer(statement, 2, run_id);
	statement_integer(statement, 3, process->number < TASKS_UNSEEN ? process->number : 0);
	statement_integer_or_null(statement, 4, parent ? parent->row : 0, parent);
	statement_integer(statement, 5, process->pid);
	statement_integer(statement, 6, process->ns_pid);
	statement_integer(statement, 7, process->exec_seq);
	statement_text(statement, 8, process->birth == RING_BIRTH_FORK ? "fork" : "exec");
	statement_text(statement, 9, exe);
	statement_text(statement, 10, process->command ? process->command : exe);
	statement_integer(statement, 11, process->why_not == TRACE_TRACED);
	statement_text(statement, 12, why_not_text(process->why_not));
	statement_integer(statement, 13, process->begin_ns);
	statement_integer_or_null(statement, 14, process->end_ns, process->end_ns != INT64_MAX);
	statement_integer_or_null(statement, 15, process->status, process->status >= 0);
	statement_integer_or_null(statement, 16, process->rank, process->rank >= 0);
	return statement_run(statement);
}

static int write_thread(const struct task_thread *thread, sqlite3_stmt *statement, int64_t run_id)
{
	bool has_stack = thread->stack_start;

	statement_integer(statement, 1, thread->row);
	statement_integer(statement, 2, run_id);
	statement_integer(statement, 3, thread->image ? thread->image->row : 0);
	statement_integer(statement, 4, thread->number < TASKS_UNSEEN ? thread->number : 0);
	statement_integer(statement, 5, thread->tid);
	statement_integer(statement, 6, thread->is_main);
	statement_integer_or_null(statement, 7, (int64_t)thread->stack_start, has_stack);
	statement_integer_or_null(statement, 8, (int64_t)thread->stack_end, has_stack);
	statement_integer(statement, 9, thread->start_ns);
	statement_integer_or_null(statement, 10, thread->end_ns, thread->end_ns != INT64_MAX);
	statement_integer(statement, 11, (int64_t)thread->n_events);
	return statement_run(statement);
}

static int write_processes(const struct tasks *tasks, sqlite3 *db, int64_t run_id)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_prepare(
		db,
		"INSERT INTO process(id, run_id, number, parent_id, pid, ns_pid, exec_seq, birth,"
		" exe, command, traced, why_not, start_ns, end_ns, status, rank)"
		" VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		&statement);

	for (size_t i = 0; r == 0 && i < tasks->processes.n; i++) {
		if (tasks->processes.items[i])
			r = write_process(tasks, tasks->processes.items[i], statement, run_id);
	}
	for (size_t i = 0; r == 0 && i < tasks->unseen_processes.n; i++) {
		const struct task_process *process = tasks->unseen_processes.items[i];

		if (process->number >= TASKS_UNSEEN && process->is_used)
			r = write_process(tasks, process, statement, run_id);
	}
	return r;
}

static int write_threads(const struct tasks *tasks, sqlite3 *db, int64_t run_id)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_prepare(
		db,
		"INSERT INTO thread(id, run_id, process_id, number, tid, is_main, stack_start,"
		" stack_end, start_ns, end_ns, n_events) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		&statement);

	for (size_t i = 0; r == 0 && i < tasks->threads.n; i++) {
		if (tasks->threads.items[i])
			r = write_thread(tasks->threads.items[i], statement, run_id);
	}
	for (size_t i = 0; r == 0 && i < tasks->unseen_threads.n; i++) {
		const struct task_thread *thread = tasks->unseen_threads.items[i];

		if (thread->number >= TASKS_UNSEEN)
			r = write_thread(thread, statement, run_id);
	}
	return r;
}

static int compare_names(const void *left, const void *right)
{
	const struct task_name *a = left;
	const struct task_name *b = right;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* perf and the program may tell the same name: it is one row, where the thread got it. */
static int write_name(const struct task_name *item, sqlite3_stmt *statement)
{
	const char *name = item->name ? item->name : item->parent->name;

	if (!name || (item->thread->name && strcmp(item->thread->name, name) == 0))
		return 0;
	item->thread->name = name;
	statement_integer(statement, 1, item->thread->row);
	statement_integer(statement, 2, item->time_ns);
	statement_text(statement, 3, name);
	return statement_run(statement);
}

static int write_names(struct tasks *tasks, sqlite3 *db)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_prepare(
		db, "INSERT INTO thread_name(thread_id, time_ns, name) VALUES(?, ?, ?)",
		&statement);

	if (tasks->n_names > 0)
		qsort(tasks->names, tasks->n_names, sizeof(*tasks->names), compare_names);
	for (size_t i = 0; r == 0 && i < tasks->n_names; i++)
		r = write_name(&tasks->names[i], statement);
	return r;
}

int tasks_write(struct tasks *tasks, sqlite3 *db, int64_t run_id)
{
	int r = write_processes(tasks, db, run_id);

	if (r == 0)
		r = write_threads(tasks, db, run_id);
	if (r == 0)
		r = write_names(tasks, db);
	return r;
}
