/*
 * Segments, and how far the trace may grow: --max-size, the limit of file size, the disk. Near the
 * end of it segments become small, so that nearly all of the room is used and little is lost with
 * the last one. A ring (--last) has gaps instead of an end.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/text.h"
#include "runner/collector.h"
#include "runner/trace-records-write.h"
#include "schemas/trace-control.h"

#define DISK_GUARD_DIVISOR 20 /* stops at one part in 20 free */
#define RESERVE_BYTES	   (64u << 10) /* for what is written at the end */
#define SMALLEST_SEGMENT   (16u << 10) /* of raw bytes: less is not worth a segment */
#define HOLD_BYTES	   (64u << 20) /* of memory, for what waits for room on the disk */
#define RING_SEGMENTS	   10u /* of --last, at least */
#define FIRST_RETRY_NS	   UINT64_C(20000000)
#define MAX_RETRY_NS	   UINT64_C(320000000)
#define CHUNK_RAW_BYTES	   (RING_CHUNK_BYTES / RING_RECORD_BYTES * TRACE_WRITER_EVENT_BYTES)

#define RING_PERCENT 45 /* of the disk: a cut needs as much beside it */
#define GAP_PERCENT  70 /* with what is left of a gap, behind which a cut leaves little */
#define GAP_BYTES    (16u << 20) /* that wait for room before there is a gap, at most */

static uint64_t reserve_of(uint64_t most)
{
	return most > 4 * RESERVE_BYTES ? RESERVE_BYTES : most / 4;
}

/* On a small disk a ring has small segments: it can be cut at the end of each. */
uint64_t collector_segment_bytes(const struct collector *collector)
{
	uint64_t part = collector->last.disk_bytes / RING_SEGMENTS;

	if (!collector->last.is_on || part >= TRACE_SEGMENT_BYTES)
		return TRACE_SEGMENT_BYTES;
	return part > SMALLEST_SEGMENT ? part : SMALLEST_SEGMENT;
}

/* As much as programs have for what is not read yet: who allows that much has it. */
static uint64_t hold_bytes(const struct collector *collector)
{
	uint64_t pool_bytes = (uint64_t)collector->pool->n_shared * RING_CHUNK_BYTES;

	if (collector->last.is_on) /* how much there may be is decided by gaps */
		return HOLD_BYTES;
	return pool_bytes < HOLD_BYTES ? pool_bytes : HOLD_BYTES;
}

/*
 * Others may free some of the disk; what --max-size or a limit of the process takes does not come
 * back. A ring makes room for itself.
 */
static bool can_wait(const struct collector *collector)
{
	return collector->last.is_on ||
	       (collector->room_reason != collector->most_reason &&
		trace_writer_pending_bytes(collector->writer) < hold_bytes(collector));
}

/* The disk has no room: what is pending waits for the next try. */
static void collector_wait_for_room(struct collector *collector)
{
	uint64_t wait_ns = 2 * collector->retry_wait_ns;

	collector->last.is_full = collector->last.is_on; /* less is kept */
	if (collector->retry_wait_ns == 0) {
		wait_ns = FIRST_RETRY_NS;
		if (!collector->last.is_on)
			collector_warn(
				collector,
				"no space left on device for %s: what is recorded waits in memory, "
				"at most %u MiB, until there is",
				collector->output->path, (unsigned)(hold_bytes(collector) >> 20));
	}
	collector->retry_wait_ns = wait_ns < MAX_RETRY_NS ? wait_ns : MAX_RETRY_NS;
	collector->retry_ns = collector->now_ns + collector->retry_wait_ns;
}

void collector_limit_room(struct collector *collector, uint64_t file_limit_bytes)
{
	uint64_t most = collector->options->max_bytes;

	collector->most_reason = "--max-size is reached";
	if (file_limit_bytes && (most == 0 || file_limit_bytes < most)) {
		most = file_limit_bytes;
		collector->most_reason = "the file size limit (ulimit -f) is reached";
	}
	collector->most_bytes = most;
	trace_writer_hold(collector->writer, hold_bytes(collector),
			  collector->options->last != NULL);
	trace_writer_limit(collector->writer, most, most ? reserve_of(most) : RESERVE_BYTES);
	collector_look_at_room(collector);
}

/* The new file is at most as large, and both take what is still to come. */
static uint64_t room_beside_cut(const struct collector *collector)
{
	const struct collector_last *last = &collector->last;
	uint64_t needed = trace_writer_file_bytes(collector->writer);
	uint64_t room = collector->room_bytes;
	struct stat file;

	if (fstat(last->fd, &file) == 0)
		needed -= (uint64_t)file.st_size < needed ? (uint64_t)file.st_size : needed;
	return room > needed ? (room - needed) / 2 : 0;
}

void collector_look_at_room(struct collector *collector)
{
	uint64_t taken = trace_writer_file_bytes(collector->writer);
	uint64_t free_bytes, total_bytes, kept;

	collector->room_bytes = UINT64_MAX;
	if (collector->most_bytes) {
		taken += reserve_of(collector->most_bytes);
		collector->room_bytes =
			taken < collector->most_bytes ? collector->most_bytes - taken : 0;
		collector->room_reason = collector->most_reason;
	}
	if (output_disk(collector->output, &free_bytes, &total_bytes) == 0) {
		kept = total_bytes / DISK_GUARD_DIVISOR;
		free_bytes = free_bytes > kept ? free_bytes - kept : 0;
		if (free_bytes < collector->room_bytes) {
			collector->room_bytes = free_bytes;
			collector->room_reason = "less than 5 % of the disk are free";
		}
	}
	if (collector->room_bytes == UINT64_MAX)
		collector->last.disk_bytes = UINT64_MAX;
	else if (collector->last.is_running)
		collector->room_bytes = room_beside_cut(collector);
	else
		collector->last.disk_bytes =
			collector->room_bytes + trace_writer_file_bytes(collector->writer);
}

struct trace_commit collector_commit_at(const struct collector *collector, uint64_t ticks)
{
	return (struct trace_commit){
		.ticks = ticks,
		.raw_ns = clock_pair_raw_ns(&collector->last_pair, collector->ticks_per_second,
					    ticks),
	};
}

void collector_stop(struct collector *collector, const char *reason)
{
	if (collector->stopped_ticks)
		return;
	collector->stopped_ticks = clock_ticks(collector->clock);
	snprintf(collector->stop_reason, sizeof(collector->stop_reason), "%s", reason);
	pool_end(collector->pool, RING_STOPPED);
	tracker_stop(&collector->tracker, collector->stopped_ticks);
	trace_writer_hold(collector->writer, 0, false);
	collector->retry_ns = 0;
	collector->drain.is_muted = true;
	samples_mute(&collector->samples);
	collector_warn(collector, "recording to %s has stopped: %s; the program goes on",
		       collector->output->path, reason);
}

/* As it is, and with what waits: that is counted raw, and takes about half of it in the file. */
static bool fits_disk(const struct collector *collector, uint64_t waiting_bytes, unsigned percent)
{
	uint64_t bytes = trace_writer_file_bytes(collector->writer) + waiting_bytes / 2;

	return collector->last.disk_bytes == UINT64_MAX ||
	       bytes <= collector->last.disk_bytes / 100 * percent;
}

bool collector_has_disk_for(const struct collector *collector, uint64_t waiting_bytes)
{
	return fits_disk(collector, waiting_bytes, RING_PERCENT);
}

/* ---- Gaps of --last ---- */

/*
 * There is no room, and a cut does not make some fast enough: of what comes only what lives is
 * kept. The program does not wait for that.
 */
static void begin_gap(struct collector *collector)
{
	struct collector_last *last = &collector->last;

	if (last->gap_begin_ticks == 0)
		collector_warn(collector,
			       "--last %s: %s is written slower than events come, or has no room: "
			       "some are left out, and counted; what lives is not",
			       collector->options->last, collector->output->path);
	last->gap_begin_ticks = drain_safe_ticks(&collector->drain);
	collector->drain.net = &last->net;
	collector->samples.lacks_room = true;
}

/* So much may wait for room, and fits as one segment when there is. */
static bool is_gap_due(const struct collector *collector)
{
	uint64_t part = collector_segment_bytes(collector);
	uint64_t most = collector->last.disk_bytes / 10;

	if (most > GAP_BYTES)
		most = GAP_BYTES;
	return trace_writer_pending_bytes(collector->writer) >= (most > part ? most : part);
}

/* What is left of it is given to the writer; of what is not, the trace says so at once. */
static void end_gap(struct collector *collector)
{
	struct collector_last *last = &collector->last;
	struct store_loss loss = {
		.from_ticks = last->gap_begin_ticks,
		.to_ticks = clock_ticks(collector->clock),
		.source = "last",
		.reason = "no room on the disk",
	};

	if (!collector->drain.net)
		return;
	net_give(&last->net, collector->writer, drain_safe_ticks(&collector->drain), &loss.count);
	loss.count += collector->samples.n_unwritten;
	collector->samples.n_unwritten = 0;
	store_loss(collector->writer, &loss);
	collector->tracker.n_losses += loss.count;
	last->gap_end_ticks = loss.to_ticks;
	collector->drain.net = NULL;
	collector->samples.lacks_room = false;
}

/* For what waits, beside a cut that is under way. */
static bool has_room(const struct collector *collector)
{
	const struct collector_last *last = &collector->last;
	bool is_gap = collector->drain.net != NULL;
	uint64_t waiting_bytes = trace_writer_pending_bytes(collector->writer) +
				 net_size(&last->net) * TRACE_WRITER_EVENT_BYTES;

	if ((last->is_running || is_gap) && collector->room_bytes < waiting_bytes)
		return false;
	return last->is_running ||
	       fits_disk(collector, waiting_bytes, is_gap ? GAP_PERCENT : RING_PERCENT);
}

/* A cut leaves out nothing that is stamped behind T: so a gap ends when T has moved. */
static bool may_commit(struct collector *collector)
{
	struct collector_last *last = &collector->last;
	bool is_gap = collector->drain.net != NULL;

	if (!last->is_on || last->is_ending || collector->stopped_ticks) {
		end_gap(collector);
		return true;
	}
	if (is_gap && drain_safe_ticks(&collector->drain) <= collector->committed_ticks)
		return false;
	if (last->is_running || is_gap)
		collector_look_at_room(collector);
	if (!has_room(collector) && is_gap)
		net_hurry(&last->net);
	if (!has_room(collector))
		return false;
	end_gap(collector);
	return true;
}

void collector_tick_gap(struct collector *collector)
{
	const struct collector_last *last = &collector->last;

	if (!last->is_on || collector->stopped_ticks || !collector->retry_wait_ns)
		return;
	if (last->net.n_lost)
		collector_stop(collector, "what lives does not fit on the disk");
	else if (!collector->drain.net && is_gap_due(collector))
		begin_gap(collector);
}

/* ---- */

/* Of functions that are only counted: what was called since the last look. */
static void write_trips(struct collector *collector)
{
	const struct run_functions *functions = collector->options->functions;
	struct trace_trips record = {
		.head.type = TRACE_RECORD_TRIPS,
		.ticks = collector->last_pair.ticks,
	};

	for (uint32_t i = 0; i < collector->pool->n_trips; i++) {
		uint64_t n = atomic_load_explicit(&collector->pool->trips[i], memory_order_relaxed);

		if (n == collector->n_trips[i])
			continue;
		record.name_id = text_name_id(functions->names[i]);
		record.n = n - collector->n_trips[i];
		if (trace_writer_add(collector->writer, &record) == 0)
			collector->n_trips[i] = n; /* else it is in the next one */
	}
}

int collector_commit(struct collector *collector)
{
	bool was_gap = collector->drain.net != NULL;

	if (!may_commit(collector)) {
		collector_wait_for_room(collector);
		return 0;
	}
	/* Events of a segment are put in time by lines that end in it, and not by a guess. */
	collector->last_pair = clock_pair_read(collector->clock);
	store_clock(collector->writer, &collector->last_pair);
	write_trips(collector);
	/* Who reads the segment knows what memory held at its samples. */
	samples_flush(&collector->samples);
	struct trace_commit commit =
		collector_commit_at(collector, drain_safe_ticks(&collector->drain));
	int err = trace_writer_commit(collector->writer, &commit, NULL);

	collector_look_at_room(collector);
	switch (-err) {
	case 0:
		collector->committed_ticks = commit.ticks;
		collector->retry_ns = 0;
		collector->retry_wait_ns = 0;
		collector->last.has_saved = true;
		collector_tell_growth(collector);
		return 0;
	case EAGAIN:
		collector_wait_for_room(collector);
		return 0;
	case ENOSPC:
		/* Of a gap's events only what lives was left. */
		collector_stop(collector, was_gap ? "what lives does not fit on the disk"
						  : "the disk is full: no space left on device");
		return 0;
	case EDQUOT:
		collector_stop(collector, "the quota of the disk is used up");
		return 0;
	case EFBIG:
		collector_stop(collector, collector->most_reason);
		return 0;
	case EIO:
		collector_stop(collector, "the disk reports an error");
		return 0;
	default:
		return err;
	}
}

int collector_check_room(struct collector *collector)
{
	uint64_t pending = trace_writer_pending_bytes(collector->writer);
	uint64_t part = collector->most_bytes / 8;
	uint64_t smallest =
		collector->most_bytes && part < SMALLEST_SEGMENT ? part : SMALLEST_SEGMENT;
	int err = 0;

	if (collector->retry_wait_ns)
		collector_look_at_room(collector);
	if (collector->stopped_ticks || collector->room_bytes == UINT64_MAX ||
	    (pending < collector->room_bytes && collector->room_bytes - pending >= smallest))
		return 0;
	/* What is pending is counted raw: in the file it takes less. */
	if (pending > 0 && !(collector->room_bytes < smallest && can_wait(collector)))
		err = collector_commit(collector);
	if (err < 0 || collector->room_bytes >= smallest)
		return err;
	if (can_wait(collector))
		collector_wait_for_room(collector);
	else
		collector_stop(collector, collector->room_reason);
	return 0;
}

uint32_t collector_max_chunks(const struct collector *collector, uint32_t most)
{
	uint64_t pending = trace_writer_pending_bytes(collector->writer);
	uint64_t room = collector->room_bytes;
	uint64_t n_chunks = room > pending ? (room - pending) / CHUNK_RAW_BYTES : 0;

	/* One that has stopped reads to count what it drops, one that waits keeps it in memory. */
	if (collector->stopped_ticks || collector->drain.net)
		return most;
	if (collector->retry_wait_ns)
		n_chunks = most;
	if (n_chunks > collector_segment_bytes(collector) / CHUNK_RAW_BYTES)
		n_chunks = collector_segment_bytes(collector) / CHUNK_RAW_BYTES;
	if (n_chunks >= most)
		return most;
	return n_chunks ? (uint32_t)n_chunks : 1;
}
