/*
 * The reading protocol on rings that the test writes itself, as the kernel would: any record sizes,
 * any start, any moment of reading.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "pmu/ring.h"
#include "tests/unit/pmu/built-record.h"
#include "tests/unit/pmu/watched.h"
#include "tests/support/suite.h"

#define BODY_BYTES 4096u
#define N_SEEDS	   40

/* The kernel's side of a ring. */
struct writer {
	struct perf_event_mmap_page page;
	_Alignas(8) uint8_t body[BODY_BYTES];
};

static bool writer_put(struct writer *writer, const void *bytes, size_t n_bytes)
{
	uint64_t head = writer->page.data_head;

	if (head - writer->page.data_tail + n_bytes > BODY_BYTES)
		return false;
	for (size_t i = 0; i < n_bytes; i++)
		writer->body[(head + i) % BODY_BYTES] = ((const uint8_t *)bytes)[i];
	__atomic_store_n(&writer->page.data_head, head + n_bytes, __ATOMIC_RELEASE);
	return true;
}

static void init(struct pmu_ring *ring, struct writer *writer, uint64_t start)
{
	memset(writer, 0, sizeof(*writer));
	writer->page.data_head = writer->page.data_tail = start;
	ck_assert_int_eq(pmu_ring_init_at(ring, &writer->page, writer->body, BODY_BYTES), 0);
}

/* xorshift64: the same numbers in every run. */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* A sample whose length and bytes are random. */
static void build_random(struct built *built, uint64_t *state)
{
	uint64_t n_words = next_random(state) % 60;

	built_begin(built, PERF_RECORD_SAMPLE, 0);
	for (uint64_t i = 0; i < n_words; i++)
		built_u64(built, next_random(state));
	built_end(built);
}

static void drain(struct pmu_ring *ring, struct kept *kept, struct pmu_losses *losses)
{
	ck_assert_int_ge(pmu_ring_drain(ring, kept_take, kept, losses), 0);
	ck_assert_uint_eq(pmu_ring_pending(ring), 0);
	ck_assert_uint_eq(ring->page->data_tail, ring->page->data_head);
}

START_TEST(what_is_read_is_what_was_written_wherever_records_wrap)
{
	uint64_t state = (uint64_t)_i * 2654435761u + 1;
	uint64_t start = (next_random(&state) % BODY_BYTES) & ~UINT64_C(7);
	struct kept kept = { 0 }, written = { 0 };
	struct pmu_losses losses = { 0 };
	struct writer writer;
	struct pmu_ring ring;
	struct built built;

	/* Also over the wrap of the 64-bit positions themselves. */
	init(&ring, &writer, _i % 2 ? start : UINT64_MAX - 8 * BODY_BYTES + 1 + start);
	for (int i = 0; i < 2000; i++) {
		build_random(&built, &state);
		if (next_random(&state) % 4 == 0)
			drain(&ring, &kept, &losses);
		if (!writer_put(&writer, built.bytes, built.n_bytes)) {
			drain(&ring, &kept, &losses);
			ck_assert(writer_put(&writer, built.bytes, built.n_bytes));
		}
		kept_take(&written, built.bytes, built.n_bytes, 1);
	}
	drain(&ring, &kept, &losses);
	ck_assert_uint_eq(kept.n_bytes, written.n_bytes);
	ck_assert_mem_eq(kept.bytes, written.bytes, written.n_bytes);
	ck_assert_uint_eq(kept.n_samples, 2000);
	ck_assert_uint_eq(losses.n_taken, 2000);
	ck_assert_uint_eq(losses.n_bad_bytes, 0);
	kept_free(&kept);
	kept_free(&written);
	pmu_ring_finish(&ring);
}
END_TEST

/* Checks that each batch is made of whole records. */
static int take_whole(void *context, const void *records, size_t n_bytes, uint32_t n_samples)
{
	const uint8_t *bytes = records;
	size_t at = 0;

	ck_assert_uint_eq((uintptr_t)records % 8, 0);
	while (at < n_bytes)
		at += ((const struct perf_event_header *)(const void *)(bytes + at))->size;
	ck_assert_uint_eq(at, n_bytes);
	*(uint64_t *)context += n_samples;
	return 0;
}

START_TEST(a_full_ring_is_given_in_whole_records_and_at_most_three_pieces)
{
	struct pmu_losses losses = { 0 };
	struct writer writer;
	struct pmu_ring ring;
	struct built built;
	uint64_t n_samples = 0, n_written = 0;

	init(&ring, &writer, 4096 - 64); /* a record of 72 bytes wraps at once */
	built_begin(&built, PERF_RECORD_SAMPLE, 0);
	for (int i = 0; i < 8; i++)
		built_u64(&built, (uint64_t)i);
	built_end(&built);
	while (writer_put(&writer, built.bytes, built.n_bytes))
		n_written++;
	ck_assert_int_eq(pmu_ring_drain(&ring, take_whole, &n_samples, &losses),
			 (int)(n_written * built.n_bytes));
	ck_assert_uint_eq(n_samples, n_written);
	pmu_ring_finish(&ring);
}
END_TEST

static int refuse_once(void *context, const void *records, size_t n_bytes, uint32_t n_samples)
{
	int *refusals = context;

	(void)records;
	(void)n_bytes;
	(void)n_samples;
	return (*refusals)-- > 0 ? -ENOSPC : 0;
}

START_TEST(what_a_sink_refuses_stays_in_the_ring)
{
	struct pmu_losses losses = { 0 };
	struct writer writer;
	struct pmu_ring ring;
	struct built built;
	int refusals = 1;

	init(&ring, &writer, 0);
	built_begin(&built, PERF_RECORD_SAMPLE, 0);
	built_end(&built);
	ck_assert(writer_put(&writer, built.bytes, built.n_bytes));
	ck_assert_int_eq(pmu_ring_drain(&ring, refuse_once, &refusals, &losses), -ENOSPC);
	ck_assert_uint_eq(losses.n_taken, 0);
	ck_assert_uint_eq(pmu_ring_pending(&ring), built.n_bytes);
	ck_assert_int_eq(pmu_ring_drain(&ring, refuse_once, &refusals, &losses),
			 (int)built.n_bytes);
	ck_assert_uint_eq(losses.n_taken, 1);
	pmu_ring_finish(&ring);
}
END_TEST

/* type, then the words of its body */
static void put_words(struct writer *writer, uint32_t type, const uint64_t *words, size_t n)
{
	struct built built;

	built_begin(&built, type, 0);
	for (size_t i = 0; i < n; i++)
		built_u64(&built, words[i]);
	built_end(&built);
	ck_assert(writer_put(writer, built.bytes, built.n_bytes));
}

START_TEST(losses_and_throttled_time_are_added_up)
{
	struct pmu_losses losses = { 0 };
	struct kept kept = { 0 };
	struct writer writer;
	struct pmu_ring ring;

	init(&ring, &writer, 0);
	put_words(&writer, PERF_RECORD_LOST, (uint64_t[]){ 1, 98 }, 2);
	put_words(&writer, PERF_RECORD_SAMPLE, NULL, 0);
	put_words(&writer, PERF_RECORD_THROTTLE, (uint64_t[]){ 1000, 1, 1 }, 3);
	drain(&ring, &kept, &losses);
	put_words(&writer, PERF_RECORD_UNTHROTTLE, (uint64_t[]){ 4000, 1, 1 }, 3);
	put_words(&writer, PERF_RECORD_LOST, (uint64_t[]){ 1, 2 }, 2);
	put_words(&writer, PERF_RECORD_LOST_SAMPLES, (uint64_t[]){ 5 }, 1);
	put_words(&writer, PERF_RECORD_THROTTLE, (uint64_t[]){ 9000, 1, 1 }, 3);
	put_words(&writer, PERF_RECORD_UNTHROTTLE, (uint64_t[]){ 9500, 1, 1 }, 3);
	put_words(&writer, PERF_RECORD_UNTHROTTLE, (uint64_t[]){ 9900, 1, 1 }, 3);
	drain(&ring, &kept, &losses);
	ck_assert_uint_eq(losses.n_records, 9);
	ck_assert_uint_eq(losses.n_taken, 1);
	ck_assert_uint_eq(losses.n_lost, 100);
	ck_assert_uint_eq(losses.n_lost_samples, 5);
	ck_assert_uint_eq(losses.n_throttles, 2);
	ck_assert_uint_eq(losses.throttled_ns, 3500);
	ck_assert_uint_eq(losses.throttled_from_ns, 1000);
	ck_assert_uint_eq(losses.throttled_to_ns, 9900);
	kept_free(&kept);
	pmu_ring_finish(&ring);
}
END_TEST

static const uint16_t bad_sizes[] = { 0, 4, 12, 4096, UINT16_MAX - 7 };

START_TEST(bytes_in_which_no_record_can_be_told_are_dropped_and_counted)
{
	struct pmu_losses losses = { 0 };
	struct kept kept = { 0 };
	struct writer writer;
	struct pmu_ring ring;
	struct built built;

	init(&ring, &writer, 0);
	put_words(&writer, PERF_RECORD_SAMPLE, NULL, 0);
	built_begin(&built, PERF_RECORD_SAMPLE, 0);
	built_u64(&built, 0);
	memcpy(built.bytes + offsetof(struct perf_event_header, size), &bad_sizes[_i], 2);
	ck_assert(writer_put(&writer, built.bytes, built.n_bytes));
	drain(&ring, &kept, &losses);
	ck_assert_uint_eq(losses.n_taken, 1);
	ck_assert_uint_eq(losses.n_bad_bytes, 16);
	put_words(&writer, PERF_RECORD_SAMPLE, NULL, 0);
	drain(&ring, &kept, &losses);
	ck_assert_uint_eq(losses.n_taken, 2);
	kept_free(&kept);
	pmu_ring_finish(&ring);
}
END_TEST

START_TEST(a_head_that_overran_the_ring_is_dropped_and_counted)
{
	struct pmu_losses losses = { 0 };
	struct kept kept = { 0 };
	struct writer writer;
	struct pmu_ring ring;

	init(&ring, &writer, 0);
	writer.page.data_head = BODY_BYTES + 8;
	drain(&ring, &kept, &losses);
	ck_assert_uint_eq(losses.n_bad_bytes, BODY_BYTES + 8);
	ck_assert_uint_eq(kept.n_bytes, 0);
	kept_free(&kept);
	pmu_ring_finish(&ring);
}
END_TEST

START_TEST(a_ring_whose_size_is_no_power_of_two_is_refused)
{
	struct writer writer;
	struct pmu_ring ring = { 0 };

	memset(&writer, 0, sizeof(writer));
	ck_assert_int_eq(pmu_ring_init_at(&ring, &writer.page, writer.body, 4096 - 8), -EINVAL);
	ck_assert_int_eq(pmu_ring_init_at(&ring, &writer.page, writer.body, 0), -EINVAL);
	pmu_ring_finish(&ring);
	pmu_ring_finish(&ring);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pmu-ring");
	TCase *tcase = tcase_create("rings");

	tcase_add_loop_test(tcase, what_is_read_is_what_was_written_wherever_records_wrap, 0,
			    N_SEEDS);
	tcase_add_test(tcase, a_full_ring_is_given_in_whole_records_and_at_most_three_pieces);
	tcase_add_test(tcase, what_a_sink_refuses_stays_in_the_ring);
	tcase_add_test(tcase, losses_and_throttled_time_are_added_up);
	tcase_add_loop_test(tcase, bytes_in_which_no_record_can_be_told_are_dropped_and_counted, 0,
			    (int)(sizeof(bad_sizes) / sizeof(*bad_sizes)));
	tcase_add_test(tcase, a_head_that_overran_the_ring_is_dropped_and_counted);
	tcase_add_test(tcase, a_ring_whose_size_is_no_power_of_two_is_refused);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
