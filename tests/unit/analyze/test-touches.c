#include "analyze/samples/sample-accesses.h"

#include <check.h>
#include <math.h>

#include "analyze/samples/queue.h"
#include "analyze/samples/samples.h"
#include "common/array.h"
#include "perf/data-source.h"
#include "store/totals/shared-lines.h"
#include "tests/support/suite.h"

#define BLOCK UINT64_C(0x5000000)

/* One sample's accesses to one owner, of different weight; some addresses come more than once. */
static size_t make_alike(struct sample_access *accesses, size_t n)
{
	for (size_t i = 0; i < n; i++)
		accesses[i] = (struct sample_access){
			.role = TRACE_ROLE_WINDOW,
			.share = (1.0 + (double)(i % 3)) / (double)(2 * n),
			.address = BLOCK + 8 * (i % 13),
			.is_resolved = true,
			.is_write = 0,
			.owner = { .kind = OWNER_heap, .id = 11 },
			.ip = 0x400000,
			.frame = 5,
		};
	return n;
}

/* CPUs' rings come one behind the other; each is in order, and some times are of two of them. */
START_TEST(samples_come_in_order_of_time_and_those_of_one_time_as_they_were_read)
{
	static const int64_t rings[] = { 3, 5, 5, 9, 1, 5, 8, 7, 5, 4, 2 };
	enum { N = COUNT_OF(rings) };
	struct sample_queue queue;
	const struct queued_sample *entry;
	size_t n = 0, n_looked = 0;
	int64_t before = 0;
	uint32_t last = 0;

	sample_queue_init(&queue);
	struct record_buffer *buffer = record_buffer_create("", 0);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_int_eq(sample_queue_add(&queue,
						  &(struct queued_sample){
							  .time_ns = rings[i],
							  .buffer = buffer,
							  .offset = i,
						  }),
				 0);
	for (; (entry = sample_queue_peek(&queue, 9)); n++, sample_queue_drop(&queue)) {
		const struct queued_sample *next = sample_queue_look(&queue, 2, &n_looked);
		ck_assert_ptr_eq(next, entry);
		ck_assert_uint_eq(n_looked, N - n < 2 ? N - n : 2);
		ck_assert_int_eq(entry->time_ns, rings[entry->offset]);
		ck_assert(entry->time_ns > before ||
			  (entry->time_ns == before && entry->offset > last));
		before = entry->time_ns;
		last = entry->offset;
	}
	ck_assert_uint_eq(n, N - 1);
	sample_queue_finish(&queue);
}
END_TEST

START_TEST(each_address_has_its_share_on_the_average_and_sums_stay)
{
	enum { N = 30, N_SAMPLES = 20000 };
	struct sample_access accesses[N], again[N];
	double wanted[13] = { 0 }, found[13] = { 0 }, squares[13] = { 0 };

	make_alike(accesses, N);
	for (size_t i = 0; i < N; i++)
		wanted[i % 13] += accesses[i].share;
	for (int64_t t = 0; t < N_SAMPLES; t++) {
		/* As a periodic timer has them. */
		size_t n = sample_touches_merge(accesses, make_alike(accesses, N), t * 1000000);
		double sum = 0;
		ck_assert_uint_eq(n, SAMPLE_MAX_ALIKE);
		for (size_t i = 0; i < n; i++) {
			size_t at = (size_t)(accesses[i].address - BLOCK) / 8;
			sum += accesses[i].share;
			found[at] += accesses[i].share / N_SAMPLES;
			squares[at] += accesses[i].share * accesses[i].share / N_SAMPLES;
		}
		ck_assert_double_eq_tol(sum, 1, 1e-12);
		ck_assert_uint_eq(sample_touches_merge(again, make_alike(again, N), t * 1000000),
				  n);
		for (size_t i = 0; i < n; i++)
			ck_assert_uint_eq(again[i].address, accesses[i].address);
	}
	for (size_t i = 0; i < 13; i++)
		ck_assert_double_eq_tol(found[i], wanted[i], 4 * sqrt(squares[i] / N_SAMPLES));
}
END_TEST

/* ---- Lines that threads share ---- */

struct use {
	int64_t thread;
	unsigned offset, size;
	bool is_write;
	int64_t block;
};

static void use(struct shared_lines *lines, uint64_t line, const struct use *use)
{
	const struct touch touch = {
		.address = line + use->offset,
		.size = use->size,
		.thread_row = use->thread,
		.process_row = 1,
		.is_write = use->is_write,
		.is_resolved = true,
		.owner = { .kind = OWNER_heap, .id = use->block ? use->block : 11 },
	};

	ck_assert_int_eq(shared_lines_add(lines, &touch, 0), 0);
}

static void use_in_turn(struct shared_lines *lines, const struct use *uses, size_t n_uses, int n)
{
	for (int i = 0; i < n; i++)
		for (size_t k = 0; k < n_uses; k++)
			use(lines, BLOCK, &uses[k]);
}

/* What is told of two threads on the only line: 0 nothing, 1 the same bytes, 2 different ones. */
static int told_of(struct shared_lines *lines, int64_t thread, int64_t other)
{
	ck_assert_int_eq(shared_lines_settle(lines), 0);
	struct shared_line *line = &lines->items[0];
	int told = 0;

	for (unsigned i = 0; i < line->n_pairs; i++) {
		const struct shared_pair *pair = &line->pairs[i];
		int64_t threads[2];
		for (int k = 0; k < 2; k++)
			threads[k] = pair->users[k] ? line->others[pair->users[k] - 1].thread
						    : line->first.thread;
		bool is_it = (threads[0] == thread && threads[1] == other) ||
			     (threads[1] == thread && threads[0] == other);
		if (is_it && pair->n_changes >= SHARED_CHANGES && pair->n_same + pair->n_apart)
			told = pair->n_same > pair->n_apart ? 1 : 2;
	}
	return told;
}

START_TEST(who_set_a_line_up_does_not_hide_what_its_workers_do)
{
	static const struct use apart[] = { { 2, 0, 8, true, 0 }, { 3, 8, 8, true, 0 } };
	static const struct use same[] = { { 4, 16, 4, true, 0 }, { 5, 18, 4, false, 0 } };
	struct shared_lines lines = { 0 };

	use(&lines, BLOCK, &(struct use){ 1, 0, 64, true, 0 });
	use_in_turn(&lines, apart, 2, 20);
	use_in_turn(&lines, same, 2, 20);
	use(&lines, BLOCK, &(struct use){ 1, 0, 64, false, 0 });
	ck_assert_int_eq(told_of(&lines, 2, 3), 2);
	ck_assert_int_eq(told_of(&lines, 4, 5), 1);
	for (int64_t thread = 2; thread <= 5; thread++)
		ck_assert_int_eq(told_of(&lines, 1, thread), 0);
	/* They came one after the others. */
	ck_assert_int_eq(told_of(&lines, 2, 4), 0);
	shared_lines_finish(&lines);
}
END_TEST

START_TEST(readers_and_users_of_a_block_that_is_gone_share_nothing)
{
	static const struct use reads[] = { { 2, 0, 8, false, 0 }, { 3, 0, 8, false, 0 } };
	static const struct use before[] = { { 1, 0, 16, true, 7 }, { 2, 0, 16, true, 7 } };
	struct shared_lines lines = { 0 };

	use(&lines, BLOCK, &(struct use){ 1, 0, 64, true, 0 });
	use_in_turn(&lines, reads, 2, 20);
	ck_assert_int_eq(told_of(&lines, 2, 3), 0);
	shared_lines_finish(&lines);
	/* Thread 1 wrote to block 7 only, whose place block 8 has now. */
	use_in_turn(&lines, &before[0], 1, 5);
	use_in_turn(&lines, (struct use[]){ { 2, 0, 8, true, 8 }, { 3, 8, 8, true, 8 } }, 2, 20);
	ck_assert_int_eq(told_of(&lines, 1, 2), 0);
	ck_assert_int_eq(told_of(&lines, 2, 3), 2);
	shared_lines_finish(&lines);
	/* Two blocks that live at the same time. */
	use_in_turn(&lines, (struct use[]){ { 2, 0, 8, true, 8 }, { 3, 32, 8, true, 9 } }, 2, 20);
	ck_assert_int_eq(told_of(&lines, 2, 3), 2);
	shared_lines_finish(&lines);
}
END_TEST

START_TEST(bytes_of_long_ago_say_nothing_of_now)
{
	struct shared_lines lines = { 0 };

	/* They agree on something at first; then each has its own. */
	use_in_turn(&lines, (struct use[]){ { 2, 0, 8, true, 0 }, { 3, 0, 8, true, 0 } }, 2, 10);
	ck_assert_int_eq(told_of(&lines, 2, 3), 1);
	use_in_turn(&lines, (struct use[]){ { 2, 0, 8, true, 0 }, { 3, 8, 8, true, 0 } }, 2, 60);
	ck_assert_int_eq(told_of(&lines, 2, 3), 2);
	shared_lines_finish(&lines);
	/* Two counters of both, seen one at a time. */
	for (int i = 0; i < 400; i++)
		use(&lines, BLOCK,
		    &(struct use){ 2 + i % 2, (unsigned)(i * 7919 / 64 % 2) * 8, 8, true, 0 });
	ck_assert_int_eq(told_of(&lines, 2, 3), 1);
	shared_lines_finish(&lines);
}
END_TEST

START_TEST(what_lies_between_two_turns_of_the_other_counts)
{
	struct shared_lines lines = { 0 };

	use_in_turn(&lines, (struct use[]){ { 2, 0, 8, true, 0 } }, 1, 100);
	use_in_turn(&lines,
		    (struct use[]){
			    { 3, 8, 4, false, 0 }, { 2, 0, 8, true, 0 }, { 2, 4, 8, false, 0 } },
		    3, 4);
	ck_assert_int_eq(shared_lines_settle(&lines), 0);
	const struct shared_pair *pair = &lines.items[0].pairs[0];
	/* 2, 3, 2 2, 3, 2 2, 3, 2 2, 3, 2 2: all but the first two and the last. */
	ck_assert_uint_eq(pair->n_changes, 8);
	ck_assert_uint_eq(pair->sum.n_touches, 3 * 2 + 3);
	ck_assert_uint_eq(pair->sum.n_writes, 3);
	ck_assert_uint_eq(pair->sides[0].all.touched, 0xfff);
	ck_assert_uint_eq(pair->sides[0].all.written, 0xff);
	ck_assert_uint_eq(pair->sides[1].all.touched, 0xf00);
	shared_lines_finish(&lines);
}
END_TEST

START_TEST(very_many_threads_of_a_line_are_counted)
{
	struct shared_lines lines = { 0 };

	/* One after the other, as a pool makes them: the oldest go. Two stay for long. */
	for (int64_t i = 0; i < 1000; i++) {
		use(&lines, BLOCK, &(struct use){ 100 + i, 0, 8, true, 0 });
		use_in_turn(&lines, (struct use[]){ { 2, 8, 8, true, 0 }, { 3, 16, 8, true, 0 } },
			    2, 1);
	}
	ck_assert_int_eq(told_of(&lines, 2, 3), 2);
	ck_assert_uint_eq(lines.n_forgotten, 0);
	/* At the same time: there is no room for all. */
	for (int64_t i = 0; i < 200; i++)
		use(&lines, BLOCK, &(struct use){ 5000 + i % 40, 0, 8, true, 0 });
	ck_assert_int_eq(shared_lines_settle(&lines), 0);
	ck_assert_uint_le(lines.items[0].n_users, SHARED_USERS);
	shared_lines_finish(&lines);
}
END_TEST

START_TEST(with_too_many_lines_shared_ones_stay_and_the_rest_is_counted)
{
	struct shared_lines lines = { 0 };
	uint64_t n = 0;

	use(&lines, 0x40, &(struct use){ 1, 0, 4, true, 0 });
	use(&lines, 0x40, &(struct use){ 2, 0, 4, true, 0 });
	for (uint64_t i = 2; i < SHARED_LINES + 10; i++)
		use(&lines, i * 64, &(struct use){ 1, 0, 4, true, 0 });
	use(&lines, 0x40, &(struct use){ 1, 0, 4, true, 0 });
	ck_assert_int_eq(shared_lines_settle(&lines), 0);
	for (size_t i = 0; i < lines.n; i++)
		n += lines.items[i].n_touches;
	ck_assert_uint_le(lines.n, SHARED_LINES);
	ck_assert_uint_gt(lines.n_forgotten, 0);
	ck_assert_uint_eq(n + lines.n_forgotten, SHARED_LINES + 8 + 3);
	ck_assert_uint_eq(lines.items[0].address, 0x40);
	ck_assert_uint_eq(lines.items[0].n_touches, 3);
	shared_lines_finish(&lines);
}
END_TEST

START_TEST(accesses_that_found_their_line_modified_elsewhere_are_counted)
{
	const uint64_t words[] = { (uint64_t)DATA_SOURCE_SNOOP_HITM << DATA_SOURCE_SNOOP_SHIFT,
				   (uint64_t)DATA_SOURCE_SNOOP_HIT << DATA_SOURCE_SNOOP_SHIFT,
				   DATA_SOURCE_NONE, 0 };
	struct shared_lines lines = { 0 };

	for (int i = 0; i < 8; i++) {
		const struct touch touch = {
			.address = BLOCK,
			.size = 8,
			.thread_row = 1 + i % 2,
			.process_row = 1,
			.data_src = (int64_t)words[i / 2],
			.owner = { .kind = OWNER_heap, .id = 11 },
		};
		ck_assert_int_eq(shared_lines_add(&lines, &touch, 0), 0);
	}
	ck_assert_int_eq(shared_lines_settle(&lines), 0);
	ck_assert_uint_eq(lines.items[0].n_hitm, 2);
	shared_lines_finish(&lines);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("touches");
	TCase *tcase = tcase_create("touches");

	suite_add_tcase(suite, tcase);
	tcase_add_test(tcase,
		       samples_come_in_order_of_time_and_those_of_one_time_as_they_were_read);
	tcase_add_test(tcase, each_address_has_its_share_on_the_average_and_sums_stay);
	tcase_add_test(tcase, who_set_a_line_up_does_not_hide_what_its_workers_do);
	tcase_add_test(tcase, readers_and_users_of_a_block_that_is_gone_share_nothing);
	tcase_add_test(tcase, bytes_of_long_ago_say_nothing_of_now);
	tcase_add_test(tcase, what_lies_between_two_turns_of_the_other_counts);
	tcase_add_test(tcase, very_many_threads_of_a_line_are_counted);
	tcase_add_test(tcase, with_too_many_lines_shared_ones_stay_and_the_rest_is_counted);
	tcase_add_test(tcase, accesses_that_found_their_line_modified_elsewhere_are_counted);
	return suite_run(suite);
}
