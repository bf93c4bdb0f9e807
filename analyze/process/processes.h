#pragma once
/*
 * The process images and threads of one run: who they are, when they lived, and which of them a
 * perf record means by pid and tid. It gives out the row ids of `process` and `thread` and writes
 * those tables.
 *
 * Numbers are those of the trace (process_id, thread_id; from 1). Images and threads that only
 * samples know get numbers from TASKS_UNSEEN on. Times are ns since the run's start. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sqlite3.h>

#include "schemas/trace-format.h"

#define TASKS_UNSEEN UINT32_C(0x80000000)

/* One image of a process. Pointers stay valid until tasks_destroy(). */
struct task_process {
	uint32_t number;
	uint32_t parent; /* number; 0: none */
	int64_t row; /* process.id */
	uint32_t pid;
	uint32_t ns_pid;
	uint32_t exec_seq;
	uint16_t birth; /* enum ring_birth */
	uint16_t why_not; /* enum trace_why_not */
	int64_t start_ns;
	int64_t begin_ns; /* from when samples of pid are its own: perf's exec, or start_ns */
	int64_t end_ns; /* INT64_MAX: still there */
	int32_t status; /* as from wait(); < 0: not known */
	int64_t rank; /* of a parallel job; < 0: none */
	bool is_defined; /* its record was there */
	bool is_indexed; /* by its pid: once only, whatever a damaged trace says of it again */
	uint64_t stack_top; /* of the first thread's stack, as perf told it at exec; 0: not known */
	bool has_exec; /* perf's exec record of it was there */
	bool is_used; /* samples name it */
	char *exe;
	char *command; /* as a shell would take it */
	struct module_list *modules; /* of modules.c */
	size_t regions; /* of owners.c: which of its images + 1; 0: none */
	struct task_process *older; /* the image before this one with the same pid */
	struct task_thread *threads; /* by task_thread.next, the youngest first */
	struct task_thread *gone; /* those that tasks_set_aside() took out of them */
};

/* One incarnation of a thread. Pointers stay valid until tasks_destroy(). */
struct task_thread {
	uint32_t number;
	uint32_t process; /* number of the image */
	int64_t row; /* thread.id */
	uint32_t tid;
	bool is_main;
	bool is_defined; /* its record was there */
	uint64_t stack_start; /* 0: not known */
	uint64_t stack_end;
	uint64_t fs_base; /* 0: not known */
	bool is_stack_seen; /* no record has the bounds: those of what its stack pointer lay in */
	int64_t start_ns;
	int64_t end_ns; /* INT64_MAX: still there */
	int64_t told_ns; /* of its record */
	bool has_birth; /* perf told of its birth, and of its end */
	bool has_end;
	const char *name; /* while names are written */
	uint64_t n_events; /* counted by the import */
	struct task_process *image;
	struct task_thread *next; /* of the same image */
	struct task_thread *older; /* the thread before this one with the same tid */
};

struct tasks;

/* next_process and next_thread are the first free row ids. Returns 0 or -ENOMEM. */
int tasks_create(int64_t next_process, int64_t next_thread, struct tasks **ret_tasks);
struct tasks *tasks_destroy(struct tasks *tasks); /* accepts NULL, returns NULL */

/*
 * The records of the trace, in any order; a number that is there already is replaced, except for
 * its row. Records that name a thread or process before its definition make an empty one, so that
 * nothing hangs loose when a definition was lost. Return 0, -ENOMEM, or -EBADMSG for a number of 0
 * or one far beyond the others (damage).
 */
int tasks_add_process(struct tasks *tasks, const struct trace_process *record, int64_t start_ns);
int tasks_set_rank(struct tasks *tasks, uint32_t number, uint32_t rank);
int tasks_end_process(struct tasks *tasks, uint32_t number, int64_t time_ns, int32_t status);
int tasks_add_thread(struct tasks *tasks, const struct trace_thread *record, int64_t start_ns);
int tasks_end_thread(struct tasks *tasks, uint32_t number, int64_t time_ns);
int tasks_name_thread(struct tasks *tasks, uint32_t number, int64_t time_ns, const char *name,
		      size_t n_bytes);

/*
 * perf says that pid got another image: by exec (name as the kernel calls it), or that it was
 * forked by parent_pid. Samples of pid from here on belong to it. When its record came already this
 * is where it begins; otherwise it is made (number >= TASKS_UNSEEN), and becomes the one of the
 * record if that comes later. Call in order of time. 0 or -ENOMEM.
 */
int tasks_saw_exec(struct tasks *tasks, uint32_t pid, int64_t time_ns, const char *name);
int tasks_saw_fork(struct tasks *tasks, uint32_t pid, uint32_t parent_pid, int64_t time_ns);

/*
 * perf says that a thread was born, ended, or has another name now. One that says nothing itself
 * gets a row for its life. In order of time; 0 or -ENOMEM.
 */
int tasks_saw_thread(struct tasks *tasks, uint32_t pid, uint32_t tid, uint32_t parent_tid,
		     int64_t time_ns);
int tasks_saw_thread_end(struct tasks *tasks, uint32_t tid, int64_t time_ns);
int tasks_saw_name(struct tasks *tasks, uint32_t pid, uint32_t tid, int64_t time_ns,
		   const char *name);

/* perf says that a process ended. It stays known. */
void tasks_saw_end(struct tasks *tasks, uint32_t pid, int64_t time_ns);

/* By number; NULL: not known. Constant time. */
struct task_process *tasks_process(const struct tasks *tasks, uint32_t number);

/*
 * The place of a thread, a number from 0 on that stays the same when its record comes. UINT32_MAX:
 * not known. And the thread there; NULL: none.
 */
uint32_t tasks_place(const struct tasks *tasks, uint32_t number);
struct task_thread *tasks_thread_of(const struct tasks *tasks, uint32_t place);

/*
 * Take *at, a thread that ended long before all that is still asked, out of its image's threads:
 * an image may have had a hundred thousand.
 */
void tasks_set_aside(struct task_thread **at);
struct task_thread *tasks_thread(const struct tasks *tasks, uint32_t number);

/* Images whose records were there so far. */
uint32_t tasks_n_defined(const struct tasks *tasks);

/* The highest number of the trace so far: numbers run from 1 to this. */
uint32_t tasks_n_processes(const struct tasks *tasks);

/* How many there are, also of those that only the kernel told of. */
uint32_t tasks_n_threads(const struct tasks *tasks);

/*
 * Whom a sample at time_ns means. An image of pid that nobody told is NULL. A thread that nobody
 * told is made (number >= TASKS_UNSEEN) in the image of pid at that time; NULL without an image, or
 * memory. When its record comes later it becomes the thread of that record.
 */
struct task_process *tasks_process_at(const struct tasks *tasks, uint32_t pid, int64_t time_ns);
struct task_thread *tasks_thread_at(struct tasks *tasks, uint32_t pid, uint32_t tid,
				    int64_t time_ns);

/* The pid of a thread that lives at time_ns, by tid alone; 0: not known. */
uint32_t tasks_pid_of(const struct tasks *tasks, uint32_t tid, int64_t time_ns);

/* The pid that all images of the trace have; 0: there are several. */
uint32_t tasks_only_pid(const struct tasks *tasks);

/*
 * The number of the image whose heap and maps an image uses: its own, or for a forked one that had
 * no event of its own the one that forked it.
 */
uint32_t tasks_memory_of(const struct tasks *tasks, const struct task_process *process);

/*
 * Write the tables process, thread and thread_name; of images and threads that perf alone told,
 * those that samples name. Returns 0 or a negative errno.
 */
int tasks_write(struct tasks *tasks, sqlite3 *db, int64_t run_id);
