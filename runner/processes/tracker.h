#pragma once
/*
 * Who takes part in a recording. Follows forks, execs and ends by what the programs say themselves
 * (hello, process slots, EXEC records), by perf's task records where they may be had, and by /proc;
 * keeps one image for each, and writes their records. One thread.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "perf/record.h"
#include "runner/processes/image.h"
#include "runner/ring/drain.h"
#include "runner/ring/pool.h"
#include "schemas/recording.h"
#include "trace/writer.h"

struct run_file; /* run.h */
struct live_totals;
struct entry;
struct run_functions;
struct watches;
struct samples;

struct tracker {
	struct pool *pool;
	struct drain *drain;
	struct trace_writer *writer;
	struct images images;
	enum ring_clock clock;
	uint64_t ticks_per_second;
	int epoll_fd; /* pidfds are added to it, with the tag below | pid */
	uint64_t epoll_tag;
	uint32_t next_thread_id;
	uint32_t command_id; /* process_id of the command's first image */
	pid_t command_pid;
	uint64_t hello_ticks; /* of the last hello that was accepted */
	uint64_t pool_inode; /* of the pool in /proc/PID/maps; 0: not looked at yet */
	bool no_alloc;
	bool no_follow;
	bool has_names; /* those of functions are stored */
	bool has_new; /* images: tracker_look_at_new() */
	bool has_task_records; /* perf tells of forks and execs */
	uint64_t n_losses; /* events that were not recorded, so far */
	uint64_t stopped_ticks; /* from then on all are lost; 0: recording goes on */
	uint64_t n_below_min; /* blocks below --min-size, so far: on request, no loss */
	uint64_t wait_ns; /* that programs spent waiting for a chunk */
	uint32_t n_processes; /* that have ended */
	uint32_t n_traced; /* of them */
	char last_exec[PATH_MAX]; /* that the image which ended last was about to run */
	uint32_t last_untraced_id; /* likewise */
	uint64_t n_why_not[TRACE_NOT_COUNT];
	char why_not_example[TRACE_NOT_COUNT][64]; /* base name of one such program */
	struct watches *watches; /* --watch; NULL: nobody asks */
	struct live_totals *totals; /* NULL: nobody asks */
	struct samples *samples; /* where samples of --source signal go; NULL: nobody asks */
	uint64_t n_signal_stops; /* images that use the signal themselves */
	uint64_t n_signal_hidden; /* that are not sampled: RING_SIGNAL_HIDDEN */
	uint64_t n_dump_hidden; /* RING_DUMP_HIDDEN */
	/* Called before an image is forgotten; may be NULL. */
	void (*forget)(void *user, uint32_t process_id);
	const struct run_functions *functions; /* that are to be regions; NULL: none */
	struct entry *entry; /* the function of --start-after; NULL: none */
	/* Called for each file whose code a process has mapped; may be NULL. */
	void (*loaded)(void *files, const struct run_file *file);
	void *files;
	void *user;
};

/* The callbacks that let the drain tell the tracker of threads, modules and execs. */
struct drain_handler tracker_drain_handler(struct tracker *tracker);

/*
 * The command was forked and waits at the gate, or is a process that runs already: of several, the
 * first one is the command. Returns 0 or -ENOMEM.
 */
int tracker_add_command(struct tracker *tracker, pid_t pid, const char *path);

/* The command has exec'd: look at it while it is there. */
void tracker_command_started(struct tracker *tracker);

/* The process was added so; it runs already, and is about to say hello. */
void tracker_attached(struct tracker *tracker, pid_t pid);

/*
 * It has said hello, and nothing of it is recorded yet: blocks that were there before, as events of
 * a thread of their own. Those below the bound of the pool are counted. Or: why they are not known.
 */
struct heap_block;
void tracker_store_before(struct tracker *tracker, pid_t pid, const struct heap_block *blocks,
			  size_t n);
void tracker_lose_before(struct tracker *tracker, pid_t pid, const char *why);

/* It has been left: what is in the blocks that were live then (struct trace_content[]). */
struct trace_content;
void tracker_store_contents(struct tracker *tracker, pid_t pid, const struct trace_content *blocks,
			    size_t n, uint32_t n_th);

/* Its allocator's functions are seen through tables only. */
void tracker_lose_pointers(struct tracker *tracker, pid_t pid, const char *why);

/* So many functions that are chosen could not be changed when it was entered. */
void tracker_lose_functions(struct tracker *tracker, pid_t pid, uint64_t n);

/* A program that says hello. */
struct tracker_visit {
	struct recording_greeting greeting;
	struct ucred peer;
	struct recording_welcome welcome;
	uint64_t ticks; /* before it had its welcome */
	/*
	 * its program, opened before that, for it may exec at once; -1: none. The caller closes it
	 */
	int exe_fd;
};

/* Can it have its welcome before it is looked at? Nothing has to be asked while it waits. */
bool tracker_is_plain(const struct tracker *tracker, const struct tracker_visit *visit);

/*
 * Decide about it and fill its welcome, to be sent now or behind tracker_hello(); the pool goes
 * with it when the verdict is RECORDING_ACCEPTED. Then a slot is claimed, which is no forked
 * child's until that is called.
 */
void tracker_admit(struct tracker *tracker, struct tracker_visit *visit);

/* Open the image of a program that was admitted, and store its maps. Writes over the greeting. */
void tracker_hello(struct tracker *tracker, struct tracker_visit *visit);

/* Why a program that said hello is not traced: reasons of its loss row. */
#define TRACKER_TOO_LATE "image not traced: the recorder answered too late"
#define TRACKER_NO_ROOM	 "image not traced: no room for the shared memory"

/* A program said hello and has given up since: its image is one that is not traced. */
void tracker_unattached(struct tracker *tracker, const struct tracker_visit *visit);

/*
 * Attach the slots that forked children claimed. Task records are best read between these two. A
 * slot that is free again by then, and perhaps claimed by another child, is left to the next look.
 */
struct tracker_slots {
	uint32_t n;
	struct {
		uint32_t slot;
		uint32_t generation;
	} found[RING_MAX_PROCESSES];
};
void tracker_find_slots(struct tracker *tracker, struct tracker_slots *ret_slots);
void tracker_attach_slots(struct tracker *tracker, const struct tracker_slots *slots);

/*
 * tracker-slots.c: a slot that a forked child has claimed and nobody drains yet; how many slots
 * were ever claimed; the image that forked the child of a slot, NULL: not known; the number that we
 * know its process by, 0: it cannot be told; whether a process may be that of a slot.
 */
bool tracker_slot_is_new(const struct tracker *tracker, uint32_t slot);
uint32_t tracker_slots_used(const struct tracker *tracker);
struct image *tracker_slot_parent(struct tracker *tracker, uint32_t slot);
pid_t tracker_slot_pid(struct tracker *tracker, const struct image *parent, uint32_t slot);
bool tracker_is_plausible_fork(struct tracker *tracker, pid_t pid);

/*
 * Write what the images that live have lost so far into another trace: their own tells of it when
 * they end.
 */
void tracker_store_losses(const struct tracker *tracker, struct trace_writer *writer);

/*
 * An image that was forked ends or becomes another at ticks: if it has claimed a slot that we have
 * not seen yet, the slot is its own.
 */
void tracker_adopt_slot(struct tracker *tracker, struct image *image, uint64_t ticks);

/*
 * The image of a forked child that has claimed a slot and become the program pid, before anybody
 * told of it. NULL: no new slot is that of ns_pid (which is pid as the program sees it), or no
 * memory.
 */
struct image *tracker_adopt_forked(struct tracker *tracker, pid_t pid, pid_t ns_pid);

/* Has a process the memory of a recorded image? Then it is one, or its fork. */
bool tracker_maps_pool(struct tracker *tracker, pid_t pid);

/* A FORK, COMM or EXIT record of perf, in order of time over all CPUs; ticks is its time. */
void tracker_task(struct tracker *tracker, const struct pmu_record *record, uint64_t ticks);

/* A pidfd became readable: the process is dead. status as from wait(), or STORE_STATUS_UNKNOWN. */
void tracker_gone(struct tracker *tracker, pid_t pid, int status, uint64_t ticks);

/*
 * Look at the programs that perf has told of, but for those that have said hello since: they were
 * looked at then. Each round, behind the hellos and the task records.
 */
void tracker_look_at_new(struct tracker *tracker);

/* Recording has stopped early: what programs drop from here on is lost by that. */
void tracker_stop(struct tracker *tracker, uint64_t ticks);

/* Has an image that was attached to been left by our library, though its process lives? */
bool tracker_was_left(const struct tracker *tracker, const struct image *image);

/* Now and then: end what was found dead, decide about images that said no hello. */
void tracker_settle(struct tracker *tracker, uint64_t now_ticks);

/* Where perf tells nothing: find children that say nothing either. Ten times a second. */
void tracker_find_children(struct tracker *tracker);

/* The same by environment, for those whose parents are gone. When all that is known has ended. */
void tracker_find_strays(struct tracker *tracker, const char *socket_path);

/* End all images. */
void tracker_finish(struct tracker *tracker, uint64_t ticks);

/* For runner/tracker*.c: open an image, watched by its pidfd. NULL: no memory. */
struct image *tracker_open_image(struct tracker *tracker, pid_t pid, enum ring_birth birth,
				 uint64_t ticks);
/* Another image by exec in the same process; old ends. NULL: no memory. */
struct image *tracker_replace_image(struct tracker *tracker, struct image *old, uint64_t ticks);

/*
 * The image that was announced as a program that will say nothing has said hello: it is this one.
 * 0: none was.
 */
void tracker_know_untraced(struct tracker *tracker, struct image *image, uint32_t untraced_id);
/*
 * Look at an image that was forked. Its program is that of its parent (may be NULL: not known),
 * whatever
 * /proc says by now: it may have called exec since.
 */
void tracker_inspect_fork(struct image *image, const struct image *parent);
/* An image said hello and did not come to record: write its PROCESS record anew, and the loss. */
void tracker_note_unattached(struct tracker *tracker, struct image *image, const char *reason);

/* A static program that did not get the agent, and why. */
void tracker_note_static(struct tracker *tracker, const char *name, const char *why);
/* Write its PROCESS record if it is not written yet. */
void tracker_announce(struct tracker *tracker, struct image *image);
/* Add a process to the counts for people. */
void tracker_count(struct tracker *tracker, const struct image *image);
/* Drain, write its losses and its end, forget it. */
void tracker_end_image(struct tracker *tracker, struct image *image, int status, uint64_t ticks);
/* Let the slot be drained for image; it is traced from now on. */
void tracker_bind_slot(struct tracker *tracker, struct image *image, uint32_t slot);
/*
 * An image has said what it tries to run (last_exec): that is the name of the first program that
 * was born of it since without leaving its memory, as vfork and posix_spawn start one, unless that
 * has told its name itself.
 */
void tracker_name_spawned(struct tracker *tracker, const struct image *forker);
/* The image of a process's parent; NULL: not one of ours. */
struct image *tracker_parent(struct tracker *tracker, pid_t pid);
