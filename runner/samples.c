#include "runner/samples.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "pmu/pmu-choice.h"
#include "runner/samples-private.h"
#include "runner/store.h"

#define STACK_BYTES 256

static int emit_code(void *context, uint32_t process_id, const struct trace_code *code,
		     const void *bytes)
{
	struct samples *samples = context;

	return trace_writer_code(samples->writer, process_id, code, bytes);
}

static struct trace_string text(const char *bytes)
{
	return (struct trace_string){ bytes, (uint32_t)strlen(bytes) };
}

static int store_source(struct samples *samples, const char *name, const char *unit,
			struct trace_source *record, const char *remedy)
{
	struct trace_string strings[] = { text(name), text(unit), text(remedy) };

	record->head.type = TRACE_RECORD_SOURCE;
	record->source_id = (uint32_t)++samples->n_sources;
	record->name_bytes = strings[0].n_bytes;
	record->unit_bytes = strings[1].n_bytes;
	record->remedy_bytes = strings[2].n_bytes;
	return trace_writer_record(samples->writer, record, sizeof(*record), strings, 3);
}

static int store_refused(struct samples *samples, const struct access_source *source,
			 const struct access_options *options, int error,
			 const struct pmu_refusal *refusal)
{
	struct trace_source record = { 0 };
	char remedy[sizeof(refusal->why) + sizeof(refusal->fix) + 4];

	pmu_source_describe_refused(source, options, error, &record);
	snprintf(remedy, sizeof(remedy), "%s%s%s", refusal->why, refusal->fix[0] ? "; " : "",
		 refusal->fix);
	return store_source(samples, source->name, source->unit, &record, remedy);
}

static int refuse(struct samples *samples, const struct access_source *source,
		  const struct access_options *options, int error,
		  const struct pmu_refusal *refusal)
{
	if (!samples->refusal[0])
		snprintf(samples->refusal, sizeof(samples->refusal), "no %s samples: %s; %s",
			 source->name, refusal->why, refusal->fix);
	return store_refused(samples, source, options, error, refusal);
}

/* What its samples say, for whoever decodes them. */
static int store_detail(struct samples *samples, struct samples_stream *stream)
{
	const char *event = "";
	struct trace_source_detail record = { 0 };
	const char *notes = pmu_stream_notes(stream->stream);

	pmu_stream_detail(stream->stream, &record, &event);
	stream->format.read_format = record.read_format;
	stream->format.regs_intr = record.regs_intr;
	stream->format.branch_sample_type = record.branch_sample_type;
	struct trace_string strings[] = { text(event ? event : ""), text(notes) };

	record.head.type = TRACE_RECORD_SOURCE_DETAIL;
	record.source_id = stream->source_id;
	record.event_bytes = strings[0].n_bytes;
	record.note_bytes = strings[1].n_bytes;
	return trace_writer_record(samples->writer, &record, sizeof(record), strings, 2);
}

/* What a source gave up; --strict does not go on then. */
static void note(struct samples *samples, const struct access_source *source, const char *notes)
{
	if (notes[0] && !samples->given_up[0])
		snprintf(samples->given_up, sizeof(samples->given_up), "%s: %s", source->name,
			 notes);
}

static int open_one(struct samples *samples, const struct access_source *source,
		    const struct access_options *options)
{
	struct samples_stream *mine = &samples->streams[samples->n_streams];
	struct pmu_refusal refusal = { 0 };
	struct trace_source record = { 0 };
	int err = pmu_stream_open(source, options, &mine->stream, &refusal);

	if (err < 0)
		return refuse(samples, source, options, err, &refusal);
	pmu_stream_describe(mine->stream, &record);
	mine->owner = samples;
	mine->source = source;
	mine->format = (struct pmu_format){ .sample_type = record.sample_type,
					    .regs_user = record.regs_user };
	samples->n_streams++;
	err = store_source(samples, source->name, pmu_stream_unit(mine->stream), &record,
			   pmu_stream_notes(mine->stream));
	mine->source_id = (uint32_t)samples->n_sources;
	if (err == 0)
		err = store_detail(samples, mine);
	note(samples, source, pmu_stream_notes(mine->stream));
	if (source->role == ACCESS_ROLE_TASKS) {
		samples->tracker->has_task_records = true;
		return err;
	}
	if (samples->sources[0])
		strncat(samples->sources, " + ",
			sizeof(samples->sources) - strlen(samples->sources) - 1);
	strncat(samples->sources, source->name,
		sizeof(samples->sources) - strlen(samples->sources) - 1);
	return err;
}

static struct access_options access_options_of(const struct run_options *options, pid_t pid)
{
	static const enum access_mode modes[] = {
		[RUN_COUNT_USER] = ACCESS_MODE_USER,
		[RUN_COUNT_KERNEL] = ACCESS_MODE_KERNEL,
		[RUN_COUNT_BOTH] = ACCESS_MODE_BOTH,
	};

	return (struct access_options){
		.pid = pid,
		.enable_on_exec = true,
		.freq_hz = options->frequency_hz,
		.period = options->period,
		.load_event = options->load_event,
		.store_event = options->store_event,
		.min_latency = options->min_latency,
		.mode = modes[options->count],
		.stack_bytes = STACK_BYTES,
	};
}

static int parse_choice(const struct run_options *options, struct pmu_choice *ret_choice,
			char message[PMU_CHOICE_MESSAGE_BYTES])
{
	return pmu_choice_parse(options->source ? options->source : "auto", ret_choice, message);
}

int samples_check(const struct run_options *options, char *message, size_t n_bytes)
{
	char why[PMU_CHOICE_MESSAGE_BYTES];
	struct pmu_choice choice;

	if (parse_choice(options, &choice, why) < 0)
		return snprintf(message, n_bytes, "--source: %s", why), -EINVAL;
	if (options->frequency_hz && options->period)
		return snprintf(message, n_bytes, "--freq and --period exclude each other"),
		       -EINVAL;
	return 0;
}

/* One after the other those that auto tried in vain, equal reasons once. */
static void pass_over(struct samples *samples, const struct pmu_chosen *chosen,
		      const struct pmu_chosen *before)
{
	size_t n = strlen(samples->passed);
	bool is_same =
		before && before->error && strcmp(before->refusal.why, chosen->refusal.why) == 0;
	size_t n_why = strlen(chosen->refusal.why);

	if (is_same && n > n_why + 2)
		n -= n_why + 2;
	snprintf(samples->passed + n, sizeof(samples->passed) - n, "%s%s: %s",
		 is_same && n ? ", "
		 : n	      ? "; no "
			      : "no ",
		 chosen->source->name, chosen->refusal.why);
}

static int open_all(struct samples *samples, const struct pmu_choice *choice,
		    const struct access_options *access)
{
	bool has_access = false;
	int err = 0;

	for (size_t i = 0; i < choice->n; i++)
		has_access |= choice->items[i].source->role == ACCESS_ROLE_ACCESS &&
			      choice->items[i].error == 0;
	for (size_t i = 0; i < choice->n && err == 0; i++) {
		const struct pmu_chosen *chosen = &choice->items[i];
		const struct access_options own = pmu_chosen_options(chosen, access);

		if (chosen->error && has_access) {
			pass_over(samples, chosen, i > 0 ? chosen - 1 : NULL);
			err = store_refused(samples, chosen->source, &own, chosen->error,
					    &chosen->refusal);
		} else if (chosen->error) {
			err = refuse(samples, chosen->source, &own, chosen->error,
				     &chosen->refusal);
		} else {
			err = open_one(samples, chosen->source, &own);
		}
	}
	return err;
}

int samples_open(struct samples *samples, const struct run_options *options, pid_t pid)
{
	const struct access_options access = access_options_of(options, pid);
	char why[PMU_CHOICE_MESSAGE_BYTES];
	struct pmu_choice choice;
	int err = parse_choice(options, &choice, why);

	if (err == 0)
		err = options->private_samples
			      ? samples_private_create(samples->writer, &samples->private_samples)
			      : run_code_create(NULL, emit_code, samples, &samples->code);
	if (err < 0)
		return err;
	pmu_choice_resolve(&choice, &access);
	err = open_all(samples, &choice, &access);
	if (err == 0 && options->is_strict && (samples->refusal[0] || samples->given_up[0]))
		err = -EPERM;
	return err;
}

/* ---- Taking records ---- */

static bool is_task(const struct perf_event_header *head)
{
	return head->type == PERF_RECORD_FORK || head->type == PERF_RECORD_COMM ||
	       head->type == PERF_RECORD_EXIT || head->type == PERF_RECORD_MMAP2 ||
	       head->type == PERF_RECORD_MMAP;
}

static int keep_task(struct samples *samples, const void *record, size_t n_bytes)
{
	if (samples->task_bytes + n_bytes > samples->tasks_room) {
		size_t room = samples->tasks_room * 2 + n_bytes + 4096;
		uint8_t *tasks = realloc(samples->tasks, room);

		if (!tasks)
			return -ENOMEM;
		samples->tasks = tasks;
		samples->tasks_room = room;
	}
	memcpy(samples->tasks + samples->task_bytes, record, n_bytes);
	samples->task_bytes += n_bytes;
	return 0;
}

static int take_code(struct samples *samples, const struct samples_stream *stream,
		     const void *record, size_t n_bytes)
{
	struct pmu_origin origin;
	struct image *image;
	uint64_t ip;

	if (!pmu_record_sample_ip(&stream->format, record, n_bytes, &origin, &ip))
		return 0;
	image = images_find(&samples->tracker->images, (pid_t)origin.pid);
	if (!image)
		return 0;
	return run_code_sample(samples->code, image->id, image->pid, ip, samples->now_ticks);
}

static int take_private(struct samples *samples, const struct samples_stream *stream,
			const void *bytes, size_t n_bytes)
{
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

static int look_at_records(struct samples_stream *stream, const uint8_t *records, size_t n_bytes)
{
	struct samples *samples = stream->owner;
	enum access_role role = stream->source->role;
	int length, err = 0;

	while (err == 0 && (length = pmu_record_length(records, n_bytes)) > 0) {
		const struct perf_event_header *head = (const void *)records;

		if (role == ACCESS_ROLE_TASKS && is_task(head))
			err = keep_task(samples, records, (size_t)length);
		else if (is_secret(stream) && head->type == PERF_RECORD_SAMPLE)
			err = take_private(samples, stream, records, (size_t)length);
		else if (samples->code && role == ACCESS_ROLE_ACCESS &&
			 head->type == PERF_RECORD_SAMPLE)
			err = take_code(samples, stream, records, (size_t)length);
		records += length;
		n_bytes -= (size_t)length;
	}
	return err;
}

static int take_records(void *context, const void *records, size_t n_bytes, uint32_t n_samples)
{
	struct samples_stream *stream = context;
	struct samples *samples = stream->owner;
	int err;

	samples->n_new += n_samples;
	if (samples->is_muted && stream->source->role != ACCESS_ROLE_TASKS) {
		samples->n_dropped += n_samples;
		return 0;
	}
	err = look_at_records(stream, records, n_bytes);
	if (err < 0 || samples->is_muted || is_secret(stream))
		return err;
	return trace_writer_perf(samples->writer, stream->source_id, records, n_bytes, n_samples);
}

/* ---- Telling the tracker, in order of time over all CPUs ---- */

struct task_entry {
	uint64_t time_ns;
	size_t offset;
};

static int compare_tasks(const void *left, const void *right)
{
	const struct task_entry *a = left, *b = right;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

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

void samples_forget(struct samples *samples, uint32_t process_id, uint64_t start, uint64_t size)
{
	bool is_all = start == 0 && size == UINT64_MAX;

	if (samples->private_samples)
		samples_private_forget(samples->private_samples, process_id, start, start + size);
	else if (samples->code && is_all)
		run_code_forget_image(samples->code, process_id);
	else if (samples->code)
		run_code_forget_range(samples->code, process_id, start, size);
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
			samples_forget(samples, image->id, record->map.address, record->map.size);
	}
	tracker_task(samples->tracker, record, ticks);
}

static int tell_tracker(struct samples *samples)
{
	const struct pmu_format *format = task_format(samples);
	size_t max_entries = samples->task_bytes / sizeof(struct perf_event_header);
	struct task_entry *entries;
	size_t n;

	if (!format || max_entries == 0)
		return 0;
	entries = malloc(max_entries * sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	n = list_tasks(samples, format, entries);
	qsort(entries, n, sizeof(*entries), compare_tasks);
	for (size_t i = 0; i < n; i++) {
		struct pmu_record record;

		if (pmu_record_parse(format, samples->tasks + entries[i].offset,
				     samples->task_bytes - entries[i].offset, &record) > 0)
			tell(samples, &record);
	}
	free(entries);
	samples->task_bytes = 0;
	return 0;
}

static int take_aux(void *context, const struct trace_aux *aux, const void *bytes)
{
	struct samples_stream *stream = context;

	if (stream->owner->is_muted)
		return 0;
	return trace_writer_aux(stream->owner->writer, stream->source_id, aux, bytes);
}

/* Records first: they tell of the bytes. */
static int read_stream(struct samples_stream *stream)
{
	ssize_t n = pmu_stream_read(stream->stream, take_records, stream);

	if (n >= 0)
		n = pmu_stream_read_aux(stream->stream, take_aux, stream);
	return n < 0 ? (int)n : 0;
}

int samples_read(struct samples *samples, uint64_t now_ticks, const struct clock_pair *pair,
		 uint64_t ticks_per_second)
{
	samples->n_new = 0;
	samples->now_ticks = now_ticks;
	samples->pair = *pair;
	samples->ticks_per_second = ticks_per_second;
	for (size_t i = samples->n_streams; i-- > 0;) {
		/* Tasks come last in the list and are read first: who lives, then whose samples. */
		int err = read_stream(&samples->streams[i]);

		if (err == 0 && samples->streams[i].source->role == ACCESS_ROLE_TASKS)
			err = tell_tracker(samples);
		if (err < 0)
			return err;
	}
	return 0;
}

void samples_mute(struct samples *samples)
{
	samples->is_muted = true;
	for (size_t i = 0; i < samples->n_streams; i++) {
		if (samples->streams[i].source->role != ACCESS_ROLE_TASKS)
			pmu_stream_enable(samples->streams[i].stream, false);
	}
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

static uint64_t store_stream_losses(struct samples *samples, const struct samples_stream *stream)
{
	struct pmu_losses losses = { 0 };

	pmu_stream_losses(stream->stream, &losses);
	const struct store_loss all[] = {
		{ .count = losses.n_lost, .reason = "ring overrun" },
		{ .count = losses.n_lost_samples, .reason = "dropped by the hardware" },
		{ .count = losses.n_throttles,
		  .reason = "throttled",
		  .from_ticks =
			  losses.throttled_from_ns
				  ? clock_pair_ticks(&samples->pair, samples->ticks_per_second,
						     losses.throttled_from_ns)
				  : 0,
		  .to_ticks = losses.throttled_to_ns
				      ? clock_pair_ticks(&samples->pair, samples->ticks_per_second,
							 losses.throttled_to_ns)
				      : 0 },
		{ .count = losses.n_bad_bytes, .reason = "unreadable bytes" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct store_loss loss = all[i];

		loss.source = stream->source->name;
		store_loss(samples->writer, &loss);
	}
	return losses.n_lost + losses.n_lost_samples;
}

uint64_t samples_store_losses(struct samples *samples)
{
	const struct run_code_counts *counts =
		samples->code ? run_code_counts(samples->code) : NULL;
	uint64_t n = samples->n_dropped;

	for (size_t i = 0; i < samples->n_streams; i++)
		n += store_stream_losses(samples, &samples->streams[i]);
	const struct store_loss all[] = {
		{ .count = samples->n_dropped,
		  .source = "collector",
		  .reason = "recording stopped" },
		{ .count = samples->n_unusable, .source = "tasks", .reason = "unreadable records" },
		{ .count = counts ? counts->n_over_limit : 0,
		  .source = "code",
		  .reason = "limit of stored code" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		store_loss(samples->writer, &all[i]);
	/*
	 * No loss yet: the process had ended when its page was to be read, but the file it came from
	 * serves as well. What cannot be decoded for that is counted where it is decoded.
	 */
	if (counts && counts->n_unreadable)
		store_counter(samples->writer, 0, "code pages not readable", "pages",
			      counts->n_unreadable);
	return n;
}

uint64_t samples_count(const struct samples *samples, enum access_role role)
{
	uint64_t n = 0;

	for (size_t i = 0; i < samples->n_streams; i++) {
		struct pmu_losses losses = { 0 };

		if (samples->streams[i].source->role != role)
			continue;
		pmu_stream_losses(samples->streams[i].stream, &losses);
		n += losses.n_taken;
	}
	return n;
}

void samples_close(struct samples *samples)
{
	for (size_t i = 0; i < samples->n_streams; i++)
		samples->streams[i].stream = pmu_stream_close(samples->streams[i].stream);
	samples->n_streams = 0;
	samples->code = run_code_destroy(samples->code);
	samples->private_samples = samples_private_destroy(samples->private_samples);
	free(samples->tasks);
	samples->tasks = NULL;
}
