/*
 * What perf tells of threads: births, ends and names, also of those that never allocate and of
 * which no sample tells. Called in order of time; the records of the trace are known ahead of it.
 */
#include <errno.h>
#include <string.h>

#include "analyze/process/processes-internal.h"

/*
 * The image of pid, when its record was there: rows of others are made only where samples need
 * them.
 */
static struct task_process *known_process(const struct tasks *tasks, uint32_t pid, int64_t time_ns)
{
	struct task_process *process = tasks_process_at(tasks, pid, time_ns);

	return process && process->is_defined ? process : NULL;
}

/*
 * Whether those with its number before it had ended by then: it was born. Of a program that starts
 * threads all the time a number has had hundreds.
 */
static bool is_first_asked(const struct task_thread *thread, int64_t time_ns)
{
	return thread->has_birth && thread->start_ns < time_ns - TASKS_SLACK_NS;
}

/* Of the threads of that number that have told of themselves since, the first. */
static struct task_thread *told_since(const struct tasks *tasks, uint32_t tid, int64_t time_ns,
				      const struct task_process *process)
{
	struct task_thread *first = NULL;

	for (struct task_thread *thread = tasks_newest_thread(tasks, tid);
	     thread && !is_first_asked(thread, time_ns); thread = thread->older) {
		if (thread->image == process && thread->is_defined && !thread->has_birth &&
		    thread->told_ns >= time_ns - TASKS_SLACK_NS)
			first = thread;
	}
	return first;
}

static struct task_thread *add_thread(struct tasks *tasks, uint32_t tid, int64_t time_ns,
				      struct task_process *process)
{
	struct task_thread *thread = tasks_add_unseen_thread(tasks, tid, time_ns, process);

	if (thread)
		thread->has_birth = true;
	return thread;
}

/*
 * A thread begins with the name of the one that made it: which that was then is found at the end.
 */
static int inherit_name(struct tasks *tasks, struct task_thread *thread,
			const struct task_thread *parent, int64_t time_ns)
{
	if (!parent)
		return 0;
	if (grow_one(&tasks->names, tasks->n_names, &tasks->n_names_allocated) < 0)
		return -ENOMEM;
	tasks->names[tasks->n_names] = (struct task_name){
		.thread = thread,
		.time_ns = time_ns,
		.parent = parent,
		.order = tasks->n_names,
	};
	tasks->n_names++;
	return 0;
}

int tasks_saw_thread(struct tasks *tasks, uint32_t pid, uint32_t tid, uint32_t parent_tid,
		     int64_t time_ns)
{
	struct task_process *process = known_process(tasks, pid, time_ns);
	if (!process)
		return 0;

	struct task_thread *thread = told_since(tasks, tid, time_ns, process);
	if (thread) {
		thread->start_ns = time_ns;
		thread->has_birth = true;
	} else {
		thread = add_thread(tasks, tid, time_ns, process);
	}
	if (!thread)
		return -ENOMEM;
	return inherit_name(tasks, thread, tasks_thread_at(tasks, pid, parent_tid, time_ns),
			    time_ns);
}

/* The one that perf saw being born last. */
static struct task_thread *born_before(const struct tasks *tasks, uint32_t tid, int64_t time_ns)
{
	struct task_thread *thread = tasks_newest_thread(tasks, tid);

	while (thread && (!thread->has_birth || thread->has_end || thread->start_ns > time_ns))
		thread = is_first_asked(thread, time_ns) ? NULL : thread->older;
	return thread;
}

/*
 * The thread that ends said nothing, and its birth was taken for that of the next one with its
 * number: give it a life of its own.
 */
static int part(struct tasks *tasks, struct task_thread *next, int64_t end_ns)
{
	int64_t start_ns = next->start_ns;

	/* First: of one number the youngest is found first. */
	next->start_ns = next->told_ns;
	next->has_birth = false;
	struct task_thread *silent = add_thread(tasks, next->tid, start_ns, next->image);
	if (!silent)
		return -ENOMEM;
	for (size_t i = 0; i < tasks->n_names; i++) {
		if (tasks->names[i].thread == next && tasks->names[i].time_ns <= end_ns)
			tasks->names[i].thread = silent;
	}
	silent->end_ns = end_ns;
	silent->has_end = true;
	return 0;
}

int tasks_saw_thread_end(struct tasks *tasks, uint32_t tid, int64_t time_ns)
{
	struct task_thread *thread = born_before(tasks, tid, time_ns);

	if (!thread)
		return 0;
	if (thread->is_defined && thread->told_ns > time_ns + TASKS_SLACK_NS)
		return part(tasks, thread, time_ns);
	thread->has_end = true;
	if (thread->end_ns == INT64_MAX || thread->end_ns < time_ns)
		thread->end_ns = time_ns;
	return 0;
}

int tasks_saw_name(struct tasks *tasks, uint32_t pid, uint32_t tid, int64_t time_ns,
		   const char *name)
{
	struct task_thread *thread = NULL;

	if (known_process(tasks, pid, time_ns))
		thread = tasks_thread_at(tasks, pid, tid, time_ns);
	return thread ? tasks_add_name(tasks, thread, time_ns, strdup(name)) : 0;
}
