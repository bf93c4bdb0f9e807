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
	tcase_add_loop_test(tests, an_event_of_edge_numbers_comes_back, 0, n_edges);
	tcase_add_test(tests, a_common_event_takes_few_bytes);
	tcase_add_loop_test(tests, garbage_in_columns_is_refused_or_decoded_but_never_overrun, 0,
			    fewer(50));
	tcase_add_test(tests, columns_that_do_not_fill_the_body_are_damage);
	suite_add_tcase(suite, tests);

	return suite_run(suite);
}
