#include "store/totals/unresolved.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/array.h"
#include "store/totals/totals.h"
#include "store/touch.h"

/* A range that is small beside sampling's own interval, or of so many parts of one, is no range. */
#define SMALL_RANGE    2.0
#define SMALLEST_RANGE 0.002

void unresolved_finish(struct unresolved_shares *shares)
{
	key_map_finish(&shares->numbers);
	free(shares->items);
	*shares = (struct unresolved_shares){ 0 };
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

int unresolved_add(struct unresolved_shares *shares, const struct unresolved_share *share)
{
	uint64_t hash = share->of;

	for (unsigned i = 0; i < UNRESOLVED_BESIDE; i++)
		hash = mix(mix(hash, (uint64_t)share->beside[i].kind),
			   (uint64_t)share->beside[i].id);
	size_t n = shares->n;
	struct unresolved_share *item =
		key_map_item(&shares->numbers, share->frame, hash, shares->items, shares->n,
			     shares->n_allocated, *share);
	if (!item || shares->n > n)
		return item ? 0 : -ENOMEM;
	item->n_samples += share->n_samples;
	item->n += share->n;
	item->time += share->time;
	item->time_sq += share->time_sq;
	for (unsigned i = 0; i < UNRESOLVED_BESIDE; i++)
		item->cross[i] += share->cross[i];
	return 0;
}

/* ---- Answers ---- */

struct owner_shares *tally_shares_of(const struct tally *tally, const struct owner_name *owner)
{
	if (owner->kind != OWNER_heap) {
		uint64_t number = key_map_get(&tally->objects.numbers, (uint64_t)owner->kind,
					      (uint64_t)owner->id);

		return number ? &tally->objects.items[number - 1].shares : NULL;
	}
	if ((size_t)owner->id >= tally->n_stacks || tally->site_of_stack[owner->id] == 0)
		return NULL;
	return &tally->sites[tally->site_of_stack[owner->id]].shares;
}

/*
 * What is resolved and more. The resolved part's correlation of neighbours stands for all, where it
 * is most of it.
 */
static struct share_sum add_more(const struct share_design *design,
				 const struct share_sum *resolved, const struct imputed *imputed)
{
	struct share_sum sum = *resolved;
	double mean = sum.time / design->time;
	double variance = (sum.time_sq - 2 * mean * sum.time_w) / design->time_sq + mean * mean;
	bool is_most = sum.time > imputed->time && variance > 0;

	sum.n += imputed->n;
	sum.time = fmax(sum.time + imputed->time, 0);
	sum.time_sq =
		fmin(sum.time_sq + imputed->time_sq, sum.time * design->time_sq / design->time);
	sum.time_w += imputed->time * design->time_sq / design->time;
	if (mean > 0) {
		double more = sum.time / design->time / mean;
		sum.turn_sq *= more * more;
		sum.turn_w *= more;
	}
	double whole = sum.time / design->time;
	double after = (sum.time_sq - 2 * whole * sum.time_w) / design->time_sq + whole * whole;
	for (enum share_lag i = 0; i < SHARE_LAGS; i++) {
		double r = is_most ? share_correlation(design, resolved, i) : 0;
		sum.apart[i] = design->lag[i] * (1 - r) * fmax(after, 0);
	}
	return sum;
}

/*
 * What is not resolved is an estimate as well: half of the interval if the owner had `time` of it,
 * in samples with what else it has as far as their shares allow.
 */
static double most_half(const struct share_design *design, const struct share_sum *resolved,
			const struct imputed *imputed, const struct share_sum *unknown, double time)
{
	double part = unknown->time > 0 ? fmin(time / unknown->time, 1) : 0;
	double sq = part * part * unknown->time_sq;
	const struct imputed all = {
		.time = imputed->time + time,
		.time_sq = imputed->time_sq + sq +
			   2 * sqrt(sq * fmax(resolved->time_sq + imputed->time_sq, 0)),
	};
	struct share_sum sum = add_more(design, resolved, &all);

	return share_half(design, &sum);
}

struct share_answer share_answer_of(const struct share_design *design,
				    const struct owner_shares *shares, enum share_of of,
				    const struct share_doubt *doubt)
{
	const struct imputed *imputed = &shares->imputed[of];
	bool has_imputed = imputed->time != 0 || imputed->most != 0;
	struct share_sum sum =
		has_imputed ? add_more(design, &shares->of[of], imputed) : shares->of[of];
	double half = share_half(design, &sum);
	double share = sum.time / design->time;
	double least = (shares->of[of].time + fmin(imputed->least, imputed->time)) / design->time;
	double more = imputed->most + doubt->anybody;
	double most = (sum.time + more) / design->time;
	double high_half = more > 0 ? fmax(half, most_half(design, &shares->of[of], imputed,
							   doubt->unknown, more))
				    : half;
	double low = fmax(fmin(least, share) - half, 0) * (1 - doubt->unsampled);
	double high = fmin(most + high_half, 1) * (1 - doubt->unsampled) + doubt->unsampled;
	double range = most - fmin(least, share) + doubt->unsampled;

	return (struct share_answer){
		.share = range <= fmax(SMALL_RANGE * half, SMALLEST_RANGE) ? share : -1,
		.low = low,
		.high = high,
	};
}

/*
 * An operand that is not known is memory: not the kernel's or our own time, and what is unknown is
 * no owner.
 */
static bool is_none_of_memory(const struct tally *tally, const struct owner_shares *shares)
{
	static const int64_t kinds[] = { OWNER_code, OWNER_kernel, OWNER_tool, OWNER_unknown };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct owner_name name = { .kind = kinds[i] };
		if (shares == &tally->kinds[kinds[i]] || shares == tally_shares_of(tally, &name))
			return true;
	}
	return false;
}

/* Heap memory of a block that was not picked may be of any site. */
static double unpicked_of(const struct tally *tally, const struct owner_shares *shares, int of)
{
	const struct owner_shares *unpicked = &tally->kinds[OWNER_unpicked];
	uintptr_t from = (uintptr_t)tally->sites, at = (uintptr_t)shares;

	if (at < from || at >= (uintptr_t)(tally->sites + tally->n_sites))
		return 0;
	return fmax(unpicked->of[of].time + unpicked->imputed[of].time, 0);
}

void tally_answers(const struct tally *tally, const struct owner_shares *shares,
		   double ret_answers[TALLY_ANSWERS])
{
	bool takes_none = is_none_of_memory(tally, shares);

	for (int i = 0; i < TALLY_ANSWERS; i++)
		ret_answers[i] = NAN;
	for (int of = 0; of < SHARE_COUNT && tally->design.time > 0; of++) {
		const struct share_doubt doubt = {
			takes_none ? 0 : tally->anybody[of] + unpicked_of(tally, shares, of),
			&tally->kinds[OWNER_unknown].of[of],
			tally->unsampled,
		};
		struct share_answer answer =
			share_answer_of(&tally->design, shares, (enum share_of)of, &doubt);
		ret_answers[3 * of] = answer.share >= 0 ? answer.share : NAN;
		ret_answers[3 * of + 1] = answer.low;
		ret_answers[3 * of + 2] = answer.high;
	}
}
