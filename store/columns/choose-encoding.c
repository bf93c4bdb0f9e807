#include "store/columns/choose-encoding.h"

#include <errno.h>

#define ENOUGH_BYTES 256u /* nothing is worth more trials */

/* The smallest so far. */
struct best {
	struct chunk_plan plan;
	size_t n_bytes;
};

static int try_plan(const struct chunk_trial *trial, struct chunk_plan plan, struct best *best)
{
	size_t n_all = 0;
	int r = 0;

	for (unsigned i = 0; i < trial->n_pieces && r == 0; i++) {
		struct chunk_values values = trial->values[trial->column];
		const void *bytes;
		size_t n_bytes;
		if (plan.coding == CHUNK_RELATIVE)
			values.others = trial->values[plan.other].values + trial->pieces[i].first;
		values.values += trial->pieces[i].first;
		values.n = trial->pieces[i].n;
		r = chunk_column_encode(trial->encoder, &values, plan, &bytes, &n_bytes);
		n_all += r == 0 ? n_bytes : 0;
	}
	/* What is relative cannot be what another column is relative to: it must be worth it. */
	size_t n_least = plan.coding == CHUNK_RELATIVE ? n_all + n_all / 64 : n_all;
	if (r == 0 && n_least < best->n_bytes)
		*best = (struct best){ plan, n_all };
	return r == -ERANGE ? 0 : r;
}

int chunk_trial_choose(const struct chunk_trial *trial, struct chunk_plan *ret_plan)
{
	struct best best = { { CHUNK_PLAIN, 0 }, SIZE_MAX };
	int r = try_plan(trial, best.plan, &best);

	if (r == 0 && best.n_bytes > ENOUGH_BYTES)
		r = try_plan(trial, (struct chunk_plan){ CHUNK_DELTA, 0 }, &best);
	if (r == 0 && best.n_bytes > ENOUGH_BYTES)
		r = try_plan(trial, (struct chunk_plan){ CHUNK_DICTIONARY, 0 }, &best);
	for (unsigned i = 0; i < trial->column && r == 0; i++) {
		if (trial->is_real[trial->column] || best.n_bytes < ENOUGH_BYTES)
			break;
		if (!trial->is_real[i] && trial->plans[i].coding != CHUNK_RELATIVE)
			r = try_plan(trial, (struct chunk_plan){ CHUNK_RELATIVE, (uint8_t)i },
				     &best);
	}
	if (r == 0)
		*ret_plan = best.plan;
	return r;
}
