#pragma once
/*
 * The loop of a recording: drains the pool and the perf rings, answers hellos, follows processes,
 * commits segments, and ends when those that it waits for have ended. One thread.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "common/clock.h"
#include "pmu/count.h"
#include "runner/attach/attacher.h"
#include "runner/control/disk-sync.h"
#include "runner/control/live-totals.h"
#include "runner/control/plan.h"
#include "runner/control/snapshot.h"
#include "runner/control/triggers.h"
#include "runner/liveness.h"
#include "runner/output.h"
#include "runner/processes/tracker.h"
#include "runner/recording.h"
#include "runner/ring/drain.h"
#include "runner/ring/pool.h"
#include "runner/run-options.h"
#include "runner/run.h"
#include "runner/sampling/sampling.h"
#include "runner/watch/entry.h"
#include "runner/watch/watch.h"
#include "trace/cut.h"
#include "trace/writer.h"

#define COLLECTOR_MAX_CONNECTIONS 64

/* Of --source pages; runner/collector-touches.c. */
struct collector_touches {
	bool is_on;
	bool has_nodes; /* of NUMA, of which this host has several */
	bool has_warned;
	uint64_t interval_ns;
	uint64_t mark_ns; /* of a page, in the program; page_touches_mark_ns() */
	uint64_t write_ns; /* of the first write to a page; page_writes_probe() */
	int writes_err; /* why writes cannot be asked for; 0: they can */
	struct page_share share; /* strict with --budget: for the first and the last one, too */
	uint32_t n_intervals;
};

#define COLLECTOR_MAX_SNAPSHOTS 4 /* under way at once */

/* What decides whether recording is on. */
enum collector_override {
	COLLECTOR_BY_PLAN,
	COLLECTOR_PAUSED, /* until somebody resumes it */
	COLLECTOR_RESUMED, /* until the plan begins a window */
};

/* Windows, and what others have asked for; runner/collector-control.c. */
struct collector_control {
	struct window_plan plan;
	enum collector_override override;
	bool is_on; /* recording, as far as that is ours to say */
	bool awaits_start; /* --start-after */
	bool said_start; /* what is wrong with its function, so far */
	bool said_refused; /* that its code may not be changed */
	struct entry entry; /* its function */
	bool has_start; /* the plan counts from: */
	struct window_times start; /* what the clocks showed then; real: CLOCK_MONOTONIC */
	struct window_times now; /* and at the last look */
	uint64_t next_ns; /* CLOCK_MONOTONIC: the plan is to be asked again */
	uint64_t until_ns; /* likewise: the end of a window that a trigger has begun; 0: none */
	uint64_t n_begun; /* windows of the plan */
	uint32_t window; /* the last one that began; 0: none, and it was never off */
	uint64_t window_ticks; /* its begin */
	char cause[96];
	int notify_fd; /* an eventfd: a snapshot is done; -1: none was asked for yet */
	struct snapshot *snapshots[COLLECTOR_MAX_SNAPSHOTS];
	uint32_t n_snapshots; /* that were ever begun */
};

/* --trigger and --on-trigger; runner/collector-triggers.c. */
struct collector_triggers {
	struct triggers list;
	uint64_t next_ns; /* CLOCK_MONOTONIC: when they are looked at again */
	uint64_t cooldown_ns;
	uint64_t limit_bytes; /* of the program's memory; 0: not asked for yet */
	pid_t command_pid; /* of --on-trigger; 0: none runs */
	struct trigger_call {
		char fired[64]; /* the condition */
		char *snapshot; /* NULL: none */
	} calls[TRIGGERS_MAX]; /* that wait for the command to end, the oldest first */
	size_t n_calls;
	uint64_t n_oom_kills; /* of the kernel, when recording began */
};

/* --dump-signal; runner/collector-dump.c. */
struct collector_dump {
	int number; /* of the signal; 0: none was asked for */
	uint32_t n_answered; /* signals, by n_snapshots and the one that waits */
	uint32_t n_snapshots;
	uint64_t next_ns; /* CLOCK_MONOTONIC: the next look at what programs make of it */
	bool said_in_use;
	bool said_blocked;
};

/* --last; runner/collector-last.c. */
struct collector_last {
	bool is_on;
	uint64_t span_ns; /* that is kept; 0: by its size */
	uint64_t span_bytes;
	uint64_t most_bytes; /* of it, since the disk was full; 0: any number */
	uint64_t disk_bytes; /* that the trace could take in all, when no cut did */
	uint64_t cut_ticks; /* the trace begins there */
	uint64_t base_bytes; /* of it, for what lived then */
	uint64_t n_dropped; /* events before it */
	uint64_t retry_ns; /* CLOCK_MONOTONIC: no cut before */
	bool has_failed; /* the last one has, and that is said */
	bool said_small; /* the disk is */
	uint32_t n_full; /* that failed for want of room, since one went well */
	bool is_full; /* one has; or the trace has no room */
	/* While there is no room drain.net points to it: a gap, but for what lives. */
	struct event_net net;
	uint64_t gap_begin_ticks; /* of the last gap; 0: there was none */
	uint64_t gap_end_ticks;
	bool is_ending; /* nothing more will come */
	uint64_t room_ns; /* of span_ns: so much the disk had room for; 0: for all */
	bool has_saved; /* a segment, since the disk was asked to keep it */
	bool has_sync;
	struct disk_sync sync;
	/* The cut that is under way: */
	bool is_running;
	_Atomic bool is_done;
	_Atomic uint64_t committed_bytes; /* of the trace so far */
	pthread_t thread;
	struct trace_writer_cut cut;
	struct trace_commit commit;
	const char *span;
	int source_fd; /* the trace */
	int fd; /* what takes its place */
	char path[PATH_MAX];
	bool is_named; /* path is there */
	uint64_t copied; /* up to this place of the trace */
	struct trace_cut_result result;
	int error;
};

/* --sample-bytes with --budget; runner/collector-picks.c. */
struct collector_picks {
	uint32_t budget_ppm; /* of the program's CPU time; 0: none */
	uint32_t shift; /* the interval is sample_bytes << shift now */
	uint64_t n_changes;
	uint64_t next_ns; /* CLOCK_MONOTONIC: the next look */
	double program_ns; /* CPU time since the last change was thought of, ... */
	double cost_ns; /* ... and that of picks */
	double all_program_ns;
	double all_cost_ns;
};

struct collector {
	/* The caller's: */
	const struct run_options *options;
	const struct run_observer *observer;
	struct pool *pool;
	struct recording *recording;
	struct output *output;
	struct trace_writer *writer;
	const char *program; /* path of the command */
	pid_t command_pid;
	struct attached *attached; /* instead of a command; command_pid is that of the first one */
	size_t n_attached;

	/* Ours: */
	struct drain drain;
	struct tracker tracker;
	struct samples samples;
	struct pmu_counters counters;
	struct watches watches;
	struct pulse pulse;
	const struct side_process *helper; /* for static programs */
	struct collector_control control;
	struct live_totals *totals; /* NULL: nobody asks */
	struct collector_triggers triggers;
	struct collector_dump dump;
	struct collector_last last;
	struct collector_picks picks;
	uint64_t *n_trips; /* of functions that are only counted, as they are in the trace */
	enum ring_clock clock;
	struct clock_pair first_pair;
	struct clock_pair last_pair;
	uint64_t ticks_per_second;
	int epoll_fd;
	int signal_fd;
	int connections[COLLECTOR_MAX_CONNECTIONS]; /* accepted, their hello not read yet */
	uint64_t connection_ends_ns[COLLECTOR_MAX_CONNECTIONS];
	size_t n_connections;
	uint64_t now_ns; /* CLOCK_MONOTONIC of this round */
	uint64_t interval_ns;
	unsigned lanes_wanted; /* threads that drain; 0: as CPUs are idle */
	unsigned n_lanes; /* that there may be in a round */
	unsigned n_behind; /* rounds in a row that left something, or had several lanes */
	uint32_t round_chunks; /* that the last round was allowed to read */
	uint64_t next_second_ns;
	uint64_t next_progress_ns; /* 0: nothing was said yet */
	uint64_t said_ns; /* CLOCK_MONOTONIC */
	uint64_t said_bytes;
	uint64_t next_commit_ns;
	uint64_t commit_interval_ns;
	uint64_t next_sample_ns;
	int64_t pages_ns; /* collector_pages_interval() */
	uint64_t next_pages_ns;
	uint32_t n_pages; /* snapshots so far */
	bool said_pages; /* that they may not be looked at */
	struct collector_touches touches;
	uint64_t last_round_ns;
	uint64_t committed_ns;
	uint64_t committed_ticks;
	int wait_status; /* of the command */
	bool command_has_ended;
	struct rusage usage;
	uint64_t command_begin_ns; /* CLOCK_MONOTONIC: let go; 0: not yet */
	uint64_t command_end_ns;
	uint64_t leave_ns; /* CLOCK_MONOTONIC: then the attached are left; 0: not by themselves */
	bool wants_to_leave; /* somebody does: a signal */
	bool has_left;
	bool was_let_go;
	unsigned n_interrupts;
	uint64_t interrupted_ns;
	bool said_interrupt;
	bool said_waiting;
	uint64_t most_bytes; /* that the file may have; 0: as many as the disk takes */
	const char *most_reason;
	uint64_t
		room_bytes; /* that it may still take, as of the last look; UINT64_MAX: not known */
	const char *room_reason; /* why recording stops at the end of it */
	uint64_t retry_ns; /* the disk had no room: when it is asked again; 0: it had */
	uint64_t retry_wait_ns; /* the back-off; 0: nothing waits */
	uint64_t n_dropped; /* events and samples that are told as not written */
	uint64_t stopped_ticks; /* recording has stopped early; 0: it goes on */
	char stop_reason[64];
};

/*
 * Set up everything but the sources; the caller's fields are filled in. ticks_per_second is the
 * nominal rate. Returns 0 or a negative errno. End with collector_finish() in any case.
 */
int collector_init(struct collector *collector, const struct clock_pair *first_pair,
		   uint64_t ticks_per_second, int signal_fd);

/* Collect until the end. Returns 0 or a negative errno; the trace is still to be finished. */
int collector_run(struct collector *collector);

/*
 * End all images, write what is only known at the end, and finish the trace. Returns 0 or a
 * negative errno of the writer: the trace then ends early.
 */
int collector_end(struct collector *collector);

/* Free all. Safe on a zeroed struct and twice. */
void collector_finish(struct collector *collector);

/* For runner/collector*.c. Commit what is safe; returns 0 or a negative errno. */
int collector_commit(struct collector *collector);
/* A time in ticks, as a commit tells it. */
struct trace_commit collector_commit_at(const struct collector *collector, uint64_t ticks);
/* Record nothing more from here on; the program goes on. */
void collector_stop(struct collector *collector, const char *reason);
/* Collect until a file can be read; sources are not committed meanwhile. 0 or a negative errno. */
int collector_run_until(struct collector *collector, int fd);
/*
 * collector-attach.c: all were entered; hear what the attachers say from now on. 0 or a negative
 * errno.
 */
int collector_watch_attachers(struct collector *collector);
/* It says something. */
void collector_hear_attacher(struct collector *collector, size_t i);
/*
 * One of the attached that has ended, or was left, since the last call; 0: none. Asks for leaving
 * when it is time, or somebody wants it.
 */
pid_t collector_next_ended(struct collector *collector);
/* Is one of them still recorded? If not, notes whether one runs on, with another program. */
bool collector_is_attached(struct collector *collector);
/* Read all sources once. Returns the 32-byte slots consumed, or a negative errno. */
int64_t collector_round(struct collector *collector);
/* Limit the file by --max-size and by the limit of the process (0: none). Once, before the run. */
void collector_limit_room(struct collector *collector, uint64_t file_limit_bytes);
/* collector-say.c: how far it is, when it is time for that. */
void collector_tick_progress(struct collector *collector);
/* See how much room there is now. */
void collector_look_at_room(struct collector *collector);
/* Of raw bytes: a segment is written when so many wait. */
uint64_t collector_segment_bytes(const struct collector *collector);
/* Commit when the rest of the room could be full; stop when it is. 0 or a negative errno. */
int collector_check_room(struct collector *collector);
/* --last: does the trace, with so many raw bytes that wait, leave the room that a cut needs? */
bool collector_has_disk_for(const struct collector *collector, uint64_t waiting_bytes);
/* Between rounds of --last: is there to be a gap, since there is no room? */
void collector_tick_gap(struct collector *collector);
/* Let as many threads read the pool as are wanted, or as CPUs are idle now. */
void collector_use_lanes(struct collector *collector);
/* After a round, that left something or not: more threads where one cannot keep up. */
void collector_adapt_lanes(struct collector *collector, bool is_behind);
/* How many chunks a round may read so that the room is enough for them; at least 1. */
uint32_t collector_max_chunks(const struct collector *collector, uint32_t most);
/* A signal came in. */
void collector_take_signals(struct collector *collector);
/* Accept connections, answer hellos. */
void collector_take_connections(struct collector *collector);
/* What an event of epoll is about: its tag tells, with a pid or the like in the lower half. */
enum collector_tag {
	COLLECTOR_SIGNAL,
	COLLECTOR_CONNECTION, /* sockets: listening, or with a hello to come */
	COLLECTOR_PROCESS,
	COLLECTOR_RING,
	COLLECTOR_WAITING,
	COLLECTOR_ATTACHER,
	COLLECTOR_SNAPSHOT,
};
static inline uint64_t collector_tag(enum collector_tag tag, uint32_t value)
{
	return (uint64_t)tag << 32 | value;
}
/*
 * collector-pages.c. So often pages are looked at (options.pages) beside peaks and ends, in ns; 0:
 * only then, INT64_MAX: never. -EINVAL: it is no such text.
 */
int64_t collector_pages_interval(const struct run_options *options);
/* A process ends and waits for us: look at its pages, and let it go. */
void collector_take_leaving(struct collector *collector);
/* So much of a process is resident: look at its pages when it is a peak. */
void collector_saw_resident(struct collector *collector, struct image *image, uint64_t bytes);
/* Look at all of them now. -ENOTSUP: --pages is off. */
int collector_look_at_pages(struct collector *collector);
/* Look at all processes whose turn it is (--pages). */
void collector_tick_pages(struct collector *collector);
/* collector-touches.c. The sources are open: --source pages is one of them, or not. */
void collector_begin_touches(struct collector *collector);
/* A program is to open a userfaultfd of its own: what it has lent is closed. */
void collector_give_back(struct collector *collector, struct ring_process *process,
			 struct image *image);
/* Intervals of touches whose time has come end, and the next ones begin. */
void collector_tick_touches(struct collector *collector);
/* Those that have begun end now, whatever the budget says, and the next ones begin. */
void collector_look_at_touches(struct collector *collector);
/* A process ends and waits for us: so does its interval. */
void collector_end_touches(struct collector *collector, struct image *image);
/* An image ends: count the time for which the budget has allowed no interval. */
void collector_forget_touches(struct collector *collector, struct image *image);
/*
 * collector-control.c. Read --windows and --start-after: 0, or -EINVAL with one line in message;
 * ret_plan may be NULL.
 */
int collector_control_check(const struct run_options *options, struct window_plan *ret_plan,
			    char *message, size_t n_bytes);
/* Before any program starts: it begins paused where it is to. */
void collector_begin_control(struct collector *collector);
/* Recording begins, or a round is over: what is due is done. */
void collector_tick_control(struct collector *collector);
/* Most ns until the next tick. */
uint64_t collector_control_wait(const struct collector *collector);
/* Recording ends: so does its window. */
void collector_end_control(struct collector *collector);
/* Record for so long, unless somebody has paused or resumed it. */
void collector_begin_window(struct collector *collector, const char *cause, uint64_t length_ns);
/* A mark of the run, without a thread. */
void collector_set_mark(struct collector *collector, const char *text);
/*
 * collector-snapshot.c. Ask for a snapshot of all that is stamped up to now. asked is copied;
 * asked->answer() is called when it is written, or could not be; at once, where it cannot begin.
 */
void collector_ask_snapshot(struct collector *collector, const struct snapshot *asked);
/* Can one more be asked for now, and does none of those wait that are answered like that? */
bool collector_may_ask_snapshot(const struct collector *collector, snapshot_answer *answer);
/* A round is over: those that wait begin, those that are written are answered. */
void collector_tick_snapshots(struct collector *collector);
/* The last round is over: write what waits, and wait for all. */
void collector_settle_snapshots(struct collector *collector);
/* While recording is on: the next window begins now. */
void collector_turn_window(struct collector *collector, uint64_t ticks, const char *cause);
/*
 * collector-triggers.c. Read --trigger and --on-trigger: 0, or -EINVAL with one line in message.
 */
int collector_triggers_check(const struct run_options *options, struct triggers *ret_triggers,
			     char message[TRIGGER_MESSAGE]);
/* Before anything is drained: live totals begin where somebody asks. 0 or -ENOMEM. */
int collector_begin_totals(struct collector *collector);
/* A round is over: totals and conditions are looked at where it is time. */
void collector_tick_totals(struct collector *collector);
/* The program has ended: conditions of that. */
void collector_end_triggers(struct collector *collector);
/* The trace has its name: commands that wait are run, one after the other, and waited for. */
void collector_end_commands(struct collector *collector);
/*
 * collector-dump.c. Read --dump-signal: 0, or -EINVAL with one line in message.
 */
int collector_dump_check(const struct run_options *options, char *message, size_t n_bytes);
/* Before any program starts; a round is over; recording ends. */
void collector_begin_dump(struct collector *collector);
void collector_tick_dump(struct collector *collector);
void collector_end_dump(struct collector *collector);
/*
 * collector-last.c. Read --last: 0, or -EINVAL with one line in message.
 */
int collector_last_check(const struct run_options *options, char *message, size_t n_bytes);
/* The trace begins: from here on only its end is kept, where that is asked for. */
void collector_begin_last(struct collector *collector);
/* After a commit, or in between: what is too old is cut off, in a thread. */
void collector_tick_last(struct collector *collector);
/* The end: what waits for room gets it. */
void collector_settle_last(struct collector *collector);
/* All is committed: cut off what is too old. */
void collector_end_last(struct collector *collector);
/* collector-control.c. The trace begins at ticks now; where it has no windows that is the first. */
void collector_number_cut(struct collector *collector, uint64_t ticks, bool has_windows);
/*
 * collector-picks.c. What --sample-bytes or --usdt cannot be used with: -EINVAL with one line in
 * message.
 */
int collector_picks_check(const struct run_options *options, char *message, size_t n_bytes);
/* Before the first round; a round is over; recording ends. */
void collector_begin_picks(struct collector *collector);
void collector_tick_picks(struct collector *collector);
void collector_end_picks(struct collector *collector);
/*
 * collector-settings.c. What `memsight ctl set' asks for: KEY=VALUE. The answer says what was, and
 * is to be a mark.
 */
void collector_set(struct collector *collector, const char *text, struct control_reply *answer);
/*
 * A connection says something to the recorder. -ENOMSG: it is a program; -EAGAIN: nothing yet; else
 * it is done with.
 */
int collector_take_request(struct collector *collector, int fd);
/* What is committed stays in the file: whoever follows it may read so far. */
void collector_tell_growth(const struct collector *collector);
/* Say one line to a person. */
__attribute__((format(printf, 2, 3))) void collector_warn(struct collector *collector,
							  const char *format, ...);
struct control_reply;
/* Make an answer one that says why not. */
__attribute__((format(printf, 3, 4))) void collector_refuse(struct control_reply *answer, int err,
							    const char *format, ...);
/*
 * Count that the pages of an image are not known from here on, and tell a person once (*is_said):
 * about, then the loss's reason.
 */
void collector_refuse_pages(struct collector *collector, const struct image *image,
			    const char *about, const char *reason, bool *is_said);

/* The command is let go now. */
void collector_mark_begin(struct collector *collector);

/* From there to the command's end; 0 while it runs. */
uint64_t collector_wall_ns(const struct collector *collector);
