/*
 * --last: of the trace only the end is kept. When it holds half as much again, a thread writes the
 * trace anew without its begin (trace/cut.h), beside it and below no name; then it takes the
 * trace's place and its name at once. So what lies on the disk is a whole trace at any time.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/human-number.h"
#include "common/io.h"
#include "common/parse.h"
#include "common/worker-thread.h"
#include "runner/collector.h"
#include "trace/cut.h"

#define CUT_SUFFIX     "-cut"
#define SMALLEST_BYTES (64u << 10)
#define REST_BYTES     (1u << 20) /* that the collector copies itself, at the end */
#define RETRY_NS       UINT64_C(1000000000)
#define CUT_NICE       10
#define LARGE_BYTES    (256 << 10)
#define MAX_FULL       3 /* cuts in a row without room: then others must make some */

int collector_last_check(const struct run_options *options, char *message, size_t n_bytes)
{
	int64_t span_ns = 0;
	uint64_t size = 0;
	const char *why = NULL;

	if (!options->last)
		return 0;
	if (parse_duration(options->last, &span_ns) < 0 && parse_size(options->last, &size) < 0)
		why = "is neither a time, such as 30s, nor a size, such as 200M";
	else if (size == 0 && span_ns < 100000000)
		why = "is too short: the least is 100ms";
	else if (span_ns == 0 && size < SMALLEST_BYTES)
		why = "is too small: the least is 64K";
	else if (options->max_bytes)
		why = "and --max-size cannot be had together: --last already bounds the trace";
	if (!why)
		return 0;
	snprintf(message, n_bytes, "--last: '%.40s' %s", options->last, why);
	return -EINVAL;
}

void collector_begin_last(struct collector *collector)
{
	struct collector_last *last = &collector->last;
	int64_t span_ns;

	if (!collector->options->last)
		return;
	/*
	 * What a cut has taken goes back to the kernel. Else glibc raises its thresholds, and the
	 * thread's heap keeps all of it, scattered over more pages from hour to hour.
	 */
	mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
	/* It was checked before. */
	last->is_on = true;
	last->cut_ticks = collector->first_pair.ticks;
	if (parse_duration(collector->options->last, &span_ns) == 0)
		last->span_ns = (uint64_t)span_ns;
	else
		parse_size(collector->options->last, &last->span_bytes);
	last->has_sync = disk_sync_start(&last->sync) == 0;
}

static uint64_t ticks_of(const struct collector *collector, uint64_t ns)
{
	return (uint64_t)((double)ns * (double)collector->ticks_per_second / 1e9);
}

/* Where the trace is to begin; -ENODATA: there is not so much of it. */
static int find_cut(const struct collector *collector, struct trace_writer_cut *ret_cut)
{
	const struct collector_last *last = &collector->last;
	uint64_t span = ticks_of(collector, last->span_ns);
	struct trace_writer_cut by_time = { 0 }, by_size = { 0 };
	uint64_t most = last->span_bytes;

	if (last->most_bytes && (most == 0 || last->most_bytes < most))
		most = last->most_bytes;
	if (span && collector->committed_ticks > last->cut_ticks + span)
		trace_writer_find_cut(collector->writer, collector->committed_ticks - span, 0,
				      &by_time);
	if (most && trace_writer_file_bytes(collector->writer) > last->base_bytes + most)
		trace_writer_find_cut(collector->writer, 0, most, &by_size);
	/* Where nothing near it serves: all but what lives, so that there is room again. */
	if (last->most_bytes && by_size.offset == 0 && !collector_has_disk_for(collector, 0))
		trace_writer_find_cut(collector->writer, 0, 0, &by_size);
	*ret_cut = by_time.offset > by_size.offset ? by_time : by_size;
	return ret_cut->offset ? 0 : -ENODATA;
}

static uint64_t kept_bytes(const struct collector *collector)
{
	return trace_writer_file_bytes(collector->writer) - collector->last.base_bytes;
}

/* There is half as much again. */
static bool is_due(const struct collector *collector)
{
	const struct collector_last *last = &collector->last;
	uint64_t span = ticks_of(collector, last->span_ns);
	uint64_t bytes = kept_bytes(collector);

	return (span && collector->committed_ticks > last->cut_ticks + span + span / 2) ||
	       (last->span_bytes && bytes > last->span_bytes + last->span_bytes / 2) ||
	       (last->most_bytes && bytes > last->most_bytes + last->most_bytes / 2);
}

/* ---- The new file ---- */

/* Without a name where that can be given later: then a recorder that is killed leaves nothing. */
static int open_file(struct collector_last *last, const char *trace)
{
	char folder[PATH_MAX];
	int n = snprintf(last->path, sizeof(last->path), "%s" CUT_SUFFIX, trace);

	if (n >= (int)sizeof(last->path))
		return -ENAMETOOLONG;
	snprintf(folder, sizeof(folder), "%s", trace);
	last->is_named = false;
	last->fd = open(dirname(folder), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (last->fd >= 0)
		return 0;
	last->fd = open(last->path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	last->is_named = last->fd >= 0;
	return last->fd < 0 ? -errno : 0;
}

/* It takes the name of the trace, which is locked as that was. */
static int take_name(struct collector_last *last, const char *trace)
{
	char own[64];

	flock(last->fd, LOCK_EX | LOCK_NB);
	snprintf(own, sizeof(own), "/proc/self/fd/%d", last->fd);
	if (!last->is_named) {
		unlink(last->path);
		if (linkat(AT_FDCWD, own, AT_FDCWD, last->path, AT_SYMLINK_FOLLOW) < 0)
			return -errno;
		last->is_named = true;
	}
	return rename(last->path, trace) < 0 ? -errno : 0;
}

static int copy_rest(struct collector_last *last, uint64_t until)
{
	int r = io_copy_range(last->source_fd, last->copied, last->fd,
			      last->result.n_bytes + last->copied - last->cut.offset,
			      until - last->copied);

	if (r == 0)
		last->copied = until;
	return r;
}

/* What is committed meanwhile is copied as well, until little is left. */
static void *run(void *context)
{
	struct collector_last *last = context;
	const struct trace_cut cut = {
		.source_fd = last->source_fd,
		.end_offset = last->cut.offset,
		.commit = last->commit,
		.fd = fcntl(last->fd, F_DUPFD_CLOEXEC, 0),
		.span = last->span,
	};

	if (last->most_bytes == 0) /* of this thread: others go first, unless room is wanted */
		setpriority(PRIO_PROCESS, 0, CUT_NICE);
	int r = cut.fd < 0 ? -errno : trace_cut(&cut, &last->result);
	last->copied = last->cut.offset;
	for (uint64_t until;
	     r == 0 && (until = atomic_load(&last->committed_bytes)) > last->copied + REST_BYTES;)
		r = copy_rest(last, until);
	if (r == 0 && fdatasync(last->fd) < 0 && errno != EINVAL)
		r = -errno;
	last->error = r;
	atomic_store(&last->is_done, true);
	return NULL;
}

static void close_files(struct collector_last *last)
{
	cleanup_close(&last->fd);
	cleanup_close(&last->source_fd);
	if (last->is_named)
		unlink(last->path);
	last->fd = last->source_fd = -1;
	last->is_named = false;
}

static int begin_cut(struct collector *collector)
{
	struct collector_last *last = &collector->last;
	int r = find_cut(collector, &last->cut);

	if (r < 0)
		return r;
	last->commit = collector_commit_at(collector, last->cut.ticks);
	last->span = collector->options->last;
	last->source_fd = fcntl(collector->output->lock_fd, F_DUPFD_CLOEXEC, 0);
	r = last->source_fd < 0 ? -errno : open_file(last, collector->output->partial);
	atomic_store(&last->committed_bytes, trace_writer_file_bytes(collector->writer));
	atomic_store(&last->is_done, false);
	r = r ?: quiet_thread_start(&last->thread, run, last);
	last->is_running = r == 0;
	if (r < 0)
		close_files(last);
	return r;
}

/* The writer goes on in the new file, and all who know the old one do. */
static int move(struct collector *collector)
{
	struct collector_last *last = &collector->last;
	const struct trace_index_entry first = {
		.offset = last->result.n_bytes,
		.n_events = last->result.n_events,
		.n_samples = last->result.n_samples,
	};
	auto_close int writer_fd = fcntl(last->fd, F_DUPFD_CLOEXEC, 0);
	int r = writer_fd < 0 ? -errno
			      : copy_rest(last, trace_writer_file_bytes(collector->writer));

	r = r ?: take_name(last, collector->output->partial);
	if (r < 0)
		return r;
	last->is_named = false;
	r = trace_writer_move(collector->writer, writer_fd, &last->cut, &first);
	if (r < 0)
		return r;
	steal_fd(&writer_fd);
	close(collector->output->lock_fd);
	collector->output->lock_fd = steal_fd(&last->fd);
	return 0;
}

static bool is_out_of_room(int error)
{
	return error == -ENOSPC || error == -EDQUOT || error == -EFBIG;
}

/* Said once, until it has gone well again. */
static void put_off(struct collector *collector, int error)
{
	struct collector_last *last = &collector->last;

	last->retry_ns = collector->now_ns + RETRY_NS;
	if (!last->has_failed && is_out_of_room(error))
		collector_warn(collector,
			       "--last: there is no room to cut off the begin of %s: of what comes "
			       "only what lives is kept, until there is",
			       collector->output->path);
	else if (!last->has_failed)
		collector_warn(collector,
			       "--last: the begin of %s cannot be cut off now: %s; it grows until "
			       "that can be done",
			       collector->output->path, strerror(-error));
	last->has_failed = true;
}

/*
 * It grows by half until it is cut. Meanwhile the new file is there as well, and both grow: by as
 * much as comes while the half is read.
 */
static uint64_t share_of_disk(const struct collector *collector)
{
	return (collector->room_bytes + kept_bytes(collector)) / 5;
}

static void say_small(struct collector *collector)
{
	struct collector_last *last = &collector->last;

	if (last->most_bytes && !last->said_small)
		collector_warn(collector,
			       "--last %s: the disk of %s is nearly full: from here on the last "
			       "%s of the trace are kept",
			       last->span, collector->output->path,
			       format_bytes((int64_t)last->most_bytes).text);
	last->said_small |= last->most_bytes > 0;
}

static void finish_cut(struct collector *collector)
{
	struct collector_last *last = &collector->last;

	pthread_join(last->thread, NULL);
	last->is_running = false;
	int r = last->error ?: move(collector);
	close_files(last);
	if (r == 0) {
		last->base_bytes = last->result.n_bytes;
		last->cut_ticks = last->cut.ticks;
		last->n_dropped = last->result.n_dropped_events;
		last->has_failed = false;
		say_small(collector);
		last->n_full = 0;
		last->is_full = false;
		collector->retry_ns = 0; /* what waits is tried at once */
		collector_number_cut(collector, last->cut.ticks, last->result.has_windows);
		collector_look_at_room(collector);
		if (last->most_bytes && share_of_disk(collector) > last->most_bytes)
			last->most_bytes = share_of_disk(collector);
		return;
	}
	collector_look_at_room(collector); /* it took what the trace needs: there is room again */
	last->is_full = is_out_of_room(r);
	if (!last->is_full || ++last->n_full >= MAX_FULL)
		put_off(collector, r);
	else
		last->retry_ns = 0;
}

/* The disk has no room: keep less, where that can be begun now. */
static void shrink(struct collector *collector)
{
	struct collector_last *last = &collector->last;
	uint64_t n_bytes = kept_bytes(collector);

	if (last->is_running)
		return;
	last->most_bytes = share_of_disk(collector);
	if (last->most_bytes > n_bytes / 2)
		last->most_bytes = n_bytes / 2;
	if (last->most_bytes > collector->room_bytes / 4 * 3)
		last->most_bytes = collector->room_bytes / 4 * 3;
	if (last->most_bytes < SMALLEST_BYTES)
		last->most_bytes = SMALLEST_BYTES;
	last->is_full = false;
	begin_cut(collector);
}

/* ---- */

void collector_tick_last(struct collector *collector)
{
	struct collector_last *last = &collector->last;
	int r;

	if (!last->is_on || collector->stopped_ticks)
		return;
	if (last->has_saved && last->has_sync)
		disk_sync_ask(&last->sync, collector->output->lock_fd);
	last->has_saved = false;
	atomic_store(&last->committed_bytes, trace_writer_file_bytes(collector->writer));
	if (last->is_running && atomic_load(&last->is_done))
		finish_cut(collector);
	if (last->is_running || collector->now_ns < last->retry_ns)
		return;
	/* The part that is kept would soon not fit beside the trace. */
	if (last->is_full || collector->room_bytes / 2 < kept_bytes(collector))
		shrink(collector);
	else if (is_due(collector) && (r = begin_cut(collector)) < 0 && r != -ENODATA)
		put_off(collector, r);
}

void collector_settle_last(struct collector *collector)
{
	struct collector_last *last = &collector->last;

	if (!last->is_on)
		return;
	if (last->is_running)
		finish_cut(collector);
	collector_commit(collector);
	for (int i = 0; i < 8 && collector->retry_wait_ns; i++) {
		shrink(collector);
		if (!last->is_running)
			break;
		finish_cut(collector);
		collector_commit(collector);
	}
	last->is_ending = true;
}

/* Of what was asked for, how much there is, without a gap; 0: all of it. */
static uint64_t whole_ns(const struct collector *collector)
{
	const struct collector_last *last = &collector->last;
	uint64_t since =
		last->gap_end_ticks > last->cut_ticks ? last->gap_end_ticks : last->cut_ticks;
	uint64_t ticks =
		collector->committed_ticks > since ? collector->committed_ticks - since : 0;

	if (ticks >= ticks_of(collector, last->span_ns) || !collector->ticks_per_second)
		return 0;
	return 1 + (uint64_t)((double)ticks * 1e9 / (double)collector->ticks_per_second);
}

/* Exactly so much as was asked for: cuts under way are of what was asked for before. */
void collector_end_last(struct collector *collector)
{
	struct collector_last *last = &collector->last;

	if (last->has_sync)
		disk_sync_stop(&last->sync);
	last->has_sync = false;
	if (!last->is_on)
		return;
	if ((last->most_bytes && last->n_dropped) || last->gap_end_ticks)
		last->room_ns = whole_ns(collector);
	last->most_bytes = 0;
	for (int i = 0; i < 2; i++) {
		if (last->is_running)
			finish_cut(collector);
		if (collector->stopped_ticks || i == 1 || begin_cut(collector) < 0)
			break;
	}
}
