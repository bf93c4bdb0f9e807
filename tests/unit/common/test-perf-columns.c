/* Records of perf into columns and back. */
#include "trace/perf-columns.h"

#include <check.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tests/unit/common/trace-random.h"
#include "trace/varint.h"

#define MOST (1u << 20)

static struct trace_perf_columns columns;
static uint8_t records[MOST], body[2 * MOST], back[MOST];
static size_t n_records_bytes;

static void setup(void)
{
	columns = (struct trace_perf_columns){ 0 };
	n_records_bytes = 0;
}

static void teardown(void)
{
	trace_perf_columns_finish(&columns);
}

static void add(const void *bytes, size_t n)
{
	memcpy(records + n_records_bytes, bytes, n);
	ck_assert_int_eq(trace_perf_columns_add(&columns, records + n_records_bytes, n), 0);
	n_records_bytes += n;
}

/* A record of so many words with that second one; the others are in what is given. */
static void add_record(uint64_t *words, unsigned n_words, uint64_t ip)
{
	struct perf_event_header head = { .type = PERF_RECORD_SAMPLE,
					  .size = (uint16_t)(n_words * sizeof(words[0])) };

	memcpy(words, &head, sizeof(head));
	words[1] = ip;
	add(words, n_words * sizeof(words[0]));
}

static size_t make_body(void)
{
	struct iovec parts[TRACE_PERF_PARTS];
	size_t n = 0;

	trace_perf_columns_parts(&columns, parts);
	for (unsigned i = 0; i < TRACE_PERF_PARTS; i++) {
		if (parts[i].iov_len)
			memcpy(body + n, parts[i].iov_base, parts[i].iov_len);
		n += parts[i].iov_len;
	}
	memset(body + n, 0, TRACE_VARINT_SLACK);
	return n;
}

static void check_back(void)
{
	size_t n = make_body();

	ck_assert_int_eq(trace_perf_columns_check(body, n), (int64_t)n_records_bytes);
	ck_assert_int_eq(trace_perf_columns_decode(body, n, back), 0);
	ck_assert_mem_eq(back, records, n_records_bytes);
}

/* Words that stay, that go up, that change at random, in loops of some instructions each. */
static void add_samples(struct trace_random *random, unsigned n)
{
	uint64_t words[200];

	for (unsigned i = 0; i < 200; i++)
		words[i] = trace_random_number(random);
	for (unsigned k = 0; k < n; k++) {
		unsigned n_words = 2 + trace_random_below(random, 3) * 60;

		for (unsigned i = trace_random_below(random, 40); i > 0; i--) {
			uint64_t *word = &words[trace_random_below(random, 200)];
			*word = trace_random_below(random, 2)
					? *word + trace_random_below(random, 5000)
					: trace_random_number(random);
		}
		add_record(words, n_words, 0x401000 + trace_random_below(random, 90));
	}
}

START_TEST(what_samples_have_comes_back)
{
	struct trace_random random = { (uint64_t)_i };

	for (unsigned turn = 0; turn < 3; turn++) {
		add_samples(&random, 300);
		check_back();
		trace_perf_columns_clear(&columns);
		n_records_bytes = 0;
	}
	check_back();
}
END_TEST

START_TEST(bytes_that_are_no_records_come_back)
{
	struct trace_random random = { (uint64_t)_i };

	for (unsigned k = 0; k < 100; k++) {
		uint8_t bytes[40];

		for (unsigned i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)trace_random_below(&random, 20);
		add(bytes, trace_random_below(&random, sizeof(bytes)));
		add_samples(&random, 1);
	}
	check_back();
}
END_TEST

START_TEST(what_is_as_before_takes_no_room)
{
	uint64_t words[59] = { 0 };

	for (unsigned k = 0; k < 1000; k++) {
		words[3] += 200000; /* time */
		words[20] += 64;
		words[21] ^= UINT64_C(1) << 40;
		add_record(words, 59, 0x401000 + k % 7);
	}
	check_back();
	/* Codes of 59 words, how far back, two numbers and a word. */
	ck_assert_uint_le(trace_perf_columns_bytes(&columns),
			  1000 * (15 + 1 + 3 + 2 + 8) + 7 * 480);
}
END_TEST

START_TEST(a_record_that_differs_everywhere_is_stored_as_it_is)
{
	struct trace_random random = { 1 };
	uint64_t words[59];

	for (unsigned k = 0; k < 100; k++) {
		for (unsigned i = 0; i < 59; i++)
			words[i] = trace_random_bits(&random);
		add_record(words, 59, 0x401000);
	}
	check_back();
	ck_assert_uint_le(trace_perf_columns_bytes(&columns), n_records_bytes + 100 * 4);
}
END_TEST

/* Whatever is changed: it is damage, or other records of as many bytes. */
START_TEST(a_body_that_lies_is_damage_or_records)
{
	struct trace_random random = { 5 };

	add_samples(&random, 20);
	size_t n = make_body();
	for (size_t i = 0; i < 20000; i++) {
		size_t at = i < n ? i : trace_random_below(&random, (uint32_t)n);
		uint8_t was = body[at];

		body[at] = (uint8_t)trace_random_bits(&random);
		int64_t n_out = trace_perf_columns_check(body, n);
		if (n_out >= 0 && n_out <= (int64_t)sizeof(back)) {
			uint8_t *exact = malloc((size_t)n_out + 1);
			int r = trace_perf_columns_decode(body, n, exact);

			ck_assert(r == 0 || r == -EBADMSG);
			free(exact);
		}
		body[at] = was;
	}
	ck_assert_int_eq(trace_perf_columns_check(body, sizeof(struct trace_perf_head) - 1),
			 -EBADMSG);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("perf-columns");
	TCase *tests = tcase_create("columns");

	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_loop_test(tests, what_samples_have_comes_back, 0, 20);
	tcase_add_loop_test(tests, bytes_that_are_no_records_come_back, 0, 20);
	tcase_add_test(tests, what_is_as_before_takes_no_room);
	tcase_add_test(tests, a_record_that_differs_everywhere_is_stored_as_it_is);
	tcase_add_test(tests, a_body_that_lies_is_damage_or_records);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
