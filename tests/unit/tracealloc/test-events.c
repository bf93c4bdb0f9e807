/* What the hooks record beside blocks and maps. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mini-check.h"
#include "tests/support/suite.h"

#define ALL  UINT32_MAX
#define PAGE 4096u
#define EVENTS                                                                                     \
	(RING_EVENTS_HEAP | RING_EVENTS_MMAP | RING_EVENTS_BRK | RING_EVENTS_SHM |                 \
	 RING_EVENTS_THREADS)

/* Every test runs as the user of the test and, when that is root, as nobody. */
static const uid_t users[] = { 0, 65534 };
static struct mini_run run;

static void trace_with(int user, const char *name, uint32_t events)
{
	const char *const argv[] = { VICTIM_EVENTS, name, NULL };
	struct mini_options options = { .uid = getuid() == 0 ? users[user] : 0, .events = events };

	mini_run_well(&options, argv, &run);
	ck_assert_uint_eq(run.processes[0].n_dropped, 0);
	ck_assert_uint_eq(run.processes[0].n_late, 0);
}

static void trace(int user, const char *name)
{
	trace_with(user, name, EVENTS);
}

/* The i-th event with this op and call. */
static const struct mini_event *find(enum trace_op op, enum trace_call call, size_t i)
{
	for (size_t k = 0; k < run.n_events; k++) {
		const struct mini_event *event = &run.events[k];

		if (event->op == op && event->call == call && i-- == 0)
			return event;
	}
	ck_abort_msg("no such event: %s", run.output);
}

START_TEST(a_free_that_is_told_the_size_is_a_free)
{
	trace(_i, "sized");
	ck_assert_uint_eq(find(TRACE_OP_FREE, TRACE_CALL_FREE_SIZED, 0)->address,
			  mini_find(&run, TRACE_OP_ALLOC, 6001, 0)->address);
	ck_assert_uint_eq(find(TRACE_OP_FREE, TRACE_CALL_FREE_ALIGNED_SIZED, 0)->address,
			  mini_find(&run, TRACE_OP_ALLOC, 6016, 0)->address);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_FREE, 0), 2);
}
END_TEST

START_TEST(the_break_moves_as_the_program_moves_it)
{
	uint64_t first;

	trace(_i, "breaks");
	first = mini_value(&run, "first");
	ck_assert_uint_eq(mini_value(&run, "old"), first);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_BREAK, 0), 3);
	ck_assert_uint_eq(find(TRACE_OP_BREAK, TRACE_CALL_SBRK, 0)->old_address, first);
	ck_assert_uint_eq(find(TRACE_OP_BREAK, TRACE_CALL_SBRK, 0)->address, first + 3 * PAGE);
	ck_assert_uint_eq(find(TRACE_OP_BREAK, TRACE_CALL_SBRK, 1)->old_address, first + 3 * PAGE);
	ck_assert_uint_eq(find(TRACE_OP_BREAK, TRACE_CALL_SBRK, 1)->address, first + 2 * PAGE);
	ck_assert_uint_eq(find(TRACE_OP_BREAK, TRACE_CALL_BRK, 0)->old_address, first + 2 * PAGE);
	ck_assert_uint_eq(find(TRACE_OP_BREAK, TRACE_CALL_BRK, 0)->address, first);
}
END_TEST

static const struct {
	enum trace_op op;
	enum trace_call call;
	size_t i;
	uint64_t page; /* from the start of the memory */
	uint64_t n_pages;
	uint64_t detail;
} changes[] = {
	{ TRACE_OP_ADVISE, TRACE_CALL_MADVISE, 0, 1, 2, MADV_DONTNEED },
	{ TRACE_OP_PROTECT, TRACE_CALL_MPROTECT, 0, 3, 1, PROT_NONE },
	{ TRACE_OP_PROTECT, TRACE_CALL_MPROTECT, 1, 3, 1, PROT_READ },
	{ TRACE_OP_LOCK, TRACE_CALL_MLOCK, 0, 4, 1, 0 },
	{ TRACE_OP_LOCK, TRACE_CALL_MLOCK, 1, 5, 1, MLOCK_ONFAULT },
	{ TRACE_OP_LOCK, TRACE_CALL_MUNLOCK, 0, 4, 1, 0 },
};

START_TEST(what_changes_mapped_memory_is_an_event_with_whole_pages)
{
	trace(_i, "advice");
	for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
		const struct mini_event *event = find(changes[i].op, changes[i].call, changes[i].i);

		ck_assert_uint_eq(event->address,
				  mini_value(&run, "memory") + changes[i].page * PAGE);
		ck_assert_uint_eq(event->size, changes[i].n_pages * PAGE);
		ck_assert_uint_eq(event->detail, changes[i].detail);
		ck_assert_uint_le(event->begin_ticks, event->ticks);
	}
	ck_assert_uint_eq(find(TRACE_OP_LOCK, TRACE_CALL_MUNLOCKALL, 0)->size, 0);
	ck_assert_uint_eq(mini_value(&run, "failed"), 3);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_ADVISE, 0), 1);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_PROTECT, 0), 2);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_LOCK, 0), 4);
}
END_TEST

START_TEST(a_segment_is_a_mapping_of_its_whole_size)
{
	const struct mini_event *event;

	trace(_i, "segments");
	event = find(TRACE_OP_MMAP, TRACE_CALL_SHMAT, 0);
	ck_assert_uint_eq(event->address, mini_value(&run, "writable"));
	ck_assert_uint_eq(event->size, 6 * PAGE);
	ck_assert_uint_eq(event->old_size, mini_value(&run, "id"));
	ck_assert_uint_eq(event->detail, PROT_READ | PROT_WRITE | (uint64_t)MAP_SHARED << 32);
	event = find(TRACE_OP_MMAP, TRACE_CALL_SHMAT, 1);
	ck_assert_uint_eq(event->address, mini_value(&run, "readable"));
	ck_assert_uint_eq(event->detail, PROT_READ | (uint64_t)MAP_SHARED << 32);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_MUNMAP, TRACE_CALL_SHMDT), 1);
	event = find(TRACE_OP_MUNMAP, TRACE_CALL_SHMDT, 0);
	ck_assert_uint_eq(event->address, mini_value(&run, "writable"));
	ck_assert_uint_eq(event->size, 0);
}
END_TEST

START_TEST(a_thread_is_named_by_itself_or_by_another)
{
	static const char *const expected[] = { "by another", "by itself and l", "first" };
	uint32_t tids[2] = { 0, 0 };
	size_t n = 0;

	trace(_i, "names");
	for (size_t i = 0; i < run.n_events; i++)
		if (run.events[i].op == TRACE_OP_THREAD_START)
			tids[!run.events[i].start->is_main] = run.events[i].start->tid;
	for (size_t i = 0; i < run.n_events; i++) {
		const struct mini_event *event = &run.events[i];
		bool found = false;

		if (event->op != TRACE_OP_THREAD_NAME)
			continue;
		for (size_t k = 0; k < 3; k++) {
			if (strcmp(event->name->name, expected[k]) != 0)
				continue;
			ck_assert_uint_eq(event->name->tid, tids[k < 2]);
			found = true;
		}
		ck_assert_msg(found, "%s", event->name->name);
		n++;
	}
	ck_assert_uint_eq(n, 3);
}
END_TEST

static const struct {
	const char *name;
	uint32_t events; /* of the group that is left out */
} groups[] = {
	{ "breaks", RING_EVENTS_BRK },
	{ "advice", RING_EVENTS_MMAP },
	{ "segments", RING_EVENTS_SHM },
	{ "names", RING_EVENTS_THREADS },
};

START_TEST(a_group_that_is_switched_off_leaves_no_event)
{
	static const enum trace_op ops[] = { TRACE_OP_BREAK, TRACE_OP_ADVISE,	   TRACE_OP_PROTECT,
					     TRACE_OP_LOCK,  TRACE_OP_THREAD_NAME, TRACE_OP_MMAP };

	trace_with(0, groups[_i].name, EVENTS & ~groups[_i].events);
	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		size_t n = 0;

		for (size_t k = 0; k < run.n_events; k++)
			n += run.events[k].op == ops[i] && !run.events[k].flags;
		ck_assert_uint_eq(n, 0);
	}
}
END_TEST

static Suite *events_suite(void)
{
	Suite *suite = suite_create("events");
	TCase *any = tcase_create("as any user");
	int n_users = getuid() == 0 ? 2 : 1;
	int n_groups = sizeof(groups) / sizeof(*groups);

	tcase_add_loop_test(any, a_free_that_is_told_the_size_is_a_free, 0, n_users);
	tcase_add_loop_test(any, the_break_moves_as_the_program_moves_it, 0, n_users);
	tcase_add_loop_test(any, what_changes_mapped_memory_is_an_event_with_whole_pages, 0,
			    n_users);
	tcase_add_loop_test(any, a_segment_is_a_mapping_of_its_whole_size, 0, n_users);
	tcase_add_loop_test(any, a_thread_is_named_by_itself_or_by_another, 0, n_users);
	tcase_add_loop_test(any, a_group_that_is_switched_off_leaves_no_event, 0, n_groups);
	suite_add_tcase(suite, any);
	return suite;
}

int main(void)
{
	return suite_run(events_suite());
}
