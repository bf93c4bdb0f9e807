#include "decode/decode.h"

#include <stdio.h>
#include <string.h>

/* How many accesses at the start lie at a position below n. */
static uint32_t count_before(const struct decode_window *window, uint32_t n)
{
	uint32_t i = 0;

	while (i < window->n_accesses && window->accesses[i].position < n)
		i++;
	return i;
}

/* What another access stands for has no weight. */
static double weight_of(const struct decode_access *access, bool is_expected)
{
	double count = access->n_parts ? 1.0 / access->n_parts : access->count;

	if (is_expected)
		return (double)access->share * count;
	return access->state == DECODE_TURN_BEFORE ? 0 : count;
}

static double sum_counts(const struct decode_access *accesses, uint32_t n, bool is_expected)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += weight_of(&accesses[i], is_expected);
	return sum;
}

/* By counts: a rep of n elements is n accesses. Returns the share of the resolved ones. */
static double divide(struct decode_access *accesses, uint32_t n, double total, bool is_expected)
{
	double resolved = 0;

	for (uint32_t i = 0; i < n; i++) {
		double share = weight_of(&accesses[i], is_expected) / total;

		accesses[i].share = (float)share;
		if (decode_state_has_address(accesses[i].state))
			resolved += share;
	}
	return resolved;
}

static void divide_shares(struct decode_window *window, struct decode_charge *charge)
{
	bool is_expected = window->is_expected && charge->basis == DECODE_BASIS_LOOP;
	double total = sum_counts(window->accesses, charge->n_charged, is_expected) +
		       sum_counts(window->behind, charge->n_behind, is_expected);
	double resolved = divide(window->accesses, charge->n_charged, total, is_expected) +
			  divide(window->behind, charge->n_behind, total, is_expected);

	charge->resolved_share = (float)resolved;
	charge->unresolved_share = (float)(1 - resolved);
}

static bool charge_loop(const struct decode_window *window, struct decode_charge *charge)
{
	charge->n_charged = window->n_accesses + (window->is_expected ? window->n_likely : 0);
	charge->n_behind = window->n_behind;
	return window->end == DECODE_END_LOOP || window->is_turn || window->is_expected;
}

static bool charge_block(const struct decode_window *window, struct decode_charge *charge)
{
	uint32_t n_block =
		window->n_block < DECODE_LOOK_AHEAD ? window->n_block : DECODE_LOOK_AHEAD;

	charge->n_charged = count_before(window, n_block);
	charge->n_behind = window->n_behind;
	return charge->n_charged + charge->n_behind > 0;
}

static bool charge_look_ahead(const struct decode_window *window, struct decode_charge *charge)
{
	charge->n_charged = count_before(window, DECODE_LOOK_AHEAD);
	return charge->n_charged > 0;
}

static bool charge_operand(const struct decode_window *window, struct decode_charge *charge)
{
	charge->n_charged = charge->n_exact;
	return window->n_instructions > 0;
}

/* From the best down: the first that applies is used. */
static const struct {
	const char *name;
	bool (*charge)(const struct decode_window *window, struct decode_charge *charge);
	unsigned estimator;
	enum decode_basis basis;
} estimators[] = {
	{ "window", charge_loop, DECODE_BY_WINDOW, DECODE_BASIS_LOOP },
	{ "block", charge_block, DECODE_BY_BLOCK, DECODE_BASIS_BLOCK },
	{ "look-ahead", charge_look_ahead, DECODE_BY_LOOK_AHEAD, DECODE_BASIS_LOOK_AHEAD },
	{ "operand", charge_operand, DECODE_BY_OPERAND, DECODE_BASIS_OPERAND },
};
#define N_ESTIMATORS (sizeof(estimators) / sizeof(estimators[0]))

unsigned decode_estimators_parse(const char *list)
{
	unsigned mask = 0;

	for (size_t n; *list; list += n + (list[n] == ',')) {
		size_t i = 0;

		n = strcspn(list, ",");
		while (i < N_ESTIMATORS &&
		       (strncmp(estimators[i].name, list, n) != 0 || estimators[i].name[n] != '\0'))
			i++;
		if (i == N_ESTIMATORS)
			return 0;
		mask |= estimators[i].estimator;
	}
	return mask;
}

void decode_estimators_print(unsigned mask, char ret_text[DECODE_ESTIMATORS_BYTES])
{
	size_t n = 0;

	ret_text[0] = '\0';
	for (size_t i = 0; i < N_ESTIMATORS; i++)
		if (mask & estimators[i].estimator)
			n += (size_t)snprintf(ret_text + n, DECODE_ESTIMATORS_BYTES - n, "%s%s",
					      n ? "," : "", estimators[i].name);
}

/* Whether an access is the first of many: the data that are compared say of how many. */
static bool is_uncounted(const struct decode_window *window)
{
	for (uint32_t i = 0; i < window->n_accesses; i++)
		if (window->accesses[i].state == DECODE_FIRST_ONLY)
			return true;
	return false;
}

/* Choose what is charged; BASIS_COUNT: there is no access. */
static enum decode_basis choose(const struct decode_window *window, struct decode_charge *charge)
{
	if (window->is_repeating && charge->n_exact > 0 &&
	    window->accesses[0].state == DECODE_FIRST_ONLY) {
		charge->n_charged = charge->n_exact;
		charge->n_behind = 0;
		return DECODE_BASIS_OPERAND;
	}
	for (size_t i = 0; i < N_ESTIMATORS; i++) {
		charge->n_charged = 0;
		charge->n_behind = 0;
		if (window->estimators & estimators[i].estimator &&
		    estimators[i].charge(window, charge))
			return charge->n_charged + charge->n_behind > 0 ? estimators[i].basis
									: DECODE_BASIS_COUNT;
	}
	charge->n_charged = 0;
	charge->n_behind = 0;
	return DECODE_BASIS_COUNT;
}

void decode_charge(struct decode_window *window, struct decode_charge *ret_charge)
{
	bool is_whole = window->end == DECODE_END_LOOP || window->end == DECODE_END_LIMIT ||
			(window->estimators == DECODE_BY_OPERAND && window->n_instructions > 0);
	struct decode_charge charge = { .n_exact = count_before(window, 1) };

	charge.basis = choose(window, &charge);
	if (charge.n_exact > 0)
		charge.exact_share = 1.0f / (float)charge.n_exact;
	if (charge.basis != DECODE_BASIS_COUNT) {
		divide_shares(window, &charge);
		if (charge.basis == DECODE_BASIS_LOOP &&
		    (window->is_turn || window->is_expected || is_uncounted(window)))
			charge.basis = DECODE_BASIS_TURN;
	} else if (is_whole) {
		charge.basis = DECODE_BASIS_CODE;
		charge.code_share = 1;
	} else {
		charge.basis = DECODE_BASIS_NONE;
		charge.unresolved_share = 1;
	}
	for (uint32_t i = charge.n_charged; i < window->n_accesses; i++)
		window->accesses[i].share = 0;
	for (uint32_t i = charge.n_behind; i < window->n_behind; i++)
		window->behind[i].share = 0;
	*ret_charge = charge;
}
