#include "analyze/samples/callchain.h"

#include <linux/perf_event.h>

#include "analyze/samples/samples-internal.h"
#include "analyze/samples/unwind.h"

/* What the kernel writes between the addresses: whose they are. PERF_CONTEXT_MAX is the lowest. */
static bool is_marker(uint64_t word)
{
	return word >= (uint64_t)PERF_CONTEXT_MAX;
}

/* The user's part of a chain, innermost first. */
static size_t take_user(const struct pmu_sample *sample, uint64_t *pcs, size_t max)
{
	bool is_user = true;
	size_t n = 0;

	for (uint64_t i = 0; i < sample->n_callchain && n < max; i++) {
		uint64_t word = sample->callchain[i];

		if (is_marker(word))
			is_user = word == (uint64_t)PERF_CONTEXT_USER;
		else if (is_user && word != 0)
			pcs[n++] = word;
	}
	return n;
}

/* Clock samples carry a little of the stack anyway, for their accesses. */
static bool is_kept_for_unwinding(const struct sample_source *source)
{
	return source->stack_bytes > DECODE_STACK_BYTES;
}

int64_t sample_stack(struct samples *samples, const struct sample_source *source,
		     const struct pmu_sample *sample, uint32_t process, int64_t time_ns)
{
	uint64_t pcs[STACKS_MAX_PATH];
	struct stacks_path path = { .process = process, .pcs = pcs, .time_ns = time_ns };

	if (source->format.sample_type & PERF_SAMPLE_CALLCHAIN)
		path.n = take_user(sample, pcs, STACKS_MAX_PATH);
	if (path.n == STACKS_MAX_PATH)
		path.stop = TRACE_STOP_DEPTH;
	if (path.n == 0 && is_kept_for_unwinding(source))
		path.n = sample_unwind(&(struct sample_unwind){ samples->context.modules, process,
								time_ns, sample },
				       pcs, STACKS_MAX_PATH, &path.stop);
	return path.n ? stacks_path(samples->context.stacks, &path) : 0;
}
