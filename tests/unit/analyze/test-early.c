/* Frees that are stamped before their block's allocation; see analyze/live/early-frees.c. */
#include <check.h>
#include <stdlib.h>

#include "analyze/analyze.h"
#include "tests/unit/analyze/fixtures/check-db.h"
#include "tests/unit/analyze/fixtures/trace-maker.h"
#include "tests/support/suite.h"

#define BLOCK	   0x5000u
#define MAX_EVENTS 8

static const struct import_options plain;

#define BIRTH(thread, time)                                                                        \
	{                                                                                          \
		thread, TRACE_OP_ALLOC, time, BLOCK, 64                                            \
	}
#define END(thread, time)                                                                          \
	{                                                                                          \
		thread, TRACE_OP_FREE, time, BLOCK, 0                                              \
	}

/* What happens at the one address; threads 1 to 3. */
static const struct {
	struct {
		uint32_t thread; /* 0: no more */
		enum trace_op op;
		uint64_t time_ns;
		uint64_t address;
		uint64_t size;
	} events[MAX_EVENTS];
	int64_t n_blocks;
	int64_t n_missed;
	int64_t n_unknown;
	int64_t n_alive;
	int64_t n_early;
	const char *min_bytes; /* NULL: every block has an event */
} worlds[] = {
	/* The second block goes from thread 1 to 3, whose stamp is older than its allocation's. */
	{ { BIRTH(1, 100), END(3, 20000), END(1, 20010), BIRTH(1, 20050), BIRTH(3, 21000),
	    END(3, 22000) },
	  3,
	  0,
	  0,
	  0,
	  1,
	  NULL },
	/* The same, and the two ends the other way round. */
	{ { BIRTH(2, 100), END(1, 20000), END(3, 20010), BIRTH(1, 20050), BIRTH(2, 21000) },
	  3,
	  0,
	  0,
	  1,
	  1,
	  NULL },
	/* Its first block; nobody had it before. */
	{ { END(2, 100), BIRTH(1, 200) }, 1, 0, 0, 0, 1, NULL },
	/*
	 * The thread that frees it had freed the one before, just now or long ago; nobody else did.
	 */
	{ { BIRTH(1, 100), END(2, 20000), END(2, 20400), BIRTH(1, 20430), BIRTH(3, 21000),
	    END(1, 22000) },
	  3,
	  0,
	  0,
	  0,
	  1,
	  NULL },
	{ { BIRTH(1, 100), END(2, 20000), END(2, 90000), BIRTH(1, 90050), BIRTH(3, 91000),
	    END(1, 92000) },
	  3,
	  0,
	  0,
	  0,
	  1,
	  NULL },
	/* Others have long been at the address. */
	{ { BIRTH(1, 100), END(3, 20000), END(2, 90000), BIRTH(1, 90050) }, 2, 0, 0, 0, 1, NULL },
	/* Two in a row. */
	{ { BIRTH(1, 100), END(2, 20000), END(3, 20010), END(2, 20020), BIRTH(1, 20030),
	    BIRTH(3, 20060) },
	  3,
	  0,
	  0,
	  0,
	  2,
	  NULL },
	/* One thread's own order is certain: the second end is another block's. */
	{ { BIRTH(1, 100), END(1, 20000), END(1, 20010), BIRTH(1, 20050) }, 2, 0, 1, 1, 0, NULL },
	/* Too long before the allocation. */
	{ { BIRTH(1, 100), END(3, 20000), END(1, 20010), BIRTH(2, 40000) }, 2, 0, 1, 1, 0, NULL },
	/* Its own thread's allocation. */
	{ { BIRTH(1, 100), END(3, 20000), END(1, 40000), BIRTH(1, 40010) }, 2, 0, 1, 1, 0, NULL },
	/* No allocation comes. */
	{ { BIRTH(1, 100), END(3, 20000), END(1, 20010) }, 1, 0, 1, 0, 0, NULL },
	/* Two blocks stand in the way of a larger one, and both were given back: late. */
	{ { BIRTH(1, 100),
	    { 1, TRACE_OP_ALLOC, 200, BLOCK + 64, 64 },
	    { 3, TRACE_OP_ALLOC, 20000, BLOCK, 128 },
	    END(1, 20010),
	    { 2, TRACE_OP_FREE, 20020, BLOCK + 64, 0 } },
	  3,
	  0,
	  0,
	  1,
	  0,
	  NULL },
	/*
	 * Where small blocks have no event it may have been one of those, until the address is born
	 * again.
	 */
	{ { END(2, 100), BIRTH(1, 200) }, 1, 0, 1, 1, 0, "48" },
	{ { END(2, 100), BIRTH(1, 200), END(3, 30000) }, 1, 0, 1, 0, 0, "48" },
	{ { END(2, 100), BIRTH(1, 200), BIRTH(3, 30000) }, 2, 0, 0, 1, 1, "48" },
	/* Two ends in a row are proof enough. */
	{ { BIRTH(1, 100), END(3, 20000), END(2, 20010), BIRTH(1, 20050) }, 2, 0, 0, 0, 1, "48" },
};

static void make(struct maker *maker, int world)
{
	maker_init(maker);
	if (worlds[world].min_bytes)
		maker_fact(maker, "memsight.min_bytes", worlds[world].min_bytes);
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
			.address = worlds[world].events[i].address,
			.size = worlds[world].events[i].size,
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
	const char *unknown = worlds[_i].min_bytes ? "unrecorded_frees" : "before_trace_frees";
	struct db *db = NULL;
	struct maker maker;

	make(&maker, _i);
	ck_assert_int_eq(db_open_any(maker.trace, &plain, &db), 0);
	ck_assert_int_eq(total(db, "allocations"), worlds[_i].n_blocks);
	ck_assert_int_eq(total(db, "missed_frees"), worlds[_i].n_missed);
	ck_assert_int_eq(total(db, unknown), worlds[_i].n_unknown);
	ck_assert_int_eq(total(db, "early_frees"), worlds[_i].n_early);
	ck_assert_int_eq(total(db, "live_blocks"), worlds[_i].n_alive);
	check_no_row(db_handle(db), "SELECT id FROM allocation WHERE freed_ns < allocated_ns");
	check_aggregates(db_handle(db), 1);
	db_close(db);
	maker_finish(&maker);
}
END_TEST

/* Three that were there: one is freed, at the address of one another is allocated, one stays. */
START_TEST(blocks_from_before_the_attach_are_confirmed_by_a_free_and_refuted_by_an_allocation)
{
	const struct trace_event events[] = {
		{ .op = TRACE_OP_ALLOC, .ticks = 100, .address = BLOCK, .size = 72, .stack_id = 1 },
		{ .op = TRACE_OP_ALLOC,
		  .ticks = 100,
		  .address = 0x6000,
		  .size = 24,
		  .stack_id = 1 },
		{ .op = TRACE_OP_ALLOC,
		  .ticks = 100,
		  .address = 0x7000,
		  .size = 40,
		  .stack_id = 1 },
		{ .op = TRACE_OP_FREE, .call = TRACE_CALL_FREE, .ticks = 300, .address = BLOCK },
		{ .op = TRACE_OP_ALLOC,
		  .call = TRACE_CALL_MALLOC,
		  .ticks = 400,
		  .address = 0x6000,
		  .size = 16 },
	};
	static const struct {
		const char *column;
		int64_t value;
	} values[] = {
		{ "count(*)", 1 }, { "first_ns", 100 },	 { "n_blocks", 3 },    { "bytes", 136 },
		{ "n_frees", 2 },  { "live_blocks", 1 }, { "live_bytes", 40 },
	};
	struct db *db = NULL;
	struct maker maker;

	maker_init(&maker);
	maker_process(&maker, 1, 0, 0);
	maker_thread(&maker, 1, 1, 0);
	maker_node(&maker, 1, 1, 0, TRACE_STOP_BEFORE);
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		struct trace_event event = events[i];

		event.begin_ticks = event.ticks;
		maker_event(&maker, 1, &event);
	}
	maker_close(&maker, 100000);
	ck_assert_int_eq(db_open_any(maker.trace, &plain, &db), 0);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		char *sql = sqlite3_mprintf("SELECT %s FROM site JOIN stack ON stack.id = stack_id"
					    " WHERE stop = 'before the attach'",
					    values[i].column);

		ck_assert_msg(check_integer(db_handle(db), sql) == values[i].value, "%s is %lld",
			      values[i].column, (long long)check_integer(db_handle(db), sql));
		sqlite3_free(sql);
	}
	ck_assert_int_eq(
		check_integer(db_handle(db), "SELECT address FROM allocation WHERE end_kind = 3"),
		0x6000);
	check_aggregates(db_handle(db), 1);
	db_close(db);
	maker_finish(&maker);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("early");
	TCase *tests = tcase_create("all");

	tcase_add_loop_test(tests, an_end_that_is_stamped_before_its_birth_waits_for_it, 0,
			    (int)(sizeof(worlds) / sizeof(worlds[0])));
	tcase_add_test(
		tests,
		blocks_from_before_the_attach_are_confirmed_by_a_free_and_refuted_by_an_allocation);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
