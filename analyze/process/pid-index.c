/* Who a perf record means: images by pid and time, threads by tid and time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/process/processes-internal.h"
#include "schemas/ring.h"

struct task_process *tasks_newest(const struct tasks *tasks, uint32_t pid)
{
	return (struct task_process *)(uintptr_t)key_map_get(&tasks->by_pid, pid, 0);
}

struct task_thread *tasks_newest_thread(const struct tasks *tasks, uint32_t tid)
{
	return (struct task_thread *)(uintptr_t)key_map_get(&tasks->by_tid, tid, 0);
}

int tasks_index_process(struct tasks *tasks, struct task_process *process)
{
	struct task_process *newer = tasks_newest(tasks, process->pid);

	process->is_indexed = true;
	if (!newer || newer->begin_ns <= process->begin_ns) {
		process->older = newer;
		return key_map_put(&tasks->by_pid, process->pid, 0, (uintptr_t)process);
	}
	while (newer->older && newer->older->begin_ns > process->begin_ns)
		newer = newer->older;
	process->older = newer->older;
	newer->older = process;
	return 0;
}

int tasks_index_thread(struct tasks *tasks, struct task_thread *thread)
{
	struct task_thread *newer = tasks_newest_thread(tasks, thread->tid);

	thread->next = thread->image->threads;
	thread->image->threads = thread;
	if (!newer || newer->start_ns <= thread->start_ns) {
		thread->older = newer;
		return key_map_put(&tasks->by_tid, thread->tid, 0, (uintptr_t)thread);
	}
	while (newer->older && newer->older->start_ns > thread->start_ns)
		newer = newer->older;
	thread->older = newer->older;
	newer->older = thread;
	return 0;
}

/*
 * The image of pid whose record is the first one stamped at or after time_ns, when that is how it
 * was born; or NULL.
 */
static struct task_process *first_since(const struct tasks *tasks, uint32_t pid, int64_t time_ns,
					uint16_t birth)
{
	struct task_process *first = NULL;

	for (struct task_process *process = tasks_newest(tasks, pid);
	     process && process->start_ns >= time_ns - TASKS_SLACK_NS; process = process->older) {
		/* A fork right before its exec lies within the slack too. */
		if (process->birth == birth)
			first = process;
	}
	return first;
}

/* An image that nobody told, of pid from time_ns on. */
static int add_unseen(struct tasks *tasks, uint32_t pid, int64_t time_ns, uint16_t birth,
		      const struct task_process *parent)
{
	uint32_t number = TASKS_UNSEEN + (uint32_t)tasks->unseen_processes.n;
	struct task_process *process = tasks_make_process(tasks, number);

	if (!process || task_list_add(&tasks->unseen_processes, process) < 0)
		return free(process), -ENOMEM;
	process->pid = pid;
	process->ns_pid = pid;
	process->birth = birth;
	process->start_ns = time_ns;
	process->begin_ns = time_ns;
	process->parent = parent ? parent->number : 0;
	process->why_not =
		birth == RING_BIRTH_FORK && parent ? parent->why_not : TRACE_NOT_ATTACHED;
	if (birth == RING_BIRTH_FORK && parent) {
		process->exe = strdup(parent->exe ? parent->exe : "");
		process->command = strdup(parent->command ? parent->command : "");
		if (!process->exe || !process->command)
			return -ENOMEM;
	}
	return tasks_index_process(tasks, process);
}

/*
 * An exec of the image of this record at time_ns. Where an earlier exec was taken for it, that was
 * of an image that never said hello: the record belongs to the exec right before its stamp.
 */
static int begin_at(struct tasks *tasks, struct task_process *process, int64_t time_ns)
{
	int64_t earlier_ns = process->begin_ns;
	bool was_taken = process->has_exec && earlier_ns < time_ns;

	process->begin_ns = time_ns;
	process->has_exec = true;
	if (!was_taken)
		return 0;

	struct task_process *before = process->older;
	int r = add_unseen(tasks, process->pid, earlier_ns, RING_BIRTH_EXEC, before);
	if (r < 0)
		return r;

	struct task_process *unseen = process->older;
	unseen->has_exec = true;
	unseen->exec_seq = before ? before->exec_seq + 1 : 0;
	unseen->exe = strdup("");
	unseen->command = strdup("");
	return unseen->exe && unseen->command ? 0 : -ENOMEM;
}

/*
 * The image whose exec this is: one that said hello after it, or the one of that time when its own
 * exec was not seen yet (the command is in the trace before it is let go).
 */
static struct task_process *exec_of(const struct tasks *tasks, uint32_t pid, int64_t time_ns)
{
	struct task_process *process = first_since(tasks, pid, time_ns, RING_BIRTH_EXEC);

	if (process)
		return process;
	process = tasks_process_at(tasks, pid, time_ns);
	if (!process || process->has_exec || process->birth != RING_BIRTH_EXEC)
		return NULL;
	return process->is_defined ? process : NULL;
}

int tasks_saw_exec(struct tasks *tasks, uint32_t pid, int64_t time_ns, const char *name)
{
	struct task_process *process = exec_of(tasks, pid, time_ns);

	if (process)
		return begin_at(tasks, process, time_ns);

	struct task_process *before = tasks_process_at(tasks, pid, time_ns);
	int r = add_unseen(tasks, pid, time_ns, RING_BIRTH_EXEC, before);
	if (r < 0)
		return r;

	process = tasks_process_at(tasks, pid, time_ns);
	process->has_exec = true;
	process->exec_seq = before ? before->exec_seq + 1 : 0;
	process->exe = strdup(name);
	process->command = strdup(name);
	return process->exe && process->command ? 0 : -ENOMEM;
}

/*
 * The image of a fork that perf has not told of yet and that lived then: where the program itself
 * stamped its fork, that was when it began to call it. A parent that has to wait for a CPU within
 * the call is ms late.
 */
static struct task_process *told_before(const struct tasks *tasks, uint32_t pid, int64_t time_ns)
{
	struct task_process *process = tasks_newest(tasks, pid);

	while (process && (process->birth != RING_BIRTH_FORK || !process->is_defined ||
			   process->begin_ns != process->start_ns || process->start_ns > time_ns))
		process = process->older;
	return process && time_ns < process->end_ns ? process : NULL;
}

int tasks_saw_fork(struct tasks *tasks, uint32_t pid, uint32_t parent_pid, int64_t time_ns)
{
	struct task_process *process = first_since(tasks, pid, time_ns, RING_BIRTH_FORK);

	if (!process)
		process = told_before(tasks, pid, time_ns);
	if (process) {
		process->begin_ns = time_ns;
		return 0;
	}
	return add_unseen(tasks, pid, time_ns, RING_BIRTH_FORK,
			  tasks_process_at(tasks, parent_pid, time_ns));
}

void tasks_saw_end(struct tasks *tasks, uint32_t pid, int64_t time_ns)
{
	struct task_process *process = tasks_process_at(tasks, pid, time_ns);

	if (process && process->end_ns == INT64_MAX)
		process->end_ns = time_ns;
}

struct task_process *tasks_process_at(const struct tasks *tasks, uint32_t pid, int64_t time_ns)
{
	struct task_process *process = tasks_newest(tasks, pid);

	while (process && process->begin_ns > time_ns && process->older)
		process = process->older;
	/* The first image: perf may have seen it before its record's time. */
	return process;
}

/* How well a thread fits a time: 0 it lived, 1 it is seen later, 2 it had ended, 3 not at all. */
static int fit(const struct task_thread *thread, const struct task_process *process,
	       int64_t time_ns)
{
	if (thread->image != process)
		return 3;
	if (thread->start_ns > time_ns)
		return 1;
	return thread->end_ns >= time_ns ? 0 : 2;
}

struct task_thread *tasks_add_unseen_thread(struct tasks *tasks, uint32_t tid, int64_t time_ns,
					    struct task_process *process)
{
	uint32_t number = TASKS_UNSEEN + (uint32_t)tasks->unseen_threads.n;
	struct task_thread *thread = tasks_make_thread(tasks, number);

	if (!thread || task_list_add(&tasks->unseen_threads, thread) < 0)
		return NULL;
	thread->tid = tid;
	thread->is_main = tid == process->pid;
	thread->start_ns = time_ns;
	thread->image = process;
	thread->process = process->number;
	return tasks_index_thread(tasks, thread) < 0 ? NULL : thread;
}

struct task_thread *tasks_thread_at(struct tasks *tasks, uint32_t pid, uint32_t tid,
				    int64_t time_ns)
{
	struct task_process *process = tasks_process_at(tasks, pid, time_ns);
	struct task_thread *best = NULL;
	int best_fit = 3;

	if (!process)
		return NULL;
	for (struct task_thread *thread = tasks_newest_thread(tasks, tid); thread && best_fit > 0;
	     thread = thread->older) {
		int found = fit(thread, process, time_ns);

		/* The chain goes back in time: of those seen later the last one is the next. */
		if (found < best_fit || (found == 1 && best_fit == 1)) {
			best = thread;
			best_fit = found;
		}
	}
	process->is_used = true;
	return best ? best : tasks_add_unseen_thread(tasks, tid, time_ns, process);
}

uint32_t tasks_memory_of(const struct tasks *tasks, const struct task_process *process)
{
	while (process->number >= TASKS_UNSEEN && process->birth == RING_BIRTH_FORK) {
		const struct task_process *parent = tasks_process(tasks, process->parent);

		if (!parent)
			break;
		process = parent;
	}
	return process->number;
}

uint32_t tasks_pid_of(const struct tasks *tasks, uint32_t tid, int64_t time_ns)
{
	const struct task_thread *thread = tasks_newest_thread(tasks, tid);

	while (thread && thread->start_ns > time_ns && thread->older)
		thread = thread->older;
	if (thread)
		return thread->image->pid;
	return tasks_newest(tasks, tid) ? tid : 0; /* a main thread that nothing told of */
}

uint32_t tasks_only_pid(const struct tasks *tasks)
{
	uint32_t pid = 0;

	for (size_t i = 0; i < tasks->processes.n; i++) {
		const struct task_process *process = tasks->processes.items[i];

		if (process && pid && process->pid != pid)
			return 0;
		if (process)
			pid = process->pid;
	}
	return pid;
}

int task_list_add(struct task_list *list, void *item)
{
	return array_add(list->items, list->n, list->n_allocated, item);
}

struct task_process *tasks_make_process(struct tasks *tasks, uint32_t number)
{
	struct task_process *process = calloc(1, sizeof(*process));

	if (process)
		*process = (struct task_process){
			.number = number,
			.row = tasks->next_process++,
			.end_ns = INT64_MAX,
			.status = -1,
			.rank = -1,
		};
	return process;
}

struct task_thread *tasks_make_thread(struct tasks *tasks, uint32_t number)
{
	struct task_thread *thread = calloc(1, sizeof(*thread));

	if (!thread || task_list_add(&tasks->by_place, thread) < 0)
		return free(thread), NULL;
	*thread = (struct task_thread){
		.number = number,
		.row = tasks->next_thread++,
		.end_ns = INT64_MAX,
	};
	return thread;
}

struct task_process *tasks_process(const struct tasks *tasks, uint32_t number)
{
	const struct task_list *list = &tasks->processes;
	uint32_t index = number - 1;

	if (number >= TASKS_UNSEEN) {
		list = &tasks->unseen_processes;
		index = number - TASKS_UNSEEN;
	}
	return index < list->n ? list->items[index] : NULL;
}
