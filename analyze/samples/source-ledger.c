#include "analyze/samples/source-ledger.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "analyze/samples/samples-internal.h"
#include "store/database.h"
#include "store/losses.h"

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
			  losses[SAMPLE_LOSS_CODE_CHANGED] + losses[SAMPLE_LOSS_NO_REGISTERS] +
			  losses[SAMPLE_LOSS_BAD_PACKET]),
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

/* ---- Time without samples ---- */

/*
 * The kernel divides CPU time by who was found at its ticks, at most so far apart (CONFIG_HZ 100),
 * as the source's samples do. Where one kind of time alone is sampled, what two such estimates
 * differ by says nothing, and what threads that live for less than a tick do is divided wrongly as
 * a rule (300 threads of 1.2 ms: too little user time in 4 of 6 runs). The sum is exact. Time
 * without samples is also what threads have before they can be sampled.
 */
#define TICK_NS	       10e6
#define DEVIATIONS     2
#define MISSED_PART    0.01
#define MISSED_PERIODS 5
#define ALL_TIME       "ns of CPU time"

static double noise_of(double user_ns, double system_ns, double period_ns)
{
	/* None of a kind that no tick found: about one tick of it. */
	user_ns = fmax(user_ns, TICK_NS);
	system_ns = fmax(system_ns, TICK_NS);
	return DEVIATIONS *
	       sqrt(user_ns * system_ns / (user_ns + system_ns) * (TICK_NS + period_ns));
}

/* By the source's unit, as pmu/ names it. Negative: of another kind. */
static double accounted_ns(const char *unit, double user_ns, double system_ns)
{
	const struct {
		const char *unit;
		double ns;
	} kinds[] = {
		{ "ns of user CPU time", user_ns },
		{ "ns of kernel CPU time", system_ns },
		{ ALL_TIME, user_ns + system_ns },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(unit, kinds[i].unit) == 0)
			return kinds[i].ns;
	return -1;
}

double sample_ledger_missing(const char *unit, const struct sample_times *times)
{
	double user_ns = times->user_ns, system_ns = times->system_ns;
	double own_ns = accounted_ns(unit, user_ns, system_ns);
	double missing_ns = own_ns - times->sampled_ns;
	double most_ns = user_ns + system_ns - times->sampled_ns;

	if (own_ns < 0 || !(user_ns >= 0 && system_ns >= 0 && user_ns + system_ns > 0))
		return -1;
	if (strcmp(unit, ALL_TIME) == 0)
		return fmax(missing_ns, 0);
	if (missing_ns < noise_of(user_ns, system_ns, times->period_ns))
		missing_ns = 0;
	return fmax(fmax(missing_ns, fmin(times->young_ns, most_ns)), 0);
}

/* What threads can have at most of their time before they can be sampled. */
static double young_of(const struct samples *samples, const struct sample_source *source)
{
	const struct sample_turns *turns = &source->turns;
	uint64_t least_ns = turns->n ? turns->items[turns->n - 1].least : (uint64_t)source->period;

	return (double)tasks_n_threads(samples->context.tasks) * (double)least_ns;
}

static double unsampled_of(const struct samples *samples, const struct sample_source *source,
			   double user_ns, double system_ns)
{
	const struct sample_row_counts counts =
		sample_rows_counts(samples->rows, (uint32_t)source->row);
	const struct trace_source_ledger ledger = counted(source, &counts);
	const struct sample_times times = {
		.user_ns = user_ns,
		.system_ns = system_ns,
		.sampled_ns = (double)counts.weight * scale_of(&ledger, &counts) +
			      (double)counts.n_withheld * (double)source->period,
		.period_ns = (double)source->period,
		.young_ns = young_of(samples, source),
	};

	return source->has_run ? sample_ledger_missing(counts.unit, &times) : -1;
}

/*
 * The program's CPU time is that of the whole run. Where its begin was cut off, as much is missing
 * of the rest as of the whole: the ledger has all samples that were ever taken.
 */
static double unsampled_of_rest(const struct samples *samples, const struct sample_source *source,
				double user_ns, double system_ns)
{
	const struct sample_row_counts counts =
		sample_rows_counts(samples->rows, (uint32_t)source->row);
	double part = source->ledger.n_taken
			      ? (double)counts.n_samples / (double)source->ledger.n_taken
			      : 0;
	double ns = part > 0 ? unsampled_of(samples, source, user_ns * part, system_ns * part) : -1;

	return part <= 1 ? ns : -1;
}

/*
 * Where that can be seen in shares it is a loss: of samples that never came, which no ring and no
 * counter of the kernel tells.
 */
static int tell_missing(const struct samples *samples, const struct sample_source *source,
			const struct sample_row_counts *counts, double ns)
{
	const struct sample_sink *sink = &samples->context.sink;
	const struct trace_source_ledger ledger = counted(source, counts);
	double all_ns = ns + (double)counts->weight * scale_of(&ledger, counts);
	double period_ns = (double)source->period;

	if (!sink->loss || !(ns > MISSED_PART * all_ns && ns > MISSED_PERIODS * period_ns))
		return 0;
	return sink->loss(sink->user, source->name,
			  LOSS_NEVER_CAME ": threads shorter than a period, late interrupts",
			  (uint64_t)(ns / period_ns));
}

static int write_unsampled(const struct samples *samples, const struct sample_source *source,
			   double ns)
{
	const struct sample_row_counts counts =
		sample_rows_counts(samples->rows, (uint32_t)source->row);
	int r = db_run(samples->context.db, "UPDATE source SET unsampled_ns = ?2 WHERE id = ?1",
		       "nn", counts.row, (int64_t)ns);

	return r < 0 ? r : tell_missing(samples, source, &counts, ns);
}

int sample_ledger_unsampled(const struct samples *samples, int64_t user_ns, int64_t system_ns)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < samples->n_sources; i++) {
		const struct sample_source *source = &samples->sources[i];
		double ns = samples->is_cut ? unsampled_of_rest(samples, source, (double)user_ns,
								(double)system_ns)
					    : unsampled_of(samples, source, (double)user_ns,
							   (double)system_ns);

		if (ns >= 0)
			r = write_unsampled(samples, source, ns);
	}
	return r;
}
