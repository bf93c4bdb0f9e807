/*
 * Snapshots of a recording, whoever asks: `memsight ctl', --trigger or --dump-signal. One waits
 * until all that was stamped before it was asked for is drained; then it is written.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "runner/collector.h"
#include "runner/trace-records-write.h"
#include "schemas/control.h"

/* A thread may be stopped in the middle of an event for as long as somebody likes. */
#define PATIENCE_NS UINT64_C(2000000000)

static void refuse_snapshot(struct control_reply *answer, int err, const char *path)
{
	if (err == -EEXIST)
		collector_refuse(answer, err, "%.300s is there already (--force overwrites it)",
				 path);
	else if (err == -EBUSY)
		collector_refuse(answer, err,
				 "%.300s" SNAPSHOT_SUFFIX " is there already: another "
				 "snapshot writes it, or one that was killed left it",
				 path);
	else if (err == -ENOTSUP)
		collector_refuse(answer, err, "%.300s is no regular file", path);
	else
		collector_refuse(answer, err, "cannot write the snapshot %.300s: %s", path,
				 strerror(-err));
}

static int open_notify(struct collector *collector)
{
	struct epoll_event event = { .events = EPOLLIN,
				     .data.u64 = collector_tag(COLLECTOR_SNAPSHOT, 0) };
	auto_close int fd = -1;

	if (collector->control.notify_fd >= 0)
		return 0;
	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0 || epoll_ctl(collector->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return -errno;
	collector->control.notify_fd = steal_fd(&fd);
	return 0;
}

/* What of the recording a trace tells at its end, as far as it is known. */
static int write_end(struct collector *collector, struct trace_writer *branch)
{
	struct samples samples = collector->samples;
	uint64_t ticks = collector->committed_ticks;
	struct trace_commit commit = collector_commit_at(collector, ticks);
	struct collector_control *control = &collector->control;
	char number[16];

	snprintf(number, sizeof(number), "%u", ++control->n_snapshots);
	samples.writer = branch;
	store_fact(branch, "memsight.snapshot", number, ticks, true);
	samples_store_losses(&samples);
	tracker_store_losses(&collector->tracker, branch);
	return trace_writer_finish(branch, &commit);
}

/* Under the name that was asked for, or the next one beside the trace. */
static int open_snapshot(struct collector *collector, struct snapshot *snapshot, int *ret_fd)
{
	char trace[PATH_MAX];

	if (snapshot->path[0])
		return snapshot_open(snapshot, ret_fd);
	if (!output_absolute_path(collector->output, trace))
		return -ENAMETOOLONG;
	return snapshot_open_next(snapshot, trace, ret_fd);
}

static int write_snapshot(struct collector *collector, struct snapshot *snapshot)
{
	struct trace_writer *branch = NULL;
	int fd, err = collector_commit(collector);

	err = err ?: open_notify(collector) ?: open_snapshot(collector, snapshot, &fd);
	if (err < 0)
		return err;
	err = trace_writer_branch(collector->writer, fd, &branch) ?: write_end(collector, branch);
	trace_writer_close(branch);
	if (err == 0)
		err = snapshot_start(snapshot, collector->output->lock_fd,
				     trace_writer_file_bytes(collector->writer),
				     collector->control.notify_fd);
	if (err < 0)
		snapshot_abandon(snapshot);
	return err;
}

/* Who asked hears what has become of it; its place is free. */
static void end_snapshot(struct collector *collector, struct snapshot **place, int err)
{
	struct snapshot *snapshot = *place;
	const char *path = snapshot->path[0] ? snapshot->path : collector->output->path;
	struct control_reply answer = { .error = err };

	snprintf(answer.path, sizeof(answer.path), "%s", path);
	if (err < 0)
		refuse_snapshot(&answer, err, path);
	snapshot->answer(collector, snapshot, &answer);
	cleanup_close(&snapshot->answer_fd);
	free(snapshot);
	*place = NULL;
}

/* Is all drained that was stamped before it was asked for? is_last: no other round will be. */
static bool is_drained(struct collector *collector, const struct snapshot *snapshot, bool is_last)
{
	if (is_last || collector->stopped_ticks ||
	    drain_safe_ticks(&collector->drain) >= snapshot->until_ticks)
		return true;
	if (collector->now_ns < snapshot->patience_ns)
		return false;
	collector_warn(collector, "a thread stands still in the middle of an event: a snapshot may "
				  "miss what followed it");
	return true;
}

static void go_on(struct collector *collector, struct snapshot **place, bool is_last)
{
	struct snapshot *snapshot = *place;
	int err;

	if (!snapshot->is_begun && !is_drained(collector, snapshot, is_last))
		return;
	if (!snapshot->is_begun) {
		err = write_snapshot(collector, snapshot);
		snapshot->is_begun = err == 0;
		if (err < 0)
			end_snapshot(collector, place, err);
	}
	if (*place && (is_last || snapshot->is_done))
		end_snapshot(collector, place, snapshot_finish(snapshot));
}

static void go_on_with_all(struct collector *collector, bool is_last)
{
	struct collector_control *control = &collector->control;
	uint64_t n;

	if (control->notify_fd >= 0 && read(control->notify_fd, &n, sizeof(n)) < 0 &&
	    errno != EAGAIN)
		return;
	for (size_t i = 0; i < COLLECTOR_MAX_SNAPSHOTS; i++)
		if (control->snapshots[i])
			go_on(collector, &control->snapshots[i], is_last);
}

void collector_tick_snapshots(struct collector *collector)
{
	go_on_with_all(collector, false);
}

void collector_settle_snapshots(struct collector *collector)
{
	go_on_with_all(collector, true);
}

bool collector_may_ask_snapshot(const struct collector *collector, snapshot_answer *answer)
{
	bool has_room = false;

	for (size_t i = 0; i < COLLECTOR_MAX_SNAPSHOTS; i++) {
		const struct snapshot *snapshot = collector->control.snapshots[i];

		has_room |= !snapshot;
		if (snapshot && !snapshot->is_begun && snapshot->answer == answer)
			return false;
	}
	return has_room;
}

void collector_ask_snapshot(struct collector *collector, const struct snapshot *asked)
{
	struct snapshot **place = collector->control.snapshots;
	struct control_reply answer = { 0 };
	struct snapshot *snapshot = NULL;

	for (size_t i = 0; i < COLLECTOR_MAX_SNAPSHOTS && *place; i++)
		place++;
	if (place == collector->control.snapshots + COLLECTOR_MAX_SNAPSHOTS)
		collector_refuse(&answer, -EBUSY, "%d snapshots are being written already",
				 COLLECTOR_MAX_SNAPSHOTS);
	else if (!(snapshot = malloc(sizeof(*snapshot))))
		refuse_snapshot(&answer, -ENOMEM, collector->output->path);
	if (!snapshot) {
		asked->answer(collector, asked, &answer);
		return;
	}
	*snapshot = *asked;
	snapshot->source_fd = -1;
	snapshot->fd = -1;
	snapshot->answer_fd =
		asked->answer_fd < 0 ? -1 : fcntl(asked->answer_fd, F_DUPFD_CLOEXEC, 0);
	snapshot->until_ticks = clock_ticks(collector->clock);
	snapshot->patience_ns = collector->now_ns + PATIENCE_NS;
	*place = snapshot;
}
