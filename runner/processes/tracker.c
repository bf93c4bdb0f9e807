#include "runner/processes/tracker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/text.h"
#include "runner/processes/image-proc.h"
#include "runner/trace-records-write.h"

/* A hello comes within milliseconds of the start of its image; loaders can be slow before. */
#define HELLO_PATIENCE_NS UINT64_C(1000000000)

static void watch(struct tracker *tracker, struct image *image)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (image->pid <= 0)
		return;
	image->pidfd = (int)syscall(SYS_pidfd_open, image->pid, 0);
	if (image->pidfd < 0) {
		image->is_gone = errno == ESRCH;
		return;
	}
	event.data.u64 = tracker->epoll_tag | (uint32_t)image->pid;
	epoll_ctl(tracker->epoll_fd, EPOLL_CTL_ADD, image->pidfd, &event);
}

static struct image *add_image(struct tracker *tracker, pid_t pid, enum ring_birth birth,
			       uint64_t ticks)
{
	struct image *image = images_add(&tracker->images, pid);

	if (!image)
		return NULL;
	image->birth = birth;
	image->start_ticks = ticks;
	image->decide_after_ns =
		clock_ns(CLOCK_MONOTONIC) + (tracker->no_alloc ? 0 : HELLO_PATIENCE_NS);
	return image;
}

struct image *tracker_open_image(struct tracker *tracker, pid_t pid, enum ring_birth birth,
				 uint64_t ticks)
{
	struct image *image = add_image(tracker, pid, birth, ticks);

	if (image)
		watch(tracker, image);
	return image;
}

static bool is_dead(const struct image *image)
{
	struct pollfd poll_fd = { .fd = image->pidfd, .events = POLLIN };

	if (image->is_gone)
		return true;
	if (image->pidfd >= 0)
		return poll(&poll_fd, 1, 0) > 0;
	if (image->pid <= 0)
		return false;
	return kill(image->pid, 0) < 0 && errno == ESRCH;
}

void tracker_know_untraced(struct tracker *tracker, struct image *image, uint32_t untraced_id)
{
	if (!untraced_id)
		return;
	image->id = untraced_id;
	tracker->n_processes--;
	tracker->n_why_not[TRACE_NOT_STATIC]--;
}

struct image *tracker_replace_image(struct tracker *tracker, struct image *old, uint64_t ticks)
{
	uint32_t parent_id = old->id, exec_seq = old->exec_seq + 1;
	uint32_t forker_id = old->birth == RING_BIRTH_FORK ? old->parent_id : 0;
	pid_t pid = old->pid;
	/*
	 * While the process lives its end is waited for by the same pidfd; else another has its
	 * number.
	 */
	auto_close int pidfd = is_dead(old) ? -1 : steal_fd(&old->pidfd);

	tracker->last_exec[0] = '\0';
	tracker_end_image(tracker, old, STORE_STATUS_REPLACED, ticks);
	struct image *image = add_image(tracker, pid, RING_BIRTH_EXEC, ticks);
	if (!image)
		return NULL;
	image->pidfd = steal_fd(&pidfd);
	if (image->pidfd < 0)
		watch(tracker, image);
	/* What the old image said that it would run; /proc tells better, if it can be asked. */
	memcpy(image->exe, tracker->last_exec, sizeof(image->exe));
	image->is_exe_guessed = true;
	tracker_know_untraced(tracker, image, tracker->last_untraced_id);
	image->parent_id = parent_id;
	image->exec_seq = exec_seq;
	image->forker_id = forker_id;
	return image;
}

void tracker_inspect_fork(struct image *image, const struct image *parent)
{
	/* What its parent was asked for need not be asked again: this is done for each fork. */
	if (image->is_traced && parent && parent->exe[0] && parent->command_bytes)
		image_inspect_number(image);
	else
		image_inspect(image);
	if (!parent || !parent->exe[0])
		return;
	image->rank = parent->rank;
	memcpy(image->exe, parent->exe, sizeof(image->exe));
	char *command = parent->command_bytes ? malloc(parent->command_bytes) : NULL;
	if (!command)
		return;
	memcpy(command, parent->command, parent->command_bytes);
	free(image->command);
	image->command = command;
	image->command_bytes = parent->command_bytes;
}

/* From here on the image stands in the trace as it is: the last chance to find out. */
static int why_not_traced(const struct tracker *tracker, const struct image *image)
{
	int why_not = image->why_not;

	if (tracker->no_alloc || (tracker->no_follow && !image->is_wanted))
		return TRACE_NOT_FOLLOWED;
	/* It may have been gone, or another user's, when it was looked at: its file still tells. */
	if ((why_not == 0 || why_not == TRACE_NOT_ATTACHED) && image->exe[0])
		why_not = image_command_why_not(image->exe);
	return why_not ? why_not : TRACE_NOT_ATTACHED;
}

/* A person thinks of processes: each counts once, as what it was at its end. */
void tracker_count(struct tracker *tracker, const struct image *image)
{
	tracker->n_processes++;
	if (image->is_traced) {
		tracker->n_traced++;
		return;
	}
	tracker->n_why_not[image->why_not]++;
	snprintf(tracker->why_not_example[image->why_not], sizeof(tracker->why_not_example[0]),
		 "%.63s", text_base_name(image->exe));
}

void tracker_announce(struct tracker *tracker, struct image *image)
{
	if (image->is_written)
		return;
	if (!image->is_traced)
		image->why_not = why_not_traced(tracker, image);
	/*
	 * Neither it nor who started it, nor /proc while it was there, told what it was: no folder.
	 */
	if (!image->exe[0])
		snprintf(image->exe, sizeof(image->exe), "%s", image->comm);
	image->is_written = true;
	store_process(tracker->writer, image);
	if (image->rank == IMAGE_RANK_UNKNOWN)
		image->rank = image_process_rank(image->pid);
	if (image->rank >= 0)
		store_rank(tracker->writer, image->id, (uint32_t)image->rank);
}

static void store_drain_losses(struct tracker *tracker, const struct image *image,
			       const struct drain_losses *losses)
{
	const struct store_loss all[] = {
		{ .count = losses->n_damaged, .source = "collector", .reason = "damaged ring" },
		{ .count = losses->n_in_flight,
		  .source = "tracealloc",
		  .reason = "cut off by the end" },
		{ .count = losses->n_restamped,
		  .source = "collector",
		  .reason = "implausible stamp" },
		{ .count = losses->n_late_forks,
		  .source = "collector",
		  .reason = "fork reported too late: its child's first blocks are not exact" },
		{ .count = losses->n_refused,
		  .source = "collector",
		  .reason = "recording stopped" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct store_loss loss = all[i];

		loss.process_id = image->id;
		store_loss(tracker->writer, &loss);
	}
	tracker->n_losses += losses->n_damaged + losses->n_refused;
}

/* Of --source signal. */
static void store_signal_losses(struct tracker *tracker, const struct image *image,
				struct ring_process *slot)
{
	uint64_t n_lost = atomic_load(&slot->n_lost_samples);
	uint32_t stop = atomic_load(&slot->signal_stop);
	bool has_stopped = stop == RING_SIGNAL_IN_USE;
	const struct store_loss all[] = {
		{ .count = n_lost, .reason = "no room in the chunk of the thread" },
		{ .count = atomic_load(&slot->n_unsampled_threads),
		  .reason = "threads without a timer (limit of pending signals, ulimit -i)" },
		{ .count = atomic_load(&slot->blocked_ns) / 1000000,
		  .reason = "ms of CPU time with the signal blocked by the program, or its "
			    "alternate stack too small" },
		{ .count = has_stopped,
		  .reason = "stopped: the program uses the signal (SIGRTMAX-3) itself" },
		{ .count = stop == RING_SIGNAL_FORBIDDEN,
		  .reason = "stopped: a seccomp filter forbids the return from signals" },
		{ .count = stop == RING_SIGNAL_HIDDEN,
		  .reason = "static programs without names: where they set signals is not known, "
			    "so they are not sampled" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct store_loss loss = all[i];

		loss.process_id = image->id;
		loss.source = "signal";
		store_loss(tracker->writer, &loss);
	}
	tracker->n_losses += n_lost;
	tracker->n_signal_stops += has_stopped;
	tracker->n_signal_hidden += stop == RING_SIGNAL_HIDDEN;
	tracker->n_dump_hidden += atomic_load(&slot->dump) == RING_DUMP_HIDDEN;
}

void tracker_stop(struct tracker *tracker, uint64_t ticks)
{
	tracker->stopped_ticks = ticks;
	for (struct image *image = tracker->images.first; image; image = image->next) {
		if (image->slot != IMAGE_NO_SLOT)
			image->n_dropped_before =
				atomic_load(&tracker->pool->processes[image->slot].n_dropped);
	}
}

/* Among the losses of a slot, the one that costs no event. */
#define CUT_STACKS 4

/* What of a slot is no loss. */
static void store_slot_counters(struct tracker *tracker, const struct image *image,
				struct ring_process *slot)
{
	uint64_t n_waits = atomic_load(&slot->n_waits), wait_ns;
	uint64_t n_below_min = atomic_load(&slot->n_below_min);
	uint64_t n_displaced = atomic_load(&slot->n_displaced_nodes);

	tracker->n_below_min += n_below_min;
	if (n_below_min)
		store_counter(tracker->writer, image->id, "blocks below --min-size", "blocks",
			      n_below_min);
	if (n_displaced)
		store_counter(tracker->writer, image->id, "stack nodes displaced", "nodes",
			      n_displaced);
	if (n_waits == 0)
		return;
	wait_ns = (uint64_t)((double)atomic_load(&slot->wait_ticks) * 1e9 /
			     (double)tracker->ticks_per_second);
	tracker->wait_ns += wait_ns;
	store_counter(tracker->writer, image->id, "tracealloc waits", "waits", n_waits);
	store_counter(tracker->writer, image->id, "tracealloc wait time", "ns", wait_ns);
}

/* The counters of the slot are the program's own words. */
static void store_slot_losses(struct tracker *tracker, const struct image *image)
{
	struct ring_process *slot = &tracker->pool->processes[image->slot];
	uint64_t n_dropped = atomic_load(&slot->n_dropped);
	uint64_t n_before = tracker->stopped_ticks ? image->n_dropped_before : n_dropped;
	const struct store_loss all[] = {
		{ .count = n_before,
		  .reason = "pool full",
		  .from_ticks = atomic_load(&slot->first_drop_ticks),
		  .to_ticks = tracker->stopped_ticks ? tracker->stopped_ticks
						     : atomic_load(&slot->last_drop_ticks) },
		{ .count = n_dropped > n_before ? n_dropped - n_before : 0,
		  .reason = "recording stopped",
		  .from_ticks = tracker->stopped_ticks,
		  .to_ticks = atomic_load(&slot->last_drop_ticks) },
		{ .count = atomic_load(&slot->n_nested), .reason = "nested in a full chunk" },
		{ .count = atomic_load(&slot->n_late), .reason = "thread or process ending" },
		[CUT_STACKS] = { .count = atomic_load(&slot->n_truncated_stacks),
				 .reason = "stack cut short" },
		{ .count = atomic_load(&slot->n_unseen_libraries),
		  .reason = "libraries of another namespace (dlmopen, LD_AUDIT) or "
			    "allocator, whose blocks are not seen" },
		{ .count = atomic_load(&slot->n_sealed),
		  .reason = "strict seccomp: no time can be asked for" },
		{ .count = atomic_load(&slot->n_late_libraries),
		  .reason = "libraries loaded since the attach: what their first code "
			    "allocated is not seen" },
		{ .count = atomic_load(&slot->n_functions_refused),
		  .reason = "functions left as they were (their code differs or may not be "
			    "changed, shadow stacks, threads): --function-method uprobe needs no "
			    "change" },
		{ .count = atomic_load(&slot->n_calls_unseen),
		  .reason = "calls of functions from too many places" },
		{ .count = atomic_load(&slot->n_not_followed),
		  .reason = "programs started behind a seccomp filter that would kill us" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct store_loss loss = all[i];

		loss.process_id = image->id;
		loss.source = "tracealloc";
		store_loss(tracker->writer, &loss);
	}
	store_signal_losses(tracker, image, slot);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		tracker->n_losses += i == CUT_STACKS ? 0 : all[i].count;
	store_slot_counters(tracker, image, slot);
}

void tracker_store_losses(const struct tracker *tracker, struct trace_writer *writer)
{
	struct tracker copy = *tracker; /* their own counts are made at their ends */

	copy.writer = writer;
	for (const struct image *image = tracker->images.first; image; image = image->next) {
		if (image->slot != IMAGE_NO_SLOT && image->is_written) {
			store_slot_losses(&copy, image);
			store_drain_losses(&copy, image,
					   &tracker->drain->slots[image->slot].losses);
		}
	}
}

/* The next program that claims the slot counts from zero. */
static void clear_slot(struct ring_process *slot)
{
	memset((uint8_t *)slot + offsetof(struct ring_process, pid), 0,
	       sizeof(*slot) - offsetof(struct ring_process, pid));
}

void tracker_note_unattached(struct tracker *tracker, struct image *image, const char *reason)
{
	struct store_loss loss = {
		.count = 1, .process_id = image->id, .source = "tracealloc", .reason = reason
	};

	image->is_traced = false;
	image->is_written = false;
	image->why_not = TRACE_NOT_ATTACHED;
	tracker_announce(tracker, image);
	store_loss(tracker->writer, &loss);
	tracker->n_losses++;
}

void tracker_note_static(struct tracker *tracker, const char *name, const char *why)
{
	char reason[1024];
	const struct store_loss loss = { .count = 1, .source = "tracealloc", .reason = reason };

	snprintf(reason, sizeof(reason), "%s is linked statically, and not recorded: %s", name,
		 why);
	store_loss(tracker->writer, &loss);
	tracker->n_losses++;
}

bool tracker_was_left(const struct tracker *tracker, const struct image *image)
{
	/* Pairs with the library's store: all that it wrote is there. */
	return image->slot != IMAGE_NO_SLOT &&
	       atomic_load_explicit(&tracker->pool->processes[image->slot].state,
				    memory_order_acquire) == RING_PROCESS_ENDED;
}

static bool has_attached(const struct tracker *tracker, const struct image *image)
{
	_Atomic uint32_t *state = &tracker->pool->processes[image->slot].state;

	return atomic_load(state) != RING_PROCESS_CLAIMED;
}

void tracker_end_image(struct tracker *tracker, struct image *image, int status, uint64_t ticks)
{
	struct drain_losses losses;

	tracker_adopt_slot(tracker, image, ticks);
	tracker_announce(tracker, image);
	if (image->slot != IMAGE_NO_SLOT) {
		if (!has_attached(tracker, image))
			tracker_note_unattached(tracker, image, TRACKER_NO_ROOM);
		store_slot_losses(tracker, image);
		if (status == STORE_STATUS_REPLACED || is_dead(image) ||
		    tracker_was_left(tracker, image)) {
			clear_slot(&tracker->pool->processes[image->slot]);
			drain_detach(tracker->drain, image->slot, &losses);
		} else {
			drain_abandon(tracker->drain, image->slot, &losses);
			ticks = clock_ticks(tracker->clock); /* it has gone on until then */
		}
		store_drain_losses(tracker, image, &losses);
	}
	store_process_end(tracker->writer, image->id, status, ticks);
	if (status != STORE_STATUS_REPLACED && !image->is_counted)
		tracker_count(tracker, image);
	tracker->last_untraced_id = image->untraced_id;
	if (image->last_exec)
		snprintf(tracker->last_exec, sizeof(tracker->last_exec), "%s", image->last_exec);
	if (tracker->forget)
		tracker->forget(tracker->user, image->id);
	images_remove(&tracker->images, image);
}

int tracker_add_command(struct tracker *tracker, pid_t pid, const char *path)
{
	uint64_t ticks = clock_ticks(tracker->clock);
	struct image *image = tracker_open_image(tracker, pid, RING_BIRTH_EXEC, ticks);

	if (!image)
		return -ENOMEM;
	image->is_wanted = true;
	image->awaits_exec_record = true;
	image->decide_after_ns =
		clock_ns(CLOCK_MONOTONIC) + HELLO_PATIENCE_NS; /* it is let go first */
	snprintf(image->exe, sizeof(image->exe), "%s", path);
	image->is_exe_guessed = true; /* a script is run by another program */
	if (tracker->command_id == 0) {
		tracker->command_id = image->id;
		tracker->command_pid = pid;
	}
	return 0;
}

void tracker_command_started(struct tracker *tracker)
{
	struct image *image = images_find_id(&tracker->images, tracker->command_id);

	if (!image)
		return;
	image_inspect(image);
	/*
	 * No hello will come to be waited for; who owns what the first samples touch is told by
	 * this record.
	 */
	if (tracker->no_alloc)
		tracker_announce(tracker, image);
}

void tracker_attached(struct tracker *tracker, pid_t pid)
{
	struct image *image = images_find(&tracker->images, pid);

	if (!image)
		return;
	image->awaits_exec_record = false;
	image->is_exe_guessed = false;
	image_inspect(image);
}

void tracker_gone(struct tracker *tracker, pid_t pid, int status, uint64_t ticks)
{
	struct image *image = images_find(&tracker->images, pid);

	if (!image)
		return;
	if (status == STORE_STATUS_UNKNOWN)
		status = image_end_status(image);
	tracker_end_image(tracker, image, status, ticks);
}

void tracker_look_at_new(struct tracker *tracker)
{
	if (!tracker->has_new)
		return;
	tracker->has_new = false;
	for (struct image *image = tracker->images.first; image; image = image->next) {
		if (image->is_new && !image->is_traced)
			image_inspect(image);
		image->is_new = false;
	}
}

void tracker_settle(struct tracker *tracker, uint64_t now_ticks)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	struct image *next;

	for (struct image *image = tracker->images.first; image; image = next) {
		next = image->next;
		if (image->is_gone || (image->pidfd < 0 && is_dead(image))) {
			tracker_end_image(tracker, image, STORE_STATUS_UNKNOWN,
					  image->gone_ticks ? image->gone_ticks : now_ticks);
		} else if (!image->is_written && now_ns > image->decide_after_ns) {
			if (!image->is_traced)
				image_inspect(image);
			tracker_announce(tracker, image);
		} else if (!image->is_written && !image->exe[0]) {
			image_inspect(image); /* its arguments were not in place yet */
		}
	}
}

void tracker_finish(struct tracker *tracker, uint64_t ticks)
{
	while (tracker->images.first)
		tracker_end_image(tracker, tracker->images.first, STORE_STATUS_UNKNOWN, ticks);
}
