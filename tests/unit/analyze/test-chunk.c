#include "store/columns/column.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/axis.h"
#include "store/columns/encoding.h"
#include "store/compact/frames.h"
#include "tests/unit/common/trace-random.h"
#include "tests/support/suite.h"

static struct chunk_encoder *encoder;
static struct chunk_decoder *decoder;
static int64_t values[CHUNK_ROWS];
static int64_t others[CHUNK_ROWS];
static int64_t found[CHUNK_FRAME_ROWS];

static void set_up(void)
{
	encoder = chunk_encoder_open();
	decoder = chunk_decoder_open();
	ck_assert_ptr_nonnull(encoder);
	ck_assert_ptr_nonnull(decoder);
}

static void tear_down(void)
{
	chunk_encoder_close(encoder);
	chunk_decoder_close(decoder);
}

/* ---- What columns may hold ---- */

static int64_t constant(struct trace_random *random, uint32_t i)
{
	(void)random;
	(void)i;
	return -77;
}

static int64_t counting(struct trace_random *random, uint32_t i)
{
	(void)random;
	return INT64_C(5000000000) + 3 * (int64_t)i;
}

static int64_t anything(struct trace_random *random, uint32_t i)
{
	(void)i;
	return (int64_t)trace_random_bits(random);
}

static int64_t few(struct trace_random *random, uint32_t i)
{
	(void)i;
	return (int64_t)(trace_random_below(random, 7) * UINT64_C(0x123456789abcdef));
}

static int64_t addresses(struct trace_random *random, uint32_t i)
{
	(void)i;
	return INT64_C(0x7f0000000000) + 16 * (int64_t)trace_random_below(random, 1u << 24);
}

static int64_t extremes(struct trace_random *random, uint32_t i)
{
	static const int64_t ends[] = {
		INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX
	};

	(void)i;
	return ends[trace_random_below(random, 7)];
}

static int64_t nulls(struct trace_random *random, uint32_t i)
{
	return trace_random_below(random, 3) ? counting(random, i) : CHUNK_NULL;
}

static int64_t only_null(struct trace_random *random, uint32_t i)
{
	(void)random;
	(void)i;
	return CHUNK_NULL;
}

typedef int64_t (*maker)(struct trace_random *random, uint32_t i);
static const maker makers[] = { constant,  counting, anything, few,
				addresses, extremes, nulls,    only_null };
#define N_MAKERS (sizeof(makers) / sizeof(makers[0]))
static const uint32_t lengths[] = { 1, 2, 255, 1025, CHUNK_FRAME_ROWS };
#define N_LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static struct chunk_outline outline_of(const void *bytes, size_t n_bytes)
{
	struct chunk_outline outline;

	ck_assert_int_eq(chunk_column_check(bytes, n_bytes, &outline), 0);
	return outline;
}

/* Encode, decode and compare; the size, or 0 where the plan does not fit. */
static size_t round_trip(const struct chunk_values *column, struct chunk_plan plan)
{
	const struct chunk_wanted wanted = { found, column->others, column->n, NULL, 0 };
	const void *bytes;
	size_t n_bytes;
	bool has_null = false;

	int r = chunk_column_encode(encoder, column, plan, &bytes, &n_bytes);
	if (r == -ERANGE && plan.coding != CHUNK_PLAIN)
		return 0;
	ck_assert_int_eq(r, 0);
	struct chunk_outline outline = outline_of(bytes, n_bytes);
	ck_assert_int_eq(outline.other, plan.coding == CHUNK_RELATIVE ? plan.other : -1);
	ck_assert_uint_eq(outline.n_rows, column->n);
	ck_assert_int_eq(chunk_column_values(decoder, bytes, n_bytes, &wanted), 0);
	ck_assert_mem_eq(found, column->values, column->n * sizeof(*found));
	for (uint32_t i = 0; i < column->n; i++)
		has_null |= column->may_be_null && found[i] == CHUNK_NULL;
	ck_assert_int_eq(outline.has_null, has_null);
	return n_bytes;
}

/* Every maker, as NULL or not, in every length. */
START_TEST(a_column_reads_as_it_was_written)
{
	struct trace_random random = { (uint64_t)_i + 1 };
	struct chunk_values column = { .values = values,
				       .others = others,
				       .n = lengths[(size_t)_i % N_LENGTHS],
				       .may_be_null = (size_t)_i / N_LENGTHS % 2 };
	maker make = makers[(size_t)_i / N_LENGTHS / 2];

	for (uint32_t i = 0; i < column.n; i++) {
		values[i] = make(&random, i);
		others[i] = nulls(&random, i);
	}
	for (int coding = 0; coding < CHUNK_CODING_COUNT; coding++)
		round_trip(&column, (struct chunk_plan){ (enum chunk_coding)coding, 3 });
}
END_TEST

START_TEST(what_is_alike_takes_little)
{
	struct chunk_values column = { .values = values, .n = CHUNK_FRAME_ROWS };

	for (uint32_t i = 0; i < column.n; i++)
		values[i] = counting(NULL, i);
	ck_assert_uint_le(round_trip(&column, (struct chunk_plan){ CHUNK_DELTA, 0 }), 150);
	for (uint32_t i = 0; i < column.n; i++)
		values[i] = -77;
	ck_assert_uint_le(round_trip(&column, (struct chunk_plan){ CHUNK_PLAIN, 0 }), 40);
}
END_TEST

START_TEST(more_rows_than_those_of_a_frame_are_refused)
{
	const struct chunk_values column = { .values = values, .n = CHUNK_FRAME_ROWS + 1 };
	const void *bytes;
	size_t n_bytes;

	ck_assert_int_eq(chunk_column_encode(encoder, &column,
					     (struct chunk_plan){ CHUNK_PLAIN, 0 }, &bytes,
					     &n_bytes),
			 -EINVAL);
}
END_TEST

/* ---- Bytes from anybody ---- */

/*
 * Decode what may be anything: no more is asked than that it ends, with the other column or
 * without.
 */
static int try_bytes(const char *bytes, size_t n_bytes, uint32_t n, const int64_t *other)
{
	char *exact = malloc(n_bytes ? n_bytes : 1); /* a sanitizer sees one byte behind it */
	int64_t *to = calloc(n, sizeof(*to));
	const struct chunk_wanted wanted = { to, other, n, NULL, 0 };

	ck_assert(exact && to);
	memcpy(exact, bytes, n_bytes);
	int r = chunk_column_values(decoder, exact, n_bytes, &wanted);
	ck_assert(r == 0 || r == -EBADMSG);
	free(to);
	free(exact);
	return r;
}

static size_t encode_any(struct trace_random *random, char *copy, uint32_t n)
{
	struct chunk_values column = {
		.values = values, .others = others, .n = n, .may_be_null = true
	};
	struct chunk_plan plan = {
		(enum chunk_coding)trace_random_below(random, CHUNK_CODING_COUNT), 0
	};
	maker make = makers[trace_random_below(random, N_MAKERS)];
	const void *bytes;
	size_t n_bytes;

	for (uint32_t i = 0; i < n; i++) {
		values[i] = make(random, i);
		others[i] = counting(random, i);
	}
	if (chunk_column_encode(encoder, &column, plan, &bytes, &n_bytes) < 0)
		ck_assert_int_eq(chunk_column_encode(encoder, &column,
						     (struct chunk_plan){ CHUNK_PLAIN, 0 }, &bytes,
						     &n_bytes),
				 0);
	memcpy(copy, bytes, n_bytes);
	return n_bytes;
}

START_TEST(damaged_bytes_are_told_or_read_as_something_else)
{
	struct trace_random random = { (uint64_t)_i + 1 };
	static char bytes[1u << 20];
	uint32_t n = 1 + trace_random_below(&random, 700);
	size_t n_bytes = encode_any(&random, bytes, n);
	struct chunk_outline told;

	for (int round = 0; round < 300; round++) {
		size_t limit = round % 2 ? n_bytes : sizeof(struct chunk_column_head) + 8;
		size_t at =
			trace_random_below(&random, (uint32_t)(limit < n_bytes ? limit : n_bytes));
		char before = bytes[at];
		bytes[at] = (char)trace_random_bits(&random);
		ck_assert(bytes[at] == before || chunk_column_check(bytes, n_bytes, &told) < 0);
		try_bytes(bytes, n_bytes, n, round % 3 ? others : NULL);
		bytes[at] = before;
	}
	for (size_t n_left = 0; n_left < n_bytes && n_left < 300; n_left++) {
		ck_assert_int_eq(chunk_column_check(bytes, n_left, &told), -EBADMSG);
		ck_assert_int_eq(try_bytes(bytes, n_left, n, others), -EBADMSG);
	}
}
END_TEST

/* ---- Some rows ---- */

/* Every n-th is wanted, or all. */
START_TEST(of_a_column_any_rows_can_be_read)
{
	struct trace_random random = { 7 };
	struct chunk_values column = { .values = values, .others = others, .n = 3000 };
	static uint32_t rows[CHUNK_FRAME_ROWS];
	static int64_t chosen[CHUNK_FRAME_ROWS];
	uint32_t n = 0, step = 1 + (uint32_t)_i * 800;

	for (uint32_t i = 0; i < column.n; i++) {
		values[i] = few(&random, i);
		others[i] = nulls(&random, i);
	}
	for (uint32_t row = 0; row < column.n; row += step) {
		chosen[n] = others[row];
		rows[n++] = row;
	}
	for (int coding = 0; coding < CHUNK_CODING_COUNT; coding++) {
		const struct chunk_plan plan = { (enum chunk_coding)coding, 3 };
		struct chunk_wanted wanted = { found, chosen, column.n, rows, n };
		const void *bytes;
		size_t n_bytes;
		ck_assert_int_eq(chunk_column_encode(encoder, &column, plan, &bytes, &n_bytes), 0);
		ck_assert_int_eq(chunk_column_values(decoder, bytes, n_bytes, &wanted), 0);
		for (uint32_t i = 0; i < n; i++)
			ck_assert_int_eq(found[i], values[rows[i]]);
		wanted.n++;
		ck_assert_int_eq(chunk_column_values(decoder, bytes, n_bytes, &wanted), -EBADMSG);
	}
}
END_TEST

/* ---- Frames ---- */

enum { ID, PROCESS, ADDRESS, SIZE, ALLOCATED, FREED, N_COLUMNS };
static int64_t blocks[N_COLUMNS][CHUNK_ROWS];

/* Blocks of some processes; one in 50 lives long, one in 300 is large, one in 100 is not freed. */
static void make_blocks(struct trace_random *random, uint32_t n, uint32_t n_processes)
{
	int64_t id = 5, time_ns = -1000;

	for (uint32_t i = 0; i < n; i++) {
		int64_t life_ns = trace_random_below(random, 50) ? 5000 : INT64_C(1) << 40;
		blocks[ID][i] = id += 1 + (int64_t)trace_random_below(random, 9);
		blocks[PROCESS][i] = 1 + (int64_t)trace_random_below(random, n_processes);
		blocks[ADDRESS][i] = addresses(random, i);
		blocks[SIZE][i] = trace_random_below(random, 300) ? 48 : 1 << 20;
		blocks[ALLOCATED][i] = time_ns += (int64_t)trace_random_below(random, 100);
		blocks[FREED][i] = trace_random_below(random, 100) ? time_ns + life_ns : CHUNK_NULL;
	}
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* What a frame says is what its rows have. */
static void check_frame(const struct chunk_frame *frame, const uint32_t *rows)
{
	struct chunk_frame held = { .process_low = INT64_MAX,
				    .from_ns = INT64_MAX,
				    .to_ns = INT64_MIN,
				    .low = INT64_MAX,
				    .n_rows = frame->n_rows };

	ck_assert(frame->n_rows > 0 && frame->n_rows <= CHUNK_FRAME_ROWS);
	for (uint32_t i = 0; i < frame->n_rows; i++) {
		uint32_t row = rows[i];
		/* Of a block that lives it has no meaning. */
		int64_t life_ns =
			(int64_t)((uint64_t)blocks[FREED][row] - (uint64_t)blocks[ALLOCATED][row]);
		ck_assert(i == 0 || row > rows[i - 1]);
		held.process_low = least(held.process_low, blocks[PROCESS][row]);
		held.process_high = most(held.process_high, blocks[PROCESS][row]);
		held.from_ns = least(held.from_ns, blocks[ALLOCATED][row]);
		held.low = (uint64_t)least((int64_t)held.low, blocks[ADDRESS][row]);
		held.high = (uint64_t)most((int64_t)held.high,
					   blocks[ADDRESS][row] + blocks[SIZE][row] - 1);
		held.max_size = most(held.max_size, blocks[SIZE][row]);
		held.n_alive += blocks[FREED][row] == CHUNK_NULL;
		if (blocks[FREED][row] == CHUNK_NULL)
			continue;
		held.to_ns = most(held.to_ns, blocks[FREED][row]);
		held.max_life_ns = most(held.max_life_ns, life_ns);
	}
	ck_assert_mem_eq(&held, frame, sizeof(held));
}

START_TEST(frames_have_each_block_once_and_say_what_they_hold)
{
	static const uint32_t sizes[] = { 1, CHUNK_FRAME_ROWS + 1, 20000, CHUNK_ROWS };
	struct trace_random random = { (uint64_t)_i + 1 };
	uint32_t n = sizes[_i % 4], n_processes = _i < 4 ? 3 : 5000, first = 0;
	struct chunk_frames *frames = malloc(sizeof(*frames));
	static uint16_t places[CHUNK_ROWS];
	const struct frame_columns columns = {
		.ids = blocks[ID],
		.processes = blocks[PROCESS],
		.addresses = blocks[ADDRESS],
		.times = blocks[ALLOCATED],
		.sizes = blocks[SIZE],
		.freed = blocks[FREED],
	};

	ck_assert_ptr_nonnull(frames);
	make_blocks(&random, n, n_processes);
	ck_assert_int_eq(chunk_frames_make(frames, &columns, n), 0);
	ck_assert_uint_le(frames->n, CHUNK_FRAMES);
	for (uint32_t i = 0; i < frames->n; first += frames->items[i++].n_rows)
		check_frame(&frames->items[i], frames->rows + first);
	ck_assert_uint_eq(first, n);
	for (uint32_t i = 0; i < n; i++)
		values[i] = blocks[ID][frames->rows[i]];
	int r = chunk_places(values, n, places);
	ck_assert_int_eq(r, frames->n > 1);
	for (uint32_t i = 0; i < n; i++)
		ck_assert_uint_eq(r ? places[i] : i, frames->rows[i]);
	free(frames);
}
END_TEST

START_TEST(ids_that_are_there_twice_or_far_apart_have_no_places)
{
	uint16_t places[4];

	ck_assert_int_eq(chunk_places((int64_t[]){ INT64_MIN, 3, 4, INT64_MAX }, 4, places), 0);
	ck_assert_int_eq(chunk_places((int64_t[]){ 7, 3, 900, 8 }, 4, places), 1);
	ck_assert(places[0] == 1 && places[1] == 0 && places[2] == 3 && places[3] == 2);
	ck_assert_int_eq(chunk_places((int64_t[]){ 7, 3, 900, 7 }, 4, places), -EBADMSG);
	ck_assert_int_eq(chunk_places((int64_t[]){ 7, 3, 3 + CHUNK_SPREAD, 8 }, 4, places),
			 -EBADMSG);
	ck_assert_int_eq(chunk_places((int64_t[]){ INT64_MAX, INT64_MIN, 0, 8 }, 4, places),
			 -EBADMSG);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("chunk");
	TCase *columns = tcase_create("columns");

	tcase_set_timeout(columns, 120);
	tcase_add_checked_fixture(columns, set_up, tear_down);
	tcase_add_loop_test(columns, a_column_reads_as_it_was_written, 0,
			    (int)(N_MAKERS * N_LENGTHS * 2));
	tcase_add_test(columns, what_is_alike_takes_little);
	tcase_add_test(columns, more_rows_than_those_of_a_frame_are_refused);
	tcase_add_loop_test(columns, damaged_bytes_are_told_or_read_as_something_else, 0, 60);
	tcase_add_loop_test(columns, of_a_column_any_rows_can_be_read, 0, 3);
	tcase_add_loop_test(columns, frames_have_each_block_once_and_say_what_they_hold, 0, 8);
	tcase_add_test(columns, ids_that_are_there_twice_or_far_apart_have_no_places);
	suite_add_tcase(suite, columns);

	return suite_run(suite);
}
