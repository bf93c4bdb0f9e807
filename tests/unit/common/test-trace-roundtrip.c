#include <check.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/common/trace-items.h"
#include "tests/unit/common/trace-random.h"
#include "tests/support/fewer.h"
#include "tests/support/suite.h"
#include "trace/index.h"
#include "trace/records.h"

#define N_STREAMS 5u

static char path[256];

static void set_up(void)
{
	trace_temporary_path(path, "roundtrip.mst");
}

static void tear_down(void)
{
	unlink(path);
}

/* What was given to the writer, or read back, of one (type, stream): its bytes in order. */
struct log {
	uint8_t *bytes;
	size_t n_bytes;
};

struct logs {
	struct log of[256][N_STREAMS];
	struct trace_commit commits[64];
	unsigned n_commits;
};

static void add(struct logs *logs, unsigned type, uint32_t stream_id, const void *bytes,
		size_t n_bytes)
{
	ck_assert_uint_lt(stream_id, N_STREAMS);
	struct log *log = &logs->of[type][stream_id];

	log->bytes = realloc(log->bytes, log->n_bytes + n_bytes + 1);
	ck_assert_ptr_nonnull(log->bytes);
	memcpy(log->bytes + log->n_bytes, bytes, n_bytes);
	log->n_bytes += n_bytes;
}

static void free_logs(struct logs *logs)
{
	for (unsigned i = 0; i < 256; i++) {
		for (unsigned j = 0; j < N_STREAMS; j++)
			free(logs->of[i][j].bytes);
	}
	free(logs);
}

static void give_event(struct trace_writer *writer, struct trace_random *random, struct logs *logs)
{
	uint32_t stream_id = trace_random_below(random, N_STREAMS);
	struct trace_event event = trace_random_event(random);

	ck_assert_int_eq(trace_writer_event(writer, stream_id, &event), 0);
	add(logs, TRACE_FRAME_EVENTS, stream_id, &event, sizeof(event));
}

static void give_node(struct trace_writer *writer, struct trace_random *random, struct logs *logs)
{
	uint32_t stream_id = trace_random_below(random, N_STREAMS);
	struct trace_node node = { (uint32_t)trace_random_number(random),
				   (uint32_t)trace_random_number(random),
				   trace_random_number(random) };

	ck_assert_int_eq(trace_writer_node(writer, stream_id, &node), 0);
	add(logs, TRACE_FRAME_NODES, stream_id, &node, sizeof(node));
}

static void give_perf(struct trace_writer *writer, struct trace_random *random, struct logs *logs)
{
	uint64_t records[20];
	uint32_t stream_id = trace_random_below(random, N_STREAMS);
	size_t n_bytes = 8 * (size_t)trace_random_below(random, 21);

	for (unsigned i = 0; i < 20; i++)
		records[i] = trace_random_number(random);
	ck_assert_int_eq(trace_writer_perf(writer, stream_id, records, n_bytes, 1), 0);
	add(logs, TRACE_FRAME_PERF, stream_id, records, n_bytes);
}

static void give_accesses(struct trace_writer *writer, struct trace_random *random,
			  struct logs *logs)
{
	struct trace_access accesses[3] = { { .raw_ns = trace_random_bits(random) },
					    { .address = trace_random_bits(random) },
					    { .share = 0.25f, .is_write = 1 } };
	uint32_t stream_id = trace_random_below(random, N_STREAMS);
	size_t n = trace_random_below(random, 4);

	ck_assert_int_eq(trace_writer_accesses(writer, stream_id, accesses, n), 0);
	add(logs, TRACE_FRAME_ACCESSES, stream_id, accesses, n * sizeof(accesses[0]));
}

static void give_code(struct trace_writer *writer, struct trace_random *random, struct logs *logs)
{
	uint8_t bytes[5000];
	uint32_t stream_id = trace_random_below(random, N_STREAMS);
	struct trace_code code = { .address = trace_random_number(random),
				   .ticks = trace_random_number(random),
				   .n_bytes = 1 + trace_random_below(random, sizeof(bytes)) };

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * i >> 4);
	ck_assert_int_eq(trace_writer_code(writer, stream_id, &code, bytes), 0);
	add(logs, TRACE_FRAME_CODE, stream_id, &code, sizeof(code));
	add(logs, TRACE_FRAME_CODE, stream_id, bytes, code.n_bytes);
}

/* Larger than a frame now and then: the pieces together are what was given. */
static void give_aux(struct trace_writer *writer, struct trace_random *random, struct logs *logs)
{
	static uint8_t bytes[(2u << 20) + 100];
	uint32_t stream_id = trace_random_below(random, N_STREAMS);
	struct trace_aux aux = { .raw_ns = trace_random_number(random),
				 .offset = trace_random_number(random) >> 1,
				 .flags = 1 + trace_random_below(random, 15),
				 .cpu = trace_random_below(random, 64),
				 .n_bytes = trace_random_below(random, 100) == 0
						    ? sizeof(bytes)
						    : 1 + trace_random_below(random, 5000) };

	for (unsigned i = 0; i < aux.n_bytes; i++)
		bytes[i] = (uint8_t)(i * i >> 4);
	ck_assert_int_eq(trace_writer_aux(writer, stream_id, &aux, bytes), 0);
	for (uint32_t at = 0; at < aux.n_bytes; at += 1u << 20) {
		struct trace_aux piece = aux;

		piece.offset += at;
		piece.flags = at == 0 ? aux.flags : 0;
		piece.n_bytes = aux.n_bytes - at < 1u << 20 ? aux.n_bytes - at : 1u << 20;
		add(logs, TRACE_FRAME_AUX, stream_id, &piece, sizeof(piece));
		add(logs, TRACE_FRAME_AUX, stream_id, bytes + at, piece.n_bytes);
	}
}

/* A FACT: what its struct and its strings say must come back. */
static void give_record(struct trace_writer *writer, struct trace_random *random, struct logs *logs)
{
	char text[300];
	struct trace_string strings[2] = { { text, trace_random_below(random, 300) },
					   { text + 1, trace_random_below(random, 299) } };
	struct trace_fact fact = { .head.type = TRACE_RECORD_FACT,
				   .ticks = trace_random_number(random),
				   .key_bytes = strings[0].n_bytes,
				   .value_bytes = strings[1].n_bytes };

	for (unsigned i = 0; i < sizeof(text); i++)
		text[i] = (char)trace_random_bits(random);
	ck_assert_int_eq(trace_writer_record(writer, &fact, sizeof(fact), strings, 2), 0);
	add(logs, TRACE_FRAME_RECORDS, 0, &fact.ticks, sizeof(fact.ticks));
	add(logs, TRACE_FRAME_RECORDS, 0, strings[0].bytes, strings[0].n_bytes);
	add(logs, TRACE_FRAME_RECORDS, 0, strings[1].bytes, strings[1].n_bytes);
}

static void give_commit(struct trace_writer *writer, struct trace_random *random, struct logs *logs)
{
	struct trace_commit commit = { trace_random_bits(random), trace_random_bits(random) };

	if (logs->n_commits == 60 || trace_random_below(random, 30) > 0)
		return;
	ck_assert_int_eq(trace_writer_commit(writer, &commit, NULL), 0);
	ck_assert_uint_eq(trace_writer_pending_bytes(writer), 0);
	logs->commits[logs->n_commits++] = commit;
}

static void (*const givers[])(struct trace_writer *writer, struct trace_random *random,
			      struct logs *logs) = {
	give_event, give_event,	 give_event,	give_event, give_node,	 give_perf,
	give_code,  give_record, give_accesses, give_aux,   give_commit,
};

#define N_GIVERS (sizeof(givers) / sizeof(givers[0]))

static struct logs *write_random(uint64_t seed, unsigned n)
{
	struct trace_random random = { seed };
	struct trace_writer *writer = trace_create_writer(path);
	struct logs *logs = calloc(1, sizeof(*logs));
	struct trace_commit last = { 77, 88 };

	ck_assert_ptr_nonnull(logs);
	for (unsigned i = 0; i < n; i++)
		givers[trace_random_below(&random, N_GIVERS)](writer, &random, logs);
	ck_assert_int_eq(trace_writer_finish(writer, &last), 0);
	logs->commits[logs->n_commits++] = last;
	trace_writer_close(writer);
	return logs;
}

static void take_records(struct logs *logs, const struct trace_item *item)
{
	const struct trace_record *record = NULL;
	size_t n = 0;

	while ((record = trace_record_next(item, record))) {
		const struct trace_fact *fact = (const void *)record;
		ck_assert_uint_eq(record->type, TRACE_RECORD_FACT);
		add(logs, TRACE_FRAME_RECORDS, 0, &fact->ticks, sizeof(fact->ticks));
		for (unsigned i = 0; i < 2; i++) {
			size_t n_bytes;
			const char *string = trace_record_string(record, i, &n_bytes);
			add(logs, TRACE_FRAME_RECORDS, 0, string, n_bytes);
		}
		n++;
	}
	ck_assert_uint_eq(n, item->n);
}

static void take(struct logs *logs, const struct trace_item *item)
{
	size_t n_bytes;
	const void *bytes = trace_item_bytes(item, &n_bytes);

	if (item->type == TRACE_FRAME_RECORDS)
		take_records(logs, item);
	else if (item->type == TRACE_FRAME_COMMIT)
		logs->commits[logs->n_commits++] = *item->commit;
	else
		add(logs, item->type, item->stream_id, bytes, n_bytes);
}

static bool is_definition(enum trace_frame_type type)
{
	return type == TRACE_FRAME_RECORDS || type == TRACE_FRAME_NODES || type == TRACE_FRAME_CODE;
}

/* Reads all, and checks that no segment has a definition behind an event or a sample. */
static struct logs *read_all(void)
{
	struct logs *logs = calloc(1, sizeof(*logs));
	struct trace_reader *reader;
	struct trace_item item;
	bool had_data = false;

	ck_assert_ptr_nonnull(logs);
	ck_assert_int_eq(trace_reader_open(path, &reader), 0);
	while (trace_reader_next(reader, &item) == 1) {
		ck_assert(!had_data || !is_definition(item.type));
		had_data = item.type != TRACE_FRAME_COMMIT && !is_definition(item.type);
		take(logs, &item);
	}
	static const struct trace_damage clean = { .committed_ticks = 77, .ended = true };
	ck_assert_mem_eq(trace_reader_damage(reader), &clean, sizeof(clean));
	trace_reader_close(reader);
	return logs;
}

START_TEST(whatever_was_written_comes_back_in_order)
{
	struct logs *given = write_random((uint64_t)_i + 1, _i == 0 ? 0 : 3000);
	struct logs *found = read_all();

	ck_assert_uint_eq(found->n_commits, given->n_commits);
	ck_assert_mem_eq(found->commits, given->commits, sizeof(given->commits));
	for (unsigned type = 0; type < 256; type++) {
		for (unsigned j = 0; j < N_STREAMS; j++) {
			struct log *a = &given->of[type][j], *b = &found->of[type][j];
			ck_assert_uint_eq(a->n_bytes, b->n_bytes);
			if (a->n_bytes > 0)
				ck_assert_mem_eq(a->bytes, b->bytes, a->n_bytes);
		}
	}
	free_logs(given);
	free_logs(found);
}
END_TEST

/* What the index says, and that reading it leaves no trace. */
static void check_count(bool is_there, uint64_t n_events, uint64_t n_samples)
{
	uint64_t n_told_events = 1, n_told_samples = 1;
	struct trace_reader *reader;

	ck_assert_int_eq(trace_reader_open(path, &reader), 0);
	ck_assert(trace_reader_count(reader, &n_told_events, &n_told_samples) == is_there);
	ck_assert_uint_eq(n_told_events, n_events);
	ck_assert_uint_eq(n_told_samples, n_samples);
	ck_assert_uint_eq(trace_reader_offset(reader), sizeof(struct trace_file_header));
	ck_assert(!trace_reader_damage(reader)->ended);
	trace_reader_close(reader);
}

START_TEST(a_segment_of_many_frames_of_each_type_comes_back)
{
	enum { N = 100000 };
	struct trace_writer *writer = trace_create_writer(path);
	struct trace_commit commit = { 1, 1 };
	uint64_t n_events = 0, n_nodes = 0, n_accesses = 0, n_perf_bytes = 0;
	static struct trace_access accesses[40000];
	struct trace_items items;

	for (uint32_t i = 0; i < N; i++) {
		struct trace_event event = { .op = TRACE_OP_FREE, .ticks = i, .begin_ticks = i };
		struct trace_node node = { i, 0, i };
		uint64_t perf[6] = { i };
		int r = trace_writer_event(writer, 1, &event);
		if (r == 0)
			r = trace_writer_node(writer, 1, &node);
		if (r == 0)
			r = trace_writer_perf(writer, 1, perf, sizeof(perf), 1);
		if (r < 0)
			ck_abort_msg("item %u: %d", i, r);
	}
	ck_assert_int_eq(trace_writer_accesses(writer, 1, accesses, 40000), 0);
	ck_assert_int_eq(trace_writer_finish(writer, &commit), 0);
	ck_assert_uint_eq(trace_writer_totals(writer)->n_events, N);
	ck_assert_uint_eq(trace_writer_totals(writer)->n_samples, N + 40000);
	ck_assert_uint_eq(trace_writer_totals(writer)->n_segments, 1);
	trace_writer_close(writer);

	check_count(true, N, N + 40000);
	items = trace_read_items(path);
	ck_assert(items.damage.ended);
	for (size_t i = 0; i < items.n; i++) {
		size_t n = items.kept[i].n;
		n_events += items.kept[i].type == TRACE_FRAME_EVENTS ? n : 0;
		n_nodes += items.kept[i].type == TRACE_FRAME_NODES ? n : 0;
		n_accesses += items.kept[i].type == TRACE_FRAME_ACCESSES ? n : 0;
		n_perf_bytes += items.kept[i].type == TRACE_FRAME_PERF ? n : 0;
	}
	ck_assert_uint_eq(n_events, N);
	ck_assert_uint_eq(n_nodes, N);
	ck_assert_uint_eq(n_accesses, 40000);
	ck_assert_uint_eq(n_perf_bytes, N * 48);
	trace_items_finish(&items);
}
END_TEST

START_TEST(what_was_committed_is_there_without_an_end)
{
	struct trace_writer *writer = trace_create_writer(path);
	struct trace_event event = { .op = TRACE_OP_ALLOC, .ticks = 5, .begin_ticks = 5 };
	struct trace_commit commit = { 6, 7 };

	ck_assert_int_eq(trace_writer_event(writer, 1, &event), 0);
	ck_assert_int_eq(trace_writer_commit(writer, &commit, NULL), 0);
	ck_assert_int_eq(trace_writer_event(writer, 1, &event), 0); /* never committed */
	trace_writer_close(writer);

	check_count(false, 0, 0);
	struct trace_items items = trace_read_items(path);
	ck_assert_int_eq(items.result, 0);
	ck_assert_uint_eq(items.n, 2);
	ck_assert_uint_eq(items.kept[0].n, 1);
	ck_assert_uint_eq(items.damage.committed_ticks, 6);
	ck_assert(!items.damage.ended);
	trace_items_finish(&items);
}
END_TEST

/* 20,000 threads that each make one event, and are then idle. */
START_TEST(idle_streams_cost_nothing_and_slow_ones_little)
{
	enum { N = 20000 };
	struct trace_writer *writer = trace_create_writer(path);
	struct trace_event event = { .op = TRACE_OP_FREE, .ticks = 5, .begin_ticks = 5 };
	struct trace_commit commit = { 6, 7 };

	/* A first segment, so that zstd and the outputs have grown. */
	for (unsigned round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < N; i++) {
			if (trace_writer_event(writer, i, &event) < 0)
				ck_abort_msg("event of thread %u", i);
		}
		if (round == 0) {
			size_t busy = mallinfo2().uordblks;
			ck_assert_int_eq(trace_writer_commit(writer, &commit, NULL), 0);
			ck_assert_uint_lt(busy, (size_t)N * 4096);
		}
	}
	ck_assert_int_eq(trace_writer_commit(writer, &commit, NULL), 0);
	ck_assert_int_eq(trace_writer_commit(writer, &commit, NULL), 0); /* all are idle here */
	size_t before = mallinfo2().uordblks;
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(trace_writer_commit(writer, &commit, NULL), 0);
	ck_assert_uint_le(mallinfo2().uordblks, before);
	ck_assert_uint_lt(before, 16u << 20); /* zstd and one segment's output */
	trace_writer_close(writer);
}
END_TEST

START_TEST(a_record_that_does_not_fit_its_type_is_refused)
{
	struct trace_writer *writer = trace_create_writer(path);
	struct trace_fact fact = { .head.type = TRACE_RECORD_FACT };
	struct trace_string strings[] = { { "key", 3 }, { "v", 1 } };
	size_t n = sizeof(fact);

	ck_assert_int_eq(trace_writer_record(writer, &fact, n, strings, 2), 0);
	ck_assert_int_eq(trace_writer_record(writer, &fact, n - 8, strings, 2), -EINVAL);
	ck_assert_int_eq(trace_writer_record(writer, &fact, n, strings, 1), -EINVAL);
	ck_assert_int_eq(trace_writer_record(writer, &fact, 4, strings, 2), -EINVAL);
	trace_writer_close(writer);
}
END_TEST

START_TEST(what_no_frame_can_hold_is_refused)
{
	struct trace_writer *writer = trace_create_writer(path);
	struct trace_event event = { .op = TRACE_OP_NONE };
	uint64_t record[6] = { 0 };

	ck_assert_int_eq(trace_writer_event(writer, 1, &event), -EINVAL);
	event.op = 16;
	ck_assert_int_eq(trace_writer_event(writer, 1, &event), -EINVAL);
	ck_assert_int_eq(trace_writer_perf(writer, 1, record, TRACE_FRAME_MAX_BYTES + 1, 1),
			 -EMSGSIZE);
	ck_assert_uint_eq(trace_writer_pending_bytes(writer), 0);
	trace_writer_close(writer);
}
END_TEST

START_TEST(every_known_record_type_has_a_shape_that_fits_its_struct)
{
	unsigned n_known = 0;

	for (unsigned type = 0; type < 0x200; type++) {
		const struct trace_record_shape *shape = trace_record_shape(type);
		if (!shape)
			continue;
		n_known++;
		ck_assert_uint_eq(shape->struct_bytes % 8,
				  0); /* strings and records stay aligned */
		for (unsigned i = 0; i < shape->n_strings; i++) {
			ck_assert_uint_ge(shape->length_offset[i], sizeof(struct trace_record));
			ck_assert_uint_le(shape->length_offset[i] + 4u, shape->struct_bytes);
			if (i > 0) /* in the struct's order */
				ck_assert_uint_gt(shape->length_offset[i],
						  shape->length_offset[i - 1]);
		}
	}
	ck_assert_uint_eq(n_known, 33);
}
END_TEST

static void give_segment(struct trace_writer *writer, uint64_t ticks)
{
	const struct trace_event event = { .op = TRACE_OP_ALLOC, .ticks = ticks, .size = ticks };
	const struct trace_commit commit = { .ticks = ticks + 1 };

	ck_assert_int_eq(trace_writer_event(writer, 1, &event), 0);
	ck_assert_int_eq(trace_writer_commit(writer, &commit, NULL), 0);
}

START_TEST(a_branch_is_the_trace_so_far_with_an_end_of_its_own)
{
	struct trace_writer *writer = trace_create_writer(path), *branch = NULL;
	struct trace_clock clock = { .head.type = TRACE_RECORD_CLOCK };
	const struct trace_commit end = { .ticks = 9 };
	char other[256];
	size_t n_before, n_after;

	trace_temporary_path(other, "branch.mst");
	for (uint64_t ticks = 1; ticks <= 3; ticks++)
		give_segment(writer, ticks);
	ck_assert_int_eq(trace_writer_branch(writer, trace_create(other), &branch), 0);
	ck_assert_int_eq(trace_writer_record(branch, &clock, sizeof(clock), NULL, 0), 0);
	ck_assert_int_eq(trace_writer_finish(branch, &end), 0);
	trace_writer_close(branch);
	uint8_t *before = trace_get_file(path, &n_before);
	uint8_t *after = trace_get_file(other, &n_after);
	ck_assert_uint_eq(trace_writer_file_bytes(writer), n_before);
	ck_assert_uint_gt(n_after, n_before);
	memcpy(after, before, n_before);
	trace_put_file(other, after, n_after);
	give_segment(writer, 4); /* the first one goes on */
	ck_assert_int_eq(trace_writer_finish(writer, &end), 0);
	trace_writer_close(writer);

	struct trace_items first = trace_read_items(path), second = trace_read_items(other);
	ck_assert(first.damage.ended && second.damage.ended);
	ck_assert_uint_eq(second.damage.committed_ticks, 9);
	ck_assert_uint_eq(first.n, 9); /* four segments of two, and the last COMMIT */
	ck_assert_uint_eq(second.n, 8);
	for (size_t i = 0; i < 6; i++) /* events and COMMIT of three segments */
		ck_assert(trace_kept_equal(&first.kept[i], &second.kept[i]));
	ck_assert_int_eq(first.kept[6].type, TRACE_FRAME_EVENTS);
	ck_assert_int_eq(second.kept[6].type, TRACE_FRAME_RECORDS);
	trace_items_finish(&first);
	trace_items_finish(&second);
	free(before);
	free(after);
	unlink(other);
}
END_TEST

/* The segment whose number is `i` lies at i, ends at i + 1 and has i events. */
static void add_segments(struct trace_index *index, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		const struct trace_index_entry segment = { i, i + 1, i, 1 };

		ck_assert_int_eq(trace_index_reserve(index), 0);
		trace_index_add(index, &segment);
	}
}

static const uint64_t n_segments[] = {
	1,
	TRACE_INDEX_MAX_ENTRIES,
	TRACE_INDEX_MAX_ENTRIES + 1,
	2 * TRACE_INDEX_MAX_ENTRIES,
	5 * TRACE_INDEX_MAX_ENTRIES + 3,
};

START_TEST(an_index_that_is_full_still_covers_every_segment_once)
{
	struct trace_index index = { 0 };
	uint64_t n = n_segments[_i], next = 0, n_events = 0, n_samples = 0;

	add_segments(&index, n);
	ck_assert_uint_le(index.n_entries, TRACE_INDEX_MAX_ENTRIES);
	for (uint32_t i = 0; i < index.n_entries; i++) {
		ck_assert_uint_eq(index.entries[i].offset, next);
		next = index.entries[i].commit_ticks;
		n_events += index.entries[i].n_events;
		n_samples += index.entries[i].n_samples;
	}
	ck_assert_uint_eq(next, n);
	ck_assert_uint_eq(n_events, n * (n - 1) / 2);
	ck_assert_uint_eq(n_samples, n);
	trace_index_finish(&index);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("trace-roundtrip");
	TCase *tests = tcase_create("roundtrip");

	tcase_set_timeout(tests, 120);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_loop_test(tests, whatever_was_written_comes_back_in_order, 0, fewer(20));
	tcase_add_test(tests, a_segment_of_many_frames_of_each_type_comes_back);
	tcase_add_test(tests, what_was_committed_is_there_without_an_end);
	tcase_add_test(tests, idle_streams_cost_nothing_and_slow_ones_little);
	tcase_add_test(tests, a_record_that_does_not_fit_its_type_is_refused);
	tcase_add_test(tests, what_no_frame_can_hold_is_refused);
	tcase_add_test(tests, a_branch_is_the_trace_so_far_with_an_end_of_its_own);
	tcase_add_test(tests, every_known_record_type_has_a_shape_that_fits_its_struct);
	tcase_add_loop_test(tests, an_index_that_is_full_still_covers_every_segment_once, 0,
			    sizeof(n_segments) / sizeof(n_segments[0]));
	suite_add_tcase(suite, tests);

	return suite_run(suite);
}
