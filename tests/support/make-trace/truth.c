#include "tests/support/make-trace/make-trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static const char *const owner_names[MAKE_TRACE_MAX_OWNERS] = {
#define OWNER(name, number, text) [number] = #name,
#include "schemas/owner.def"
#undef OWNER
};

struct make_trace_truth *make_trace_truth_free(struct make_trace_truth *truth)
{
	if (!truth)
		return NULL;
	free(truth->stacks);
	free(truth);
	return NULL;
}

static void write_total(FILE *file, const char *name, const struct make_trace_total *total)
{
	fprintf(file,
		"  \"%s\": {\"births\": %" PRIu64 ", \"deaths\": %" PRIu64 ", \"moves\": %" PRIu64
		", \"born_bytes\": %" PRIu64 ", \"live_blocks\": %" PRIu64
		", \"live_bytes\": %" PRIu64 ", \"peak_bytes\": %" PRIu64 ", \"peak_ns\": %" PRIu64
		"},\n",
		name, total->n_births, total->n_deaths, total->n_moves, total->born_bytes,
		total->live_blocks, total->live_bytes, total->peak_bytes, total->peak_ns);
}

static void write_owners(FILE *file, const struct make_trace_truth *truth)
{
	const char *comma = "";

	fputs("  \"samples_of_owner\": {", file);
	for (unsigned i = 0; i < MAKE_TRACE_MAX_OWNERS; i++) {
		if (!owner_names[i])
			continue;
		fprintf(file, "%s\"%s\": %" PRIu64, comma, owner_names[i],
			truth->n_samples_of_owner[i]);
		comma = ", ";
	}
	fputs("},\n", file);
}

static void write_stack(FILE *file, const struct make_trace_stack *stack)
{
	fputs("    {\"offsets\": [", file);
	for (unsigned i = 0; i < MAKE_TRACE_MAX_DEPTH; i++)
		fprintf(file, "%s%" PRIu64, i ? ", " : "", stack->offsets[i]);
	fprintf(file,
		"], \"births\": %" PRIu64 ", \"born_bytes\": %" PRIu64 ", \"live_blocks\": %" PRIu64
		", \"live_bytes\": %" PRIu64 ", \"samples\": %" PRIu64 "}",
		stack->heap.n_births, stack->heap.born_bytes, stack->heap.live_blocks,
		stack->heap.live_bytes, stack->n_samples);
}

int make_trace_truth_write(const struct make_trace_truth *truth, FILE *file)
{
	fprintf(file,
		"{\n  \"events\": %" PRIu64 ", \"samples\": %" PRIu64 ", \"end_ns\": %" PRIu64
		",\n  \"cross_thread_frees\": %" PRIu64 ", \"reused_addresses\": %" PRIu64 ",\n",
		truth->n_events, truth->n_samples, truth->end_ns, truth->n_cross_thread_frees,
		truth->n_reused_addresses);
	write_total(file, "heap", &truth->heap);
	write_total(file, "mapping", &truth->mapping);
	write_owners(file, truth);
	fputs("  \"stacks\": [\n", file);
	for (uint32_t i = 0; i < truth->n_stacks; i++) {
		fputs(i ? ",\n" : "", file);
		write_stack(file, &truth->stacks[i]);
	}
	fputs("\n  ]\n}\n", file);
	return fflush(file) == 0 && !ferror(file) ? 0 : -EIO;
}
