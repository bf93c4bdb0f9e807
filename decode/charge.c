#include "decode/decode.h"

/* How many accesses at the start lie at a position below n. */
static uint32_t count_before(const struct decode_window *window, uint32_t n)
{
	uint32_t i = 0;

	while (i < window->n_accesses && window->accesses[i].position < n)
		i++;
	return i;
}

static bool is_resolved(const struct decode_access *access)
{
	return access->state == DECODE_RESOLVED || access->state == DECODE_BASE_ONLY;
}

/* By counts: a rep of n elements is n accesses. */
static void divide_shares(struct decode_window *window, struct decode_charge *charge)
{
	double total = 0, resolved = 0;

	for (uint32_t i = 0; i < charge->n_charged; i++)
		total += window->accesses[i].count;
	for (uint32_t i = 0; i < charge->n_charged; i++) {
		struct decode_access *access = &window->accesses[i];
		double share = access->count / total;

		access->share = (float)share;
		if (is_resolved(access))
			resolved += share;
	}
	charge->resolved_share = (float)resolved;
	charge->unresolved_share = (float)(1 - resolved);
}

void decode_charge(struct decode_window *window, struct decode_charge *ret_charge)
{
	bool is_loop = window->end == DECODE_END_LOOP;
	struct decode_charge charge = { .n_exact = count_before(window, 1) };

	charge.n_charged = is_loop ? window->n_accesses : count_before(window, DECODE_LOOK_AHEAD);
	if (charge.n_exact > 0)
		charge.exact_share = 1.0f / (float)charge.n_exact;
	if (charge.n_charged > 0) {
		charge.basis = is_loop ? DECODE_BASIS_LOOP : DECODE_BASIS_LOOK_AHEAD;
		divide_shares(window, &charge);
	} else if (window->n_instructions > 0) {
		charge.basis = DECODE_BASIS_CODE;
		charge.code_share = 1;
	} else {
		charge.basis = DECODE_BASIS_NONE;
		charge.unresolved_share = 1;
	}
	for (uint32_t i = charge.n_charged; i < window->n_accesses; i++)
		window->accesses[i].share = 0;
	*ret_charge = charge;
}
