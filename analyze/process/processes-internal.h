#pragma once
/* What processes.c and pid-index.c share. */
#include "analyze/process/processes.h"
#include "common/array.h"
#include "common/hash-map.h"

/*
 * The same moment told by perf and by the collector: perf's times are converted to ticks and back.
 * No image lives shorter than this between two execs.
 */
#define TASKS_SLACK_NS INT64_C(50000)

struct task_list {
	void **items;
	size_t n;
	size_t n_allocated;
};

struct task_name {
	struct task_thread *thread;
	int64_t time_ns;
	size_t order; /* as told */
	char *name; /* NULL: what parent is called at this time */
	const struct task_thread *parent;
};

struct tasks {
	int64_t next_process; /* rows */
	int64_t next_thread;
	uint32_t n_defined;
	struct task_list processes; /* by number - 1; NULL: not there */
	struct task_list threads;
	struct task_list unseen_processes; /* by number - TASKS_UNSEEN; may be in both lists */
	struct task_list unseen_threads;
	struct task_list by_place; /* all threads: it owns them */
	struct task_name *names;
	size_t n_names;
	size_t n_names_allocated;
	struct key_map by_pid; /* -> newest struct task_process of the pid */
	struct key_map by_tid; /* -> newest struct task_thread of the tid */
};

/* Append to a list. Returns 0 or -ENOMEM. */
int task_list_add(struct task_list *list, void *item);

/* The newest image of pid, or NULL; the newest thread of tid. */
struct task_process *tasks_newest(const struct tasks *tasks, uint32_t pid);
struct task_thread *tasks_newest_thread(const struct tasks *tasks, uint32_t tid);

/* Put an image into the chain of its pid by begin_ns, a thread into that of its tid by start_ns. */
int tasks_index_process(struct tasks *tasks, struct task_process *process);
int tasks_index_thread(struct tasks *tasks, struct task_thread *thread);

/* A thread that nobody told, in its place. NULL: no memory. */
struct task_thread *tasks_add_unseen_thread(struct tasks *tasks, uint32_t tid, int64_t time_ns,
					    struct task_process *process);

/* Note a name; it is allocated and becomes the tasks'. 0 or -ENOMEM, also when name is NULL. */
int tasks_add_name(struct tasks *tasks, struct task_thread *thread, int64_t time_ns, char *name);

/* Make an image or thread that nobody told. NULL: no memory. */
struct task_process *tasks_make_process(struct tasks *tasks, uint32_t number);
struct task_thread *tasks_make_thread(struct tasks *tasks, uint32_t number);
