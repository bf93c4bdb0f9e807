#include "analyze/sample-ledger.h"

#include <stdbool.h>
#include <string.h>

#include "analyze/db.h"
#include "analyze/samples-internal.h"

/* A trace whose recorder was killed tells what its frames show. */
static struct trace_source_ledger counted(const struct sample_source *source,
					  const struct sample_row_counts *counts)
{
	struct trace_source_ledger ledger = source->ledger;

	if (ledger.source_id == 0) {
		ledger.n_taken = (uint64_t)counts->n_samples;
		ledger.n_lost = source->losses[SAMPLE_LOSS_LOST];
	}
	return ledger;
}

static double scale_of(const struct trace_source_ledger *ledger,
		       const struct sample_row_counts *counts)
{
	double taken = (double)ledger->n_taken;
	double lost =
		(double)ledger->n_lost + (double)ledger->n_lost_samples + (double)ledger->n_dropped;
	double scale = taken > 0 ? (taken + lost) / taken : 1;
	double time_ns = (double)counts->weight * scale;

	if (counts->is_time && time_ns > 0)
		scale *= (time_ns + (double)ledger->throttled_ns) / time_ns;
	return scale;
}

static int write_one(struct samples *samples, const struct sample_source *source)
{
	const struct sample_row_counts counts =
		sample_rows_counts(samples->rows, (uint32_t)source->row);
	const struct trace_source_ledger ledger = counted(source, &counts);
	const uint64_t *losses = source->losses;

	return db_run(
		samples->context.db,
		"INSERT INTO source_ledger VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,"
		" ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)",
		"nnnnnnnnnnnnnnnnnnnnnnr", counts.row, samples->context.run_id,
		(int64_t)(ledger.source_id != 0), (int64_t)ledger.n_taken, (int64_t)ledger.n_lost,
		(int64_t)ledger.is_exact, (int64_t)ledger.n_lost_samples, (int64_t)ledger.n_dropped,
		(int64_t)ledger.n_throttles, (int64_t)ledger.throttled_ns,
		(int64_t)ledger.n_bad_bytes, (int64_t)ledger.n_aux_truncated,
		(int64_t)ledger.n_aux_partial, (int64_t)ledger.n_aux_collisions,
		(int64_t)ledger.n_behind, counts.weight,
		(int64_t)(losses[SAMPLE_LOSS_BAD_RECORD] + losses[SAMPLE_LOSS_NO_CODE] +
			  losses[SAMPLE_LOSS_NO_REGISTERS] + losses[SAMPLE_LOSS_BAD_PACKET]),
		(int64_t)losses[SAMPLE_LOSS_NO_MEMORY],
		(int64_t)losses[SAMPLE_LOSS_UNKNOWN_PROCESS],
		(int64_t)losses[SAMPLE_LOSS_ADDRESS_ZERO],
		(int64_t)losses[SAMPLE_LOSS_ADDRESS_KERNEL], (int64_t)losses[SAMPLE_LOSS_NO_CLOCK],
		scale_of(&ledger, &counts));
}

int sample_ledger_write(struct samples *samples)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < samples->n_sources; i++) {
		const struct sample_source *source = &samples->sources[i];

		if (source->has_run)
			r = write_one(samples, source);
	}
	return r;
}
