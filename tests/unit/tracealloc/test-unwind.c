/* Call stacks by unwind tables, of programs that know their own. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mini-check.h"
#include "tests/support/suite.h"

#define MAX_PCS 300

static struct mini_run run;
static uint64_t pcs[MAX_PCS];
static const char *const either[] = { VICTIM_STACK_FP, VICTIM_STACK_NO_FP };

#if defined(__x86_64__)
/* In assembly, or with frames as only this processor's compilers make them. */
static const char *const hard[] = { VICTIM_UNWIND_FP, VICTIM_UNWIND_NO_FP, VICTIM_UNWIND_CET };
#define N_HARD (sizeof(hard) / sizeof(*hard))
#endif

static void trace(const char *program, const char *name, uint32_t max_frames)
{
	const char *const argv[] = { program, name, NULL };
	struct mini_options options = {
		.stacks = RING_STACKS_DWARF,
		.max_frames = max_frames,
		.n_chunks = 256,
	};

#if defined(__x86_64__)
	/* With a shadow stack where processor, kernel and C library have one. */
	if (program == hard[N_HARD - 1])
		options.set = "GLIBC_TUNABLES=glibc.cpu.x86_shstk=on:glibc.cpu.x86_ibt=on";
#endif
	mini_run_well(&options, argv, &run);
}

static size_t stack_of(uint64_t size, size_t i)
{
	const struct mini_event *event = mini_find(&run, TRACE_OP_ALLOC, size, i);

	ck_assert_ptr_nonnull(event);
	return mini_stack(&run, event, pcs, MAX_PCS);
}

static void assert_frames(unsigned n)
{
	static const char *const names[] = { "frame1", "frame2", "frame3", "frame4" };

	for (unsigned i = 0; i < n; i++)
		ck_assert_uint_eq(pcs[i], mini_value(&run, names[i]));
}

/* On ppc64le _start jumps into the C library. */
#if defined(__powerpc64__)
#define N_OUTER 2u
#else
#define N_OUTER 3u
#endif

/* Behind main come the C library's two frames that call it and _start. */
static void assert_ends_in_main(size_t n, size_t n_inner)
{
	ck_assert_uint_eq(n, n_inner + N_OUTER);
	ck_assert_uint_eq(pcs[n_inner], mini_value(&run, "outermost-main"));
	ck_assert_uint_ge(pcs[n - 1], TRACE_STOP_MAX);
}

START_TEST(a_stack_is_whole_and_exact_with_and_without_frame_pointers)
{
	trace(either[_i], "four", 0);
	/* third, second, first, four, run_program, main. */
	assert_ends_in_main(stack_of(1111, 0), 6);
	assert_frames(4);
	ck_assert_uint_eq(run.processes[0].n_truncated_stacks, 0);
}
END_TEST

START_TEST(a_threads_stack_is_whole_and_exact)
{
	trace(either[_i], "in-thread", 0);
	/* third, second, first, four_in_thread, start_thread, clone. */
	ck_assert_uint_eq(stack_of(1111, 0), 6);
	assert_frames(4);
	ck_assert_uint_eq(pcs[4], mini_value(&run, "outermost"));
	ck_assert_uint_ge(pcs[5], TRACE_STOP_MAX);
}
END_TEST

START_TEST(two_callers_with_frames_of_one_size_have_two_stacks)
{
	const struct mini_event *events[20];
	uint64_t first[MAX_PCS];
	size_t n;

	trace(either[_i], "two-callers", 0);
	for (size_t i = 0; i < 20; i++) {
		events[i] = mini_find(&run, TRACE_OP_ALLOC, 1212, i);
		ck_assert_ptr_nonnull(events[i]);
		ck_assert_uint_ne(events[i]->stack_id, 0);
		ck_assert_uint_eq(events[i]->stack_id, events[i % 2]->stack_id);
	}
	ck_assert_uint_ne(events[0]->stack_id, events[1]->stack_id);
	n = mini_stack(&run, events[0], first, MAX_PCS);
	/* shared, caller_one or caller_two, two_callers, run_program, main, and outside. */
	ck_assert_uint_eq(mini_stack(&run, events[1], pcs, MAX_PCS), n);
	assert_ends_in_main(n, 5);
	ck_assert_uint_eq(first[0], pcs[0]);
	ck_assert_uint_ne(first[1], pcs[1]);
	ck_assert_uint_ne(first[2], pcs[2]);
	ck_assert_mem_eq(first + 3, pcs + 3, (n - 3) * sizeof(*pcs));
}
END_TEST

START_TEST(a_stack_that_is_too_deep_says_so)
{
	trace(either[_i], "deep", 16);
	ck_assert_uint_eq(stack_of(1313, 0), 17);
	ck_assert_uint_eq(pcs[16], TRACE_STOP_DEPTH);
	ck_assert_uint_gt(run.processes[0].n_truncated_stacks, 0);
	trace(either[_i], "deep", 0);
	ck_assert_uint_eq(stack_of(1313, 0), RING_MAX_FRAMES + 1);
	ck_assert_uint_eq(pcs[RING_MAX_FRAMES], TRACE_STOP_DEPTH);
}
END_TEST

START_TEST(a_stack_goes_on_through_the_c_library)
{
	size_t n;
	size_t i = 0;

	trace(either[_i], "through-libc", 0);
	n = stack_of(1414, 0);
	assert_frames(2);
	while (i < n && pcs[i] != mini_value(&run, "outermost-main"))
		i++;
	/* compare, those of qsort, through_libc, run_program, main. */
	ck_assert_uint_gt(i, 4);
	assert_ends_in_main(n, i);
}
END_TEST

START_TEST(a_coroutines_stack_ends_where_the_coroutine_began)
{
	trace(either[_i], "other-stack", 0);
	ck_assert_uint_eq(stack_of(1515, 0), 2);
	assert_frames(1);
	ck_assert_uint_ge(pcs[1], TRACE_STOP_MAX);
}
END_TEST

#if defined(__x86_64__)
START_TEST(data_in_rbp_makes_no_frames)
{
	uint64_t n;

	trace(either[_i], "data-in-rbp", 0);
	n = mini_value(&run, "n");
	ck_assert_uint_gt(n, 10);
	for (uint64_t i = 0; i < n; i++) {
		size_t n_pcs = stack_of(1600 + i, 0);

		ck_assert_uint_eq(pcs[0], mini_value(&run, "pc"));
		/* The rule of with_rbp hangs on rbp, or does not, as it was compiled. */
		if (pcs[n_pcs - 1] < TRACE_STOP_MAX) {
			ck_assert_uint_eq(n_pcs, 2);
			ck_assert_uint_eq(pcs[1], TRACE_STOP_BAD_STACK);
		}
	}
}
END_TEST
#endif

/* The number of different paths among the nodes of the run's only thread. */
static size_t count_paths(size_t *ret_n_nodes)
{
	enum { SLOTS = 1 << 21 };
	struct {
		uint64_t pc;
		uint32_t parent; /* its first id */
		uint32_t id;
	} *table = calloc(SLOTS, sizeof(*table));
	uint32_t *first_id = calloc(SLOTS, sizeof(*first_id)); /* of the path, by the node's id */
	size_t n_paths = 0;

	*ret_n_nodes = 0;
	for (size_t i = 0; i < run.n_events; i++) {
		const struct mini_event *event = &run.events[i];
		uint32_t parent;
		uint32_t k;

		if (event->op != TRACE_OP_NODE)
			continue;
		ck_assert_uint_eq(event->thread, 0);
		ck_assert_uint_lt(event->stack_id, SLOTS);
		parent = first_id[event->size];
		k = (uint32_t)((event->address * 31 + parent) * 2654435761u) % SLOTS;
		while (table[k].id && (table[k].pc != event->address || table[k].parent != parent))
			k = (k + 1) % SLOTS;
		n_paths += table[k].id == 0;
		if (!table[k].id) {
			table[k].pc = event->address;
			table[k].parent = parent;
			table[k].id = event->stack_id;
		}
		first_id[event->stack_id] = table[k].id;
		(*ret_n_nodes)++;
	}
	free(table);
	free(first_id);
	return n_paths;
}

START_TEST(a_node_is_written_once)
{
	size_t n_nodes;

	trace(VICTIM_STACK_NO_FP, "two-callers", 0);
	ck_assert_uint_eq(count_paths(&n_nodes), n_nodes);
	ck_assert_uint_gt(n_nodes, 8);
	trace(VICTIM_STACK_NO_FP, "deep", 0);
	ck_assert_uint_eq(count_paths(&n_nodes), n_nodes);
	ck_assert_uint_gt(n_nodes, RING_MAX_FRAMES);
	ck_assert_uint_eq(run.processes[0].n_displaced_nodes, 0);
}
END_TEST

START_TEST(stacks_of_a_full_table_stay_whole_and_each_node_written_again_was_displaced)
{
	size_t n_whole;
	size_t n_seen = 0;
	size_t n_nodes;
	size_t n_paths;

	/* The table of nodes grows to its bound long before the last of 2^18 nodes. */
	trace(VICTIM_STACK_NO_FP, "many-stacks-twice", 0);
	n_whole = stack_of(1717, 0);
	ck_assert_uint_gt(n_whole, 20);
	for (size_t i = 0; i < run.n_events; i++) {
		const struct mini_event *event = &run.events[i];

		if (event->op != TRACE_OP_ALLOC || event->size != 1717 || n_seen++ % 64)
			continue;
		ck_assert_uint_eq(mini_stack(&run, event, pcs, 300), n_whole);
		ck_assert_uint_eq(pcs[n_whole - 1] < TRACE_STOP_MAX, false);
	}
	ck_assert_uint_ge(n_seen + run.processes[0].n_dropped, 1u << 18);
	n_paths = count_paths(&n_nodes);
	ck_assert_uint_ge(n_nodes, n_paths);
	ck_assert_uint_gt(run.processes[0].n_displaced_nodes, 0);
	ck_assert_uint_le(n_nodes - n_paths, run.processes[0].n_displaced_nodes);
}
END_TEST

#if defined(__x86_64__)
/* Where pc stands in the stack that was read last; n when it does not. */
static size_t place_of(uint64_t pc, size_t n)
{
	size_t i = 0;

	while (i < n && pcs[i] != pc)
		i++;
	return i;
}

START_TEST(a_handlers_stack_goes_on_where_the_signal_came)
{
	static const char *const programs[] = { "own-stack", "alternate-stack" };
	size_t n;

	trace(hard[_i / 2], programs[_i % 2], 0);
	n = stack_of(2100, 0);
	assert_frames(2);
	/* leaf, in_handler, the trampoline, trap, signal_with, the program, run_program, main. */
	ck_assert_uint_eq(pcs[3], mini_value(&run, "interrupted"));
	ck_assert_uint_eq(pcs[4], mini_value(&run, "trapped"));
	assert_ends_in_main(n, 8);
	ck_assert_uint_eq(run.processes[0].n_truncated_stacks, 0);
}
END_TEST

/* leaf, the function, the program, run_program, main: the same stack for n calls. */
static void assert_one_stack(uint64_t size, size_t n_calls)
{
	uint32_t id = 0;

	for (size_t i = 0; i < n_calls; i++) {
		const struct mini_event *event = mini_find(&run, TRACE_OP_ALLOC, size, i);

		assert_ends_in_main(stack_of(size, i), 5);
		assert_frames(2);
		id = id ? id : event->stack_id;
		ck_assert_uint_eq(event->stack_id, id);
	}
	ck_assert_ptr_null(mini_find(&run, TRACE_OP_ALLOC, size, n_calls));
}

START_TEST(frames_of_changing_size_and_place_are_one_stack)
{
	trace(hard[_i], "sized", 0);
	assert_one_stack(2200, 32);
	trace(hard[_i], "realigned", 0);
	assert_one_stack(2300, 8);
}
END_TEST

START_TEST(a_jump_to_malloc_shows_the_jumpers_caller)
{
	trace(hard[_i], "tail-call", 0);
	/* tail_call, run_program, main. */
	assert_ends_in_main(stack_of(2400, 0), 3);
	assert_frames(2);
}
END_TEST

START_TEST(what_was_jumped_over_is_not_in_the_next_stack)
{
	trace(hard[_i], "jumped", 0);
	for (size_t i = 0; i < 10; i++) {
		/* jump_out i + 1 times, or leaf; jumped, run_program, main. */
		assert_ends_in_main(stack_of(2501, i), i + 4);
		assert_ends_in_main(stack_of(2500, i), 4);
		assert_frames(2);
	}
}
END_TEST

START_TEST(generated_code_is_walked_by_its_frame_pointer_or_said_to_have_none)
{
	size_t n;

	trace(hard[_i], "generated-with-frame-pointer", 0);
	n = stack_of(2600, 0);
	assert_frames(2);
	ck_assert_uint_eq(pcs[1], mini_value(&run, "generated"));
	ck_assert_uint_eq(place_of(mini_value(&run, "outer"), n), 4);
	/* leaf, generated, call_generated, the program, run_program, main. */
	assert_ends_in_main(n, 6);
	trace(hard[_i], "generated-without", 0);
	ck_assert_uint_eq(stack_of(2600, 0), 3);
	ck_assert_uint_eq(pcs[1], mini_value(&run, "generated"));
	ck_assert_uint_eq(pcs[2], TRACE_STOP_NO_RULE);
	ck_assert_uint_gt(run.processes[0].n_truncated_stacks, 0);
}
END_TEST

START_TEST(a_module_at_the_place_of_another_has_its_own_rules)
{
	trace(hard[_i], "replaced", 0);
	ck_assert_uint_eq(mini_value(&run, "same"), 1);
	/* leaf, from_plugin, plugin_run, run_plugin, replaced, run_program, main. */
	for (size_t i = 0; i < 11; i++)
		assert_ends_in_main(stack_of(2700, i), 7);
}
END_TEST

START_TEST(a_frame_that_has_saved_its_stack_pointer_is_walked)
{
	trace(hard[_i], "assembly", 0);
	/* leaf, leaf_for_assembly, saved_rsp, assembly, run_program, main. */
	assert_ends_in_main(stack_of(2800, 0), 6);
	assert_frames(3);
	ck_assert_uint_eq(run.processes[0].n_truncated_stacks, 0);
}
END_TEST

START_TEST(a_frame_known_by_a_register_that_is_not_saved_ends_the_stack_and_says_so)
{
	trace(hard[_i], "assembly-on-rbx", 0);
	/* leaf, leaf_for_assembly, based_on_rbx. */
	ck_assert_uint_eq(stack_of(2900, 0), 4);
	assert_frames(3);
	ck_assert_uint_eq(pcs[3], TRACE_STOP_NO_RULE);
	ck_assert_uint_gt(run.processes[0].n_truncated_stacks, 0);
}
END_TEST

START_TEST(a_frame_interrupted_while_it_aligns_itself_is_walked)
{
	trace(hard[_i], "in-prologue", 0);
	/* leaf, in_handler, the trampoline, trap_in_prologue, in_prologue, run_program, main. */
	assert_ends_in_main(stack_of(2100, 0), 7);
	assert_frames(2);
	ck_assert_uint_eq(pcs[3], mini_value(&run, "interrupted"));
	ck_assert_uint_eq(run.processes[0].n_truncated_stacks, 0);
}
END_TEST

START_TEST(coroutines_in_turn_have_one_stack_each)
{
	const struct mini_event *first[2] = { NULL, NULL };

	trace(hard[_i], "in-turn", 0);
	for (size_t i = 0; i < 20; i++) {
		const struct mini_event *event =
			mini_find(&run, TRACE_OP_ALLOC, 3000 + i % 2, i / 2);

		ck_assert_ptr_nonnull(event);
		/* allocate_in_turn, the coroutine, and what it returns to. */
		ck_assert_uint_eq(mini_stack(&run, event, pcs, MAX_PCS), 3);
		ck_assert_uint_ge(pcs[2], TRACE_STOP_MAX);
		if (!first[i % 2])
			first[i % 2] = event;
		ck_assert_uint_eq(event->stack_id, first[i % 2]->stack_id);
	}
	ck_assert_uint_ne(first[0]->stack_id, first[1]->stack_id);
}
END_TEST
#endif

static Suite *unwind_suite(void)
{
	Suite *suite = suite_create("unwind");
	TCase *tests = tcase_create("all");

	tcase_set_timeout(tests, 120);
	tcase_add_loop_test(tests, a_stack_is_whole_and_exact_with_and_without_frame_pointers, 0,
			    2);
	tcase_add_loop_test(tests, a_threads_stack_is_whole_and_exact, 0, 2);
	tcase_add_loop_test(tests, two_callers_with_frames_of_one_size_have_two_stacks, 0, 2);
	tcase_add_loop_test(tests, a_stack_that_is_too_deep_says_so, 0, 2);
	tcase_add_loop_test(tests, a_stack_goes_on_through_the_c_library, 0, 2);
	tcase_add_loop_test(tests, a_coroutines_stack_ends_where_the_coroutine_began, 0, 2);
	tcase_add_test(tests, a_node_is_written_once);
	tcase_add_test(tests,
		       stacks_of_a_full_table_stay_whole_and_each_node_written_again_was_displaced);
#if defined(__x86_64__)
	tcase_add_loop_test(tests, data_in_rbp_makes_no_frames, 0, 2);
	tcase_add_loop_test(tests, a_handlers_stack_goes_on_where_the_signal_came, 0, 2 * N_HARD);
	tcase_add_loop_test(tests, frames_of_changing_size_and_place_are_one_stack, 0, N_HARD);
	tcase_add_loop_test(tests, a_jump_to_malloc_shows_the_jumpers_caller, 0, N_HARD);
	tcase_add_loop_test(tests, what_was_jumped_over_is_not_in_the_next_stack, 0, N_HARD);
	tcase_add_loop_test(tests,
			    generated_code_is_walked_by_its_frame_pointer_or_said_to_have_none, 0,
			    N_HARD);
	tcase_add_loop_test(tests, a_module_at_the_place_of_another_has_its_own_rules, 0, N_HARD);
	tcase_add_loop_test(tests, a_frame_that_has_saved_its_stack_pointer_is_walked, 0, N_HARD);
	tcase_add_loop_test(
		tests, a_frame_known_by_a_register_that_is_not_saved_ends_the_stack_and_says_so, 0,
		N_HARD);
	tcase_add_loop_test(tests, a_frame_interrupted_while_it_aligns_itself_is_walked, 0, N_HARD);
	tcase_add_loop_test(tests, coroutines_in_turn_have_one_stack_each, 0, N_HARD);
#endif
	suite_add_tcase(suite, tests);
	return suite;
}

int main(void)
{
	return suite_run(unwind_suite());
}
