/* The node that a page fault got, from records of the trace to rows and sums. */
#include <check.h>
#include <linux/perf_event.h>
#include <stdlib.h>

#include "analyze/analyze.h"
#include "tests/unit/analyze/fixtures/check-db.h"
#include "tests/unit/analyze/fixtures/trace-maker.h"
#include "tests/support/suite.h"

#define BLOCK  0x500000u
#define PID    1001u /* of the maker's process 1 */
#define FAULTS 1

static const struct import_options plain;

static void add_source(struct maker *maker)
{
	struct trace_source source = {
		.head.type = TRACE_RECORD_SOURCE,
		.source_id = FAULTS,
		.period = 1,
		.perf_type = PERF_TYPE_SOFTWARE,
		.perf_config = PERF_COUNT_SW_PAGE_FAULTS,
		.sample_type =
			PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR,
		.name_bytes = 6,
		.unit_bytes = 11,
	};
	const struct trace_string strings[] = { { "faults", 6 }, { "page faults", 11 }, { "", 0 } };

	ck_assert_int_eq(trace_writer_record(maker->writer, &source, sizeof(source), strings, 3),
			 0);
}

static void fault(struct maker *maker, uint64_t address, uint64_t time_ns)
{
	const struct {
		struct perf_event_header head;
		uint64_t ip;
		uint32_t pid, tid;
		uint64_t time, address;
	} record = {
		.head = { PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, sizeof(record) },
		.ip = 0x400000,
		.pid = PID,
		.tid = PID,
		.time = MAKER_START + time_ns,
		.address = address,
	};

	ck_assert_int_eq(trace_writer_perf(maker->writer, FAULTS, &record, sizeof(record), 1), 0);
}

static void tell(struct maker *maker, uint32_t pid, uint64_t address, uint64_t time_ns,
		 uint32_t node)
{
	const struct trace_page_node item = { MAKER_START + time_ns, address, node, 0 };
	struct trace_page_nodes record = {
		.head.type = TRACE_RECORD_PAGE_NODES,
		.pid = pid,
		.items_bytes = sizeof(item),
	};
	const struct trace_string items = { &item, sizeof(item) };

	ck_assert_int_eq(trace_writer_record(maker->writer, &record, sizeof(record), &items, 1), 0);
}

static void begin(struct maker *maker)
{
	const struct trace_event allocation = { .op = TRACE_OP_ALLOC,
						.call = TRACE_CALL_MALLOC,
						.ticks = 100,
						.begin_ticks = 100,
						.address = BLOCK,
						.size = 0x10000 };

	maker_init(maker);
	maker_process(maker, 1, 0, 0);
	maker_thread(maker, 1, 1, 0);
	add_source(maker);
	maker_event(maker, 1, &allocation);
}

/* The recorder looks behind the faults; in the file what it found lies before them. */
static void write_faults(struct maker *maker)
{
	for (uint64_t i = 1; i <= 5; i++)
		fault(maker, BLOCK + 5, i * 1000);
	tell(maker, PID, BLOCK + 5, 1000, 0);
	tell(maker, PID, BLOCK + 5, 2000, 2);
	tell(maker, PID + 1, BLOCK + 5, 3000, 2); /* another process */
	tell(maker, PID, BLOCK + 0x2000, 4000, 2); /* another page */
	tell(maker, PID, BLOCK + 5, 5001, 2); /* another time */
	maker_commit(maker, 6000);
	fault(maker, BLOCK + 0x1000, 7000);
	tell(maker, PID, BLOCK + 0x1000, 7000, 2);
	tell(maker, PID, BLOCK + 0x3000, 9000, 1); /* its fault is not of this segment */
	maker_commit(maker, 8000);
	fault(maker, BLOCK + 0x3000, 9000);
	maker_close(maker, 100000);
}

START_TEST(a_page_fault_has_the_node_that_was_told_of_it_and_no_other)
{
	struct db *db = NULL;
	struct maker maker;

	begin(&maker);
	write_faults(&maker);
	ck_assert_int_eq(db_open_any(maker.trace, &plain, &db), 0);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT count(*) FROM sample"), 7);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT count(*) FROM access_detail"), 3);
	check_no_row(
		db_handle(db),
		"SELECT * FROM access_detail JOIN sample ON sample.id = sample_id WHERE node <>"
		" CASE time_ns WHEN 1000 THEN 0 WHEN 2000 THEN 2 WHEN 7000 THEN 2 ELSE -1 END");
	/* Node 0 once and node 2 twice, of the one block's site. */
	ck_assert_int_eq(check_integer(db_handle(db),
				       "SELECT sum(n * (10 * node + 1)) FROM fault_node"
				       " JOIN owner ON owner.id = owner_kind"
				       " WHERE owner.name = 'heap'"),
			 43);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT count(*) FROM fault_node"), 2);
	check_aggregates(db_handle(db), 1);
	db_close(db);
	maker_finish(&maker);
}
END_TEST

START_TEST(without_nodes_there_are_no_rows)
{
	struct db *db = NULL;
	struct maker maker;

	begin(&maker);
	fault(&maker, BLOCK, 1000);
	maker_close(&maker, 100000);
	ck_assert_int_eq(db_open_any(maker.trace, &plain, &db), 0);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT count(*) FROM sample"), 1);
	check_no_row(db_handle(db), "SELECT * FROM access_detail");
	check_no_row(db_handle(db), "SELECT * FROM fault_node");
	db_close(db);
	maker_finish(&maker);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fault-nodes");
	TCase *tests = tcase_create("all");

	tcase_add_test(tests, a_page_fault_has_the_node_that_was_told_of_it_and_no_other);
	tcase_add_test(tests, without_nodes_there_are_no_rows);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
