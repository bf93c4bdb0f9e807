#include "tests/support/make-trace/make-trace.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "tests/support/suite.h"
#include "trace/reader.h"

#define MAX_THREADS 64
#define N_OLD_MAPS  2 /* [stack] and the one from before the trace, in each process */

/* An event of any thread, or a sample (op NONE), in one order of time. */
struct moment {
	uint64_t ticks;
	uint32_t process_id;
	uint32_t thread_id;
	struct trace_event event;
};

/* All that a trace says, gathered without any knowledge of how it was made. */
struct play {
	struct moment *moments;
	size_t n_moments;
	size_t capacity;
	uint32_t process_of[MAX_THREADS + 1]; /* by thread id */
	uint32_t process_of_pid[65536];
	struct trace_clock clocks[64];
	unsigned n_clocks;
	struct trace_module modules[64];
	unsigned n_modules;
	struct trace_mapping maps[64];
	unsigned n_maps;
	struct trace_thread threads[MAX_THREADS];
	unsigned n_threads;
	/* The replay: live blocks (few, so a plain list) and mappings, and the books. */
	struct moment live[4096];
	unsigned n_live;
	uint64_t n_births[2], n_deaths[2], live_bytes[2], peak_bytes[2];
	uint64_t n_of_owner[MAKE_TRACE_MAX_OWNERS];
};

enum owner {
#define OWNER(name, number, text) OWNER_##name = (number),
#include "schemas/owner.def"
#undef OWNER
};

static struct moment *add_moment(struct play *play)
{
	if (play->n_moments == play->capacity) {
		play->capacity = play->capacity ? play->capacity * 2 : 1024;
		play->moments =
			reallocarray(play->moments, play->capacity, sizeof(play->moments[0]));
		ck_assert_ptr_nonnull(play->moments);
	}
	return memset(&play->moments[play->n_moments++], 0, sizeof(play->moments[0]));
}

static void take_events(struct play *play, const struct trace_item *item)
{
	ck_assert_uint_le(item->stream_id, MAX_THREADS);
	ck_assert_uint_ne(play->process_of[item->stream_id], 0);
	for (size_t i = 0; i < item->n; i++) {
		struct moment *moment = add_moment(play);
		moment->ticks = item->events[i].ticks;
		moment->process_id = play->process_of[item->stream_id];
		moment->thread_id = item->stream_id;
		moment->event = item->events[i];
		if (i > 0)
			ck_assert_uint_ge(item->events[i].ticks, item->events[i - 1].ticks);
	}
}

static void take_record(struct play *play, const struct trace_record *record)
{
	if (record->type == TRACE_RECORD_THREAD) {
		const struct trace_thread *thread = (const void *)record;
		play->process_of[thread->thread_id] = thread->process_id;
		play->threads[play->n_threads++] = *thread;
	} else if (record->type == TRACE_RECORD_PROCESS) {
		const struct trace_process *process = (const void *)record;
		play->process_of_pid[process->pid] = process->process_id;
	} else if (record->type == TRACE_RECORD_CLOCK) {
		play->clocks[play->n_clocks++] = *(const struct trace_clock *)(const void *)record;
	} else if (record->type == TRACE_RECORD_MODULE) {
		play->modules[play->n_modules++] =
			*(const struct trace_module *)(const void *)record;
	} else if (record->type == TRACE_RECORD_MAPPING) {
		play->maps[play->n_maps++] = *(const struct trace_mapping *)(const void *)record;
	}
}

/* Samples wait with their raw ns in `ticks` until all clock records are known. */
static void take_perf(struct play *play, const struct trace_item *item)
{
	const char *next = item->perf;

	for (size_t left = item->n; left > 0;) {
		struct perf_event_header header;
		uint64_t fields[5];
		memcpy(&header, next, sizeof(header));
		ck_assert_uint_eq(header.type, PERF_RECORD_SAMPLE);
		ck_assert_uint_eq(header.size, sizeof(header) + sizeof(fields));
		memcpy(fields, next + sizeof(header), sizeof(fields));
		struct moment *moment = add_moment(play);
		moment->process_id = play->process_of_pid[(uint16_t)fields[1]];
		moment->ticks = fields[2];
		moment->event.address = fields[3];
		next += header.size;
		left -= header.size;
	}
}

static struct play *read_trace(const char *path)
{
	struct play *play = calloc(1, sizeof(*play));
	struct trace_reader *reader;
	struct trace_item item;

	ck_assert_ptr_nonnull(play);
	ck_assert_int_eq(trace_reader_open(path, &reader), 0);
	while (trace_reader_next(reader, &item) == 1) {
		if (item.type == TRACE_FRAME_EVENTS)
			take_events(play, &item);
		else if (item.type == TRACE_FRAME_PERF)
			take_perf(play, &item);
		const struct trace_record *record = NULL;
		while (item.type == TRACE_FRAME_RECORDS &&
		       (record = trace_record_next(&item, record)))
			take_record(play, record);
	}
	ck_assert(trace_reader_damage(reader)->ended);
	ck_assert_uint_eq(trace_reader_damage(reader)->n_damaged_frames, 0);
	ck_assert_uint_eq(trace_reader_damage(reader)->n_skipped_bytes, 0);
	trace_reader_close(reader);
	return play;
}

/* By the line through the first and the last clock record. */
static uint64_t to_ticks(const struct play *play, uint64_t raw_ns)
{
	const struct trace_clock *a = &play->clocks[0], *b = &play->clocks[play->n_clocks - 1];

	return a->ticks + (uint64_t)((unsigned __int128)(raw_ns - a->raw_ns) *
				     (b->ticks - a->ticks) / (b->raw_ns - a->raw_ns));
}

static int by_time(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;

	return (x->ticks > y->ticks) - (x->ticks < y->ticks);
}

static bool is_map(const struct trace_event *event)
{
	return event->op >= TRACE_OP_MMAP && event->op <= TRACE_OP_MREMAP;
}

static struct moment *find(struct play *play, uint32_t process_id, uint64_t address)
{
	for (unsigned i = 0; i < play->n_live; i++) {
		struct moment *live = &play->live[i];
		if (live->process_id == process_id && address >= live->event.address &&
		    address - live->event.address < live->event.size)
			return live;
	}
	return NULL;
}

static void die(struct play *play, const struct moment *moment, uint64_t address)
{
	struct moment *live = find(play, moment->process_id, address);
	unsigned is_mapping = is_map(&moment->event);

	ck_assert_ptr_nonnull(live);
	ck_assert_uint_eq(live->event.address, address);
	ck_assert_uint_eq(is_map(&live->event), is_mapping);
	play->n_deaths[is_mapping]++;
	play->live_bytes[is_mapping] -= live->event.size;
	*live = play->live[--play->n_live];
}

static void bear(struct play *play, const struct moment *moment)
{
	unsigned is_mapping = is_map(&moment->event);

	ck_assert_uint_ne(moment->event.stack_id, 0);
	ck_assert_ptr_null(find(play, moment->process_id, moment->event.address));
	ck_assert_ptr_null(
		find(play, moment->process_id, moment->event.address + moment->event.size - 1));
	ck_assert_uint_lt(play->n_live, 4096);
	play->live[play->n_live++] = *moment;
	play->n_births[is_mapping]++;
	play->live_bytes[is_mapping] += moment->event.size;
	if (play->live_bytes[is_mapping] > play->peak_bytes[is_mapping])
		play->peak_bytes[is_mapping] = play->live_bytes[is_mapping];
}

static enum owner find_owner(struct play *play, const struct moment *moment)
{
	uint64_t address = moment->event.address;
	const struct moment *live = find(play, moment->process_id, address);

	if (live)
		return is_map(&live->event) ? OWNER_mapping : OWNER_heap;
	for (unsigned i = 0; i < play->n_modules; i++) {
		const struct trace_module *module = &play->modules[i];
		if (module->process_id == moment->process_id && address >= module->start &&
		    address < module->end)
			return OWNER_global;
	}
	for (unsigned i = 0; i < play->n_threads; i++) {
		const struct trace_thread *thread = &play->threads[i];
		if (thread->process_id == moment->process_id && address >= thread->stack_start &&
		    address < thread->stack_end)
			return OWNER_stack;
	}
	for (unsigned i = 0; i < play->n_maps; i++) {
		if (play->maps[i].process_id == moment->process_id &&
		    address - play->maps[i].start < play->maps[i].size)
			return OWNER_before_trace;
	}
	/* Of the rest, the heap was once handed out. */
	return address >> 40 == 0x55 ? OWNER_freed : OWNER_unknown;
}

static void replay(struct play *play)
{
	for (size_t i = 0; i < play->n_moments; i++) {
		if (play->moments[i].event.op == TRACE_OP_NONE)
			play->moments[i].ticks = to_ticks(play, play->moments[i].ticks);
	}
	qsort(play->moments, play->n_moments, sizeof(play->moments[0]), by_time);
	for (size_t i = 0; i < play->n_moments; i++) {
		const struct moment *moment = &play->moments[i];
		const struct trace_event *event = &moment->event;
		if (event->op == TRACE_OP_NONE) {
			play->n_of_owner[find_owner(play, moment)]++;
			continue;
		}
		if (event->op == TRACE_OP_FREE || event->op == TRACE_OP_MUNMAP)
			die(play, moment, event->address);
		else if (event->old_address != 0)
			die(play, moment, event->old_address);
		if (event->op != TRACE_OP_FREE && event->op != TRACE_OP_MUNMAP)
			bear(play, moment);
	}
}

static void check_total(const struct play *play, unsigned i, const struct make_trace_total *total)
{
	ck_assert_uint_eq(play->n_births[i], total->n_births);
	ck_assert_uint_eq(play->n_deaths[i], total->n_deaths);
	ck_assert_uint_eq(play->live_bytes[i], total->live_bytes);
	ck_assert_uint_eq(play->peak_bytes[i], total->peak_bytes);
	ck_assert_uint_eq(total->n_births - total->n_deaths, total->live_blocks);
}

static struct make_trace_truth *make(const struct make_trace_options *options, const char *path)
{
	struct make_trace_truth *truth;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(make_trace(fd, options, &truth), 0);
	return truth;
}

static void make_path(char *path, const char *name)
{
	const char *folder = getenv("TMPDIR");

	snprintf(path, 200, "%s/test-make-trace-%d-%s", folder ? folder : "/tmp", (int)getpid(),
		 name);
}

START_TEST(a_replay_of_the_trace_finds_the_truth)
{
	struct make_trace_options options = MAKE_TRACE_DEFAULTS;
	char path[256];

	options.kind = (enum make_trace_kind)(_i % MAKE_TRACE_KIND_COUNT);
	options.seed = (uint64_t)_i + 1;
	options.n_events = 20000;
	options.n_processes = 1 + (uint32_t)_i % 3;
	options.n_threads = 1 + (uint32_t)_i / 4;
	options.n_live = 300;
	options.n_stacks = _i % 2 ? 1 : 50;
	make_path(path, "replay.mst");
	struct make_trace_truth *truth = make(&options, path);
	struct play *play = read_trace(path);
	unlink(path);

	ck_assert_uint_eq(truth->n_events, options.n_events);
	ck_assert_uint_eq(truth->n_samples, options.n_samples);
	ck_assert_uint_eq(play->n_moments, options.n_events + options.n_samples);
	ck_assert_uint_eq(play->n_maps, N_OLD_MAPS * options.n_processes);
	replay(play);
	check_total(play, 0, &truth->heap);
	check_total(play, 1, &truth->mapping);
	for (unsigned i = 0; i < MAKE_TRACE_MAX_OWNERS; i++)
		ck_assert_uint_eq(play->n_of_owner[i], truth->n_samples_of_owner[i]);
	free(play->moments);
	free(play);
	make_trace_truth_free(truth);
}
END_TEST

START_TEST(the_books_of_all_stacks_add_up)
{
	struct make_trace_options options = MAKE_TRACE_DEFAULTS;
	struct make_trace_total sum = { 0 };
	uint64_t n_samples = 0;
	char path[256];

	options.n_stacks = 40;
	make_path(path, "stacks.mst");
	struct make_trace_truth *truth = make(&options, path);
	unlink(path);
	for (unsigned i = 0; i < truth->n_stacks; i++) {
		sum.n_births += truth->stacks[i].heap.n_births;
		sum.live_bytes += truth->stacks[i].heap.live_bytes;
		sum.live_blocks += truth->stacks[i].heap.live_blocks;
		n_samples += truth->stacks[i].n_samples;
	}
	ck_assert_uint_eq(sum.n_births, truth->heap.n_births);
	ck_assert_uint_eq(sum.live_bytes, truth->heap.live_bytes);
	ck_assert_uint_eq(sum.live_blocks, truth->heap.live_blocks);
	ck_assert_uint_eq(n_samples, truth->n_samples_of_owner[OWNER_heap]);
	ck_assert_uint_gt(truth->n_cross_thread_frees, 0);
	ck_assert_uint_gt(truth->n_reused_addresses, 0);
	make_trace_truth_free(truth);
}
END_TEST

static void read_whole(const char *path, char **ret_bytes, size_t *ret_n)
{
	ck_assert_int_eq(io_read_file(path, 64u << 20, ret_bytes, ret_n), 0);
	unlink(path);
}

START_TEST(the_same_options_give_the_same_bytes_and_another_seed_does_not)
{
	struct make_trace_options options = MAKE_TRACE_DEFAULTS;
	char *bytes[3], path[256];
	size_t n[3];

	make_path(path, "same.mst");
	for (unsigned i = 0; i < 3; i++) {
		options.seed = i == 2 ? 2 : 1;
		make_trace_truth_free(make(&options, path));
		read_whole(path, &bytes[i], &n[i]);
	}
	ck_assert_uint_eq(n[0], n[1]);
	ck_assert_mem_eq(bytes[0], bytes[1], n[0]);
	ck_assert(n[2] != n[0] || memcmp(bytes[2], bytes[0], n[0]) != 0);
	for (unsigned i = 0; i < 3; i++)
		free(bytes[i]);
}
END_TEST

START_TEST(options_out_of_range_are_refused)
{
	struct make_trace_options options = MAKE_TRACE_DEFAULTS;

	if (_i == 0)
		options.n_threads = 0;
	else if (_i == 1)
		options.n_stacks = 0;
	else if (_i == 2)
		options.kind = MAKE_TRACE_KIND_COUNT;
	else
		options.n_processes = 0;
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	ck_assert_int_eq(make_trace(fd, &options, NULL), -EINVAL);
	ck_assert_int_eq(close(fd), -1); /* it was taken over and closed */
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("make-trace");
	TCase *tests = tcase_create("make-trace");

	tcase_add_loop_test(tests, a_replay_of_the_trace_finds_the_truth, 0, 12);
	tcase_add_test(tests, the_books_of_all_stacks_add_up);
	tcase_add_test(tests, the_same_options_give_the_same_bytes_and_another_seed_does_not);
	tcase_add_loop_test(tests, options_out_of_range_are_refused, 0, 4);
	suite_add_tcase(suite, tests);

	return suite_run(suite);
}
