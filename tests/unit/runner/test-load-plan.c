/* Where loads lead, told from registers: each answer is compared with what the code would load. */
#include "runner/sampling/load-plan.h"

#include <check.h>
#include <string.h>

#include "tests/support/suite.h"

#define N_LEARNT 40u
#define N_TOLD	 1000u

static uint64_t state = 88172645463325252u;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* A sample in a loop: an index, a base, and others that move or stay. */
static void sample(uint64_t regs[DECODE_N_REGS])
{
	for (unsigned i = 0; i < DECODE_N_REGS; i++)
		regs[i] = draw();
	regs[DECODE_SP] = 0x7ffc00001230;
	regs[DECODE_BX] = 0x7f1200000010;
	regs[DECODE_CX] = draw() % 1000000;
	regs[DECODE_DX] = regs[DECODE_CX] + 1;
}

/* b[i + 8] of 4 bytes each, and a pointer that is always at the same place. */
static uint32_t load(const uint64_t regs[DECODE_N_REGS], struct load_range ranges[2])
{
	uint64_t element = regs[DECODE_BX] + 4 * (regs[DECODE_CX] + 8);

	ranges[0] = (struct load_range){ element & ~UINT64_C(7), 1 };
	ranges[1] = (struct load_range){ 0x404040, 1 };
	return 2;
}

static void learn(struct load_plan *plan, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t regs[DECODE_N_REGS];
		struct load_range ranges[2];

		sample(regs);
		load_plan_learn(plan, regs, ranges, load(regs, ranges));
	}
}

/* How many of many samples are told, and all of these right. */
static unsigned count_told(const struct load_plan *plan)
{
	unsigned n = 0;

	for (unsigned i = 0; i < N_TOLD; i++) {
		uint64_t regs[DECODE_N_REGS];
		struct load_range ranges[2], found[LOAD_PLAN_RANGES];

		sample(regs);
		load(regs, ranges);
		if (!load_plan_tell(plan, regs, found))
			continue;
		n += found[0].address == ranges[0].address && found[0].n_words == 1 &&
		     found[1].address == ranges[1].address;
	}
	return n;
}

START_TEST(an_element_of_an_array_is_told_from_base_and_index)
{
	struct load_plan plan = { 0 };

	ck_assert_uint_eq(count_told(&plan), 0);
	learn(&plan, N_LEARNT);
	ck_assert_uint_eq(count_told(&plan), N_TOLD);
}
END_TEST

START_TEST(the_next_node_of_a_list_is_not_told)
{
	struct load_plan plan = { 0 };

	for (unsigned i = 0; i < N_LEARNT; i++) {
		uint64_t regs[DECODE_N_REGS];
		struct load_range range = { draw() & ~UINT64_C(7), 1 }, found[LOAD_PLAN_RANGES];

		sample(regs);
		load_plan_learn(&plan, regs, &range, 1);
		ck_assert_uint_eq(load_plan_tell(&plan, regs, found), 0);
	}
}
END_TEST

START_TEST(what_is_told_wrong_once_is_told_no_more)
{
	struct load_plan plan = { 0 };
	uint64_t regs[DECODE_N_REGS];
	struct load_range ranges[2], found[LOAD_PLAN_RANGES];

	learn(&plan, N_LEARNT);
	sample(regs);
	load(regs, ranges);
	ranges[0].address += 4096;
	load_plan_learn(&plan, regs, ranges, 2);
	ck_assert_uint_eq(load_plan_tell(&plan, regs, found), 0);
	learn(&plan, N_LEARNT); /* it was once only */
	ck_assert_uint_eq(count_told(&plan), N_TOLD);
}
END_TEST

START_TEST(another_way_through_the_code_is_learnt_when_it_stays)
{
	struct load_plan plan = { 0 };
	uint64_t regs[DECODE_N_REGS];
	struct load_range ranges[2], found[LOAD_PLAN_RANGES];

	learn(&plan, N_LEARNT);
	sample(regs);
	load_plan_learn(&plan, regs, ranges, 0); /* now and then it leads nowhere */
	ck_assert_uint_eq(count_told(&plan), N_TOLD);
	for (unsigned i = 0; i < N_LEARNT; i++) {
		sample(regs);
		load(regs, ranges);
		load_plan_learn(&plan, regs, ranges, 1);
	}
	sample(regs);
	load(regs, ranges);
	ck_assert_uint_eq(load_plan_tell(&plan, regs, found), 1);
	ck_assert_uint_eq(found[0].address, ranges[0].address);
	for (unsigned i = 0; i < N_LEARNT; i++) {
		struct load_range many[LOAD_PLAN_RANGES + 1] = { 0 };

		load_plan_learn(&plan, regs, many, LOAD_PLAN_RANGES + 1);
	}
	ck_assert_uint_eq(load_plan_tell(&plan, regs, found), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("load-plan");
	TCase *tcase = tcase_create("plans");

	tcase_add_test(tcase, an_element_of_an_array_is_told_from_base_and_index);
	tcase_add_test(tcase, the_next_node_of_a_list_is_not_told);
	tcase_add_test(tcase, what_is_told_wrong_once_is_told_no_more);
	tcase_add_test(tcase, another_way_through_the_code_is_learnt_when_it_stays);
	suite_add_tcase(suite, tcase);

	return suite_run(suite);
}
