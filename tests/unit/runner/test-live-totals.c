/* Live bytes by site while a program runs: exact, or estimates that keep their interval. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runner/control/live-totals.h"
#include "tests/support/suite.h"

#define N_ADDRESSES 500u
#define N_SITES	    20u
#define MS	    UINT64_C(1000000)
#define TICKS_HZ    UINT64_C(1000000000)

static struct live_totals *totals;
static struct live_header *header;
static uint64_t random_state;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Threads 1 to 3 of process 7 have a node for each site: id s + 1 with pc 0x10000 + s. */
static void begin(void)
{
	random_state = 88172645463325252u;
	totals = live_totals_create(60, TICKS_HZ);
	ck_assert_ptr_nonnull(totals);
	header = live_totals_header(totals);
	for (uint32_t thread = 1; thread <= 3; thread++) {
		live_totals_thread(totals, &(struct live_thread_name){ .process_id = 7,
								       .pid = 70,
								       .thread_id = thread,
								       .tid = 70 + thread,
								       .name = "worker" });
		for (uint32_t site = 0; site < N_SITES; site++)
			live_totals_node(
				totals, thread,
				&(struct trace_node){ .id = site + 1, .pc = 0x10000 + site });
	}
}

static void end(void)
{
	totals = live_totals_destroy(totals);
}

static void give(uint32_t thread, struct trace_event event)
{
	if (event.op != TRACE_OP_REALLOC)
		event.begin_ticks = event.ticks;
	live_totals_event(totals, thread, &event);
}

static void born(uint32_t site, uint64_t address, uint64_t size, uint64_t ticks)
{
	give(1, (struct trace_event){ .op = TRACE_OP_ALLOC,
				      .stack_id = site + 1,
				      .address = address,
				      .size = size,
				      .ticks = ticks });
}

static const struct live_site *site_of(uint32_t site)
{
	for (uint32_t i = 1; i < header->n_sites; i++)
		if (header->sites[i].pcs[0] == 0x10000 + site)
			return &header->sites[i];
	return NULL;
}

/* Events in the order of time, and of each thread; given as the collector finds them. */
struct made {
	uint32_t thread;
	struct trace_event event;
};

static struct made make_event(uint64_t sizes[N_ADDRESSES], uint32_t sites[N_ADDRESSES],
			      uint64_t ticks)
{
	uint32_t i = (uint32_t)(next_random() % N_ADDRESSES);
	struct made made = { .thread = 1 + (uint32_t)(next_random() % 3) };
	struct trace_event *event = &made.event;

	event->ticks = ticks;
	event->begin_ticks = ticks;
	event->op = sizes[i] == 0	     ? TRACE_OP_ALLOC
		    : next_random() % 8 == 0 ? TRACE_OP_REALLOC
					     : TRACE_OP_FREE;
	event->address = 0x7f0000001000 + 48 * (uint64_t)i;
	event->old_address = event->address;
	event->begin_ticks = ticks - (event->op == TRACE_OP_REALLOC);
	if (event->op == TRACE_OP_FREE) {
		sizes[i] = 0;
		return made;
	}
	sizes[i] = event->size = 1 + next_random() % 1000000;
	sites[i] = (uint32_t)(next_random() % N_SITES);
	event->stack_id = sites[i] + 1;
	return made;
}

START_TEST(sums_are_exact_however_threads_are_interleaved)
{
	uint64_t sizes[N_ADDRESSES] = { 0 }, of_site[N_SITES] = { 0 }, n_live = 0, all = 0;
	uint32_t sites[N_ADDRESSES];
	struct made batch[600];
	uint64_t ticks = 1000;

	begin();
	for (unsigned round = 0; round < 300; round++) {
		uint64_t safe_ticks = ticks;

		for (size_t i = 0; i < 600; i++, ticks += 2)
			batch[i] = make_event(sizes, sites, ticks);
		/* Thread by thread, in an order that has nothing to do with time. */
		for (uint32_t turn = 0; turn < 3; turn++)
			for (size_t i = 0; i < 600; i++)
				if (batch[i].thread == 1 + (turn + round) % 3)
					give(batch[i].thread, batch[i].event);
		live_totals_tick(totals, round * 10 * MS, safe_ticks);
	}
	for (size_t i = 0; i < N_ADDRESSES; i++) {
		all += sizes[i];
		n_live += sizes[i] > 0;
		if (sizes[i])
			of_site[sites[i]] += sizes[i];
	}
	ck_assert_uint_eq(header->shift, 0);
	ck_assert_uint_eq(header->live_bytes, all);
	ck_assert_uint_eq(header->n_live, n_live);
	for (uint32_t site = 0; site < N_SITES; site++)
		ck_assert_uint_eq(site_of(site)->live_bytes, of_site[site]);
	ck_assert_uint_eq(header->n_left_out, 0);
	end();
}
END_TEST

/* So many events without a pause that only one block in 2^shift is followed. */
static void hurry(uint32_t shift)
{
	uint64_t ticks = 1000;

	while (header->shift < shift) {
		for (unsigned i = 0; i < 20000; i++) {
			uint64_t address = 0x10000000 + 32 * (next_random() % 4096);

			born(0, address, 16, ticks);
			give(1, (struct trace_event){ .op = TRACE_OP_FREE,
						      .address = address,
						      .ticks = ticks + 1 });
			ticks += 2;
		}
		live_totals_tick(totals, MS, ticks);
	}
}

START_TEST(estimates_keep_their_intervals)
{
	unsigned n_inside = 0, n_exact = 0;

	for (unsigned run = 0; run < 12; run++) {
		begin();
		hurry(4);
		for (uint32_t site = 0; site < N_SITES; site++) {
			uint64_t truth = 0, before = site_of(site) ? site_of(site)->live_bytes : 0;

			for (uint64_t i = 0; i < 2000; i++) {
				uint64_t size = 16 + next_random() % 5000;

				born(site, 0x20000000 + (site * 2000 + i) * 8192, size, 10000000);
				truth += size;
			}
			double error =
				(double)site_of(site)->live_bytes - (double)before - (double)truth;
			n_inside += fabs(error) <= 1.96 * sqrt(site_of(site)->variance);
			n_exact += error == 0;
		}
		live_totals_tick(totals, 2000 * MS, 0);
		for (uint32_t site = 0; site < N_SITES; site++)
			ck_assert_uint_ge(site_of(site)->n_allocations, 2000);
		end();
	}
	/* 228 of 240 are expected, with a standard deviation of 3.4. */
	ck_assert_uint_ge(n_inside, 210);
	ck_assert_uint_lt(n_exact, 24);
}
END_TEST

START_TEST(large_blocks_are_always_followed)
{
	begin();
	hurry(6);
	uint64_t before = header->live_bytes;

	for (uint64_t i = 0; i < 100; i++)
		born(3, 0x30000010 + i * (2 << 20), 1 << 20, 20000000);
	ck_assert_uint_eq(header->live_bytes - before, UINT64_C(100) << 20);
	ck_assert_uint_eq(site_of(3)->n_live, 100);
	/* Other threads end them; of half of them this is known before their birth. */
	for (uint64_t i = 0; i < 100; i++)
		give(2, (struct trace_event){ .op = TRACE_OP_FREE,
					      .address = 0x30000010 + i * (2 << 20),
					      .ticks = 20000001 });
	ck_assert_uint_eq(site_of(3)->live_bytes, 0);
	for (uint64_t i = 0; i < 100; i++) {
		give(2, (struct trace_event){ .op = TRACE_OP_FREE,
					      .address = 0x70000010 + i * (2 << 20),
					      .ticks = 20000003 });
		born(3, 0x70000010 + i * (2 << 20), 1 << 20, 20000002);
	}
	ck_assert_uint_eq(site_of(3)->live_bytes, 0);
	end();
}
END_TEST

START_TEST(what_is_old_is_found_and_what_has_ended_goes)
{
	begin();
	born(1, 0x1000, 100, 5);
	born(2, 0x2000, 10, 61 * TICKS_HZ);
	live_totals_tick(totals, 61000 * MS, 61 * TICKS_HZ + 5);
	ck_assert_uint_eq(header->old_bytes, 100);
	ck_assert_uint_eq(site_of(1)->old_bytes, 100);
	ck_assert_uint_eq(site_of(1)->age_ms, 61000);
	ck_assert_uint_eq(site_of(2)->old_bytes, 0);
	live_totals_forget(totals, 7);
	live_totals_tick(totals, 63000 * MS, 63 * TICKS_HZ);
	ck_assert_uint_eq(header->live_bytes, 0);
	ck_assert_uint_eq(header->old_bytes, 0);
	ck_assert_uint_eq(site_of(1)->n_allocations, 1);
	end();
}
END_TEST

START_TEST(more_blocks_than_there_is_room_for_are_estimated)
{
	uint64_t truth = 0;

	begin();
	for (uint64_t i = 0; i < 900000; i++) {
		born((uint32_t)(i % N_SITES), 0x100000000 + i * 64, 32, 1000 + i);
		truth += 32;
	}
	ck_assert_uint_gt(header->variance, 0);
	ck_assert_double_le(fabs((double)header->live_bytes - (double)truth),
			    6 * sqrt(header->variance));
	ck_assert_uint_eq(header->n_left_out, 0);
	live_totals_tick(totals, MS, 0);
	ck_assert_uint_eq(header->allocated_bytes, truth);
	end();
}
END_TEST

START_TEST(counts_come_with_a_tick_whoever_allocated_and_whoever_has_gone)
{
	uint64_t n_of_threads[4] = { 0 }, n_of_sites[N_SITES] = { 0 };

	begin();
	for (uint64_t i = 0; i < 20000; i++) {
		uint32_t thread = 1 + (uint32_t)(next_random() % 3);
		uint32_t site = (uint32_t)(next_random() % N_SITES);

		give(thread, (struct trace_event){ .op = TRACE_OP_ALLOC,
						   .stack_id = site + 1,
						   .address = 0x1000 + 64 * i,
						   .size = 10,
						   .ticks = 1000 + i });
		n_of_threads[thread]++;
		n_of_sites[site]++;
	}
	live_totals_thread_end(totals, 2);
	/* A thread with a number far away: those that are known lie elsewhere then. */
	live_totals_thread(totals,
			   &(struct live_thread_name){ .process_id = 7, .thread_id = 3000 });
	give(1, (struct trace_event){ .op = TRACE_OP_FREE, .address = 0x1000, .ticks = 90000 });
	live_totals_tick(totals, MS, 0);
	for (uint32_t thread = 1; thread <= 3; thread++) {
		ck_assert_uint_eq(header->threads[thread - 1].n_allocations, n_of_threads[thread]);
		ck_assert_uint_eq(header->threads[thread - 1].n_frees, thread == 1);
	}
	for (uint32_t site = 0; site < N_SITES; site++) {
		ck_assert_uint_eq(site_of(site)->n_allocations, n_of_sites[site]);
		ck_assert_uint_eq(site_of(site)->allocated_bytes, 10 * n_of_sites[site]);
	}
	ck_assert_uint_eq(header->n_allocations, 20000);
	ck_assert_uint_eq(header->n_frees, 1);
	end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("live-totals");
	TCase *tcase = tcase_create("all");

	tcase_add_test(tcase, sums_are_exact_however_threads_are_interleaved);
	tcase_add_test(tcase, estimates_keep_their_intervals);
	tcase_add_test(tcase, large_blocks_are_always_followed);
	tcase_add_test(tcase, what_is_old_is_found_and_what_has_ended_goes);
	tcase_add_test(tcase, more_blocks_than_there_is_room_for_are_estimated);
	tcase_add_test(tcase, counts_come_with_a_tick_whoever_allocated_and_whoever_has_gone);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
