/* Accesses just outside of a block's life are counted, and only those. */
#include <check.h>
#include <stdlib.h>

#include "store/totals/clock-check.h"
#include "tests/support/suite.h"

static struct alignment alignment;

static void set_up(void)
{
	alignment = (struct alignment){ 0 };
}

static void allocation(int64_t time_ns, uint64_t address)
{
	alignment_allocation(&alignment, &(struct alignment_moment){ 1, time_ns, address, 64 });
}

static void freed(int64_t time_ns, uint64_t address)
{
	alignment_free(&alignment, &(struct alignment_moment){ 1, time_ns, address, 64 });
}

static void touch(int64_t time_ns, uint64_t address, enum owner_kind kind, enum trace_role role)
{
	alignment_touch(&alignment, &(struct touch){
					    .time_ns = time_ns,
					    .process_row = 1,
					    .address = address,
					    .is_resolved = true,
					    .role = role,
					    .owner = { .kind = kind },
				    });
}

static void check_counts(uint64_t n_heap, uint64_t n_before, uint64_t n_after)
{
	ck_assert_uint_eq(alignment.n_heap, n_heap);
	ck_assert_uint_eq(alignment.n_before, n_before);
	ck_assert_uint_eq(alignment.n_after, n_after);
}

START_TEST(an_access_after_the_death_of_its_block_is_counted)
{
	freed(100000, 4096);
	touch(100000 + ALIGNMENT_NS, 4096 + 63, OWNER_freed, TRACE_ROLE_EXACT);
	check_counts(0, 0, 1);
	touch(100001 + ALIGNMENT_NS, 4096, OWNER_freed, TRACE_ROLE_EXACT);
	touch(100001, 4096 + 64, OWNER_freed, TRACE_ROLE_EXACT);
	touch(99999, 4096, OWNER_freed, TRACE_ROLE_EXACT);
	check_counts(0, 0, 1);
}
END_TEST

START_TEST(an_access_before_the_birth_of_its_block_is_counted_once_whoever_comes_first)
{
	touch(100000, 4096, OWNER_mapping, TRACE_ROLE_FAULT);
	allocation(100000 + ALIGNMENT_NS, 4096);
	check_counts(0, 1, 0);
	allocation(100000 + ALIGNMENT_NS, 4096);
	check_counts(0, 1, 0);
	/* A sample that waited for its thread's next event comes behind the allocation. */
	allocation(200000, 8192);
	touch(195000, 8200, OWNER_freed, TRACE_ROLE_EXACT);
	check_counts(0, 2, 0);
	touch(300000, 4096, OWNER_mapping, TRACE_ROLE_FAULT);
	allocation(300001 + ALIGNMENT_NS, 4096);
	check_counts(0, 2, 0);
}
END_TEST

START_TEST(other_processes_roles_and_owners_do_not_count)
{
	allocation(100000, 4096);
	touch(99999, 4096, OWNER_tool, TRACE_ROLE_EXACT);
	touch(99999, 4096, OWNER_freed, TRACE_ROLE_WINDOW);
	touch(99999, 4096, OWNER_freed, TRACE_ROLE_STALL);
	alignment_touch(&alignment, &(struct touch){ .time_ns = 99999,
						     .process_row = 2,
						     .address = 4096,
						     .is_resolved = true,
						     .owner = { .kind = OWNER_freed } });
	touch(99999, 4096, OWNER_heap, TRACE_ROLE_EXACT);
	touch(99999, 4096, OWNER_named, TRACE_ROLE_FAULT);
	check_counts(2, 0, 0);
}
END_TEST

START_TEST(what_an_allocator_does_to_its_blocks_does_not_count)
{
	static const enum owner_phase phases[] = { OWNER_ALLOCATING, OWNER_FREEING,
						   OWNER_IN_KERNEL };

	freed(100000, 4096);
	for (unsigned i = 0; i < 3; i++)
		alignment_touch(&alignment, &(struct touch){ .process_row = 1,
							     .time_ns = 100001,
							     .address = 4096,
							     .is_resolved = true,
							     .role = TRACE_ROLE_EXACT,
							     .owner = { .kind = OWNER_freed,
									.phase = phases[i] } });
	check_counts(0, 0, 0);
	touch(100001, 4096, OWNER_freed, TRACE_ROLE_EXACT);
	check_counts(0, 0, 1);
}
END_TEST

START_TEST(an_access_is_found_behind_older_ones_that_came_later)
{
	for (unsigned n_older = 0; n_older < 4; n_older++) {
		set_up();
		touch(200000, 4096, OWNER_mapping, TRACE_ROLE_FAULT);
		for (unsigned i = 0; i < n_older; i++)
			touch(100000 + i, 8192, OWNER_mapping, TRACE_ROLE_FAULT);
		touch(200100, 16384, OWNER_mapping, TRACE_ROLE_FAULT);
		allocation(200200, 8192);
		check_counts(0, 0, 0);
		allocation(200200, 4096);
		check_counts(0, 1, 0);
	}
}
END_TEST

START_TEST(only_the_last_moments_are_remembered)
{
	for (unsigned i = 0; i < 10 * ALIGNMENT_RING; i++)
		freed(100000 + i, 4096 + UINT64_C(64) * i);
	touch(100000 + 10 * ALIGNMENT_RING, 4096 + 64 * (10 * ALIGNMENT_RING - 1), OWNER_freed,
	      TRACE_ROLE_EXACT);
	touch(100000 + 10 * ALIGNMENT_RING, 4096, OWNER_freed, TRACE_ROLE_EXACT);
	check_counts(0, 0, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("alignment");
	TCase *tcase = tcase_create("alignment");

	suite_add_tcase(suite, tcase);
	tcase_add_checked_fixture(tcase, set_up, NULL);
	tcase_add_test(tcase, an_access_after_the_death_of_its_block_is_counted);
	tcase_add_test(tcase,
		       an_access_before_the_birth_of_its_block_is_counted_once_whoever_comes_first);
	tcase_add_test(tcase, other_processes_roles_and_owners_do_not_count);
	tcase_add_test(tcase, what_an_allocator_does_to_its_blocks_does_not_count);
	tcase_add_test(tcase, an_access_is_found_behind_older_ones_that_came_later);
	tcase_add_test(tcase, only_the_last_moments_are_remembered);
	return suite_run(suite);
}
