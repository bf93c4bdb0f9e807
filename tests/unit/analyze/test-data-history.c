/* When what was read behind a sample may be taken for what was there. */
#include "analyze/samples/code/data-history.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"

#define ADDRESS 0x7f0000001000u
#define MS	INT64_C(1000000)
#define IMAGE	5u
#define IP	0x401000u
#define LOOP	0x400ff0u

static struct data_history *history;
static uint64_t held_ip, held_loop; /* of readings from here on */

static int64_t same(void *user, uint64_t raw_ns)
{
	(void)user;
	return (int64_t)raw_ns;
}

static const struct sample_clock raw = { NULL, same, same };

static void begin(void)
{
	held_loop = LOOP;
	held_ip = IP;
	history = data_history_create();
	ck_assert_ptr_nonnull(history);
}

/* A reading at after_ms of two words from an address on; before_ms 0: none was before it. */
static void held(uint64_t address, int64_t before_ms, int64_t after_ms, uint64_t value,
		 bool has_changed)
{
	struct {
		struct trace_held head;
		uint64_t range;
		uint64_t words[2];
	} bytes = { { .ip = held_ip,
		      .loop = held_loop,
		      .before_raw_ns = (uint64_t)(before_ms * MS),
		      .after_raw_ns = (uint64_t)(after_ms * MS),
		      .n_ranges = !has_changed,
		      .has_changed = has_changed },
		    address | 1,
		    { value, value + 1 } };
	const struct trace_code head = {
		.address = 1,
		.n_bytes = has_changed ? sizeof(bytes.head) : sizeof(bytes),
		.kind = TRACE_CODE_HELD,
	};

	ck_assert_int_eq(data_history_add(history, &raw, IMAGE, &head, &bytes), 0);
}

/* The same two words, as they were stored last. */
static void held_same(uint64_t address, int64_t before_ms, int64_t after_ms)
{
	struct {
		struct trace_held head;
		uint64_t range;
	} bytes = { { .ip = held_ip,
		      .loop = held_loop,
		      .before_raw_ns = (uint64_t)(before_ms * MS),
		      .after_raw_ns = (uint64_t)(after_ms * MS),
		      .n_ranges = 1 },
		    address | 1 | TRACE_HELD_SAME };
	const struct trace_code head = { 1, .n_bytes = sizeof(bytes), .kind = TRACE_CODE_HELD };

	ck_assert_int_eq(data_history_add(history, &raw, IMAGE, &head, &bytes), 0);
}

/* n readings from a time on that can tell, a ms apart, of other words. */
static void others(int64_t ms, int n, bool has_changed)
{
	for (int i = 0; i < n; i++)
		held(ADDRESS + 0x10000, 1, ms + i, 0, has_changed);
}

static int64_t ask(uint64_t ip, int64_t ms, uint64_t address)
{
	const struct data_question question = { IMAGE, ip, ms * MS, address };
	uint64_t value = 0;
	size_t n = data_history_bytes(history, &question, &value, sizeof(value));

	return n == sizeof(value) ? (int64_t)value : -1;
}

START_TEST(what_readings_before_and_behind_saw_alike_was_there)
{
	begin();
	others(100, 20, false);
	held(ADDRESS, 50, 110, 7, false);
	ck_assert_int_eq(ask(IP, 105, ADDRESS), 7);
	ck_assert_int_eq(ask(IP, 105, ADDRESS + 8), 8);
	ck_assert_int_eq(ask(IP, 105, ADDRESS + 16), -1);
	ck_assert_int_eq(ask(IP, 105, ADDRESS - 8), -1);
	ck_assert_int_eq(ask(IP, 111, ADDRESS), -1); /* behind all readings */
	ck_assert_int_eq(ask(IP, 40, ADDRESS), -1); /* before both, and only twenty tell */
	ck_assert_int_eq(ask(IP + 1, 105, ADDRESS), -1); /* of another instruction */
	history = data_history_destroy(history);
}
END_TEST

/* Bytes 4 to 11: the end of one word and the begin of the next. */
START_TEST(bytes_come_out_of_two_words)
{
	begin();
	others(100, 20, false);
	held(ADDRESS, 50, 110, UINT64_C(0x1122334455667788), false);
	ck_assert_int_eq(ask(IP, 105, ADDRESS + 4), 0x5566778911223344);
	history = data_history_destroy(history);
}
END_TEST

START_TEST(a_single_reading_counts_where_a_hundred_others_saw_no_change)
{
	begin();
	others(100, 99, false);
	held(ADDRESS, 0, 150, 7, false);
	ck_assert_int_eq(ask(IP, 149, ADDRESS), -1);
	history = data_history_destroy(history);
	begin();
	others(100, 100, false);
	held(ADDRESS, 0, 150, 7, false);
	ck_assert_int_eq(ask(IP, 149, ADDRESS), 7);
	history = data_history_destroy(history);
}
END_TEST

START_TEST(what_another_instruction_of_the_loop_loaded_was_there_as_well)
{
	begin();
	others(100, 20, false);
	held_ip = IP + 4;
	others(120, 1, false);
	held(ADDRESS, 50, 110, 7, false);
	held_ip = IP + 8;
	held_loop = LOOP - 0x100;
	others(100, 20, false);
	ck_assert_int_eq(ask(IP, 105, ADDRESS), 7);
	ck_assert_int_eq(ask(IP + 4, 105, ADDRESS), 7);
	ck_assert_int_eq(ask(IP + 8, 105, ADDRESS), -1); /* of another loop */
	history = data_history_destroy(history);
}
END_TEST

/* Of an instruction whose windows go different ways, readings tell of its largest loop so far. */
START_TEST(readings_of_inner_and_outer_loops_tell_of_each_other)
{
	for (int is_changed = 0; is_changed < 2; is_changed++) {
		begin();
		held_loop = LOOP - 0x20;
		others(99, 1, false);
		held_loop = LOOP;
		others(100, 60, is_changed);
		held_loop = LOOP - 0x20;
		others(160, 60, false);
		held(ADDRESS, 0, 150, 7, false);
		ck_assert_int_eq(ask(IP, 149, ADDRESS), is_changed ? -1 : 7);
		history = data_history_destroy(history);
	}
}
END_TEST

START_TEST(where_memory_is_seen_to_change_nothing_is_known_for_a_while)
{
	begin();
	others(100, 10, false);
	held(ADDRESS, 50, 110, 7, false);
	others(110, 180, false);
	held(ADDRESS + 64, 50, 290, 7, false);
	others(290, 10, false);
	others(300, 1, true);
	others(301, 9, false);
	held(ADDRESS + 128, 50, 310, 7, false);
	others(310, 180, false);
	held(ADDRESS + 192, 50, 490, 7, false);
	others(490, 11, false);
	ck_assert_int_eq(ask(IP, 109, ADDRESS), 7);
	ck_assert_int_eq(ask(IP, 289, ADDRESS + 64), -1);
	ck_assert_int_eq(ask(IP, 309, ADDRESS + 128), -1);
	ck_assert_int_eq(ask(IP, 489, ADDRESS + 192), 7);
	history = data_history_destroy(history);
}
END_TEST

START_TEST(a_reading_long_behind_a_sample_says_nothing_of_it)
{
	begin();
	others(100, 120, false);
	held(ADDRESS, 50, 900, 7, false);
	ck_assert_int_eq(ask(IP, 600, ADDRESS), -1);
	ck_assert_int_eq(ask(IP, 800, ADDRESS), 7);
	history = data_history_destroy(history);
}
END_TEST

START_TEST(words_that_are_the_same_are_as_they_were_stored_last)
{
	begin();
	others(100, 20, false);
	held(ADDRESS, 50, 110, 7, false);
	held(ADDRESS + 16, 50, 110, 70, false);
	held_same(ADDRESS, 110, 300);
	held(ADDRESS, 300, 500, 9, false);
	held_same(ADDRESS, 500, 700);
	held_same(ADDRESS + 8, 500, 900);
	held_same(ADDRESS + 64, 500, 900);
	ck_assert_int_eq(ask(IP, 105, ADDRESS), 7);
	ck_assert_int_eq(ask(IP, 290, ADDRESS), 7);
	ck_assert_int_eq(ask(IP, 290, ADDRESS + 8), 8);
	ck_assert_int_eq(ask(IP, 690, ADDRESS), 9);
	ck_assert_int_eq(ask(IP, 690, ADDRESS + 8), 10);
	ck_assert_int_eq(ask(IP, 890, ADDRESS + 16), 70); /* of two ranges */
	ck_assert_int_eq(ask(IP, 890, ADDRESS + 64), -1); /* nobody has stored it */
	history = data_history_destroy(history);
}
END_TEST

START_TEST(behind_what_is_lost_nothing_is_known)
{
	begin();
	others(100, 20, false);
	held(ADDRESS, 50, 110, 7, false);
	ck_assert_int_eq(ask(IP, 105, ADDRESS), 7);
	data_history_end(history);
	held(ADDRESS, 110, 300, 7, false);
	ck_assert_int_eq(ask(IP, 105, ADDRESS), -1);
	ck_assert_int_eq(ask(IP, 290, ADDRESS), -1);
	history = data_history_destroy(history);
}
END_TEST

/* A frame that ends in the middle of a reading. */
START_TEST(a_reading_that_is_cut_off_is_left_out)
{
	struct trace_held bytes = { .ip = IP, .after_raw_ns = 100 * MS, .n_ranges = 3 };
	const struct trace_code head = { 1, .n_bytes = sizeof(bytes), .kind = TRACE_CODE_HELD };

	begin();
	others(100, 20, false);
	ck_assert_int_eq(data_history_add(history, &raw, IMAGE, &head, &bytes), 0);
	held(ADDRESS, 50, 110, 7, false);
	ck_assert_int_eq(ask(IP, 105, ADDRESS), 7);
	history = data_history_destroy(history);
}
END_TEST

/* Whatever bytes: nothing beside them is read, and nothing that they do not hold is told. */
START_TEST(frames_of_any_bytes_do_no_harm)
{
	uint32_t state = (uint32_t)_i + 1;
	uint8_t bytes[256];

	begin();
	for (int frame = 0; frame < 50; frame++) {
		struct trace_code head = { .kind = TRACE_CODE_HELD };

		for (size_t i = 0; i < sizeof(bytes); i++) {
			state = state * 1103515245u + 12345u;
			bytes[i] = state >> 28 < 9 ? 0 : (uint8_t)(state >> 20);
		}
		head.n_bytes = 1 + (state >> 8) % sizeof(bytes);
		head.address = state >> 28;
		ck_assert_int_eq(data_history_add(history, &raw, IMAGE, &head, bytes), 0);
	}
	ck_assert_int_eq(ask(IP, 105, ADDRESS), -1);
	history = data_history_destroy(history);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("data-history");
	TCase *tcase = tcase_create("history");

	tcase_add_test(tcase, what_readings_before_and_behind_saw_alike_was_there);
	tcase_add_test(tcase, bytes_come_out_of_two_words);
	tcase_add_test(tcase, a_single_reading_counts_where_a_hundred_others_saw_no_change);
	tcase_add_test(tcase, what_another_instruction_of_the_loop_loaded_was_there_as_well);
	tcase_add_test(tcase, readings_of_inner_and_outer_loops_tell_of_each_other);
	tcase_add_test(tcase, where_memory_is_seen_to_change_nothing_is_known_for_a_while);
	tcase_add_test(tcase, a_reading_long_behind_a_sample_says_nothing_of_it);
	tcase_add_test(tcase, words_that_are_the_same_are_as_they_were_stored_last);
	tcase_add_test(tcase, behind_what_is_lost_nothing_is_known);
	tcase_add_test(tcase, a_reading_that_is_cut_off_is_left_out);
	tcase_add_loop_test(tcase, frames_of_any_bytes_do_no_harm, 0, 20);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
