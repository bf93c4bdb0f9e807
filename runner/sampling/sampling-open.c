/* Choosing and opening the sources of a recording. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "pmu/choice.h"
#include "pmu/signal.h"
#include "pmu/uprobes.h"
#include "pmu/watch.h"
#include "runner/processes/process-sampler.h"
#include "runner/sampling/decode-live.h"
#include "runner/sampling/sampling.h"
#include "runner/trace-records-write.h"

/* ---- Signals ---- */

/* Samples that programs take of themselves: from their records to those of the source `signal`. */

/* Registers in the order of perf's bits. */
enum {
	REG_CX = 2,
	REG_IP = 8,
	REG_FLAGS = 9,
	REG_R11 = 13,
};
#define FLAG_RESUME (UINT64_C(1) << 16) /* set when a handler returns: says nothing */

static struct samples_stream *signal_stream(struct samples *samples)
{
	return array_find(samples->streams, samples->n_streams, it,
			  it->source == &pmu_source_signal);
}

uint64_t samples_signal_period(const struct samples *samples)
{
	const struct samples_stream *stream = signal_stream((struct samples *)(uintptr_t)samples);

	return stream ? pmu_signal_period(stream->stream) : 0;
}

/*
 * A timer that fires in a system call is told at its end: rcx and r11 are then what the instruction
 * `syscall` has made of them (Intel SDM, SYSCALL), and the time was the kernel's.
 */
static bool is_after_syscall(const uint64_t *registers)
{
	return registers[REG_CX] == registers[REG_IP] &&
	       ((registers[REG_R11] ^ registers[REG_FLAGS]) & ~FLAG_RESUME) == 0;
}

static uint32_t tid_of(const struct image *image, uint32_t thread_id)
{
	for (size_t i = image->n_threads; i-- > 0;) {
		if (image->threads[i].id == thread_id)
			return image->threads[i].tid;
	}
	return 0;
}

void samples_take_signal(struct samples *samples, const struct image *image, uint32_t thread_id,
			 const struct ring_sample *sample)
{
	struct samples_stream *stream = signal_stream(samples);
	const struct pmu_signal_sample out = {
		.pid = (uint32_t)image->pid,
		.tid = tid_of(image, thread_id),
		.time_ns =
			clock_pair_raw_ns(&samples->pair, samples->ticks_per_second, sample->ticks),
		.n_periods = sample->n_periods,
		.is_kernel = is_after_syscall(sample->registers),
		.registers = sample->registers,
		.stack = sample->stack + sample->below_bytes,
		.stack_bytes = sample->stack_bytes,
		.below_bytes = sample->below_bytes,
	};

	if (!stream)
		return;
	if (pmu_signal_push(stream->stream, &out) < 0 ||
	    pmu_stream_read(stream->stream, samples_take_records, stream) < 0)
		samples->n_unusable++;
}

#define STACK_BYTES	  256
#define UNWIND_RING_BYTES (1u << 20) /* what an ordinary user may lock is for all sources */
#define UNWIND_BYTES	  8192 /* --sample-stacks dwarf: what of the stack is kept */

static int emit_code(void *context, uint32_t process_id, const struct trace_code *code,
		     const void *bytes)
{
	struct samples *samples = context;

	return trace_writer_code(samples->writer, process_id, code, bytes);
}

static int emit_seen(void *context, const struct trace_code_seen *record, const uint64_t *pages)
{
	struct samples *samples = context;

	return trace_writer_add(samples->writer, record, trace_bytes(pages, record->pages_bytes));
}

static int store_source(struct samples *samples, const char *name, const char *unit,
			struct trace_source *record, const char *remedy)
{

	record->head.type = TRACE_RECORD_SOURCE;
	record->source_id = (uint32_t)++samples->n_sources;
	return trace_writer_add(samples->writer, record, trace_text(name), trace_text(unit),
				trace_text(remedy));
}

static int store_refused(struct samples *samples, const struct pmu_chosen *chosen,
			 const struct access_options *options)
{
	const struct pmu_refusal *refusal = &chosen->refusal;
	struct trace_source record = { 0 };
	char remedy[sizeof(refusal->why) + sizeof(refusal->fix) + 4];

	pmu_source_describe_refused(chosen->source, options, chosen->error, &record);
	record.flags = chosen->is_passed_over ? TRACE_SOURCE_PASSED_OVER : 0;
	snprintf(remedy, sizeof(remedy), "%s%s%s", refusal->why, refusal->fix[0] ? "; " : "",
		 refusal->fix);
	return store_source(samples, chosen->source->name, chosen->source->unit, &record, remedy);
}

static int refuse(struct samples *samples, const struct pmu_chosen *chosen,
		  const struct access_options *options)
{
	/*
	 * What other sources need, too, is told with them; alone, the samples that are there do
	 * without.
	 */
	if (!samples->refusal[0] && chosen->source->role == ACCESS_ROLE_TASKS)
		snprintf(samples->refusal, sizeof(samples->refusal),
			 "no task records (names of threads, maps that no hook sees): %s",
			 chosen->refusal.why);
	else if (!samples->refusal[0])
		snprintf(samples->refusal, sizeof(samples->refusal), "no %s samples: %s; %s",
			 chosen->source->name, chosen->refusal.why, chosen->refusal.fix);
	return store_refused(samples, chosen, options);
}

/* What its samples say, for whoever decodes them. */
static int store_detail(struct samples *samples, struct samples_stream *stream)
{
	const char *event = "";
	struct trace_source_detail record = { 0 };
	const char *given_up = pmu_stream_notes(stream->stream);
	const char *remarks = pmu_stream_remarks(stream->stream);
	char notes[1024];

	snprintf(notes, sizeof(notes), "%s%s%s", given_up, given_up[0] && remarks[0] ? "; " : "",
		 remarks);
	pmu_stream_detail(stream->stream, &record, &event);
	stream->format.read_format = record.read_format;
	stream->format.regs_intr = record.regs_intr;
	stream->format.branch_sample_type = record.branch_sample_type;

	record.head.type = TRACE_RECORD_SOURCE_DETAIL;
	record.source_id = stream->source_id;
	return trace_writer_add(samples->writer, &record, trace_text(event ? event : ""),
				trace_text(notes));
}

static void give_up(struct samples *samples, const char *name, const char *what)
{
	size_t n = strlen(samples->given_up);

	snprintf(samples->given_up + n, sizeof(samples->given_up) - n, "%s%s: %s", n ? "; " : "",
		 name, what);
}

/* What a source gave up; --strict does not go on then. */
static void note(struct samples *samples, const struct access_source *source, const char *notes)
{
	if (notes[0])
		give_up(samples, source->name, notes);
}

static int open_one(struct samples *samples, struct pmu_chosen *chosen,
		    const struct access_options *options)
{
	const struct access_source *source = chosen->source;
	struct samples_stream *mine = &samples->streams[samples->n_streams];
	struct trace_source record = { 0 };
	int err = pmu_stream_open(source, options, &mine->stream, &chosen->refusal);

	if (err < 0) {
		chosen->error = err;
		return refuse(samples, chosen, options);
	}
	pmu_stream_describe(mine->stream, &record);
	mine->owner = samples;
	mine->source = source;
	mine->format = (struct pmu_format){ .sample_type = record.sample_type,
					    .regs_user = record.regs_user };
	samples->n_streams++;
	err = store_source(samples, source->name, pmu_stream_unit(mine->stream), &record,
			   pmu_stream_notes(mine->stream));
	mine->source_id = (uint32_t)samples->n_sources;
	err = err ?: store_detail(samples, mine) ?: samples_store_perf_clock(mine);
	note(samples, source, pmu_stream_notes(mine->stream));
	if (source->role == ACCESS_ROLE_TASKS) {
		samples->tracker->has_task_records = true;
		return err;
	}
	if (source->role == ACCESS_ROLE_CALLS)
		return err; /* no samples */
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
		.enable_on_exec = options->n_attach == 0,
		.is_running = options->n_attach > 0,
		.more_pids = options->n_attach > 1 ? options->attach_pids + 1 : NULL,
		.n_more_pids = options->n_attach > 1 ? options->n_attach - 1 : 0,
		.freq_hz = options->frequency_hz,
		.period = options->period,
		.load_event = options->load_event,
		.store_event = options->store_event,
		.min_latency = options->min_latency,
		.mode = modes[options->count],
		.stack_bytes = options->sample_stacks == RUN_SAMPLE_STACKS_DWARF ? UNWIND_BYTES
										 : STACK_BYTES,
		.has_call_chain = options->sample_stacks == RUN_SAMPLE_STACKS_FP,
		.is_private = options->private_samples,
		.uprobes = options->functions ? options->functions->uprobes : NULL,
		.n_uprobes = options->functions ? options->functions->n_uprobes : 0,
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
	uint32_t budget_ppm;

	if (parse_choice(options, &choice, why) < 0)
		return snprintf(message, n_bytes, "--source: %s", why), -EINVAL;
	if (options->no_alloc && pmu_choice_has(&choice, "signal"))
		return snprintf(message, n_bytes,
				"--source signal: the timer lives in the library that --no-alloc "
				"leaves out"),
		       -EINVAL;
	if (options->budget && samples_rate_parse_budget(options->budget, &budget_ppm) < 0)
		return snprintf(message, n_bytes,
				"--budget: '%s' is not a part such as 2%% or 0.5%% (at most 50%%)",
				options->budget),
		       -EINVAL;
	if (options->private_samples && options->sample_stacks)
		return snprintf(message, n_bytes,
				"--private keeps no call stacks of samples: leave one of it and "
				"--sample-stacks out"),
		       -EINVAL;
	if (options->period == 0 && options->has_period)
		return snprintf(message, n_bytes,
				"--period: 0 is no period; leave it out for the default"),
		       -EINVAL;
	if (options->frequency_hz && options->period)
		return snprintf(message, n_bytes, "--freq and --period exclude each other"),
		       -EINVAL;
	return 0;
}

int samples_check_uprobes(char *message, size_t n_bytes)
{
	struct pmu_refusal refusal;
	int r = pmu_uprobes_check(&refusal);

	if (r < 0)
		snprintf(message, n_bytes, "%s: %s", refusal.why, refusal.fix);
	return r;
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

static void choose_rate(struct samples *samples, const struct access_source *source,
			struct access_options *own)
{
	uint64_t asked = own->freq_hz;
	char what[128];

	samples_rate_choose(&samples->rate, source, own);
	if (samples->rate.limit_hz == 0 || (samples->rate.budget_ppm && asked == 0))
		return; /* nobody asked for a rate that cannot be had */
	snprintf(what, sizeof(what),
		 "at most %" PRIu64 " samples a second (kernel.perf_event_max_sample_rate)",
		 samples->rate.limit_hz);
	give_up(samples, source->name, what);
}

/* What was asked of the hardware has no effect where none of its sources runs. */
static void refuse_idle_options(struct samples *samples, const struct access_options *access)
{
	const char *option = access->load_event	   ? "--load-event"
			     : access->store_event ? "--store-event"
			     : access->min_latency ? "--ldlat"
						   : NULL;

	for (size_t i = 0; i < samples->n_streams; i++)
		if (samples->streams[i].source->hardware)
			return;
	if (option && !samples->refusal[0])
		snprintf(samples->refusal, sizeof(samples->refusal),
			 "%s has no effect: no hardware source runs; see memsight record --help of"
			 " --source",
			 option);
}

static int open_all(struct samples *samples, struct pmu_choice *choice,
		    const struct access_options *access)
{
	int err = 0;

	for (size_t i = 0; i < choice->n && err == 0; i++) {
		struct pmu_chosen *chosen = &choice->items[i];
		struct access_options own = pmu_chosen_options(chosen, access);

		/*
		 * Only timed sources have registers and stack bytes: the others follow frame
		 * pointers.
		 */
		own.has_call_chain |= own.stack_bytes == UNWIND_BYTES && !chosen->source->is_timed;
		if (own.stack_bytes == UNWIND_BYTES && chosen->source->is_timed)
			own.ring_bytes = UNWIND_RING_BYTES;
		if (chosen->source->is_timed && chosen->error == 0)
			choose_rate(samples, chosen->source, &own);
		/* Threads that are there already have one event each: its period stays. */
		if (access->is_running)
			own.has_jitter = false;
		if (chosen->is_passed_over) {
			pass_over(samples, chosen, i > 0 ? chosen - 1 : NULL);
			err = store_refused(samples, chosen, &own);
		} else if (chosen->error) {
			err = refuse(samples, chosen, &own);
		} else {
			err = open_one(samples, chosen, &own);
		}
	}
	return err;
}

struct access_stream *samples_watch_stream(const struct samples *samples)
{
	for (size_t i = 0; i < samples->n_streams; i++) {
		if (samples->streams[i].source == &pmu_source_watch)
			return samples->streams[i].stream;
	}
	return NULL;
}

static int tell_probed(struct samples *samples, const struct run_functions *functions)
{
	int err = 0;

	for (size_t i = 0; err == 0 && i < functions->n_probed; i++)
		err = store_text(samples->writer, 0, text_name_id(functions->probed[i]),
				 functions->probed[i], strlen(functions->probed[i]));
	return err;
}

/*
 * What goes beside any choice: --watch, and functions by uprobes. They need the records of maps and
 * threads, which come last.
 */
static int open_beside(struct samples *samples, const struct run_options *options,
		       const struct pmu_choice *choice, const struct access_options *access)
{
	bool watches = (options->watches && options->watches[0]) || options->watch_hot;
	struct pmu_chosen uprobes = { .source = &pmu_source_uprobes };
	struct pmu_chosen watch = { .source = &pmu_source_watch };
	struct pmu_chosen tasks = { .source = pmu_source_find("tasks") };
	int err = watches ? open_one(samples, &watch, access) : 0;

	if (err == 0 && access->n_uprobes)
		err = tell_probed(samples, options->functions)
			      ?: open_one(samples, &uprobes, access);
	if (err == 0 && choice->n == 0 && (watches || access->n_uprobes))
		err = open_one(samples, &tasks, access);
	return err;
}

int samples_open(struct samples *samples, const struct run_options *options, pid_t pid)
{
	const struct code_changing_sink sink = { emit_code, emit_seen, samples };
	const struct access_options access = access_options_of(options, pid);
	char why[PMU_CHOICE_MESSAGE_BYTES];
	struct pmu_choice choice;
	int err = parse_choice(options, &choice, why);

	if (run_count_nodes() > 1)
		samples->nodes.writer = samples->writer;
	if (err == 0)
		err = run_code_create(NULL, options->private_samples ? NULL : &sink,
				      &samples->code);
	if (err == 0 && options->private_samples)
		err = samples_private_create(samples->writer, samples->code,
					     &samples->private_samples);
	if (err == 0 && !options->private_samples)
		err = run_data_create(&sink, samples->code, &samples->data);
	if (err < 0)
		return err;
	if (options->budget)
		samples_rate_parse_budget(options->budget, &samples->rate.budget_ppm);
	pmu_choice_resolve(&choice, &access);
	err = open_beside(samples, options, &choice, &access);
	err = err ?: open_all(samples, &choice, &access);
	if (err == 0)
		refuse_idle_options(samples, &access);
	if (err == 0 && options->is_strict && (samples->refusal[0] || samples->given_up[0]))
		err = -EPERM;
	return err;
}
