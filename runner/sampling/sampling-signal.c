/* Samples that programs take of themselves: from their records to those of the source `signal`. */
#include "pmu/signal.h"
#include "runner/sampling/sampling.h"

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
	for (size_t i = 0; i < samples->n_streams; i++) {
		if (samples->streams[i].source == &pmu_source_signal)
			return &samples->streams[i];
	}
	return NULL;
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
