#include "runner/sampling/sampling.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "common/array.h"
#include "common/clock.h"
#include "runner/sampling/decode-live.h"
#include "runner/watch/watch.h"

static bool is_task(const struct perf_event_header *head)
{
	return head->type == PERF_RECORD_FORK || head->type == PERF_RECORD_COMM ||
	       head->type == PERF_RECORD_EXIT || head->type == PERF_RECORD_MMAP2 ||
	       head->type == PERF_RECORD_MMAP;
}

static int keep_task(struct samples *samples, const void *record, size_t n_bytes)
{
	if (grow_array_by(&samples->tasks, samples->task_bytes, n_bytes, &samples->tasks_room, 1) <
	    0)
		return -ENOMEM;
	memcpy(samples->tasks + samples->task_bytes, record, n_bytes);
	samples->task_bytes += n_bytes;
	return 0;
}

/* Code, and what the sample's window loads addresses from, are read while they are there. */
static int take_sample(struct samples *samples, const struct samples_stream *stream,
		       const void *bytes, size_t n_bytes)
{
	struct pmu_origin origin;
	struct pmu_record record;
	uint64_t ip;

	if (!pmu_record_sample_ip(&stream->format, bytes, n_bytes, &origin, &ip))
		return 0;
	struct image *image = images_find(&samples->tracker->images, (pid_t)origin.pid);
	if (!image)
		return 0;
	int r = run_code_sample(samples->code, image->id, image->pid, ip, samples->now_ticks);
	if (r < 0 || !samples->data || !(stream->format.sample_type & PERF_SAMPLE_REGS_USER) ||
	    !run_data_wants(samples->data, image, ip) ||
	    pmu_record_parse(&stream->format, bytes, n_bytes, &record) <= 0)
		return r;
	return run_data_sample(samples->data, &record, image);
}

/* The record waits until the code that it ran has been read behind it. */
static int keep_private(struct samples *samples, const struct samples_stream *stream,
			const void *record, size_t n_bytes)
{
	int r = take_sample(samples, stream, record, n_bytes);

	return r < 0 ? r : samples_private_keep(samples->private_samples, stream, record, n_bytes);
}

static int take_private(void *user, const void *of, const void *bytes, size_t n_bytes)
{
	struct samples *samples = user;
	const struct samples_stream *stream = of;
	struct pmu_record record;

	if (pmu_record_parse(&stream->format, bytes, n_bytes, &record) <= 0) {
		samples->n_unusable++;
		return 0;
	}
	return samples_private_take(
		samples->private_samples, stream->source_id, &record,
		images_find(&samples->tracker->images, (pid_t)record.origin.pid));
}

/* Whether the records of a stream hold what --private keeps out of the trace. */
static bool is_secret(const struct samples_stream *stream)
{
	return stream->owner->private_samples &&
	       (stream->format.sample_type & (PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER));
}

/*
 * The instruction that accessed lies before the ip: with both pages the code is told from its
 * bytes. What --private stores has no registers, and code comes from files.
 */
static int take_hit(struct samples *samples, const struct samples_stream *stream, const void *bytes,
		    size_t n_bytes)
{
	struct pmu_record record;
	uint64_t ip;

	if (pmu_record_parse(&stream->format, bytes, n_bytes, &record) <= 0) {
		samples->n_unusable++;
		return 0;
	}
	if (samples->watches)
		watches_hit(samples->watches, record.sample.address);
	struct image *image = images_find(&samples->tracker->images, (pid_t)record.origin.pid);
	if (!image || !samples->code || samples->private_samples)
		return 0;
	ip = record.sample.ip;
	if (ip % RUN_CODE_PAGE_BYTES < RUN_CODE_BEYOND_BYTES)
		ip -= RUN_CODE_BEYOND_BYTES;
	return run_code_sample(samples->code, image->id, image->pid, ip, samples->now_ticks);
}

/* For --watch-hot: what is hot is found out while the program runs. */
static void look_for_heat(struct samples *samples, const struct samples_stream *stream,
			  const void *bytes, size_t n_bytes)
{
	struct pmu_record record;

	if (!(stream->format.sample_type & PERF_SAMPLE_REGS_USER) ||
	    pmu_record_parse(&stream->format, bytes, n_bytes, &record) <= 0)
		return;
	struct image *image = images_find(&samples->tracker->images, (pid_t)record.origin.pid);
	if (image)
		watches_sample(samples->watches, &record, image);
}

/* The kernel's record of a fault says where, and not on which node. */
static int take_fault(struct samples *samples, const struct samples_stream *stream,
		      const void *bytes, size_t n_bytes)
{
	struct pmu_record record;

	if (!samples->nodes.writer ||
	    pmu_record_parse(&stream->format, bytes, n_bytes, &record) <= 0)
		return 0;
	return page_nodes_add(&samples->nodes, record.origin.pid, record.origin.time_ns,
			      record.sample.address);
}

static int look_at_records(struct samples_stream *stream, const uint8_t *records, size_t n_bytes)
{
	struct samples *samples = stream->owner;
	enum access_role role = stream->source->role;
	int length, err = 0;

	while (err == 0 && (length = pmu_record_length(records, n_bytes)) > 0) {
		const struct perf_event_header *head = (const void *)records;

		if (samples->watches && samples->watches->hot && role == ACCESS_ROLE_ACCESS &&
		    head->type == PERF_RECORD_SAMPLE)
			look_for_heat(samples, stream, records, (size_t)length);
		if (role == ACCESS_ROLE_TASKS && is_task(head))
			err = keep_task(samples, records, (size_t)length);
		else if (role == ACCESS_ROLE_FAULTS && head->type == PERF_RECORD_SAMPLE)
			err = take_fault(samples, stream, records, (size_t)length);
		else if (role == ACCESS_ROLE_WATCH && head->type == PERF_RECORD_SAMPLE)
			err = take_hit(samples, stream, records, (size_t)length);
		else if (is_secret(stream) && head->type == PERF_RECORD_SAMPLE)
			err = keep_private(samples, stream, records, (size_t)length);
		else if (samples->code && role == ACCESS_ROLE_ACCESS &&
			 head->type == PERF_RECORD_SAMPLE)
			err = take_sample(samples, stream, records, (size_t)length);
		records += length;
		n_bytes -= (size_t)length;
	}
	return err;
}

int samples_take_records(void *context, const void *records, size_t n_bytes, uint32_t n_samples)
{
	struct samples_stream *stream = context;
	struct samples *samples = stream->owner;

	samples->n_new += n_samples;
	stream->n_taken += n_samples;
	if (samples->is_muted && stream->source->role != ACCESS_ROLE_TASKS) {
		samples->n_dropped += n_samples;
		stream->n_dropped += n_samples;
		return 0;
	}
	if (samples->lacks_room && stream->source->role != ACCESS_ROLE_TASKS) {
		samples->n_unwritten += n_samples;
		return 0;
	}
	int err = look_at_records(stream, records, n_bytes);
	if (err < 0 || samples->is_muted || is_secret(stream))
		return err;
	return trace_writer_perf(samples->writer, stream->source_id, records, n_bytes, n_samples);
}

/* ---- Telling the tracker, in order of time over all CPUs ---- */

struct task_entry {
	uint64_t time_ns;
	size_t offset;
};

DEFINE_ORDER(compare_tasks, struct task_entry, BY(time_ns) ?: BY(offset));

static const struct pmu_format *task_format(const struct samples *samples)
{
	for (size_t i = 0; i < samples->n_streams; i++) {
		if (samples->streams[i].source->role == ACCESS_ROLE_TASKS)
			return &samples->streams[i].format;
	}
	return NULL;
}

static size_t list_tasks(struct samples *samples, const struct pmu_format *format,
			 struct task_entry *entries)
{
	struct pmu_record record;
	size_t n = 0;
	int length;

	for (size_t at = 0; at < samples->task_bytes; at += (size_t)length) {
		const uint8_t *bytes = samples->tasks + at;

		length = pmu_record_parse(format, bytes, samples->task_bytes - at, &record);
		if (length <= 0) {
			samples->n_unusable++;
			length = pmu_record_length(bytes, samples->task_bytes - at);
			if (length <= 0)
				break;
			continue;
		}
		entries[n++] = (struct task_entry){ record.origin.time_ns, at };
	}
	return n;
}

void samples_forget(struct samples *samples, uint32_t process_id)
{
	if (samples->private_samples)
		samples_private_forget(samples->private_samples, process_id, 0, UINT64_MAX, 0);
	if (samples->data)
		run_data_forget(samples->data, process_id, 0, UINT64_MAX);
	if (samples->code)
		run_code_forget_image(samples->code, process_id);
}

/* A range of an image has another content or protection. */
static void forget_map(struct samples *samples, uint32_t process_id, const struct pmu_map *map,
		       uint64_t raw_ns)
{
	if (samples->private_samples)
		samples_private_forget(samples->private_samples, process_id, map->address,
				       map->address + map->size, raw_ns);
	if (samples->data)
		run_data_forget(samples->data, process_id, map->address, map->address + map->size);
	if (samples->code)
		run_code_forget_range(samples->code, process_id, map->address, map->size,
				      map->path[0] == '/');
}

bool samples_want_haste(const struct samples *samples)
{
	return (samples->code && run_code_is_moving(samples->code)) ||
	       samples_rate_wants_haste(&samples->rate);
}

/* One record tells of two things: new content at a range, and who lives. */
static void tell(struct samples *samples, const struct pmu_record *record)
{
	uint64_t ticks =
		clock_pair_ticks(&samples->pair, samples->ticks_per_second, record->origin.time_ns);

	if (record->type == PERF_RECORD_MMAP2) {
		struct image *image =
			images_find(&samples->tracker->images, (pid_t)record->origin.pid);

		if (image)
			forget_map(samples, image->id, &record->map, record->origin.time_ns);
	}
	samples->n_births += record->type == PERF_RECORD_FORK;
	tracker_task(samples->tracker, record, ticks);
}

static int tell_tracker(struct samples *samples)
{
	const struct pmu_format *format = task_format(samples);
	size_t max_entries = samples->task_bytes / sizeof(struct perf_event_header);
	struct task_entry *entries;

	if (!format || max_entries == 0)
		return 0;
	entries = malloc(max_entries * sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	size_t n = list_tasks(samples, format, entries);
	qsort(entries, n, sizeof(*entries), compare_tasks);
	for (size_t i = 0; i < n; i++) {
		struct pmu_record record;

		if (pmu_record_parse(format, samples->tasks + entries[i].offset,
				     samples->task_bytes - entries[i].offset, &record) > 0)
			tell(samples, &record);
	}
	free(entries);
	samples->task_bytes = 0;
	samples->news_ns = clock_ns(CLOCK_MONOTONIC);
	return 0;
}

#define PERF_CLOCK_EVERY_NS UINT64_C(1000000000)

int samples_store_perf_clock(struct samples_stream *stream)
{
	struct trace_perf_clock record = { 0 };

	if (pmu_stream_perf_clock(stream->stream, &record) <= 0)
		return 0; /* a pair that cannot be had now is missed: the next one tells as well */
	record.head.type = TRACE_RECORD_PERF_CLOCK;
	record.source_id = stream->source_id;
	stream->paired_raw_ns = record.raw_ns;
	return trace_writer_add(stream->owner->writer, &record);
}

/* Behind what was read, so that nothing is older than its pair by more than a second. */
static int look_at_clock(struct samples_stream *stream)
{
	uint64_t raw_ns = stream->owner->pair.raw_ns;

	if (!stream->paired_raw_ns || stream->owner->is_muted ||
	    raw_ns < stream->paired_raw_ns + PERF_CLOCK_EVERY_NS)
		return 0;
	return samples_store_perf_clock(stream);
}

static int take_aux(void *context, const struct trace_aux *aux, const void *bytes)
{
	struct samples_stream *stream = context;

	if (stream->owner->is_muted) {
		stream->owner->n_dropped++; /* how many samples it holds only a decoder can tell */
		return 0;
	}
	if (stream->owner->lacks_room) {
		stream->owner->n_unwritten++;
		return 0;
	}
	return trace_writer_aux(stream->owner->writer, stream->source_id, aux, bytes);
}

/* Records first: they tell of the bytes. */
static int read_stream(struct samples_stream *stream)
{
	ssize_t n = pmu_stream_read(stream->stream, samples_take_records, stream);

	if (n >= 0)
		n = pmu_stream_read_aux(stream->stream, take_aux, stream);
	return n < 0 ? (int)n : look_at_clock(stream);
}

static int store_turn(const struct samples_stream *stream, const struct pmu_turn *turn)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < turn->n; i++) {
		const struct trace_period record = {
			.head.type = TRACE_RECORD_PERIOD,
			.raw_ns = turn->raw_ns,
			.mark = turn->marks[i],
			.period = turn->periods[i],
			.least = turn->least,
			.source_id = stream->source_id,
		};

		r = trace_writer_add(stream->owner->writer, &record);
	}
	return r;
}

/* Nothing to be changed when recording has stopped. A rate that stays as it is loses nothing. */
int samples_turn(struct samples *samples)
{
	struct samples_rate_now now = { .n_births = samples->n_births };
	struct pmu_turn turn;

	now.now_ns = clock_ns(CLOCK_MONOTONIC);
	for (size_t i = 0; i < samples->n_streams && !samples->is_muted; i++) {
		struct samples_stream *stream = &samples->streams[i];

		if (!stream->source->is_timed)
			continue;
		now.n_taken = stream->n_taken;
		if (samples_rate_look(&samples->rate, stream->stream, &now, &turn) > 0)
			return store_turn(stream, &turn);
		return 0;
	}
	return 0;
}

/* Again: what was mapped before the last sample that was read, and before its code was. */
static int read_tasks(void *user)
{
	struct samples *samples = user;
	int err = 0;

	for (size_t i = 0; i < samples->n_streams && err == 0; i++) {
		if (samples->streams[i].source->role != ACCESS_ROLE_TASKS)
			continue;
		err = read_stream(&samples->streams[i]) ?: tell_tracker(samples);
	}
	return err;
}

/* Where a commit has failed for long, words that later ones would refer to may be gone. */
static void look_at_lost_data(struct samples *samples)
{
	uint64_t n = trace_writer_totals(samples->writer)->n_dropped_definition_bytes;

	if (n != samples->n_lost_bytes)
		run_data_store_anew(samples->data);
	samples->n_lost_bytes = n;
}

int samples_read(struct samples *samples, uint64_t now_ticks, const struct clock_pair *pair,
		 uint64_t ticks_per_second)
{
	uint64_t begin_ns = samples_rate_begin(&samples->rate);
	int err = 0;

	samples->n_new = 0;
	samples->now_ticks = now_ticks;
	samples->pair = *pair;
	samples->ticks_per_second = ticks_per_second;
	if (samples->data)
		look_at_lost_data(samples);
	/* Tasks come last in the list and are read first: who lives, then whose samples. */
	for (size_t i = samples->n_streams; i-- > 0 && err == 0;) {
		err = read_stream(&samples->streams[i]);
		if (err == 0 && samples->streams[i].source->role == ACCESS_ROLE_TASKS)
			err = tell_tracker(samples);
	}
	/* Code that may change is read behind the samples, and what was read decodes them. */
	if (err == 0 && samples->code)
		err = read_tasks(samples);
	if (err == 0 && samples->code)
		err = run_code_round(samples->code, now_ticks);
	if (err == 0 && samples->data)
		err = run_data_round(samples->data, now_ticks);
	if (err == 0 && samples->private_samples)
		err = samples_private_flush(samples->private_samples, take_private, read_tasks,
					    samples);
	err = err ?: page_nodes_flush(&samples->nodes);
	if (samples_want_haste(samples))
		samples->news_ns = clock_ns(CLOCK_MONOTONIC);
	samples_rate_spent(&samples->rate, begin_ns);
	return err < 0 ? err : samples_turn(samples);
}

uint64_t samples_calm_ns(const struct samples *samples, uint64_t now_ns)
{
	return samples->news_ns && now_ns > samples->news_ns ? now_ns - samples->news_ns : 0;
}

uint64_t samples_next_turn_ns(const struct samples *samples)
{
	for (size_t i = 0; i < samples->n_streams && !samples->is_muted; i++)
		if (samples->streams[i].source->is_timed)
			return samples->rate.next_turn_ns;
	return UINT64_MAX;
}

int samples_flush(struct samples *samples)
{
	return samples->data ? run_data_flush(samples->data) : 0;
}

int samples_begin(struct samples *samples, bool are_tasks)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < samples->n_streams; i++) {
		if ((samples->streams[i].source->role == ACCESS_ROLE_TASKS) == are_tasks)
			r = pmu_stream_enable(samples->streams[i].stream, true);
	}
	return r;
}

void samples_pause(struct samples *samples, bool is_paused)
{
	for (size_t i = 0; i < samples->n_streams && !samples->is_muted; i++) {
		enum access_role role = samples->streams[i].source->role;

		/* Windows do not steer functions. */
		if (role != ACCESS_ROLE_TASKS && role != ACCESS_ROLE_CALLS)
			pmu_stream_enable(samples->streams[i].stream, !is_paused);
	}
}

static const struct samples_stream *timed_stream(const struct samples *samples)
{
	for (size_t i = 0; i < samples->n_streams; i++)
		if (samples->streams[i].source->is_timed)
			return &samples->streams[i];
	return NULL;
}

int samples_begin_period(struct samples *samples, uint64_t period_ns, const pid_t *pids,
			 size_t n_pids)
{
	const struct samples_stream *stream = timed_stream(samples);

	if (!stream)
		return -ENODEV;
	if (!samples->tracker->has_task_records)
		return -ENODATA;
	return pmu_stream_begin_period(stream->stream, period_ns, pids, n_pids);
}

int samples_end_period(struct samples *samples, bool is_taken)
{
	const struct samples_stream *stream = timed_stream(samples);
	int r = pmu_stream_end_period(stream->stream, is_taken);
	/* One event, whose period is not drawn: no sample stands for more than that. */
	const struct pmu_turn turn = {
		.raw_ns = clock_raw_ns(),
		.n = 1,
		.periods = { pmu_stream_period(stream->stream) },
	};

	return r < 0 || !is_taken ? r : store_turn(stream, &turn);
}

uint64_t samples_period_now(const struct samples *samples)
{
	const struct samples_stream *stream = timed_stream(samples);

	return stream ? pmu_stream_period(stream->stream) : 0;
}

void samples_mute(struct samples *samples)
{
	samples_pause(samples, true);
	for (size_t i = 0; i < samples->n_streams; i++)
		if (samples->streams[i].source->role == ACCESS_ROLE_CALLS)
			pmu_stream_enable(samples->streams[i].stream, false);
	samples->is_muted = true;
}

void samples_watch(const struct samples *samples, int epoll_fd, uint64_t tag)
{
	for (size_t i = 0; i < samples->n_streams; i++) {
		const int *fds;
		size_t n = pmu_stream_fds(samples->streams[i].stream, &fds);

		for (size_t k = 0; k < n; k++) {
			/* Edges: the hang-up of an ended task would be readable for ever. */
			struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u64 = tag };

			epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fds[k], &event);
		}
	}
}

void samples_close(struct samples *samples)
{
	for (size_t i = 0; i < samples->n_streams; i++)
		samples->streams[i].stream = pmu_stream_close(samples->streams[i].stream);
	samples->n_streams = 0;
	samples->private_samples = samples_private_destroy(samples->private_samples);
	samples->data = run_data_destroy(samples->data);
	samples->code = run_code_destroy(samples->code);
	free(samples->tasks);
	samples->tasks = NULL;
}
