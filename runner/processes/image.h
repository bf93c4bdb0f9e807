#pragma once
/*
 * The process images of a recording that live now. Each fork and each exec opens a new one; the
 * trace has one PROCESS record for each. One thread.
 */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runner/processes/page-budget.h"
#include "runner/processes/page-writes.h"
#include "runner/processes/process-sampler.h"
#include "schemas/ring.h"
#include "schemas/trace-format.h"

#define IMAGE_NO_SLOT UINT32_MAX

#define IMAGE_RANK_UNKNOWN (-2)

/* A thread as its process told it. */
struct image_thread {
	uint32_t id; /* thread_id in the trace */
	uint32_t tid; /* in the collector's namespace */
	uint32_t ns_tid; /* as the program sees it */
	uint64_t fs_base;
	bool has_ended;
};

/* When the pages of an image are looked at; runner/collector-pages.c. */
struct image_pages {
	uint64_t peak_bytes; /* resident at the last look for a peak */
	uint64_t last_bytes; /* resident when last asked for */
	uint64_t looked_bytes; /* resident at the last look, ... */
	uint64_t small_bytes; /* ... and of these, not in huge pages */
	uint64_t not_before_ns; /* CLOCK_MONOTONIC: the last look has cost so much */
	uint64_t cost_ns; /* of the last look */
	uint64_t spent_ns; /* on all but the one at the end */
	bool is_refused; /* they may not be looked at */
};

/* Its interval of touches that is under way; runner/collector-touches.c. */
struct image_touches {
	uint64_t begin_ticks; /* 0: none */
	int table; /* pagemap of the memory whose marks were cleared then; -1: none */
	uint64_t next_ns; /* CLOCK_MONOTONIC: when this one ends, or a first one is tried */
	uint64_t need_ns; /* that may then be spent, at least: what that will cost */
	uint64_t forbidden_ticks; /* since then the budget allows none; 0: it does */
	uint64_t read_ns; /* that reading all marks took the last time */
	uint64_t writes_begin_ticks; /* all that is watched was protected; 0: nothing was */
	uint64_t share_ppm; /* of the watched pages, that were written in the last one */
	bool is_refused;
	bool lacks_writes; /* an interval has ended before it has lent its memory */
	bool misses_writes; /* that some are not known is told */
	bool gave_back; /* it has a userfaultfd of its own, and ours would be in the way */
};

struct image {
	struct image *next;
	uint32_t id; /* process_id in the trace */
	uint32_t parent_id; /* the image that forked, or the one before exec; 0: none */
	pid_t pid; /* 0: it has a slot, but whose it is cannot be told */
	pid_t ns_pid;
	uint32_t exec_seq;
	enum ring_birth birth;
	uint64_t start_ticks;
	uint64_t decide_after_ns; /* CLOCK_MONOTONIC: until then a hello may still come */
	uint32_t slot; /* in the pool; IMAGE_NO_SLOT: it never said hello */
	int pidfd; /* -1: it was gone already, or none could be had */
	int why_not; /* enum trace_why_not, as far as its file tells; see image_inspect() */
	uint64_t n_dropped_before; /* what its slot said when recording stopped early */
	bool is_traced;
	bool is_written; /* its PROCESS record is in the trace */
	bool is_gone; /* found dead: to be ended when its records are read */
	bool is_counted; /* its process is in the counts for people already, as what it became */
	bool is_exe_guessed; /* exe is what another image said that it would run */
	bool is_new; /* perf told of it: it has yet to be looked at */
	bool awaits_exec_record; /* perf will tell of the exec that made it */
	bool blocks_dump; /* the signal of --dump-signal, at the last look */
	bool is_wanted; /* the command, or attached to: recorded also where nobody is followed */
	int64_t rank; /* in a parallel program; -1: none, IMAGE_RANK_UNKNOWN: not looked for yet */
	uint64_t gone_ticks;
	char exe[PATH_MAX];
	char *last_exec; /* path that it last tried to run; NULL: none */
	uint64_t last_exec_ticks;
	uint32_t untraced_id; /* of the static program that it so became or spawned; 0: none */
	uint32_t n_spawned_static; /* that have said hello before we heard of their exec */
	uint64_t spawned_ticks; /* exec of the program that it has started last; 0: none */
	uint64_t sibling_ticks; /* and of the one before this image */
	uint32_t forker_id; /* the image in whose memory it may have called exec (vfork); 0: none */
	char comm[16]; /* as the kernel calls a program that perf told of; "": it did not */
	char *command; /* arguments separated by NUL */
	size_t command_bytes;
	uint64_t cpu_ns; /* CPU time when last asked for; image_cpu_ns() */
	uint64_t picks_cpu_ns; /* CPU time, and ticks of picks, at the last look at both; 0: none */
	uint64_t picks_ticks;
	struct run_process_sampler sampler;
	struct image_pages pages;
	struct image_touches touches;
	struct page_budget budget; /* of both */
	struct page_writes writes;
	struct image_thread *threads; /* in order of creation; of those that have ended the last */
	size_t n_threads;
	size_t threads_allocated;
	size_t n_ended_threads; /* of these */
};

struct images {
	struct image *first; /* those that live */
	uint32_t next_id; /* from 1 */
	uint32_t n_live;
};

/* The living image of a process, or NULL. */
struct image *images_find(const struct images *images, pid_t pid);

/* The living image with that id in the trace, or NULL. */
struct image *images_find_id(const struct images *images, uint32_t id);

/* Whether one lives whose process is known: what a recording waits for. */
bool images_has_known(const struct images *images);

/* Open a new image; NULL: no memory. The rest of its fields are the caller's to fill in. */
struct image *images_add(struct images *images, pid_t pid);

/* Note a thread. Without memory it is left out: only --private and names want to know. */
void image_add_thread(struct image *image, const struct image_thread *thread);

/*
 * A thread has ended. Names and samples of it may still come, so the last IMAGE_ENDED_THREADS that
 * have are kept at least. Others are forgotten: programs that run for weeks make millions.
 */
#define IMAGE_ENDED_THREADS 1024u
void image_end_thread(struct image *image, uint32_t id);

/* thread_id of the last thread with that number as the program sees it; 0: not known. */
uint32_t image_thread_id(const struct image *image, uint32_t ns_tid);

/* Thread pointer of the last thread with that number; 0: not known. */
uint64_t image_fs_base(const struct image *image, uint32_t tid);

/* CPU time of its process so far, in ns; 0: it cannot be asked. */
uint64_t image_cpu_ns(const struct image *image);

/* Forget an image and free it; its pidfd is closed. */
void images_remove(struct images *images, struct image *image);

/* Forget all. */
void images_finish(struct images *images);
