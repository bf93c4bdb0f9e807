#include "runner/sampling/load-plan.h"

#include <string.h>

#define ENOUGH_RIGHT 6u
#define MOST_RIGHT   16u
#define MAX_SEARCHES 16u /* a microsecond or so each */
#define MAX_SHIFT    3u
#define LAST_BYTE    7u /* of a word */

static const uint8_t summed[] = {
	DECODE_SP,     DECODE_AX,     DECODE_BX,     DECODE_CX,	    DECODE_DX,	   DECODE_SI,
	DECODE_DI,     DECODE_BP,     DECODE_R8,     DECODE_R8 + 1, DECODE_R8 + 2, DECODE_R8 + 3,
	DECODE_R8 + 4, DECODE_R8 + 5, DECODE_R8 + 6, DECODE_R8 + 7,
};

#define N_SUMMED (sizeof(summed) / sizeof(summed[0]))

static uint64_t sum_of(const struct load_plan *plan, uint32_t i, const uint64_t *regs)
{
	return regs[plan->ranges[i].first] +
	       (regs[plan->ranges[i].second] << plan->ranges[i].shift);
}

static uint64_t told(const struct load_plan *plan, uint32_t i, const uint64_t *regs)
{
	return (sum_of(plan, i, regs) + plan->ranges[i].constant) & ~(uint64_t)LAST_BYTE;
}

/* Take what a constant may be by one more sample. False: it is none. */
static bool narrow(struct load_plan *plan, uint32_t i, uint64_t constant)
{
	int64_t above = (int64_t)(constant - plan->ranges[i].constant);
	int64_t slack = plan->ranges[i].slack;

	if (above > slack || above < -(int64_t)LAST_BYTE)
		return false;
	int64_t low = above > 0 ? above : 0;
	int64_t high = above + LAST_BYTE < slack ? above + LAST_BYTE : slack;

	plan->ranges[i].constant += (uint64_t)low;
	plan->ranges[i].slack = (uint8_t)(high - low);
	return true;
}

/* Whether the sum of these has moved as the address has, since the sample before. */
static bool fits(struct load_plan *plan, uint32_t i, const uint64_t *regs, uint64_t address)
{
	plan->ranges[i].constant = plan->ranges[i].last.address - sum_of(plan, i, plan->regs);
	plan->ranges[i].slack = LAST_BYTE;
	return narrow(plan, i, address - sum_of(plan, i, regs));
}

/* What stays where it is has the stack pointer, which does so, too. */
static bool search(struct load_plan *plan, uint32_t i, const uint64_t *regs, uint64_t address)
{
	const size_t n = address == plan->ranges[i].last.address ? 1 : N_SUMMED;

	for (size_t first = 0; first < n; first++)
		for (size_t second = 0; second < n; second++)
			for (uint8_t shift = 0; shift <= MAX_SHIFT; shift++) {
				plan->ranges[i].first = summed[first];
				plan->ranges[i].second = summed[second];
				plan->ranges[i].shift = shift;
				if (fits(plan, i, regs, address))
					return true;
			}
	return false;
}

/* Returns whether the range was told right. */
static bool learn_range(struct load_plan *plan, uint32_t i, const uint64_t *regs, uint64_t address)
{
	bool was_found = plan->ranges[i].is_found;
	bool is_right = was_found && told(plan, i, regs) == address;

	if (was_found && narrow(plan, i, address - sum_of(plan, i, regs)))
		return is_right;
	plan->ranges[i].is_found =
		plan->n_searches < MAX_SEARCHES && search(plan, i, regs, address);
	plan->n_searches++;
	return false;
}

void load_plan_learn(struct load_plan *plan, const uint64_t *regs, const struct load_range *ranges,
		     uint32_t n)
{
	bool is_alike = n == plan->n && n > 0, is_right = is_alike;

	for (uint32_t i = 0; is_alike && i < n; i++)
		is_alike = ranges[i].n_words == plan->ranges[i].last.n_words;
	/* Another way through the code, or a range that is on two pages. */
	if (!is_alike && n > 0 && n <= LOAD_PLAN_RANGES && plan->n_right < ENOUGH_RIGHT)
		for (uint32_t i = 0; i < n; i++)
			plan->ranges[i].is_found = false;
	else if (!is_alike) {
		plan->n_right /= 2;
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (is_alike)
			is_right &= learn_range(plan, i, regs, ranges[i].address);
		plan->ranges[i].last = ranges[i];
	}
	memcpy(plan->regs, regs, sizeof(plan->regs));
	plan->n = n;
	plan->n_right += plan->n_right < MOST_RIGHT;
	if (!is_alike || !is_right)
		plan->n_right = 0;
}

uint32_t load_plan_tell(const struct load_plan *plan, const uint64_t *regs,
			struct load_range ret_ranges[LOAD_PLAN_RANGES])
{
	if (plan->n_right < ENOUGH_RIGHT)
		return 0;
	for (uint32_t i = 0; i < plan->n; i++)
		ret_ranges[i] =
			(struct load_range){ told(plan, i, regs), plan->ranges[i].last.n_words };
	return plan->n;
}

bool load_plan_is_sure(const struct load_plan *plan)
{
	return plan->n_right == MOST_RIGHT;
}
