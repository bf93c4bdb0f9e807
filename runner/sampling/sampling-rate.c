#include "runner/sampling/sampling-rate.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "common/clock.h"
#include "pmu/cost.h"

#define NS_PER_SECOND	   UINT64_C(1000000000)
#define NS_PER_MS	   UINT64_C(1000000)
#define MIN_TURN_NS	   (20 * NS_PER_MS)
#define MAX_TURN_NS	   (2 * NS_PER_SECOND)
#define TURN_PERIODS	   8 /* a rung is on for at least so many of its periods */
#define TURN_SHARE	   500 /* turning takes at most one part in 500 of the time */
#define BIRTH_TURN_PERIODS 4
#define BIRTH_TURN_SHARE   100 /* the same, while threads are born */
#define BIRTH_HASTE_NS	   (100 * NS_PER_MS) /* so long after the last birth */
#define LOOK_NS		   (100 * NS_PER_MS)
#define LOOK_SAMPLES	   50 /* fewer do not tell enough to change the rate by */
#define COLLECTOR_NS	   1000 /* a first guess for each sample */
#define RELAX_DIVISOR	   4 /* a level is 3 times the rate of the next one */
#define MAX_HZ		   UINT64_C(100000)
#define MAX_BUDGET	   50.0 /* % */
#define PPM_PER_PERCENT	   10000.0

int samples_rate_parse_budget(const char *text, uint32_t *ret_ppm)
{
	char *end;
	double percent = strtod(text, &end);

	if (end == text || (*end == '%' && end[1] != '\0') || (*end != '%' && *end != '\0'))
		return -EINVAL;
	if (!(percent * PPM_PER_PERCENT >= 1) || percent > MAX_BUDGET)
		return -EINVAL;
	*ret_ppm = (uint32_t)(percent * PPM_PER_PERCENT);
	return 0;
}

/* xorshift64*: Vigna, An experimental exploration of Marsaglia's xorshift generators, 2016. */
static uint64_t next_random(struct samples_rate *rate)
{
	if (rate->random == 0 && getrandom(&rate->random, sizeof(rate->random), GRND_NONBLOCK) <= 0)
		rate->random = 88172645463325252u;
	rate->random |= rate->random == 0;
	rate->random ^= rate->random >> 12;
	rate->random ^= rate->random << 25;
	rate->random ^= rate->random >> 27;
	return (rate->random * UINT64_C(2685821657736338717)) >> 16;
}

static void choose_by_budget(struct samples_rate *rate, const struct access_source *source,
			     struct access_options *access)
{
	rate->cost_ns = pmu_cost_measure(source, access);
	/* budget_ppm / 10^6 of a second, at so many ns each. */
	uint64_t most_hz = (uint64_t)rate->budget_ppm * 1000 / (rate->cost_ns + COLLECTOR_NS) ?: 1;
	if (access->freq_hz == 0 || access->freq_hz > most_hz)
		access->freq_hz = most_hz < MAX_HZ ? most_hz : MAX_HZ;
	access->n_levels = SAMPLES_RATE_LEVELS;
	rate->freq_hz = access->freq_hz;
}

void samples_rate_choose(struct samples_rate *rate, const struct access_source *source,
			 struct access_options *access)
{
	uint64_t limit_hz = pmu_max_sample_rate();

	access->has_jitter = true;
	if (rate->budget_ppm && access->period == 0)
		choose_by_budget(rate, source, access);
	if (limit_hz == 0)
		return;
	uint64_t asked_hz = access->period    ? NS_PER_SECOND / access->period
			    : access->freq_hz ? access->freq_hz
					      : PMU_DEFAULT_FREQ_HZ;
	access->min_period = NS_PER_SECOND / limit_hz;
	if (asked_hz <= limit_hz)
		return;
	rate->limit_hz = limit_hz;
	if (access->period)
		access->period = access->min_period;
	else
		access->freq_hz = limit_hz;
	if (rate->freq_hz)
		rate->freq_hz = limit_hz;
}

uint64_t samples_rate_begin(const struct samples_rate *rate)
{
	return rate->budget_ppm ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
}

void samples_rate_spent(struct samples_rate *rate, uint64_t begin_ns)
{
	if (rate->budget_ppm)
		rate->cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
}

/* What sampling cost since the last look, beside what the samples stand for. */
static void adapt(struct samples_rate *rate, const struct access_stream *stream, uint64_t n_taken)
{
	uint64_t n = n_taken - rate->looked_samples;
	double program_ns = (double)n * (double)pmu_stream_period(stream);
	double spent_ns =
		(double)(n * rate->cost_ns) + (double)(rate->cpu_ns - rate->looked_cpu_ns);
	double budget_ns = program_ns * rate->budget_ppm / 1e6;
	size_t level = rate->level;

	if (n < LOOK_SAMPLES)
		return; /* wait for more of the program */
	rate->looked_samples = n_taken;
	rate->looked_cpu_ns = rate->cpu_ns;
	rate->spent_ns += spent_ns;
	rate->program_ns += program_ns;
	if (spent_ns > budget_ns && level + 1 < SAMPLES_RATE_LEVELS)
		level++;
	else if (spent_ns < budget_ns / RELAX_DIVISOR && level > 0)
		level--;
	rate->n_changes += level != rate->level;
	rate->level = level;
}

static int turn(struct samples_rate *rate, struct access_stream *stream, struct pmu_turn *ret_turn)
{
	uint64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
	int r = pmu_stream_turn(stream, rate->level, next_random(rate), ret_turn);
	uint64_t took_ns = clock_ns(CLOCK_MONOTONIC) - begin_ns;
	uint64_t least_ns = pmu_stream_period(stream) * TURN_PERIODS;

	if (least_ns < MIN_TURN_NS)
		least_ns = MIN_TURN_NS;
	if (least_ns < took_ns * TURN_SHARE)
		least_ns = took_ns * TURN_SHARE;
	if (least_ns > MAX_TURN_NS)
		least_ns = MAX_TURN_NS;
	rate->n_turns++;
	rate->turn_ns += took_ns;
	rate->turned_ns = begin_ns;
	rate->birth_turn_ns = begin_ns + took_ns * BIRTH_TURN_SHARE;
	rate->next_turn_ns = begin_ns + least_ns + next_random(rate) % (2 * least_ns);
	return r;
}

/*
 * Those who were born since the last turn have one period, and its multiples are where they are
 * sampled. The thread that the source was opened on begins a period with each turn, so that it
 * still must get through some.
 */
static bool is_birth_turn(const struct samples_rate *rate, const struct access_stream *stream,
			  uint64_t now_ns)
{
	uint64_t least_ns = pmu_stream_period(stream) * BIRTH_TURN_PERIODS;

	return rate->allocated_ns > rate->turned_ns && now_ns >= rate->birth_turn_ns &&
	       now_ns >= rate->turned_ns + least_ns;
}

bool samples_rate_wants_haste(const struct samples_rate *rate)
{
	return rate->allocated_ns && rate->looked_ns < rate->allocated_ns + BIRTH_HASTE_NS;
}

int samples_rate_look(struct samples_rate *rate, struct access_stream *stream,
		      const struct samples_rate_now *now, struct pmu_turn *ret_turn)
{
	size_t level = rate->level;

	if (now->n_births > rate->n_births)
		rate->allocated_ns = now->now_ns;
	rate->n_births = now->n_births;
	rate->looked_ns = now->now_ns;
	if (rate->budget_ppm && now->now_ns >= rate->next_look_ns) {
		adapt(rate, stream, now->n_taken);
		rate->next_look_ns = now->now_ns + LOOK_NS;
	}
	if (level == rate->level && now->now_ns < rate->next_turn_ns &&
	    !is_birth_turn(rate, stream, now->now_ns))
		return 0;
	return turn(rate, stream, ret_turn);
}
