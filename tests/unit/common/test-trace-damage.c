#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "tests/unit/common/trace-items.h"
#include "tests/unit/common/trace-random.h"
#include "tests/support/fewer.h"
#include "tests/support/suite.h"
#include "trace/frame.h"

/* A whole small trace, as bytes and as the items that it holds. */
static char path[256];
static uint8_t *whole;
static size_t n_whole;
static struct trace_items items;

static void set_up(void)
{
	trace_temporary_path(path, "damage.mst");
	trace_write_sample(path, 7);
	whole = trace_get_file(path, &n_whole);
	items = trace_read_items(path);
	ck_assert_int_eq(items.result, 0);
	ck_assert(items.damage.ended);
}

static void tear_down(void)
{
	trace_items_finish(&items);
	free(whole);
	unlink(path);
}

/* How many of the original items are in `found`, in order; fails if anything else is in it. */
static size_t count_survivors(const struct trace_items *found)
{
	size_t at = 0;

	for (size_t i = 0; i < found->n; i++) {
		while (at < items.n && !trace_kept_equal(&found->kept[i], &items.kept[at]))
			at++;
		if (at++ == items.n)
			ck_abort_msg("item %zu was not in the undamaged file", i);
	}
	return found->n;
}

START_TEST(a_file_cut_anywhere_gives_a_prefix)
{
	size_t n_before = 0;
	auto_close int fd = trace_create(path);

	for (size_t n = 0; n < n_whole; n++) {
		if (n > 0)
			ck_assert_int_eq(io_write_all(fd, whole + n - 1, 1), 0);
		if (n % (size_t)every() != 0 && n + 1 < n_whole)
			continue;
		struct trace_items found = trace_read_items(path);
		if (n < sizeof(struct trace_file_header)) {
			ck_assert_int_eq(found.result, -EBADMSG);
			continue;
		}
		if (found.result != 0 || found.damage.ended || found.n < n_before ||
		    count_survivors(&found) != found.n)
			ck_abort_msg("cut at %zu", n);
		for (size_t i = 0; i < found.n; i++) {
			if (!trace_kept_equal(&found.kept[i], &items.kept[i]))
				ck_abort_msg("cut at %zu: item %zu is not the next one", n, i);
		}
		n_before = found.n;
		trace_items_finish(&found);
	}
	ck_assert_uint_eq(n_before, items.n);
}
END_TEST

/* One that grows by a few bytes each time, and has others behind them that will change. */
struct growth {
	int fd;
	size_t step;
	size_t end;
	int refusal; /* at the end; 0: it is over then */
	unsigned n_asked;
};

static int64_t grow(void *context, uint64_t n_bytes)
{
	struct growth *growth = context;
	uint8_t garbage[100];
	size_t n = growth->step < growth->end - n_bytes ? growth->step : growth->end - n_bytes;

	growth->n_asked++;
	memset(garbage, (int)growth->n_asked, sizeof(garbage));
	ck_assert_int_eq(pwrite(growth->fd, whole + n_bytes, n, (off_t)n_bytes), (ssize_t)n);
	ck_assert_int_eq(pwrite(growth->fd, garbage, sizeof(garbage), (off_t)(n_bytes + n)),
			 (ssize_t)sizeof(garbage));
	if (n_bytes + n == growth->end)
		ck_assert_int_eq(ftruncate(growth->fd, (off_t)growth->end), 0);
	return n == 0 && growth->refusal ? growth->refusal : (int64_t)(n_bytes + n);
}

static const size_t steps[] = { 1, 7, 100, 4096, SIZE_MAX };

START_TEST(a_file_that_grows_gives_what_the_whole_one_has)
{
	for (size_t end = n_whole; end > sizeof(struct trace_file_header); end -= end / 3) {
		trace_put_file(path, whole, end);
		struct trace_items wanted = trace_read_items(path);
		trace_put_file(path, whole, sizeof(struct trace_file_header));
		auto_close int fd = open(path, O_RDWR | O_CLOEXEC);

		struct growth growth = { fd, steps[_i], end, 0, 0 };
		struct trace_items found = trace_read_growing(path, grow, &growth);
		ck_assert_int_eq(found.result, 0);
		ck_assert_uint_eq(found.n, wanted.n);
		for (size_t i = 0; i < found.n; i++)
			ck_assert(trace_kept_equal(&found.kept[i], &wanted.kept[i]));
		ck_assert_mem_eq(&found.damage, &wanted.damage, sizeof(found.damage));
		ck_assert_uint_ge(growth.n_asked, growth.step == SIZE_MAX ? 1 : 2);
		trace_items_finish(&found);
		trace_items_finish(&wanted);
	}
}
END_TEST

START_TEST(who_waits_for_a_file_to_grow_may_give_up)
{
	auto_close int fd = open(path, O_RDWR | O_CLOEXEC);
	struct growth growth = { fd, 50, n_whole / 2, -ECANCELED, 0 };
	struct trace_items found = trace_read_growing(path, grow, &growth);

	ck_assert_int_eq(found.result, -ECANCELED);
	ck_assert_uint_gt(found.n, 0);
	ck_assert_uint_eq(count_survivors(&found), found.n);
	trace_items_finish(&found);
}
END_TEST

/* Is the byte in the zeros behind a body, which no checksum covers? */
static bool is_padding(size_t at)
{
	struct trace_frame head;

	for (size_t frame = sizeof(struct trace_file_header); frame + sizeof(head) < n_whole;) {
		memcpy(&head, whole + frame, sizeof(head));
		if (!trace_frame_is_good(&head))
			return false;
		size_t body = frame + sizeof(head);
		if (at >= body + head.body_bytes && at < body + trace_padded(head.body_bytes))
			return true;
		frame = body + trace_padded(head.body_bytes);
	}
	return false;
}

static bool is_reported(const struct trace_damage *damage)
{
	return damage->header_damaged || damage->n_damaged_frames > 0 ||
	       damage->n_skipped_bytes > 0 || !damage->ended;
}

static void check_flip(int fd, size_t at, unsigned bit)
{
	uint8_t flipped = whole[at] ^ (uint8_t)(1u << bit);

	ck_assert_int_eq(pwrite(fd, &flipped, 1, (off_t)at), 1);
	struct trace_items found = trace_read_items(path);
	ck_assert_int_eq(pwrite(fd, &whole[at], 1, (off_t)at), 1);

	if (at < 8) { /* the magic */
		if (found.result != -EBADMSG)
			ck_abort_msg("bit %u of byte %zu: taken for a trace", bit, at);
		return;
	}
	size_t n_survivors = count_survivors(&found);
	bool reported = is_reported(&found.damage);
	if (found.result != 0 || n_survivors + 1 < items.n || reported == is_padding(at) ||
	    (n_survivors < items.n && !reported))
		ck_abort_msg("bit %u of byte %zu: result %d, %zu of %zu items, %s", bit, at,
			     found.result, n_survivors, items.n, reported ? "reported" : "silent");
	trace_items_finish(&found);
}

START_TEST(any_flipped_bit_costs_one_frame_at_most_and_is_reported)
{
	auto_close int fd = open(path, O_RDWR | O_CLOEXEC);

	for (size_t at = 0; at < n_whole; at += (size_t)every()) {
		for (unsigned bit = 0; bit < 8; bit++)
			check_flip(fd, at, bit);
	}
}
END_TEST

/* Write the file without (or, negative, with more) bytes at an offset. */
static struct trace_items read_shifted(size_t at, long n_removed)
{
	size_t n_kept = n_removed > 0 ? n_whole - at - (size_t)n_removed : n_whole - at;
	size_t n_added = n_removed < 0 ? (size_t)-n_removed : 0;
	uint8_t *bytes = calloc(1, n_whole + n_added);

	ck_assert_ptr_nonnull(bytes);
	memcpy(bytes, whole, at);
	memcpy(bytes + at + n_added, whole + n_whole - n_kept, n_kept);
	trace_put_file(path, bytes, at + n_added + n_kept);
	free(bytes);
	return trace_read_items(path);
}

static const long removed[] = { 1, 3, 8, 31, 32, 40, 100, -1, -7, -8, -33, -400 };

START_TEST(bytes_missing_or_too_many_cost_only_the_frames_they_are_in)
{
	long n_removed = removed[_i];
	/* 100 bytes can lie in one, two or three frames of at least 40 bytes. */
	size_t n_lost_most = n_removed > 0 ? 2 + (size_t)n_removed / 40 : 1;

	for (size_t at = sizeof(struct trace_file_header); at + 200 < n_whole;
	     at += 29 * (size_t)every()) {
		struct trace_items found = read_shifted(at, n_removed);
		size_t n_survivors = count_survivors(&found);
		if (found.result != 0 || n_survivors + n_lost_most < items.n ||
		    !is_reported(&found.damage))
			ck_abort_msg("%ld bytes at %zu: %zu of %zu items", n_removed, at,
				     n_survivors, items.n);
		trace_items_finish(&found);
	}
}
END_TEST

START_TEST(lost_items_are_counted_and_a_cut_file_says_what_was_committed)
{
	struct trace_frame head;
	size_t at = sizeof(struct trace_file_header);

	/* Damage the first EVENTS frame of the file: 20 events. */
	for (;;) {
		memcpy(&head, whole + at, sizeof(head));
		if (head.type == TRACE_FRAME_EVENTS)
			break;
		at += sizeof(head) + trace_padded(head.body_bytes);
	}
	whole[at + sizeof(head)] ^= 0x10;
	trace_put_file(path, whole, n_whole - sizeof(struct trace_file_footer) - 1);
	struct trace_items found = trace_read_items(path);
	ck_assert_uint_eq(found.damage.n_damaged_frames, 2); /* and the cut INDEX */
	ck_assert_uint_eq(found.damage.n_lost_items, 20);
	ck_assert_uint_eq(found.damage.committed_ticks, 2000);
	ck_assert_uint_eq(found.damage.n_uncommitted_items, 0);
	ck_assert(!found.damage.ended);
	trace_items_finish(&found);
}
END_TEST

START_TEST(garbage_behind_the_header_is_stepped_over)
{
	struct trace_random random = { (uint64_t)_i + 1 };
	static const uint32_t magic = TRACE_FRAME_MAGIC;

	for (size_t i = sizeof(struct trace_file_header); i + 4 <= n_whole; i++) {
		if (trace_random_below(&random, 8) > 0)
			whole[i] = (uint8_t)trace_random_bits(&random);
		else
			memcpy(whole + i, &magic, sizeof(magic));
	}
	trace_put_file(path, whole, n_whole);
	struct trace_items found = trace_read_items(path);
	ck_assert_int_eq(found.result, 0);
	ck_assert_uint_eq(found.n, 0);
	ck_assert_uint_eq(found.damage.n_skipped_bytes, n_whole - sizeof(struct trace_file_header));
	trace_items_finish(&found);
}
END_TEST

START_TEST(what_is_no_trace_is_refused)
{
	static const char text[] =
		"This is a text, and long enough to hold a whole header of 64 bytes.";

	trace_put_file(path, text, sizeof(text));
	ck_assert_int_eq(trace_read_items(path).result, -EBADMSG);
	unlink(path);
	ck_assert_int_eq(trace_read_items(path).result, -ENOENT);
	ck_assert_int_eq(trace_read_items("/").result, -EISDIR);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("trace-damage");
	TCase *tests = tcase_create("damage");

	tcase_set_timeout(tests, 300);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, a_file_cut_anywhere_gives_a_prefix);
	tcase_add_loop_test(tests, a_file_that_grows_gives_what_the_whole_one_has, 0,
			    sizeof(steps) / sizeof(steps[0]));
	tcase_add_test(tests, who_waits_for_a_file_to_grow_may_give_up);
	tcase_add_test(tests, any_flipped_bit_costs_one_frame_at_most_and_is_reported);
	tcase_add_loop_test(tests, bytes_missing_or_too_many_cost_only_the_frames_they_are_in, 0,
			    sizeof(removed) / sizeof(removed[0]));
	tcase_add_test(tests, lost_items_are_counted_and_a_cut_file_says_what_was_committed);
	tcase_add_loop_test(tests, garbage_behind_the_header_is_stepped_over, 0, fewer(20));
	tcase_add_test(tests, what_is_no_trace_is_refused);
	suite_add_tcase(suite, tests);

	return suite_run(suite);
}
