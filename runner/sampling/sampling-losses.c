/* What the sources of a recording lost, and what sampling cost. */
#include <inttypes.h>
#include <stdio.h>

#include "common/array.h"
#include "runner/sampling/sampling.h"
#include "runner/trace-records-write.h"

static void store_ledger(struct samples *samples, const struct samples_stream *stream,
			 const struct pmu_losses *losses)
{
	struct trace_source_ledger record = {
		.head.type = TRACE_RECORD_SOURCE_LEDGER,
		.source_id = stream->source_id,
		.is_exact = losses->n_lost_is_exact,
		.n_taken = losses->n_taken,
		.n_lost = losses->n_lost,
		.n_lost_samples = losses->n_lost_samples,
		.n_dropped = stream->n_dropped,
		.n_throttles = losses->n_throttles,
		.throttled_ns = losses->throttled_ns,
		.n_bad_bytes = losses->n_bad_bytes,
		.n_aux_truncated = losses->n_aux_truncated,
		.n_aux_partial = losses->n_aux_partial,
		.n_aux_collisions = losses->n_aux_collisions,
		.n_behind = losses->n_behind,
	};

	trace_writer_add(samples->writer, &record);
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
		{ .count = losses.n_aux_truncated, .reason = "AUX area full" },
		{ .count = losses.n_aux_partial, .reason = "AUX bytes with gaps" },
		{ .count = losses.n_aux_collisions, .reason = "samples collided in the hardware" },
	};

	store_ledger(samples, stream, &losses);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct store_loss loss = all[i];

		loss.source = stream->source->name;
		store_loss(samples->writer, &loss);
	}
	return losses.n_lost + losses.n_lost_samples;
}

/* What sampling cost, where it had a budget, and what was done about it. */
static void store_rate(struct samples *samples)
{
	const struct samples_rate *rate = &samples->rate;

	if (!rate->budget_ppm)
		return;
	store_counter(samples->writer, 0, "sampling cost", "ns", (uint64_t)rate->spent_ns);
	store_counter(samples->writer, 0, "sampled CPU time", "ns", (uint64_t)rate->program_ns);
	store_counter(samples->writer, 0, "changes of the rate", "changes", rate->n_changes);
}

uint64_t samples_store_losses(struct samples *samples)
{
	const struct run_code_counts counts =
		samples->code ? run_code_counts(samples->code) : (struct run_code_counts){ 0 };
	const struct run_data_counts data =
		samples->data ? run_data_counts(samples->data) : (struct run_data_counts){ 0 };
	uint64_t n = samples->n_dropped;

	for (size_t i = 0; i < samples->n_streams; i++)
		n += store_stream_losses(samples, &samples->streams[i]);
	const struct store_loss all[] = {
		{ .count = samples->n_dropped,
		  .source = "collector",
		  .reason = "recording stopped" },
		{ .count = samples->n_unusable, .source = "tasks", .reason = "unreadable records" },
		{ .count = counts.n_over_limit,
		  .source = "code",
		  .reason = "limit of stored code" },
		{ .count = data.n_over_limit,
		  .source = "clock",
		  .reason = "limit of addresses read" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		store_loss(samples->writer, &all[i]);
	store_rate(samples);
	/*
	 * No loss yet: the process had ended when its page was to be read, but the file it came
	 * from serves as well. What cannot be decoded for that is counted where it is decoded.
	 */
	if (counts.n_unreadable)
		store_counter(samples->writer, 0, "code pages not readable", "pages",
			      counts.n_unreadable);
	if (counts.n_changes)
		store_counter(samples->writer, 0, "changes of code seen", "readings",
			      counts.n_changes);
	if (data.n_samples)
		store_counter(samples->writer, 0, "samples with loaded addresses read", "samples",
			      data.n_samples);
	if (samples->nodes.n_gone)
		store_counter(samples->writer, 0, "page faults without a node", "pages",
			      samples->nodes.n_gone);
	return n;
}

static int give_number(samples_fact_sink sink, void *context, const char *key, uint64_t number)
{
	char text[24];

	if (number == 0)
		return 0;
	snprintf(text, sizeof(text), "%" PRIu64, number);
	return sink(context, key, text);
}

int samples_facts(const struct samples *samples, const struct run_options *options,
		  samples_fact_sink sink, void *context)
{
	const struct samples_rate *rate = &samples->rate;
	int err = sink(context, "memsight.source", options->source ? options->source : "auto");

	err = err ?: give_number(sink, context, "memsight.rate_limit_hz", rate->limit_hz);
	if (err == 0 && options->budget)
		err = sink(context, "memsight.budget", options->budget);
	err = err ?: give_number(sink, context, "memsight.budget_rate_hz", rate->freq_hz);
	return err ?: give_number(sink, context, "memsight.sample_cost_ns", rate->cost_ns);
}

bool samples_has(const struct samples *samples, enum access_role role)
{
	return array_find(samples->streams, samples->n_streams, it, it->source->role == role);
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
