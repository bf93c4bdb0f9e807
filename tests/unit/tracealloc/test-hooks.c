/* What the hooks record of programs whose calls are known. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mini-check.h"
#include "tests/support/suite.h"

#define ALL UINT32_MAX

/* Every test runs as the user of the test and, when that is root, as nobody. */
static const uid_t users[] = { 0, 65534 };
static struct mini_run run;

static void trace_with(struct mini_options options, const char *name)
{
	const char *const argv[] = { VICTIM_BASIC, name, NULL };

	mini_run_well(&options, argv, &run);
}

static void trace_as(int user, const char *name)
{
	trace_with((struct mini_options){ .uid = getuid() == 0 ? users[user] : 0 }, name);
	for (uint32_t i = 0; i < run.n_processes; i++) {
		ck_assert_uint_eq(run.processes[i].n_dropped, 0);
		ck_assert_uint_eq(run.processes[i].n_nested, 0);
		ck_assert_uint_eq(run.processes[i].n_late, 0);
	}
}

static size_t count_sized(enum trace_op op, uint64_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < run.n_events; i++)
		n += run.events[i].op == op && run.events[i].size == size;
	return n;
}

/* The FREE of an address that comes behind an event in the same chain. */
static const struct mini_event *find_free(const struct mini_event *allocation)
{
	for (const struct mini_event *i = allocation; i < run.events + run.n_events; i++)
		if (i->op == TRACE_OP_FREE && i->address == allocation->address &&
		    i->thread == allocation->thread)
			return i;
	return NULL;
}

START_TEST(a_hundred_blocks_give_a_hundred_births_and_deaths)
{
	trace_as(_i, "hundred");
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_ALLOC, TRACE_CALL_MALLOC), 100);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_ALLOC, 0), 100);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 64), 100);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_FREE, TRACE_CALL_FREE), 100);
	for (size_t i = 0; i < 100; i++) {
		const struct mini_event *allocation = mini_find(&run, TRACE_OP_ALLOC, 64, i);
		const struct mini_event *freed = find_free(allocation);

		ck_assert_ptr_nonnull(freed);
		ck_assert_uint_ge(freed->ticks, allocation->ticks);
		ck_assert_uint_eq(allocation->flags, 0);
		ck_assert_uint_eq(allocation->stack_id, 0);
	}
}
END_TEST

START_TEST(a_chain_starts_with_its_thread_and_the_modules)
{
	size_t n_modules = 0;
	bool has_vdso = false;

	trace_as(_i, "hundred");
	ck_assert_uint_eq(run.events[0].op, TRACE_OP_THREAD_START);
	ck_assert_uint_eq(run.events[0].start->is_main, 1);
	ck_assert_uint_eq(run.events[0].start->tid, run.processes[0].pid);
	ck_assert_str_eq(run.events[0].start->name, "victim-basic");
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_THREAD_START, 0), 1);
	ck_assert_uint_eq(run.events[1].op, TRACE_OP_MODULE);
	ck_assert_str_eq(run.events[1].path, VICTIM_BASIC);
	ck_assert_uint_gt(run.events[1].module->build_id_bytes, 0);
	for (size_t i = 0; i < run.n_events; i++) {
		n_modules += run.events[i].op == TRACE_OP_MODULE;
		has_vdso |= run.events[i].op == TRACE_OP_MODULE &&
			    strcmp(run.events[i].path, "[vdso]") == 0;
	}
	/* The program, ours, libc, the loader, the vdso. */
	ck_assert_uint_eq(n_modules, 5);
	ck_assert(has_vdso);
}
END_TEST

START_TEST(a_block_given_back_by_another_thread_is_one_block)
{
	const struct mini_event *allocation;
	size_t n = 0;

	trace_as(_i, "other-thread");
	allocation = mini_find(&run, TRACE_OP_ALLOC, 4321, 0);
	ck_assert_ptr_nonnull(allocation);
	ck_assert_uint_eq(allocation->thread, 0);
	ck_assert_uint_eq(allocation->address, mini_value(&run, "block"));
	for (size_t i = 0; i < run.n_events; i++) {
		const struct mini_event *event = &run.events[i];

		if (event->op != TRACE_OP_FREE || event->address != allocation->address)
			continue;
		n++;
		ck_assert_uint_eq(event->thread, 1);
		ck_assert_uint_gt(event->ticks, allocation->ticks);
	}
	ck_assert_uint_eq(n, 1);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_THREAD_START, 0), 2);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_THREAD_END, 0), 1);
}
END_TEST

static const struct {
	enum trace_op op;
	enum trace_call call;
	uint64_t size;
} family[] = {
	{ TRACE_OP_ALLOC, TRACE_CALL_CALLOC, 7007 },
	{ TRACE_OP_ALLOC, TRACE_CALL_MEMALIGN, 7011 },
	{ TRACE_OP_ALLOC, TRACE_CALL_ALIGNED_ALLOC, 7040 },
	{ TRACE_OP_ALLOC, TRACE_CALL_VALLOC, 7021 },
	{ TRACE_OP_ALLOC, TRACE_CALL_PVALLOC, 7031 },
	{ TRACE_OP_ALLOC, TRACE_CALL_POSIX_MEMALIGN, 7051 },
	{ TRACE_OP_REALLOC, TRACE_CALL_REALLOCARRAY, 7063 },
	{ TRACE_OP_REALLOC, TRACE_CALL_REALLOC, 7071 },
	{ TRACE_OP_REALLOC, TRACE_CALL_REALLOC, 70710 },
};

START_TEST(every_function_of_the_family_is_one_event)
{
	trace_as(_i, "family");
	for (size_t i = 0; i < sizeof(family) / sizeof(*family); i++) {
		const struct mini_event *event = mini_find(&run, family[i].op, family[i].size, 0);

		ck_assert_ptr_nonnull(event);
		ck_assert_uint_eq(event->call, family[i].call);
		ck_assert_ptr_null(mini_find(&run, family[i].op, family[i].size, 1));
	}
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_ALLOC, 0), 6);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_REALLOC, 0), 3);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_FREE, 0), 8);
}
END_TEST

START_TEST(a_realloc_has_both_addresses_and_both_times)
{
	const struct mini_event *first;
	const struct mini_event *second;

	trace_as(_i, "family");
	first = mini_find(&run, TRACE_OP_REALLOC, 7071, 0);
	second = mini_find(&run, TRACE_OP_REALLOC, 70710, 0);
	ck_assert_uint_eq(first->old_address, 0);
	ck_assert_uint_eq(second->old_address, first->address);
	ck_assert_uint_gt(second->begin_ticks, first->ticks);
	ck_assert_uint_ge(second->ticks, second->begin_ticks);
	ck_assert_uint_eq(second->detail, 0);
}
END_TEST

START_TEST(a_call_that_fails_leaves_no_event)
{
	trace_as(_i, "failures");
	ck_assert_uint_eq(mini_value(&run, "failed"), 9);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_ALLOC, 0), 1);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_FREE, 0), 1);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_REALLOC, 0), 0);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_MUNMAP, 0), 0);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_MREMAP, 0), 0);
	for (size_t i = 0; i < run.n_events; i++)
		ck_assert(run.events[i].op != TRACE_OP_MMAP ||
			  (run.events[i].flags & TRACE_EVENT_NESTED));
}
END_TEST

START_TEST(realloc_to_nothing_is_a_free)
{
	const struct mini_event *allocation;
	const struct mini_event *freed;

	trace_as(_i, "zero");
	ck_assert_uint_eq(mini_value(&run, "gone"), 0);
	allocation = mini_find(&run, TRACE_OP_ALLOC, 5002, 0);
	ck_assert_uint_eq(allocation->address, mini_value(&run, "block"));
	freed = find_free(allocation);
	ck_assert_ptr_nonnull(freed);
	ck_assert_uint_eq(freed->call, TRACE_CALL_REALLOC);
	ck_assert_uint_eq(freed->size, 0);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_FREE, TRACE_CALL_FREE), 2);
}
END_TEST

START_TEST(blocks_of_no_bytes_are_blocks)
{
	trace_as(_i, "zero");
	ck_assert_uint_eq(mini_find(&run, TRACE_OP_ALLOC, 0, 0)->address,
			  mini_value(&run, "empty"));
	ck_assert_uint_eq(mini_find(&run, TRACE_OP_REALLOC, 0, 0)->address,
			  mini_value(&run, "empty_too"));
}
END_TEST

START_TEST(errno_stays_the_programs)
{
	trace_as(_i, "keeps-errno");
	ck_assert_uint_eq(mini_value(&run, "changed"), 0);
	ck_assert_uint_eq(count_sized(TRACE_OP_REALLOC, 200), 10000);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_ALLOC, 0), 20000);
}
END_TEST

START_TEST(maps_are_recorded_with_whole_pages)
{
	const struct mini_event *map;

	trace_as(_i, "maps");
	map = mini_find(&run, TRACE_OP_MMAP, 4 * 4096, 0);
	ck_assert_uint_eq(map->address, mini_value(&run, "first"));
	ck_assert_uint_eq((uint32_t)map->detail, PROT_READ | PROT_WRITE);
	ck_assert_uint_eq(map->detail >> 32, MAP_PRIVATE | MAP_ANONYMOUS);
	ck_assert_uint_ge(map->ticks, map->begin_ticks);
	map = mini_find(&run, TRACE_OP_MMAP, 8192, 0);
	ck_assert_uint_eq(map->address, mini_value(&run, "second"));
	ck_assert_uint_eq(map->detail >> 32, MAP_SHARED | MAP_ANONYMOUS);
	map = mini_find(&run, TRACE_OP_MREMAP, 64 * 4096, 0);
	ck_assert_uint_eq(map->old_address, mini_value(&run, "first"));
	ck_assert_uint_eq(map->old_size, 4 * 4096);
	ck_assert_uint_eq(map->address, mini_value(&run, "moved"));
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_MUNMAP, 0), 3);
	ck_assert_uint_eq(mini_find(&run, TRACE_OP_MUNMAP, 4096, 0)->address,
			  mini_value(&run, "moved") + 4096);
}
END_TEST

START_TEST(the_allocators_own_map_is_nested)
{
	const struct mini_event *block;
	size_t n_nested = 0;

	trace_as(_i, "large");
	block = mini_find(&run, TRACE_OP_ALLOC, 64u << 20, 0);
	ck_assert_uint_eq(block->address, mini_value(&run, "block"));
	/*
	 * glibc maps inside itself, past the hooks: an allocator that does not would be seen here.
	 */
	for (size_t i = 0; i < run.n_events; i++) {
		ck_assert(run.events[i].op != TRACE_OP_MMAP || run.events[i].flags);
		n_nested += run.events[i].flags != 0;
	}
	ck_assert_uint_eq(n_nested, mini_count(&run, ALL, TRACE_OP_MMAP, 0) +
					    mini_count(&run, ALL, TRACE_OP_MUNMAP, 0));
}
END_TEST

START_TEST(a_free_in_a_destructor_of_a_thread_is_recorded)
{
	const struct mini_event *allocation;
	const struct mini_event *last = NULL;

	trace_as(_i, "destructor");
	allocation = mini_find(&run, TRACE_OP_ALLOC, 777, 0);
	ck_assert_ptr_nonnull(allocation);
	ck_assert_ptr_nonnull(find_free(allocation));
	for (size_t i = 0; i < run.n_events; i++)
		if (run.events[i].thread == allocation->thread)
			last = &run.events[i];
	ck_assert_uint_eq(last->op, TRACE_OP_THREAD_END);
}
END_TEST

START_TEST(ten_thousand_threads_need_the_memory_of_one)
{
	uint64_t lost;

	trace_with((struct mini_options){ .uid = getuid() == 0 ? users[_i] : 0 }, "many-threads");
	/* On a busy machine the small collector may be held up for more than 10 ms. */
	lost = run.processes[0].n_dropped;
	ck_assert_uint_eq(run.processes[0].n_late, 0);
	ck_assert_uint_le(count_sized(TRACE_OP_ALLOC, 333), 10000);
	ck_assert_uint_ge(count_sized(TRACE_OP_ALLOC, 333) + lost, 10000);
	ck_assert_uint_ge(mini_count(&run, ALL, TRACE_OP_THREAD_START, 0) + lost, 10001);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_THREAD_START, 0),
			  mini_count(&run, ALL, TRACE_OP_THREAD_END, 0) + 1);
	/* The pool's own pages count as resident when they are touched: 64 chunks at most. */
	ck_assert_int_le((int64_t)mini_value(&run, "grown"),
			 64 * (int64_t)RING_CHUNK_BYTES + (1 << 20));
}
END_TEST

#define STORM 2000

START_TEST(two_thousand_threads_at_once_lose_nothing_and_idle_in_64_kib_each)
{
	uint64_t plain;

	trace_with((struct mini_options){ .no_preload = true }, "storm");
	plain = mini_value(&run, "memory");
	mini_finish(&run);
	trace_with((struct mini_options){ .n_chunks = STORM + 100, .stacks = RING_STACKS_DWARF },
		   "storm");
	ck_assert_uint_eq(run.processes[0].n_dropped, 0);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 444), STORM);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 445), STORM);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_THREAD_END, 0), STORM);
	/* The thread's state and what it wrote into its chunk of the pool. */
	ck_assert_int_le((int64_t)(mini_value(&run, "memory") - plain), STORM * 65536L);
}
END_TEST

START_TEST(every_event_of_a_flood_is_recorded_or_counted)
{
	trace_with((struct mini_options){ .n_chunks = 8 }, "flood");
	ck_assert_uint_gt(run.n_chunks_seen, 8);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 48) +
				  mini_count(&run, ALL, TRACE_OP_FREE, 0) +
				  run.processes[0].n_dropped,
			  400000);
}
END_TEST

START_TEST(a_stopped_collector_costs_at_most_ten_milliseconds)
{
	const struct ring_process *process;
	uint64_t ticks_per_ms;
	size_t n_seen;

	trace_with((struct mini_options){ .n_chunks = 2, .is_stopped = true }, "flood");
	process = &run.processes[0];
	ticks_per_ms = ((struct ring_control *)run.pool)->ticks_per_ms;
	n_seen = count_sized(TRACE_OP_ALLOC, 48) + mini_count(&run, ALL, TRACE_OP_FREE, 0);
	ck_assert_uint_eq(n_seen + process->n_dropped, 400000);
	ck_assert_uint_gt(n_seen, 2000);
	ck_assert_uint_gt(process->n_dropped, 0);
	ck_assert_uint_eq(process->n_waits, 1);
	/* What was asked of the kernel; when it wakes us is its business. */
	ck_assert_uint_ge(process->wait_ticks, 9 * ticks_per_ms);
	ck_assert_uint_le(process->wait_ticks, 10 * ticks_per_ms);
	ck_assert_uint_gt(process->first_drop_ticks, process->start_ticks);
	ck_assert_uint_gt(process->last_drop_ticks, process->first_drop_ticks);
}
END_TEST

/*
 * 20 times as late as one that gives no sign of life may be. The beats come from a thread of ours,
 * which a busy machine may hold up: once in ten times it must work, without beats it never would.
 */
START_TEST(a_collector_that_is_late_and_alive_is_waited_for)
{
	for (int i = 0; i < 10; i++) {
		trace_with((struct mini_options){ .n_chunks = 2, .late_ms = 200 }, "flood");
		ck_assert_uint_gt(run.processes[0].n_waits, 0);
		if (run.processes[0].n_dropped == 0)
			break;
	}
	ck_assert_uint_eq(run.processes[0].n_dropped, 0);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 48), 200000);
}
END_TEST

START_TEST(blocks_below_the_minimum_are_counted_only)
{
	trace_with((struct mini_options){ .min_bytes = 100 }, "small-and-large");
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_ALLOC, 0), 50);
	ck_assert_uint_eq(run.processes[0].n_below_min, 50);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_FREE, 0), 100);
}
END_TEST

START_TEST(realloc_over_the_minimum_is_a_birth_or_a_death)
{
	const struct mini_event *grown;
	size_t n_frees = 0;

	trace_with((struct mini_options){ .min_bytes = 100 }, "resized");
	/* 50 bytes: counted. 500: born. 600: moved. 40: dead, counted. 30: counted. 700: born. */
	ck_assert_uint_eq(run.processes[0].n_below_min, 3);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_REALLOC, 0), 3);
	ck_assert_ptr_nonnull(mini_find(&run, TRACE_OP_REALLOC, 500, 0));
	grown = mini_find(&run, TRACE_OP_REALLOC, 600, 0);
	ck_assert_ptr_nonnull(grown);
	ck_assert_uint_eq(grown->old_address, mini_find(&run, TRACE_OP_REALLOC, 500, 0)->address);
	ck_assert_ptr_nonnull(mini_find(&run, TRACE_OP_REALLOC, 700, 0));
	for (size_t i = 0; i < run.n_events; i++)
		n_frees += run.events[i].op == TRACE_OP_FREE && &run.events[i] > grown &&
			   run.events[i].call == TRACE_CALL_REALLOC &&
			   run.events[i].address == grown->address;
	ck_assert_uint_ge(n_frees, 1);
}
END_TEST

START_TEST(a_null_sink_stores_nothing_and_loses_nothing)
{
	trace_with(
		(struct mini_options){ .flags = RING_FLAG_NULL_SINK, .stacks = RING_STACKS_DWARF },
		"flood");
	ck_assert_uint_eq(run.n_events, 0);
	ck_assert_uint_eq(run.n_chunks_seen, 0);
	ck_assert_uint_eq(run.processes[0].n_dropped, 0);
	trace_with((struct mini_options){ .flags = RING_FLAG_NULL_SINK }, "many-threads");
	ck_assert_uint_eq(run.n_events, 0);
	ck_assert_int_le((int64_t)mini_value(&run, "grown"), 1 << 20);
}
END_TEST

START_TEST(hooks_that_are_switched_off_record_nothing)
{
	trace_with((struct mini_options){ .events = RING_EVENTS_MMAP }, "family");
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_ALLOC, 0), 0);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_FREE, 0), 0);
	trace_with((struct mini_options){ .events = RING_EVENTS_HEAP }, "maps");
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_MMAP, 0), 0);
}
END_TEST

static const struct {
	const char *name;
	int signal; /* that ends it; 0: it exits with 0 */
} ends[] = {
	{ "exit", 0 },	       { "quick_exit", 0 },    { "_exit", 0 },	     { "abort", SIGABRT },
	{ "killed", SIGKILL }, { "crashed", SIGSEGV }, { "main-thread", 0 },
};

START_TEST(what_was_recorded_survives_every_end)
{
	const char *const argv[] = { VICTIM_BASIC, ends[_i].name, NULL };
	struct mini_options options = { .stacks = RING_STACKS_FP };

	mini_run(&options, argv, &run);
	ck_assert_int_eq(WIFSIGNALED(run.status) ? WTERMSIG(run.status) : 0, ends[_i].signal);
	ck_assert(ends[_i].signal || WEXITSTATUS(run.status) == 0);
	ck_assert_uint_eq(run.n_bad, 0);
	ck_assert_uint_eq(run.n_uncommitted, 0);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 555), 10);
	ck_assert_uint_ge(mini_count(&run, ALL, TRACE_OP_FREE, 0), 10);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_THREAD_END, 0),
			  strcmp(ends[_i].name, "main-thread") == 0);
}
END_TEST

START_TEST(an_end_in_the_middle_of_hooks_leaves_at_most_one_open_record_a_thread)
{
	const char *const argv[] = { VICTIM_BASIC, "among-threads", NULL };
	struct mini_options options = { .stacks = RING_STACKS_FP, .n_chunks = 512 };

	mini_run(&options, argv, &run);
	ck_assert(WIFEXITED(run.status) && WEXITSTATUS(run.status) == 0);
	ck_assert_uint_eq(run.n_bad, 0);
	ck_assert_uint_le(run.n_uncommitted, 4);
	ck_assert_uint_ge(count_sized(TRACE_OP_ALLOC, 888), 4);
}
END_TEST

START_TEST(a_program_that_may_only_allocate_is_not_hurt)
{
	trace_with((struct mini_options){ .stacks = RING_STACKS_FP }, "filtered");
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 666), 5000);
	ck_assert_uint_gt(run.n_chunks_seen, 4);
}
END_TEST

START_TEST(no_file_descriptor_is_kept)
{
	uint64_t open_files;

	trace_with((struct mini_options){ .no_preload = true }, "files");
	open_files = mini_value(&run, "files");
	trace_as(_i, "files");
	ck_assert_uint_eq(mini_value(&run, "files"), open_files);
}
END_TEST

static Suite *hooks_suite(void)
{
	Suite *suite = suite_create("hooks");
	TCase *users_case = tcase_create("as any user");
	TCase *once = tcase_create("once");
	int n = getuid() == 0 ? 2 : 1;

	tcase_add_loop_test(users_case, a_hundred_blocks_give_a_hundred_births_and_deaths, 0, n);
	tcase_add_loop_test(users_case, a_chain_starts_with_its_thread_and_the_modules, 0, n);
	tcase_add_loop_test(users_case, a_block_given_back_by_another_thread_is_one_block, 0, n);
	tcase_add_loop_test(users_case, every_function_of_the_family_is_one_event, 0, n);
	tcase_add_loop_test(users_case, a_realloc_has_both_addresses_and_both_times, 0, n);
	tcase_add_loop_test(users_case, a_call_that_fails_leaves_no_event, 0, n);
	tcase_add_loop_test(users_case, realloc_to_nothing_is_a_free, 0, n);
	tcase_add_loop_test(users_case, blocks_of_no_bytes_are_blocks, 0, n);
	tcase_add_loop_test(users_case, errno_stays_the_programs, 0, n);
	tcase_add_loop_test(users_case, maps_are_recorded_with_whole_pages, 0, n);
	tcase_add_loop_test(users_case, the_allocators_own_map_is_nested, 0, n);
	tcase_add_loop_test(users_case, a_free_in_a_destructor_of_a_thread_is_recorded, 0, n);
	tcase_add_loop_test(users_case, ten_thousand_threads_need_the_memory_of_one, 0, n);
	tcase_add_test(once, two_thousand_threads_at_once_lose_nothing_and_idle_in_64_kib_each);
	tcase_add_test(once, every_event_of_a_flood_is_recorded_or_counted);
	tcase_add_test(once, a_collector_that_is_late_and_alive_is_waited_for);
	tcase_add_test(once, a_stopped_collector_costs_at_most_ten_milliseconds);
	tcase_add_test(once, blocks_below_the_minimum_are_counted_only);
	tcase_add_test(once, realloc_over_the_minimum_is_a_birth_or_a_death);
	tcase_add_test(once, a_null_sink_stores_nothing_and_loses_nothing);
	tcase_add_test(once, hooks_that_are_switched_off_record_nothing);
	tcase_add_loop_test(once, what_was_recorded_survives_every_end, 0,
			    sizeof(ends) / sizeof(*ends));
	tcase_add_loop_test(
		once, an_end_in_the_middle_of_hooks_leaves_at_most_one_open_record_a_thread, 0, 20);
	tcase_add_test(once, a_program_that_may_only_allocate_is_not_hurt);
	tcase_add_loop_test(users_case, no_file_descriptor_is_kept, 0, n);
	suite_add_tcase(suite, users_case);
	suite_add_tcase(suite, once);
	return suite;
}

int main(void)
{
	return suite_run(hooks_suite());
}
