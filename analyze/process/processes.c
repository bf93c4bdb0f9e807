#include "analyze/process/processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/process/processes-internal.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/shell-quote.h"
#include "schemas/ring.h"
#include "store/statement.h"
#include "trace/names.h"
#include "trace/reader.h"

/* Numbers count up from 1: one far beyond the others is damage, not a reason to take memory. */
#define MAX_GAP 1000000u

int tasks_create(int64_t next_process, int64_t next_thread, struct tasks **ret_tasks)
{
	struct tasks *tasks = calloc(1, sizeof(*tasks));

	if (!tasks)
		return -ENOMEM;
	tasks->next_process = next_process;
	tasks->next_thread = next_thread;
	*ret_tasks = tasks;
	return 0;
}

static void process_destroy(struct task_process *process)
{
	if (!process)
		return;
	free_all(process->exe, process->command, process);
}

/* An adopted item is in both lists: the list of the unseen owns it. */
static void drop_adopted(struct task_list *list, const struct task_list *unseen)
{
	for (size_t i = 0; i < unseen->n; i++) {
		for (size_t k = 0; k < list->n; k++) {
			if (list->items[k] == unseen->items[i])
				list->items[k] = NULL;
		}
	}
}

struct tasks *tasks_destroy(struct tasks *tasks)
{
	if (!tasks)
		return NULL;
	drop_adopted(&tasks->processes, &tasks->unseen_processes);
	for (size_t i = 0; i < tasks->processes.n; i++)
		process_destroy(tasks->processes.items[i]);
	for (size_t i = 0; i < tasks->unseen_processes.n; i++)
		process_destroy(tasks->unseen_processes.items[i]);
	for (size_t i = 0; i < tasks->by_place.n; i++)
		free(tasks->by_place.items[i]);
	free(tasks->by_place.items);
	for (size_t i = 0; i < tasks->n_names; i++)
		free(tasks->names[i].name);
	free_all(tasks->processes.items, tasks->unseen_processes.items, tasks->threads.items,
		 tasks->unseen_threads.items, tasks->names);
	key_map_finish(&tasks->by_pid);
	key_map_finish(&tasks->by_tid);
	free(tasks);
	return NULL;
}

/* Make items[number - 1] exist, with NULL in between. */
static int reach(struct task_list *list, uint32_t number)
{
	if (number == 0 || number >= TASKS_UNSEEN || number > list->n + MAX_GAP)
		return -EBADMSG;
	while (list->n < number) {
		int r = task_list_add(list, NULL);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The image of that number; made empty when it is new. */
static int get_process(struct tasks *tasks, uint32_t number, struct task_process **ret_process)
{
	int r = reach(&tasks->processes, number);
	if (r < 0)
		return r;

	void **item = &tasks->processes.items[number - 1];
	if (!*item)
		*item = tasks_make_process(tasks, number);
	if (!*item)
		return -ENOMEM;
	*ret_process = *item;
	return 0;
}

static int get_thread(struct tasks *tasks, uint32_t number, struct task_thread **ret_thread)
{
	int r = reach(&tasks->threads, number);
	if (r < 0)
		return r;

	void **item = &tasks->threads.items[number - 1];
	if (!*item)
		*item = tasks_make_thread(tasks, number);
	if (!*item)
		return -ENOMEM;
	*ret_thread = *item;
	return 0;
}

/* The command: its record is stamped when it waits at the gate, long before its exec. */
static bool is_command(const struct trace_process *record, const struct task_process *first)
{
	return record->parent_id == 0 && record->exec_seq == 0 && !first->older;
}

/* perf told the image before its record: the record names it. */
static int adopt_process(struct tasks *tasks, const struct trace_process *record, int64_t start_ns)
{
	struct task_process *newest = tasks_newest(tasks, record->pid);

	if (!newest || newest->number < TASKS_UNSEEN || newest->birth != record->birth ||
	    newest->end_ns < start_ns)
		return 0;
	if (newest->begin_ns > start_ns + TASKS_SLACK_NS && !is_command(record, newest))
		return 0;

	int r = reach(&tasks->processes, record->process_id);
	if (r < 0 || tasks->processes.items[record->process_id - 1])
		return r;
	tasks->processes.items[record->process_id - 1] = newest;
	newest->number = record->process_id;
	/* Samples told its threads under the number that it had. */
	for (struct task_thread *thread = newest->threads; thread; thread = thread->next)
		thread->process = newest->number;
	for (struct task_thread *thread = newest->gone; thread; thread = thread->next)
		thread->process = newest->number;
	return 0;
}

void tasks_set_aside(struct task_thread **at)
{
	struct task_thread *thread = *at;

	*at = thread->next;
	thread->next = thread->image->gone;
	thread->image->gone = thread;
}

static int read_process(struct task_process *process, const struct trace_process *record)
{
	size_t n_exe;
	size_t n_arguments;
	const char *exe = trace_record_string(&record->head, 0, &n_exe);
	const char *arguments = trace_record_string(&record->head, 1, &n_arguments);

	free_all(process->exe, process->command);
	process->exe = strndup(exe, n_exe);
	process->command = command_text(arguments, n_arguments);
	process->parent = record->parent_id == record->process_id ? 0 : record->parent_id;
	process->pid = record->pid;
	process->ns_pid = record->ns_pid;
	process->exec_seq = record->exec_seq;
	process->birth = record->birth;
	process->why_not = record->why_not;
	return process->exe && process->command ? 0 : -ENOMEM;
}

/* Damage can make an image its own ancestor: whoever follows parents would never end. */
static bool is_own_ancestor(const struct tasks *tasks, const struct task_process *process)
{
	const struct task_process *parent = tasks_process(tasks, process->parent);

	while (parent && parent != process)
		parent = tasks_process(tasks, parent->parent);
	return parent != NULL;
}

int tasks_add_process(struct tasks *tasks, const struct trace_process *record, int64_t start_ns)
{
	struct task_process *process;

	int r = adopt_process(tasks, record, start_ns);
	if (r < 0)
		return r;
	r = get_process(tasks, record->process_id, &process);
	if (r < 0)
		return r;

	bool is_known = process->is_indexed; /* defined before, or adopted: in its place already */
	r = read_process(process, record);
	if (r < 0)
		return r;
	if (is_own_ancestor(tasks, process))
		process->parent = 0;
	process->start_ns = start_ns;
	tasks->n_defined += !process->is_defined;
	process->is_defined = true;
	if (is_known)
		return 0;
	process->begin_ns = start_ns;
	return tasks_index_process(tasks, process);
}

int tasks_set_rank(struct tasks *tasks, uint32_t number, uint32_t rank)
{
	struct task_process *process;

	int r = get_process(tasks, number, &process);
	if (r == 0)
		process->rank = rank;
	return r;
}

int tasks_end_process(struct tasks *tasks, uint32_t number, int64_t time_ns, int32_t status)
{
	struct task_process *process;

	int r = get_process(tasks, number, &process);
	if (r < 0)
		return r;
	process->end_ns = time_ns;
	process->status = status;
	return 0;
}

/* A sample told the thread before its record: the record names it. */
static int adopt_thread(struct tasks *tasks, const struct trace_thread *record, int64_t start_ns,
			const struct task_process *process)
{
	struct task_thread *newest = tasks_newest_thread(tasks, record->tid);

	if (!newest || newest->number < TASKS_UNSEEN || newest->image != process ||
	    newest->start_ns > start_ns || newest->end_ns < start_ns)
		return 0;

	int r = reach(&tasks->threads, record->thread_id);
	if (r < 0 || tasks->threads.items[record->thread_id - 1])
		return r;
	tasks->threads.items[record->thread_id - 1] = newest;
	newest->number = record->thread_id;
	return 0;
}

static void read_thread(struct task_thread *thread, const struct trace_thread *record)
{
	thread->tid = record->tid;
	thread->is_main = record->is_main;
	if (record->stack_start || !thread->is_stack_seen) {
		thread->stack_start = record->stack_start;
		thread->stack_end = record->stack_end;
		thread->is_stack_seen = false;
	}
	thread->fs_base = record->fs_base;
	thread->is_defined = true;
}

int tasks_add_thread(struct tasks *tasks, const struct trace_thread *record, int64_t start_ns)
{
	struct task_process *process;
	struct task_thread *thread;
	size_t n_bytes;

	int r = get_process(tasks, record->process_id, &process);
	if (r < 0)
		return r;
	r = adopt_thread(tasks, record, start_ns, process);
	if (r < 0)
		return r;
	r = get_thread(tasks, record->thread_id, &thread);
	if (r < 0)
		return r;

	bool is_known = thread->image;
	read_thread(thread, record);
	thread->told_ns = start_ns;
	if (!is_known || thread->start_ns > start_ns)
		thread->start_ns = start_ns;

	const char *name = trace_record_string(&record->head, 0, &n_bytes);
	if (n_bytes)
		r = tasks_name_thread(tasks, thread->number, start_ns, name, n_bytes);
	if (r < 0 || is_known)
		return r;
	thread->image = process;
	thread->process = process->number;
	return tasks_index_thread(tasks, thread);
}

int tasks_end_thread(struct tasks *tasks, uint32_t number, int64_t time_ns)
{
	struct task_thread *thread;

	int r = get_thread(tasks, number, &thread);
	if (r < 0)
		return r;
	if (!thread->has_end)
		thread->end_ns = time_ns;
	return 0;
}

int tasks_add_name(struct tasks *tasks, struct task_thread *thread, int64_t time_ns, char *name)
{
	if (!name || grow_one(&tasks->names, tasks->n_names, &tasks->n_names_allocated) < 0)
		return free(name), -ENOMEM;
	tasks->names[tasks->n_names] = (struct task_name){
		.thread = thread,
		.time_ns = time_ns,
		.order = tasks->n_names,
		.name = name,
	};
	tasks->n_names++;
	return 0;
}

int tasks_name_thread(struct tasks *tasks, uint32_t number, int64_t time_ns, const char *name,
		      size_t n_bytes)
{
	struct task_thread *thread;

	int r = get_thread(tasks, number, &thread);
	return r < 0 ? r : tasks_add_name(tasks, thread, time_ns, strndup(name, n_bytes));
}

struct task_thread *tasks_thread(const struct tasks *tasks, uint32_t number)
{
	const struct task_list *list = &tasks->threads;
	uint32_t index = number - 1;

	if (number >= TASKS_UNSEEN) {
		list = &tasks->unseen_threads;
		index = number - TASKS_UNSEEN;
	}
	return index < list->n ? list->items[index] : NULL;
}

uint32_t tasks_place(const struct tasks *tasks, uint32_t number)
{
	const struct task_thread *thread = tasks_thread(tasks, number);
	int64_t first = tasks->next_thread - (int64_t)tasks->by_place.n;

	return thread ? (uint32_t)(thread->row - first) : UINT32_MAX;
}

struct task_thread *tasks_thread_of(const struct tasks *tasks, uint32_t place)
{
	return place < tasks->by_place.n ? tasks->by_place.items[place] : NULL;
}

uint32_t tasks_n_defined(const struct tasks *tasks)
{
	return tasks->n_defined;
}

uint32_t tasks_n_processes(const struct tasks *tasks)
{
	return (uint32_t)tasks->processes.n;
}

uint32_t tasks_n_threads(const struct tasks *tasks)
{
	uint32_t n = 0;

	for (size_t i = 0; i < tasks->threads.n; i++)
		n += tasks->threads.items[i] != NULL;
	for (size_t i = 0; i < tasks->unseen_threads.n; i++) {
		const struct task_thread *thread = tasks->unseen_threads.items[i];

		n += thread->number >= TASKS_UNSEEN;
	}
	return n;
}

/* The tables process, thread and thread_name. */

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

	return statement_put(
		statement, "nnninnntttntniii", process->row, run_id,
		(int64_t)(process->number < TASKS_UNSEEN ? process->number : 0),
		parent ? parent->row : INT64_MIN, (int64_t)process->pid, (int64_t)process->ns_pid,
		(int64_t)process->exec_seq, process->birth == RING_BIRTH_FORK ? "fork" : "exec",
		exe, process->command ? process->command : exe,
		(int64_t)(process->why_not == TRACE_TRACED), why_not_text(process->why_not),
		process->begin_ns, process->end_ns == INT64_MAX ? INT64_MIN : process->end_ns,
		process->status >= 0 ? (int64_t)process->status : INT64_MIN,
		process->rank >= 0 ? (int64_t)process->rank : INT64_MIN);
}

static int write_thread(const struct task_thread *thread, sqlite3_stmt *statement, int64_t run_id)
{
	bool has_stack = thread->stack_start;

	return statement_put(statement, "nnnnnniinin", thread->row, run_id,
			     thread->image ? thread->image->row : 0,
			     (int64_t)(thread->number < TASKS_UNSEEN ? thread->number : 0),
			     (int64_t)thread->tid, (int64_t)thread->is_main,
			     has_stack ? (int64_t)thread->stack_start : INT64_MIN,
			     has_stack ? (int64_t)thread->stack_end : INT64_MIN, thread->start_ns,
			     thread->end_ns == INT64_MAX ? INT64_MIN : thread->end_ns,
			     (int64_t)thread->n_events);
}

static int write_processes(const struct tasks *tasks, sqlite3 *db, int64_t run_id)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_insert(
		db,
		"process(id, run_id, number, parent_id, pid, ns_pid, exec_seq, birth, exe, command,"
		" traced, why_not, start_ns, end_ns, status, rank)",
		16, &statement);

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
	int r = statement_insert(db,
				 "thread(id, run_id, process_id, number, tid, is_main, stack_start,"
				 " stack_end, start_ns, end_ns, n_events)",
				 11, &statement);

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

DEFINE_ORDER(compare_names, struct task_name, BY(time_ns) ?: BY(order));

/* perf and the program may tell the same name: it is one row, where the thread got it. */
static int write_name(const struct task_name *item, sqlite3_stmt *statement)
{
	const char *name = item->name ? item->name : item->parent->name;

	if (!name || (item->thread->name && strcmp(item->thread->name, name) == 0))
		return 0;
	item->thread->name = name;
	return statement_put(statement, "nnt", item->thread->row, item->time_ns, name);
}

static int write_names(struct tasks *tasks, sqlite3 *db)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_insert(db, "thread_name(thread_id, time_ns, name)", 3, &statement);

	if (tasks->n_names > 0)
		qsort(tasks->names, tasks->n_names, sizeof(*tasks->names), compare_names);
	for (size_t i = 0; r == 0 && i < tasks->n_names; i++)
		r = write_name(&tasks->names[i], statement);
	return r;
}

int tasks_write(struct tasks *tasks, sqlite3 *db, int64_t run_id)
{
	int r = write_processes(tasks, db, run_id) ?: write_threads(tasks, db, run_id);
	return r ?: write_names(tasks, db);
}
