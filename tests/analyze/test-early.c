/* Frees that are stamped before the birth of what they free; see analyze/memory-early.c. */
#include <check.h>
#include <stdlib.h>

#include "analyze/analyze.h"
#include "tests/analyze/check-db.h"
#include "tests/analyze/trace-maker.h"
#include "tests/suite.h"

#define BLOCK	   0x5000u
#define MAX_EVENTS 8

static const struct import_options plain;

/* What happens at the one address; threads 1 to 3. */
static const struct {
	struct {
		uint32_t thread; /* 0: no more */
		enum trace_op op;
		uint64_t time_ns;
	} events[MAX_EVENTS];
	int64_t n_blocks;
	int64_t n_missed;
	int64_t n_unknown;
	int64_t n_alive;
} worlds[] = {
	/* The second block goes from thread 1 to 3, whose stamp is older than its birth's. */
	{ { { 1, TRACE_OP_ALLOC, 100 },
	    { 3, TRACE_OP_FREE, 20000 },
	    { 1, TRACE_OP_FREE, 20010 },
	    { 1, TRACE_OP_ALLOC, 20050 },
	    { 3, TRACE_OP_ALLOC, 21000 },
	    { 3, TRACE_OP_FREE, 22000 } },
	  3,
	  0,
	  0,
	  0 },
	/* The same, and the two ends the other way round. */
	{ { { 2, TRACE_OP_ALLOC, 100 },
	    { 1, TRACE_OP_FREE, 20000 },
	    { 3, TRACE_OP_FREE, 20010 },
	    { 1, TRACE_OP_ALLOC, 20050 },
	    { 2, TRACE_OP_ALLOC, 21000 } },
	  3,
	  0,
	  0,
	  1 },
	/* Nobody saw it being born. */
	{ { { 2, TRACE_OP_FREE, 100 }, { 1, TRACE_OP_ALLOC, 200 } }, 1, 0, 1, 1 },
	/* One thread's own order is certain: the second end is another block's. */
	{ { { 1, TRACE_OP_ALLOC, 100 },
	    { 1, TRACE_OP_FREE, 20000 },
	    { 1, TRACE_OP_FREE, 20010 },
	    { 1, TRACE_OP_ALLOC, 20050 } },
	  2,
	  0,
	  1,
	  1 },
	/* Too long before the birth. */
	{ { { 1, TRACE_OP_ALLOC, 100 },
	    { 3, TRACE_OP_FREE, 20000 },
	    { 1, TRACE_OP_FREE, 20010 },
	    { 1, TRACE_OP_ALLOC, 40000 } },
	  2,
	  0,
	  1,
	  1 },
	/* Too long after the first end. */
	{ { { 1, TRACE_OP_ALLOC, 100 },
	    { 3, TRACE_OP_FREE, 20000 },
	    { 1, TRACE_OP_FREE, 40000 },
	    { 1, TRACE_OP_ALLOC, 40010 } },
	  2,
	  0,
	  1,
	  1 },
	/* No birth comes. */
	{ { { 1, TRACE_OP_ALLOC, 100 }, { 3, TRACE_OP_FREE, 20000 }, { 1, TRACE_OP_FREE, 20010 } },
	  1,
	  0,
	  1,
	  0 },
};

static void make(struct maker *maker, int world)
{
	maker_init(maker);
	maker_process(maker, 1, 0, 0);
	for (uint32_t thread = 1; thread <= 3; thread++)
		maker_thread(maker, thread, 1, 0);
	for (int i = 0; i < MAX_EVENTS && worlds[world].events[i].thread; i++) {
		struct trace_event event = {
			.op = worlds[world].events[i].op,
			.call = worlds[world].events[i].op == TRACE_OP_ALLOC ? TRACE_CALL_MALLOC
									     : TRACE_CALL_FREE,
			.ticks = worlds[world].events[i].time_ns,
			.begin_ticks = worlds[world].events[i].time_ns,
			.address = BLOCK,
			.size = worlds[world].events[i].op == TRACE_OP_ALLOC ? 64 : 0,
		};

		maker_event(maker, worlds[world].events[i].thread, &event);
	}
	maker_close(maker, 100000);
}

static int64_t total(struct db *db, const char *name)
{
	char *sql = sqlite3_mprintf("SELECT value FROM total WHERE name = %Q", name);
	int64_t value = check_integer(db_handle(db), sql);

	sqlite3_free(sql);
	return value;
}

START_TEST(an_end_that_is_stamped_before_its_birth_waits_for_it)
{
	struct db *db = NULL;
	struct maker maker;

	make(&maker, _i);
	ck_assert_int_eq(db_open_any(maker.trace, &plain, &db), 0);
	ck_assert_int_eq(total(db, "allocations"), worlds[_i].n_blocks);
	ck_assert_int_eq(total(db, "missed_frees"), worlds[_i].n_missed);
	ck_assert_int_eq(total(db, "before_trace_frees"), worlds[_i].n_unknown);
	ck_assert_int_eq(total(db, "live_blocks"), worlds[_i].n_alive);
	check_no_row(db_handle(db), "SELECT id FROM allocation WHERE death_ns < birth_ns");
	check_aggregates(db_handle(db), 1);
	db_close(db);
	maker_finish(&maker);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("early");
	TCase *tests = tcase_create("all");

	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, an_end_that_is_stamped_before_its_birth_waits_for_it, 0,
			    (int)(sizeof(worlds) / sizeof(worlds[0])));
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
