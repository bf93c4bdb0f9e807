/*
 * Samples that come by another way than perf, in perf's form: there is one parser, and one kind of
 * record in a trace. Layout: enum perf_event_type, PERF_RECORD_SAMPLE, linux/perf_event.h.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/array.h"
#include "perf/record.h"
#include "pmu/signal.h"
#include "pmu/stream.h"

#define SIGNAL_REGISTERS UINT64_C(0xff03ff) /* as those of the clock */
#define STACK_BYTES	 256u
#define BELOW_BYTES	 128u
#define SAMPLE_TYPE                                                                                \
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD |                \
	 PERF_SAMPLE_RAW | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)
#define NS_PER_SECOND UINT64_C(1000000000)
#define RIP	      8u /* index of ip among the registers */

struct signal_stream {
	struct access_stream base;
	uint64_t period_ns;
	struct pmu_notes notes;
	uint8_t *bytes;
	size_t n_bytes;
	size_t room;
	uint32_t n_samples;
	struct pmu_losses losses;
};

static struct signal_stream *signal_stream(const struct access_stream *stream)
{
	return (struct signal_stream *)(uintptr_t)stream; /* base is its first member */
}

/*
 * The kernel looks at CPU timers once a tick (posix-cpu-timers.c); the coarse clocks move by it. A
 * shorter period would only make samples that stand for several.
 */
static uint64_t tick_ns(void)
{
	struct timespec tick = { .tv_nsec = 0 };

	clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
	return (uint64_t)tick.tv_sec * NS_PER_SECOND + (uint64_t)tick.tv_nsec;
}

static uint64_t choose_period(const struct access_options *options, struct pmu_notes *notes)
{
	uint64_t hz = options->freq_hz ? options->freq_hz : PMU_DEFAULT_FREQ_HZ;
	uint64_t wanted = options->period ? options->period : NS_PER_SECOND / hz;
	uint64_t tick = tick_ns();

	if (wanted >= tick)
		return wanted;
	if (options->period || hz != PMU_DEFAULT_FREQ_HZ)
		pmu_notes_add(notes, "%u samples a second: the kernel's tick allows no more",
			      (unsigned)(NS_PER_SECOND / tick));
	return tick;
}

/* What is said of the source; nothing is opened. */
static void configure(const struct access_options *options, struct perf_event_attr *attr)
{
	struct pmu_notes notes = { .text = "" };

	attr->type = PERF_TYPE_SOFTWARE;
	attr->config = PERF_COUNT_SW_TASK_CLOCK;
	attr->sample_period = choose_period(options, &notes);
	attr->sample_type = SAMPLE_TYPE;
	attr->sample_regs_user = SIGNAL_REGISTERS;
	attr->sample_stack_user = STACK_BYTES;
}

static int probe(const struct access_source *source, const struct access_options *options,
		 struct pmu_refusal *ret_refusal)
{
	(void)source;
	(void)options;
#if !defined(__x86_64__)
	return pmu_refuse(ret_refusal, -ENOTSUP,
			  "it knows the registers of x86-64 only\n--source clock");
#endif
	(void)ret_refusal;
	return 0;
}

static int open_signal(const struct access_source *source, const struct access_options *options,
		       struct access_stream **ret_stream, struct pmu_refusal *ret_refusal)
{
	struct signal_stream *stream;
	int err = probe(source, options, ret_refusal);

	if (err < 0)
		return err;
	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return pmu_refuse(ret_refusal, -ENOMEM, "no memory left");
	stream->base.source = source;
	stream->period_ns = choose_period(options, &stream->notes);
	if (options->has_call_chain || options->stack_bytes > STACK_BYTES)
		pmu_notes_add(&stream->notes, "no call stacks of samples");
	stream->losses.n_lost_is_exact = true;
	*ret_stream = &stream->base;
	return 0;
}

static void close_signal(struct access_stream *base)
{
	struct signal_stream *stream = signal_stream(base);

	free(stream->bytes);
	free(stream);
}

uint64_t pmu_signal_period(const struct access_stream *stream)
{
	return signal_stream(stream)->period_ns;
}

/* ---- Records ---- */

static int make_room(struct signal_stream *stream, size_t n_bytes)
{
	return grow_array_by(&stream->bytes, stream->n_bytes, n_bytes, &stream->room, 1);
}

static void put(struct signal_stream *stream, const void *bytes, size_t n_bytes)
{
	memcpy(stream->bytes + stream->n_bytes, bytes, n_bytes);
	stream->n_bytes += n_bytes;
}

static void put_number(struct signal_stream *stream, uint64_t number)
{
	put(stream, &number, sizeof(number));
}

/* See pmu_sample_below(). */
static void put_below(struct signal_stream *stream, const uint8_t *stack, uint32_t n_bytes)
{
	put_number(stream, (n_bytes + sizeof(uint32_t)) | (uint64_t)PMU_RAW_BELOW << 32);
	put(stream, stack - n_bytes, n_bytes);
}

int pmu_signal_push(struct access_stream *base, const struct pmu_signal_sample *sample)
{
	struct signal_stream *stream = signal_stream(base);
	uint32_t stack_bytes = sample->stack_bytes & ~7u, below_bytes = sample->below_bytes & ~7u;
	size_t registers_bytes = PMU_SIGNAL_REGISTERS * sizeof(*sample->registers);
	/*
	 * ip, tid, time, period, raw data, abi, registers, size of the stack, and unless it is 0
	 * its bytes and size
	 */
	size_t n_bytes = sizeof(struct perf_event_header) + 7 * 8 + below_bytes + registers_bytes +
			 (stack_bytes ? stack_bytes + 8 : 0);
	const struct perf_event_header head = {
		.type = PERF_RECORD_SAMPLE,
		.misc = sample->is_kernel ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER,
		.size = (uint16_t)n_bytes,
	};

	if (stack_bytes > STACK_BYTES || below_bytes > BELOW_BYTES)
		return -EINVAL;
	if (make_room(stream, n_bytes) < 0)
		return -ENOMEM;
	put(stream, &head, sizeof(head));
	put_number(stream, sample->registers[RIP]);
	put_number(stream, sample->pid | (uint64_t)sample->tid << 32);
	put_number(stream, sample->time_ns);
	put_number(stream, stream->period_ns * sample->n_periods);
	put_below(stream, sample->stack, below_bytes);
	put_number(stream, PERF_SAMPLE_REGS_ABI_64);
	put(stream, sample->registers, registers_bytes);
	put_number(stream, stack_bytes);
	if (stack_bytes) {
		put(stream, sample->stack, stack_bytes);
		put_number(stream, stack_bytes);
	}
	stream->n_samples++;
	return 0;
}

/* ---- The rest of the interface ---- */

static int enable(struct access_stream *base, bool on)
{
	(void)base;
	(void)on;
	return 0;
}

static ssize_t read_signal(struct access_stream *base, pmu_sink sink, void *context)
{
	struct signal_stream *stream = signal_stream(base);
	size_t n_bytes = stream->n_bytes;

	if (n_bytes == 0)
		return 0;
	int r = sink(context, stream->bytes, n_bytes, stream->n_samples);
	if (r < 0)
		return r;
	stream->losses.n_taken += stream->n_samples;
	stream->losses.n_records += stream->n_samples;
	stream->n_bytes = 0;
	stream->n_samples = 0;
	return (ssize_t)n_bytes;
}

static int losses(struct access_stream *base, struct pmu_losses *ret_losses)
{
	*ret_losses = signal_stream(base)->losses;
	return 0;
}

static void describe(const struct access_stream *base, struct trace_source *ret_source)
{
	*ret_source = (struct trace_source){
		.perf_type = PERF_TYPE_SOFTWARE,
		.perf_config = PERF_COUNT_SW_TASK_CLOCK,
		.sample_type = SAMPLE_TYPE,
		.regs_user = SIGNAL_REGISTERS,
		.stack_bytes = STACK_BYTES,
		.period = signal_stream(base)->period_ns,
		.clock_id = CLOCK_MONOTONIC_RAW,
	};
}

static const char *notes(const struct access_stream *base)
{
	return signal_stream(base)->notes.text;
}

const struct access_source pmu_source_signal = {
	.name = "signal",
	.unit = "ns of CPU time",
	.about = "a timer in each thread of the program itself: as "
		 "clock, but needs no perf permission",
	.role = ACCESS_ROLE_ACCESS,
	.kind = TRACE_SAMPLE_REGISTERS,
	.is_timed = true,
	.is_opt_in = true,
	.probe = probe,
	.open = open_signal,
	.enable = enable,
	.read = read_signal,
	.losses = losses,
	.describe = describe,
	.notes = notes,
	.close = close_signal,
	.configure = configure,
};
