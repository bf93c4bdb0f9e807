#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "tests/unit/common/trace-items.h"
#include "tests/support/fewer.h"
#include "tests/support/suite.h"
#include "trace/columns.h"
#include "trace/frame.h"

/* A file made by hand, as newer writers, broken ones and enemies might. */
static char path[256];
static uint8_t file[1u << 20];
static size_t n_file;

static void put(const void *bytes, size_t n_bytes)
{
	ck_assert_uint_le(n_file + n_bytes, sizeof(file));
	memcpy(file + n_file, bytes, n_bytes);
	n_file += n_bytes;
}

static void put_header(uint16_t major, uint16_t minor, uint32_t header_bytes)
{
	struct trace_file_header header = { .magic = TRACE_FILE_MAGIC,
					    .version_major = major,
					    .version_minor = minor,
					    .header_bytes = header_bytes };
	static const uint8_t more[64];

	n_file = 0;
	header.checksum = trace_header_checksum(&header);
	put(&header, sizeof(header));
	put(more, header_bytes - sizeof(header));
}

/* A frame with good checksums; head has type, flags, raw_bytes (0: as stored) and n_items. */
static void put_frame(struct trace_frame head, const void *body, size_t n_bytes)
{
	static const uint8_t zeros[8];

	head.body_bytes = (uint32_t)n_bytes;
	if (head.raw_bytes == 0)
		head.raw_bytes = head.body_bytes;
	trace_frame_seal(&head, body);
	put(&head, sizeof(head));
	put(body, n_bytes);
	put(zeros, trace_padded(n_bytes) - n_bytes);
}

static void put_commit(void)
{
	const struct trace_commit commit = { 42, 43 };

	put_frame((struct trace_frame){ .type = TRACE_FRAME_COMMIT, .n_items = 1 }, &commit,
		  sizeof(commit));
}

static struct trace_items read_file(void)
{
	trace_put_file(path, file, n_file);
	return trace_read_items(path);
}

static void set_up(void)
{
	trace_temporary_path(path, "versions.mst");
	put_header(TRACE_VERSION_MAJOR, TRACE_VERSION_MINOR, sizeof(struct trace_file_header));
}

static void tear_down(void)
{
	unlink(path);
}

START_TEST(a_newer_major_version_is_refused)
{
	put_header(TRACE_VERSION_MAJOR + 1, 0, sizeof(struct trace_file_header));
	put_commit();
	ck_assert_int_eq(read_file().result, -EPROTOTYPE);
}
END_TEST

START_TEST(an_older_minor_version_is_refused_and_named)
{
	unsigned major = 0, minor = 0;

	put_header(TRACE_VERSION_MAJOR, TRACE_VERSION_MINOR - 1, sizeof(struct trace_file_header));
	put_commit();
	ck_assert_int_eq(read_file().result, -EPROTOTYPE);
	ck_assert_int_eq(trace_reader_version(path, &major, &minor), 0);
	ck_assert_uint_eq(major, TRACE_VERSION_MAJOR);
	ck_assert_uint_eq(minor, TRACE_VERSION_MINOR - 1);
	ck_assert_int_eq(trace_reader_version("/dev/null", &major, &minor), -EBADMSG);
}
END_TEST

START_TEST(a_newer_minor_version_with_a_longer_header_is_read)
{
	put_header(TRACE_VERSION_MAJOR, TRACE_VERSION_MINOR + 1, 128);
	put_commit();
	struct trace_items items = read_file();
	ck_assert_uint_eq(items.n, 1);
	ck_assert_uint_eq(items.damage.committed_ticks, 42);
	ck_assert_uint_eq(items.damage.n_skipped_bytes, 0);
	trace_items_finish(&items);
}
END_TEST

START_TEST(unknown_frames_and_flags_are_stepped_over_and_counted)
{
	put_frame((struct trace_frame){ .type = 0x77, .n_items = 3 }, "news", 4);
	put_frame((struct trace_frame){ .type = TRACE_FRAME_PERF, .flags = 0x8000 }, "12345678", 8);
	put_commit();
	struct trace_items items = read_file();
	ck_assert_uint_eq(items.n, 1);
	ck_assert_int_eq(items.kept[0].type, TRACE_FRAME_COMMIT);
	ck_assert_uint_eq(items.damage.n_unknown_frames, 2);
	ck_assert_uint_eq(items.damage.n_damaged_frames, 0);
	trace_items_finish(&items);
}
END_TEST

/* A THREAD_END of a newer writer (16 bytes longer), an unknown record, and a FACT. */
START_TEST(unknown_records_are_stepped_over_and_longer_structs_read)
{
	struct {
		struct trace_thread_end end;
		uint64_t added[2];
		struct trace_record unknown;
		uint64_t its[3];
		struct trace_fact fact;
		char strings[8];
	} body = {
		.end = { .head = { TRACE_RECORD_THREAD_END, sizeof(body.end) + 16,
				   sizeof(body.end) + 16 },
			 .thread_id = 9,
			 .ticks = 99 },
		.unknown = { 0x1234, 8, 32 },
		.fact = { .head = { TRACE_RECORD_FACT, sizeof(body.fact), sizeof(body.fact) + 8 },
			  .key_bytes = 3,
			  .value_bytes = 4 },
		.strings = "keyval!",
	};
	const struct trace_record *record;
	struct trace_reader *reader;
	struct trace_item item;
	size_t n_bytes;

	put_frame((struct trace_frame){ .type = TRACE_FRAME_RECORDS, .n_items = 3 }, &body,
		  sizeof(body));
	trace_put_file(path, file, n_file);
	ck_assert_int_eq(trace_reader_open(path, &reader), 0);
	ck_assert_int_eq(trace_reader_next(reader, &item), 1);
	ck_assert_uint_eq(item.n, 2);
	record = trace_record_next(&item, NULL);
	ck_assert_uint_eq(record->type, TRACE_RECORD_THREAD_END);
	ck_assert_uint_eq(((const struct trace_thread_end *)record)->ticks, 99);
	record = trace_record_next(&item, record);
	ck_assert_uint_eq(record->type, TRACE_RECORD_FACT);
	const char *value = trace_record_string(record, 1, &n_bytes);
	ck_assert_uint_eq(n_bytes, 4);
	ck_assert_mem_eq(value, "val!", 4);
	trace_record_string(record, 2, &n_bytes);
	ck_assert_uint_eq(n_bytes, 0);
	ck_assert_ptr_null(trace_record_next(&item, record));
	ck_assert_uint_eq(trace_reader_damage(reader)->n_unknown_records, 1);
	trace_reader_close(reader);
}
END_TEST

START_TEST(longer_nodes_are_read_by_their_beginning)
{
	const struct {
		struct trace_node node;
		uint64_t added;
	} nodes[3] = { { { 1, 0, 10 }, 7 }, { { 2, 1, 20 }, 7 }, { { 3, 2, 30 }, 7 } };
	struct trace_reader *reader;
	struct trace_item item;

	put_frame((struct trace_frame){ .type = TRACE_FRAME_NODES, .n_items = 3 }, nodes,
		  sizeof(nodes));
	trace_put_file(path, file, n_file);
	ck_assert_int_eq(trace_reader_open(path, &reader), 0);
	ck_assert_int_eq(trace_reader_next(reader, &item), 1);
	ck_assert_uint_eq(item.n, 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_mem_eq(&item.nodes[i], &nodes[i].node, sizeof(struct trace_node));
	trace_reader_close(reader);
}
END_TEST

/* Event columns made by hand: an unknown op and a field that only a newer version knows. */
START_TEST(an_event_with_unknown_fields_is_read_by_the_known_ones)
{
	static const uint8_t columns[] = { 0x0e | TRACE_CONTROL_EXTRA, /* control: op 14 */
					   5, /* ticks */
					   2, /* address: zigzag(1) << 4 */
					   TRACE_EXTRA_LOW | TRACE_EXTRA_MORE,
					   3,
					   2,
					   0xaa,
					   0xbb };
	struct trace_events_head head = { .base_ticks = 100, .n_events = 1 };
	uint8_t body[sizeof(head) + sizeof(columns)];
	struct trace_reader *reader;
	struct trace_item item;

	head.column_bytes[TRACE_COLUMN_CONTROL] = 1;
	head.column_bytes[TRACE_COLUMN_TICKS] = 1;
	head.column_bytes[TRACE_COLUMN_ADDRESS] = 1;
	head.column_bytes[TRACE_COLUMN_EXTRA] = 5;
	memcpy(body, &head, sizeof(head));
	memcpy(body + sizeof(head), columns, sizeof(columns));
	put_frame((struct trace_frame){ .type = TRACE_FRAME_EVENTS, .n_items = 1 }, body,
		  sizeof(body));
	trace_put_file(path, file, n_file);
	ck_assert_int_eq(trace_reader_open(path, &reader), 0);
	ck_assert_int_eq(trace_reader_next(reader, &item), 1);
	ck_assert_uint_eq(item.n, 1);
	ck_assert_uint_eq(item.events[0].op, 14);
	ck_assert_uint_eq(item.events[0].ticks, 105);
	ck_assert_uint_eq(item.events[0].begin_ticks, 105);
	ck_assert_uint_eq(item.events[0].address, 19);
	trace_reader_close(reader);
}
END_TEST

static void check_damaged(void)
{
	put_commit();
	struct trace_items items = read_file();
	ck_assert_int_eq(items.result, 0);
	ck_assert_uint_eq(items.n, 1);
	ck_assert_int_eq(items.kept[0].type, TRACE_FRAME_COMMIT);
	ck_assert_uint_eq(items.damage.n_damaged_frames, 1);
	trace_items_finish(&items);
}

/* 8 MiB of zeros shrink to some 300 bytes. */
START_TEST(a_bomb_is_bounded_by_what_its_head_says)
{
	static uint8_t zeros[8u << 20], packed[4096];
	size_t n_packed = ZSTD_compress(packed, sizeof(packed), zeros, sizeof(zeros), 1);
	struct trace_frame head = { .type = TRACE_FRAME_PERF,
				    .flags = TRACE_FRAME_FLAG_ZSTD,
				    .raw_bytes = 4096 };

	ck_assert(!ZSTD_isError(n_packed));
	put_frame(head, packed, n_packed);
	check_damaged();
}
END_TEST

START_TEST(a_body_over_the_limit_is_no_frame)
{
	struct trace_frame head = { .type = TRACE_FRAME_PERF,
				    .flags = TRACE_FRAME_FLAG_ZSTD,
				    .raw_bytes = TRACE_FRAME_MAX_BYTES + 1 };

	put_frame(head, "12345678", 8);
	put_commit();
	struct trace_items items = read_file();
	ck_assert_uint_eq(items.n, 1);
	ck_assert_uint_eq(items.damage.n_skipped_bytes, sizeof(head) + 8);
	trace_items_finish(&items);
}
END_TEST

/* Bodies with good checksums whose contents lie. */
static const struct {
	uint16_t type;
	uint16_t flags;
	uint32_t raw_bytes;
	uint32_t n_items;
	size_t n_words;
	uint64_t words[8];
} lies[] = {
	{ TRACE_FRAME_NODES, 0, 0, 0, 2, { 1, 2 } }, /* no items in 16 bytes */
	{ TRACE_FRAME_NODES, 0, 0, 3, 5, { 0 } }, /* 40 / 3 */
	{ TRACE_FRAME_NODES, 0, 0, UINT32_MAX, 2, { 0 } },
	{ TRACE_FRAME_ACCESSES, 0, 0, 8, 8, { 0 } }, /* 8 bytes each */
	{ TRACE_FRAME_COMMIT, 0, 0, 1, 1, { 0 } }, /* too short */
	{ TRACE_FRAME_CODE, 0, 0, 1, 2, { 0 } }, /* no room for its head */
	{ TRACE_FRAME_CODE, 0, 0, 1, 6, { 0, 0, 0, 0, 9, 0 } }, /* 9 bytes in 8 */
	{ TRACE_FRAME_CODE, 0, 0, 1, 5, { 0, 0, 0, 0, UINT32_MAX } },
	{ TRACE_FRAME_AUX, 0, 0, 1, 3, { 0 } }, /* no room for its head */
	{ TRACE_FRAME_AUX, 0, 0, 1, 5, { 0, 0, 0, UINT64_C(9) << 32, 0 } }, /* 9 bytes in 8 */
	{ TRACE_FRAME_RECORDS, 0, 0, 1, 1, { 0 } }, /* a record of 0 bytes */
	{ TRACE_FRAME_RECORDS, 0, 0, 1, 1, { UINT64_C(16) << 32 | 8 << 16 } }, /* behind the end */
	{ TRACE_FRAME_RECORDS, 0, 0, 1, 1, { UINT64_C(4) << 32 | 8 << 16 } }, /* not a multiple */
	{ TRACE_FRAME_RECORDS,
	  0,
	  0,
	  1,
	  2,
	  { UINT64_C(16) << 32 | 24 << 16 } }, /* struct too long */
	{ TRACE_FRAME_RECORDS, 0, 0, 2, 1, { UINT64_C(8) << 32 | 8 << 16 } }, /* one, not two */
	{ TRACE_FRAME_RECORDS,
	  0,
	  0,
	  1,
	  2,
	  { UINT64_C(16) << 32 | 16 << 16 |
	    TRACE_RECORD_THREAD_END } }, /* shorter than its struct */
	{ TRACE_FRAME_RECORDS,
	  0,
	  0,
	  1,
	  4,
	  { UINT64_C(32) << 32 | 32 << 16 | TRACE_RECORD_FACT, 0, UINT64_C(0xffffffff) << 32, 1 } },
	{ TRACE_FRAME_EVENTS, 0, 0, 1, 1, { 0 } }, /* no room for its head */
	{ TRACE_FRAME_EVENTS, 0, 0, 1, 5, { 0, 1, 0, 0, 0 } }, /* 1 event, no control bytes */
	{ TRACE_FRAME_EVENTS, 0, 0, 5, 5, { 0, 0, 0, 0, 0 } }, /* 5 items, 0 events */
	{ TRACE_FRAME_EVENTS, 0, 0, 1, 6, { 0, UINT64_C(8) << 32 | 8, 0, 0, 0, 0 } },
	{ TRACE_FRAME_PERF, TRACE_FRAME_FLAG_ZSTD, 64, 1, 2, { 1, 2 } }, /* not zstd */
	{ TRACE_FRAME_PERF, 0, 64, 1, 2, { 1, 2 } }, /* two sizes */
};

START_TEST(a_body_that_lies_is_damage)
{
	struct trace_frame head = { .type = lies[_i].type,
				    .flags = lies[_i].flags,
				    .raw_bytes = lies[_i].raw_bytes,
				    .n_items = lies[_i].n_items };

	put_frame(head, lies[_i].words, 8 * lies[_i].n_words);
	check_damaged();
}
END_TEST

/* Found by the fuzzer: nothing had been allocated for a body of 0 bytes. */
START_TEST(an_empty_body_at_the_start_is_read)
{
	put_frame((struct trace_frame){ .type = TRACE_FRAME_PERF }, "", 0);
	put_frame((struct trace_frame){ .type = TRACE_FRAME_RECORDS }, "", 0);
	put_commit();
	struct trace_items items = read_file();
	ck_assert_int_eq(items.result, 0);
	ck_assert_uint_eq(items.n, 3);
	ck_assert_uint_eq(items.damage.n_damaged_frames, 0);
	trace_items_finish(&items);
}
END_TEST

/* Heads that claim 16 MiB each, in a row: must not be read 16 MiB at a time for each. */
START_TEST(many_heads_of_large_bodies_do_not_take_for_ever)
{
	for (unsigned i = 0; i < (unsigned)fewer(30000); i++) {
		struct trace_frame head = { .type = TRACE_FRAME_PERF,
					    .body_bytes = 512u << 10,
					    .raw_bytes = 512u << 10 };
		trace_frame_seal(&head, file); /* the body's checksum is wrong later */
		put(&head, sizeof(head));
	}
	struct trace_items items = read_file();
	ck_assert_int_eq(items.result, 0);
	ck_assert_uint_eq(items.n, 0);
	ck_assert_uint_gt(items.damage.n_damaged_frames, 0);
	trace_items_finish(&items);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("trace-versions");
	TCase *tests = tcase_create("versions");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, a_newer_major_version_is_refused);
	tcase_add_test(tests, an_older_minor_version_is_refused_and_named);
	tcase_add_test(tests, a_newer_minor_version_with_a_longer_header_is_read);
	tcase_add_test(tests, unknown_frames_and_flags_are_stepped_over_and_counted);
	tcase_add_test(tests, unknown_records_are_stepped_over_and_longer_structs_read);
	tcase_add_test(tests, longer_nodes_are_read_by_their_beginning);
	tcase_add_test(tests, an_event_with_unknown_fields_is_read_by_the_known_ones);
	tcase_add_test(tests, a_bomb_is_bounded_by_what_its_head_says);
	tcase_add_test(tests, a_body_over_the_limit_is_no_frame);
	tcase_add_loop_test(tests, a_body_that_lies_is_damage, 0, sizeof(lies) / sizeof(lies[0]));
	tcase_add_test(tests, an_empty_body_at_the_start_is_read);
	tcase_add_test(tests, many_heads_of_large_bodies_do_not_take_for_ever);
	suite_add_tcase(suite, tests);

	return suite_run(suite);
}
