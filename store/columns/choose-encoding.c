#include "store/columns/choose-encoding.h"

#include <errno.h>

#define TRIAL_ROWS   8192u
#define ENOUGH_BYTES 256u /* nothing is worth more trials */

/* The smallest so far. */
struct best {
	struct chunk_plan plan;
	size_t n_bytes;
};

static int try_plan(const struct chunk_trial *trial, struct chunk_plan plan, struct best *best)
{
	struct chunk_values values = trial->values[trial->column];
	const void *bytes;
	size_t n_bytes;

	if (plan.coding == CHUNK_RELATIVE)
		values.others = trial->values[plan.other].values;
	if (values.n > TRIAL_ROWS) { /* from the middle: the start of a run may be special */
		uint32_t first = (values.n - TRIAL_ROWS) / 2;
		values.values += first;
		values.others = values.others ? values.others + first : NULL;
		values.n = TRIAL_ROWS;
	}
	int r = chunk_column_encode(trial->encoder, &values, plan, &bytes, &n_bytes);
	if (r == 0 && n_bytes < best->n_bytes)
		*best = (struct best){ plan, n_bytes };
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
