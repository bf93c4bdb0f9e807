#include "trace/columns.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/common/trace-random.h"
#include "tests/support/fewer.h"
#include "tests/support/suite.h"
#include "trace/varint.h"

static const uint64_t edge_numbers[] = {
	0,
	1,
	0x7f,
	0x80,
	0x3fff,
	0x4000,
	0x1fffff,
	0x200000,
	(UINT64_C(1) << 28) - 1,
	UINT64_C(1) << 28,
	(UINT64_C(1) << 35) - 1,
	UINT64_C(1) << 35,
	(UINT64_C(1) << 42) - 1,
	UINT64_C(1) << 42,
	(UINT64_C(1) << 49) - 1,
	UINT64_C(1) << 49,
	(UINT64_C(1) << 56) - 1,
	UINT64_C(1) << 56,
	(UINT64_C(1) << 63) - 1,
	UINT64_C(1) << 63,
	UINT64_MAX,
};

static void check_varint(uint64_t value)
{
	uint8_t fast[32] = { 0 }, slow[32] = { 0 };
	uint64_t got_fast = 0, got_slow = 0;
	uint8_t *end_fast = trace_varint_put(fast, value);
	uint8_t *end_slow = trace_varint_put_slow(slow, value);
	long n_bytes = end_slow - slow;

	ck_assert_int_eq(end_fast - fast, n_bytes);
	ck_assert_mem_eq(fast, slow, (size_t)n_bytes);
	ck_assert_ptr_eq(trace_varint_get(fast, &got_fast), fast + n_bytes);
	ck_assert_ptr_eq(trace_varint_get_slow(slow, &got_slow), slow + n_bytes);
	ck_assert_uint_eq(got_fast, value);
	ck_assert_uint_eq(got_slow, value);
	ck_assert_ptr_eq(trace_varint_put_if(fast, value, 0), fast);
	ck_assert_uint_eq(trace_zigzag(trace_unzigzag(value)), value);
}

START_TEST(a_varint_of_every_length_comes_back)
{
	check_varint(edge_numbers[_i]);
}
END_TEST

START_TEST(random_varints_come_back)
{
	struct trace_random random = { 42 };

	for (int i = 0; i < 100000; i++)
		check_varint(trace_random_number(&random));
}
END_TEST

START_TEST(a_varint_without_end_or_over_64_bits_is_refused)
{
	uint8_t endless[16], wide[16] = { 0 };
	uint64_t value = 7;

	memset(endless, 0x80, sizeof(endless));
	memset(wide, 0xff, 9);
	wide[9] = 0x02;
	ck_assert_ptr_null(trace_varint_get(endless, &value));
	ck_assert_ptr_null(trace_varint_get(wide, &value));
	ck_assert_uint_eq(value, 7);
}
END_TEST

/* Encode events and give the body in memory of exactly its size and the slack. */
static uint8_t *encode(const struct trace_event *events, uint32_t n, size_t *ret_bytes)
{
	struct trace_columns columns = { 0 };
	struct iovec parts[TRACE_COLUMNS_PARTS];

	for (uint32_t i = 0; i < n; i++) {
		if (columns.n_events == columns.capacity)
			ck_assert_int_eq(trace_columns_reserve(&columns, columns.capacity * 2 + 3),
					 0);
		trace_columns_append(&columns, &events[i]);
	}
	size_t n_bytes = trace_columns_parts(&columns, parts);
	uint8_t *body = malloc(n_bytes + TRACE_VARINT_SLACK), *next = body;
	ck_assert_ptr_nonnull(body);
	memset(body, 0xff, n_bytes + TRACE_VARINT_SLACK);
	for (unsigned i = 0; i < TRACE_COLUMNS_PARTS; i++) {
		if (parts[i].iov_len > 0)
			memcpy(next, parts[i].iov_base, parts[i].iov_len);
		next += parts[i].iov_len;
	}
	ck_assert_int_eq(next - body, (long)n_bytes);
	trace_columns_finish(&columns);
	*ret_bytes = n_bytes;
	return body;
}

static void check_comes_back_in_parts(const uint8_t *body, const struct trace_event *events,
				      uint32_t n)
{
	struct trace_columns_place place;
	struct trace_event got[7];
	int n_got, at = 0;

	trace_columns_begin(body, &place);
	while ((n_got = trace_columns_read(&place, got, 7)) > 0) {
		ck_assert_int_le(at + n_got, (int)n);
		ck_assert_mem_eq(got, &events[at], (size_t)n_got * sizeof(got[0]));
		at += n_got;
	}
	ck_assert_int_eq(n_got, 0);
	ck_assert_int_eq(at, (int)n);
}

static void check_comes_back(const struct trace_event *events, uint32_t n)
{
	struct trace_event *got = calloc(n + 1, sizeof(*got));
	size_t n_bytes;
	uint8_t *body = encode(events, n, &n_bytes);

	ck_assert_int_eq(trace_columns_check(body, n_bytes), (int)n);
	ck_assert_int_eq(trace_columns_verify(body), 0);
	ck_assert_int_eq(trace_columns_decode(body, got), 0);
	for (uint32_t i = 0; i < n; i++)
		ck_assert_mem_eq(&got[i], &events[i], sizeof(got[i]));
	check_comes_back_in_parts(body, events, n);
	free(body);
	free(got);
}

START_TEST(random_events_come_back_as_they_were)
{
	struct trace_random random = { (uint64_t)_i + 1 };
	struct trace_event events[1000];

	for (unsigned i = 0; i < 1000; i++)
		events[i] = trace_random_event(&random);
	check_comes_back(events, (uint32_t)(_i * 37) % 1001);
}
END_TEST

/* A record as a hook writes it, mostly plain; or one that is not there yet. */
static struct ring_record random_record(unsigned *seed)
{
	static const uint8_t ops[] = { TRACE_OP_ALLOC, TRACE_OP_FREE, TRACE_OP_ALLOC,
				       TRACE_OP_MUNMAP };
	uint32_t bits = (uint32_t)rand_r(seed);
	struct ring_record record = {
		.ticks = 1000 + bits % 100,
		.address = UINT64_C(0x7f0000000000) + (bits >> 3) % 4096 * (bits % 41 ? 16 : 1),
		.size = bits % 3 ? bits % 5000 : 0,
	};

	if (bits % 37)
		atomic_store(&record.head, RING_HEAD(ops[bits % 67 ? bits % 3 : 3],
						     bits % 5 ? bits % 60 : bits % 256,
						     bits % 53 ? 1 : 2, bits % 7 ? bits % 900 : 0));
	return record;
}

/* What one at a time makes of it. */
static void append_one(struct trace_columns *columns, const struct ring_record *record)
{
	uint64_t head = atomic_load(&record->head);
	const struct trace_event event = {
		.op = RING_HEAD_OP(head),
		.call = RING_HEAD_CALL(head) & 0x3f,
		.flags = RING_HEAD_CALL(head) >> 6,
		.stack_id = RING_HEAD_STACK_ID(head),
		.ticks = record->ticks,
		.begin_ticks = record->ticks,
		.address = record->address,
		.size = record->size,
	};

	trace_columns_append(columns, &event);
}

static void check_same(struct trace_columns *one, struct trace_columns *other)
{
	struct iovec parts[2][TRACE_COLUMNS_PARTS];

	ck_assert_uint_eq(trace_columns_parts(one, parts[0]), trace_columns_parts(other, parts[1]));
	for (unsigned i = 0; i < TRACE_COLUMNS_PARTS; i++) {
		ck_assert_uint_eq(parts[0][i].iov_len, parts[1][i].iov_len);
		if (parts[0][i].iov_len > 0)
			ck_assert_mem_eq(parts[0][i].iov_base, parts[1][i].iov_base,
					 parts[0][i].iov_len);
	}
}

START_TEST(records_of_the_pool_become_the_same_columns_at_once_as_one_by_one)
{
	struct trace_records given = { .least_ticks = 1002, .most_ticks = 1097 };
	struct trace_columns once = { 0 }, each = { 0 };
	struct ring_record records[500];
	unsigned seed = (unsigned)_i, n_once = 0;

	ck_assert_int_eq(trace_columns_reserve(&once, 500), 0);
	ck_assert_int_eq(trace_columns_reserve(&each, 500), 0);
	for (unsigned i = 0; i < 500; i++)
		records[i] = random_record(&seed);
	given.first = records;
	given.n = 500;
	ck_assert_uint_eq(trace_columns_append_records(&once, &given), 0);
	for (uint32_t at = 0; at < 500; at++) {
		given.first = &records[at];
		given.n = 500 - at;
		uint32_t n = trace_columns_append_records(&once, &given);

		ck_assert_uint_le(n, 500 - at);
		for (uint32_t i = 0; i < n; i++, at++) {
			ck_assert(trace_is_plain(atomic_load(&records[at].head)));
			ck_assert(records[at].ticks >= 1002 && records[at].ticks <= 1097);
			append_one(&each, &records[at]);
		}
		n_once += n;
		if (at == 500 || atomic_load(&records[at].head) == 0)
			continue;
		/* It stopped at one that only the other way can take. */
		append_one(&once, &records[at]);
		append_one(&each, &records[at]);
	}
	ck_assert_uint_gt(n_once, 200);
	check_same(&once, &each);
	trace_columns_finish(&once);
	trace_columns_finish(&each);
}
END_TEST

START_TEST(records_of_the_pool_stop_where_the_columns_are_full)
{
	struct ring_record records[20] = { 0 };
	struct trace_records given = { records + 1, 19, 0, UINT64_MAX, 7 };
	struct trace_columns columns = { 0 };

	ck_assert_int_eq(trace_columns_reserve(&columns, 8), 0);
	for (unsigned i = 0; i < 20; i++)
		atomic_store(&records[i].head, RING_HEAD(TRACE_OP_FREE, TRACE_CALL_FREE, 1, 0));
	append_one(&columns, &records[0]);
	ck_assert_uint_eq(trace_columns_append_records(&columns, &given), 7);
	ck_assert_uint_eq(given.last_ticks, 0);
	given = (struct trace_records){ records + 8, 12, 0, UINT64_MAX, 7 };
	ck_assert_uint_eq(trace_columns_append_records(&columns, &given), 0);
	ck_assert_uint_eq(given.last_ticks, 7);
	trace_columns_finish(&columns);
}
END_TEST

START_TEST(an_event_of_edge_numbers_comes_back)
{
	struct trace_event events[2] = { { .op = TRACE_OP_ALLOC }, { 0 } };
	uint64_t number = edge_numbers[_i];

	events[1] = (struct trace_event){ .op = 15,
					  .call = 255,
					  .flags = (uint16_t)number,
					  .stack_id = (uint32_t)number,
					  .ticks = number,
					  .address = ~number,
					  .size = number,
					  .old_address = number,
					  .begin_ticks = ~number,
					  .old_size = number,
					  .detail = number };
	check_comes_back(events, 2);
}
END_TEST

START_TEST(a_common_event_takes_few_bytes)
{
	struct trace_event events[100] = { 0 };
	size_t n_bytes;

	for (unsigned i = 0; i < 100; i++)
		events[i] = (struct trace_event){ .op = TRACE_OP_ALLOC,
						  .call = TRACE_CALL_MALLOC,
						  .stack_id = 5,
						  .ticks = 1000 + i * 100,
						  .begin_ticks = 1000 + i * 100,
						  .address = 0x5555000010 + i * 64,
						  .size = 50 };
	free(encode(events, 100, &n_bytes));
	/* control, ticks, address, size and stack: a byte each; the first address takes 6 */
	ck_assert_uint_eq(n_bytes, sizeof(struct trace_events_head) + 100 * 5 + 5);
}
END_TEST

/* Whatever the bytes, decode stays inside them (the sanitizers and malloc's end look). */
START_TEST(garbage_in_columns_is_refused_or_decoded_but_never_overrun)
{
	struct trace_random random = { (uint64_t)_i + 77 };
	struct trace_event events[64], got[64];
	size_t n_bytes;

	for (unsigned i = 0; i < 64; i++)
		events[i] = trace_random_event(&random);
	uint8_t *body = encode(events, 64, &n_bytes);
	for (unsigned round = 0; round < 300; round++) {
		size_t at = trace_random_below(&random, (uint32_t)n_bytes);
		uint8_t was = body[at];
		body[at] = (uint8_t)trace_random_bits(&random);
		int n = trace_columns_check(body, n_bytes);
		if (n >= 0 && n <= 64)
			ck_assert_int_eq(trace_columns_verify(body),
					 trace_columns_decode(body, got));
		if (round % 3 == 0)
			body[at] = was;
	}
	free(body);
}
END_TEST

START_TEST(columns_that_do_not_fill_the_body_are_damage)
{
	struct trace_event event = { .op = TRACE_OP_FREE, .ticks = 1, .begin_ticks = 1 };
	struct trace_events_head head;
	size_t n_bytes;
	uint8_t *body = encode(&event, 1, &n_bytes);

	ck_assert_int_eq(trace_columns_check(body, n_bytes - 1), -EBADMSG);
	ck_assert_int_eq(trace_columns_check(body, sizeof(head) - 1), -EBADMSG);
	memcpy(&head, body, sizeof(head));
	head.n_events = 2;
	memcpy(body, &head, sizeof(head));
	ck_assert_int_eq(trace_columns_check(body, n_bytes), -EBADMSG);
	head.n_events = TRACE_FRAME_MAX_EVENTS + 1;
	head.column_bytes[TRACE_COLUMN_CONTROL] = TRACE_FRAME_MAX_EVENTS + 1;
	memcpy(body, &head, sizeof(head));
	ck_assert_int_eq(trace_columns_check(body, (size_t)1 << 20), -EBADMSG);
	free(body);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("trace-columns");
	TCase *tests = tcase_create("columns");
	const int n_edges = sizeof(edge_numbers) / sizeof(edge_numbers[0]);

	tcase_add_loop_test(tests, a_varint_of_every_length_comes_back, 0, n_edges);
	tcase_add_test(tests, random_varints_come_back);
	tcase_add_test(tests, a_varint_without_end_or_over_64_bits_is_refused);
	tcase_add_loop_test(tests, random_events_come_back_as_they_were, 0, fewer(60));
	tcase_add_loop_test(
		tests, records_of_the_pool_become_the_same_columns_at_once_as_one_by_one, 0, 50);
	tcase_add_test(tests, records_of_the_pool_stop_where_the_columns_are_full);
	tcase_add_loop_test(tests, an_event_of_edge_numbers_comes_back, 0, n_edges);
	tcase_add_test(tests, a_common_event_takes_few_bytes);
	tcase_add_loop_test(tests, garbage_in_columns_is_refused_or_decoded_but_never_overrun, 0,
			    fewer(50));
	tcase_add_test(tests, columns_that_do_not_fill_the_body_are_damage);
	suite_add_tcase(suite, tests);

	return suite_run(suite);
}
