/* What the functions of memsight.h record, and what they keep from being recorded. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "mini-check.h"
#include "tests/support/suite.h"

#define ALL UINT32_MAX

static struct mini_run run;

static void trace_with(struct mini_options options, const char *name)
{
	const char *const argv[] = { VICTIM_API, name, NULL };

	mini_run_well(&options, argv, &run);
	for (uint32_t i = 0; i < run.n_processes; i++) {
		ck_assert_uint_eq(run.processes[i].n_dropped, 0);
		ck_assert_uint_eq(run.processes[i].n_nested, 0);
		ck_assert_uint_eq(run.processes[i].n_late, 0);
	}
}

static void trace(const char *name)
{
	trace_with((struct mini_options){ .events = RING_EVENTS_ALL, .stacks = RING_STACKS_DWARF },
		   name);
}

static size_t count_sized(enum trace_op op, uint64_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < run.n_events; i++)
		n += run.events[i].op == op && run.events[i].size == size;
	return n;
}

static size_t count_at(enum trace_op op, uint64_t address)
{
	size_t n = 0;

	for (size_t i = 0; i < run.n_events; i++)
		n += run.events[i].op == op && run.events[i].address == address;
	return n;
}

/* The text that a note names, which must precede it in its chain; "" for none. */
static const char *text_of(const struct mini_event *note)
{
	if (note->detail == 0)
		return "";
	for (const struct mini_event *i = note; i-- > run.events;)
		if (i->op == TRACE_OP_TEXT && i->detail == note->detail &&
		    i->thread == note->thread && i->slot == note->slot)
			return i->path;
	ck_abort_msg("a note names a text that was not told");
	return NULL;
}

/* FNV-1a as its authors give it for known texts. */
START_TEST(ids_are_what_the_format_says)
{
	static const struct {
		const char *text;
		uint64_t id;
	} known[] = { { "", UINT64_C(0xcbf29ce484222325) } };

	trace("odd-names");
	for (size_t i = 0; i < run.n_events; i++)
		if (run.events[i].op == TRACE_OP_TEXT && run.events[i].path[0] == '\0')
			ck_assert_uint_eq(run.events[i].detail, known[0].id);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_TEXT, 0), 2);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_NOTE, TRACE_CALL_MARK), 4);
	for (size_t i = 0; i < run.n_events; i++)
		ck_assert(run.events[i].op != TRACE_OP_NOTE ||
			  strlen(text_of(&run.events[i])) % 255 == 0);
}
END_TEST

static const struct {
	uint8_t op;
	uint8_t call;
	const char *text;
	uint64_t size;
	uint64_t detail; /* where it is no text */
} expected[] = {
	{ TRACE_OP_NOTE, TRACE_CALL_REGION_PUSH, "outer", 0, 0 },
	{ TRACE_OP_NOTE, TRACE_CALL_REGION_PUSH, "inner", 0, 0 },
	{ TRACE_OP_NOTE, TRACE_CALL_REGION_POP, "inner", 0, 0 },
	{ TRACE_OP_NOTE, TRACE_CALL_REGION_POP, "", 0, 0 },
	{ TRACE_OP_NOTE, TRACE_CALL_MARK, "here", 0, 0 },
	{ TRACE_OP_NOTE, TRACE_CALL_NAME_OBJECT, "buffer", 100, 0 },
	{ TRACE_OP_NOTE, TRACE_CALL_NAME_OBJECT, "local", 24, 0 },
	{ TRACE_OP_NOTE, TRACE_CALL_NAME_OBJECT, "", 0, 0 },
	{ TRACE_OP_NOTE, TRACE_CALL_BLOCK, "", 77, 0 },
	{ TRACE_OP_NOTE, TRACE_CALL_BLOCK_END, "", 0, 0 },
	{ TRACE_OP_NOTE, TRACE_CALL_POOL_RESET, "", 0, 0 },
	{ TRACE_OP_NOTE, TRACE_CALL_COLLECT_PUSH, "heap, faults", 0, 0 },
	{ TRACE_OP_NOTE, TRACE_CALL_COLLECT_POP, "", 0, 0 },
	{ TRACE_OP_PAUSE, 0, NULL, 0, 0 },
	{ TRACE_OP_RESUME, 0, NULL, 0, 0 },
	{ TRACE_OP_PAUSE, 0, NULL, 0, 1 },
	{ TRACE_OP_RESUME, 0, NULL, 0, 1 },
};

START_TEST(every_function_leaves_its_record)
{
	size_t n = 0;

	trace("every-function");
	for (size_t i = 0; i < run.n_events; i++) {
		const struct mini_event *event = &run.events[i];

		if (event->op != TRACE_OP_NOTE && event->op != TRACE_OP_PAUSE &&
		    event->op != TRACE_OP_RESUME)
			continue;
		ck_assert_uint_lt(n, sizeof(expected) / sizeof(expected[0]));
		ck_assert_uint_eq(event->op, expected[n].op);
		ck_assert_uint_eq(event->call, expected[n].call);
		ck_assert_uint_eq(event->size, expected[n].size);
		if (expected[n].text)
			ck_assert_str_eq(text_of(event), expected[n].text);
		else
			ck_assert_uint_eq(event->detail, expected[n].detail);
		n++;
	}
	ck_assert_uint_eq(n, sizeof(expected) / sizeof(expected[0]));
	ck_assert_uint_eq(count_at(TRACE_OP_NOTE, mini_value(&run, "block")), 2);
	ck_assert_uint_eq(count_at(TRACE_OP_NOTE, mini_value(&run, "local")), 1);
}
END_TEST

START_TEST(a_name_is_told_once_in_each_thread)
{
	trace("many-trips");
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_NOTE, TRACE_CALL_REGION_PUSH), 2000);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_NOTE, TRACE_CALL_REGION_POP), 2000);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_TEXT, 0), 2);
	for (size_t i = 0; i < run.n_events; i++)
		ck_assert(run.events[i].op != TRACE_OP_NOTE ||
			  strcmp(text_of(&run.events[i]), "trip") == 0);
}
END_TEST

START_TEST(without_the_class_regions_nothing_is_noted)
{
	trace_with((struct mini_options){ .events = RING_EVENTS_HEAP }, "every-function");
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_NOTE, 0), 5); /* collected, blocks */
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_PAUSE, 0), 2);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_ALLOC, 0), 1);
}
END_TEST

START_TEST(a_pause_records_no_birth_and_every_death)
{
	trace("paused");
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1001), 1);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1002), 0);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1003), 0);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1004), 1);
	ck_assert_uint_ge(count_at(TRACE_OP_FREE, mini_value(&run, "before")), 1);
	ck_assert_uint_ge(count_at(TRACE_OP_FREE, mini_value(&run, "during")), 1);
	/* Blocks that were born and freed in the pause left nothing. */
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_FREE, 0), 3);
}
END_TEST

START_TEST(moving_in_a_pause_ends_the_old_block)
{
	trace("paused-moves");
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_REALLOC, 0), 1);
	ck_assert_uint_eq(count_sized(TRACE_OP_REALLOC, 700000), 1);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_FREE, TRACE_CALL_REALLOC), 1);
	ck_assert_uint_ge(count_at(TRACE_OP_FREE, mini_value(&run, "block")), 1);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_MREMAP, 0), 0);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_MUNMAP, TRACE_CALL_MREMAP), 1);
	ck_assert_uint_eq(count_sized(TRACE_OP_MUNMAP, 8192), 1);
	ck_assert_uint_eq(count_sized(TRACE_OP_MUNMAP, 1 << 20), 1);
}
END_TEST

START_TEST(pauses_nest)
{
	trace("nested-pauses");
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1001), 1);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1002), 0);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1003), 1);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1004), 1);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_PAUSE, 0), 2);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_RESUME, 0), 2);
}
END_TEST

START_TEST(a_thread_can_pause_alone)
{
	trace("paused-thread");
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 2001), 1);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 2002), 0);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 2003), 1);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 2004), 1);
	ck_assert_uint_ge(
		count_at(TRACE_OP_FREE, mini_find(&run, TRACE_OP_ALLOC, 2001, 0)->address), 1);
}
END_TEST

START_TEST(a_storm_of_pauses_leaves_nothing_paused)
{
	trace_with((struct mini_options){ .events = RING_EVENTS_ALL, .n_chunks = 1000 },
		   "pause-storm");
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 3002), 100);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_PAUSE, 0), 80000);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_RESUME, 0), 80000);
}
END_TEST

START_TEST(a_forked_child_inherits_the_pause_of_its_process)
{
	trace("forked-pause");
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1001), 1);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1002), 0);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1003), 1);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1004), 1);
	ck_assert_uint_ge(
		count_at(TRACE_OP_FREE, mini_find(&run, TRACE_OP_ALLOC, 1001, 0)->address), 1);
}
END_TEST

START_TEST(only_what_is_asked_for_is_collected)
{
	trace("collected");
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1001), 1);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1002), 0);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1003), 1);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1004), 1);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_FREE, 0), 4);
	ck_assert_uint_eq(count_sized(TRACE_OP_MMAP, 3 * 4096), 1);
	ck_assert_uint_eq(count_sized(TRACE_OP_MMAP, 5 * 4096), 0);
	ck_assert_uint_eq(count_sized(TRACE_OP_MUNMAP, 3 * 4096), 1);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_NOTE, TRACE_CALL_COLLECT_POP), 3);
}
END_TEST

START_TEST(pushes_beyond_the_bound_change_nothing)
{
	trace("deep-collect");
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1001), 0);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1002), 0);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1003), 1);
}
END_TEST

START_TEST(with_marks_only_nothing_is_withheld)
{
	trace_with((struct mini_options){ .events = RING_EVENTS_ALL, .flags = RING_FLAG_API_MARKS },
		   "paused");
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1003), 1000);
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_PAUSE, 0), 0);
	trace_with((struct mini_options){ .events = RING_EVENTS_ALL, .flags = RING_FLAG_API_MARKS },
		   "every-function");
	ck_assert_uint_eq(mini_count(&run, ALL, TRACE_OP_NOTE, 0), 11);
	trace_with((struct mini_options){ .events = RING_EVENTS_ALL, .flags = RING_FLAG_API_MARKS },
		   "collected");
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 1002), 1);
}
END_TEST

START_TEST(errno_stays_the_programs)
{
	trace("keeps-errno");
	ck_assert_uint_eq(mini_value(&run, "changed"), 0);
	trace_with((struct mini_options){ .no_preload = true }, "keeps-errno");
	ck_assert_uint_eq(mini_value(&run, "changed"), 0);
}
END_TEST

static Suite *api_suite(void)
{
	Suite *suite = suite_create("api");
	TCase *tests = tcase_create("all");

	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, ids_are_what_the_format_says);
	tcase_add_test(tests, every_function_leaves_its_record);
	tcase_add_test(tests, a_name_is_told_once_in_each_thread);
	tcase_add_test(tests, without_the_class_regions_nothing_is_noted);
	tcase_add_test(tests, a_pause_records_no_birth_and_every_death);
	tcase_add_test(tests, moving_in_a_pause_ends_the_old_block);
	tcase_add_test(tests, pauses_nest);
	tcase_add_test(tests, a_thread_can_pause_alone);
	tcase_add_test(tests, a_storm_of_pauses_leaves_nothing_paused);
	tcase_add_test(tests, a_forked_child_inherits_the_pause_of_its_process);
	tcase_add_test(tests, only_what_is_asked_for_is_collected);
	tcase_add_test(tests, pushes_beyond_the_bound_change_nothing);
	tcase_add_test(tests, with_marks_only_nothing_is_withheld);
	tcase_add_test(tests, errno_stays_the_programs);
	suite_add_tcase(suite, tests);
	return suite;
}

int main(void)
{
	return suite_run(api_suite());
}
