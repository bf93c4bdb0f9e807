#include "store/heatmap/heatmap.h"

#include <check.h>
#include <math.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/import.h"
#include "common/cleanup.h"
#include "tests/unit/analyze/fixtures/check-db.h"
#include "tests/unit/analyze/fixtures/chunk-rows.h"
#include "tests/unit/analyze/fixtures/memory-db.h"
#include "tests/unit/analyze/fixtures/picture-world.h"
#include "tests/support/make-trace/make-trace.h"
#include "tests/support/suite.h"

static struct picture_store *open_store(struct picture_world *world)
{
	struct picture_store *store = NULL;

	ck_assert_int_eq(chunk_rows(&world->db), 0);
	ck_assert_int_eq(picture_world_draw(&world->db, 1), 0);
	ck_assert_int_eq(picture_store_open(world->handle, &store), 0);
	return store;
}

/* ---- What a picture must be ---- */

struct expected {
	const struct picture_world *world;
	struct picture_request request;
	const struct picture_band *bands;
	size_t n_bands;
	uint64_t n_touches;
	uint64_t n_blocks;
	uint32_t *counts;
	double *occupancy;
	size_t n_drawn;
};

/* From end to end: plainly right. */
static uint64_t place_of(const struct expected *expected, uint64_t address)
{
	for (size_t i = 0; i < expected->n_bands; i++) {
		const struct picture_band *band = &expected->bands[i];
		if (address >= band->start && address < band->end)
			return band->y + (address - band->start);
	}
	ck_abort_msg("%llx is on no band", (unsigned long long)address);
}

static unsigned cell_of(uint64_t offset, uint64_t span, unsigned n)
{
	return (unsigned)((unsigned __int128)offset * n / span);
}

static void expect_touches(struct expected *expected)
{
	const struct picture_request *request = &expected->request;

	for (size_t i = 0; i < expected->world->shape.n_touches; i++) {
		const struct row_touch *touch = &expected->world->touches[i];
		if (touch->process != request->process_id || touch->time_ns < request->from_ns ||
		    touch->time_ns >= request->to_ns ||
		    (request->source_id && touch->source != request->source_id))
			continue;
		uint64_t y = place_of(expected, touch->address);
		if (y < request->low || y >= request->high)
			continue;
		unsigned x = cell_of((uint64_t)(touch->time_ns - request->from_ns),
				     (uint64_t)(request->to_ns - request->from_ns), request->width);
		unsigned row =
			cell_of(y - request->low, request->high - request->low, request->height);
		expected->counts[row * request->width + x]++;
		expected->n_touches++;
	}
}

/* What a side from a to b covers of each of n cells. */
static double covered(double a, double b, unsigned cell)
{
	double from = a > cell ? a : cell, to = b < cell + 1.0 ? b : cell + 1.0;

	return to > from ? to - from : 0;
}

static void expect_block(struct expected *expected, const struct row_block *block, uint64_t y)
{
	const struct picture_request *request = &expected->request;
	double per_ns = request->width / (double)(request->to_ns - request->from_ns);
	double per_byte = request->height / (double)(request->high - request->low);
	double x0 = (double)(block->allocated_ns - request->from_ns) * per_ns;
	double x1 = (double)(block->end_ns - request->from_ns) * per_ns;
	double y0 = ((double)y - (double)request->low) * per_byte;
	double y1 = ((double)(y + block->size) - (double)request->low) * per_byte;
	double least_bytes = (double)(request->high - request->low) / request->height;
	double least_ns = 2.0 * (double)(request->to_ns - request->from_ns) / request->width;

	expected->n_blocks++;
	expected->n_drawn += (double)block->size >= least_bytes &&
			     (double)(block->end_ns - block->allocated_ns) >= least_ns;
	for (unsigned j = y0 > 0 ? (unsigned)y0 : 0; j < request->height && j < y1; j++) {
		for (unsigned i = x0 > 0 ? (unsigned)x0 : 0; i < request->width && i < x1; i++)
			expected->occupancy[j * request->width + i] +=
				covered(x0, x1, i) * covered(y0, y1, j);
	}
}

static void expect_blocks(struct expected *expected)
{
	const struct picture_request *request = &expected->request;

	for (size_t i = 0; i < expected->world->shape.n_blocks; i++) {
		const struct row_block *block = &expected->world->blocks[i];
		if (block->process != request->process_id ||
		    block->allocated_ns >= request->to_ns || block->end_ns <= request->from_ns)
			continue;
		uint64_t y = place_of(expected, block->address);
		if (y < request->high && y + block->size > request->low)
			expect_block(expected, block, y);
	}
}

static void check_cells(const struct picture *picture, const struct expected *expected)
{
	const struct picture_request *request = &picture->request;

	for (size_t i = 0; i < (size_t)request->width * request->height; i++) {
		check_equal(picture->counts[i], expected->counts[i]);
		double share = expected->occupancy[i] > 1 ? 1 : expected->occupancy[i];
		double found = picture->occupancy[i];
		if (found < share * 255 - 1.01 || found > share * 255 + 1.01)
			ck_abort_msg("cell %zu: occupancy %g, not %g", i, found, share * 255);
		if ((share == 0) != (found == 0) && share < 1e-9 && found > 1)
			ck_abort_msg("cell %zu has blocks and has none", i);
	}
}

static bool is_drawn(const struct picture *picture, const struct row_block *block)
{
	for (size_t i = 0; i < picture->n_drawn_blocks; i++) {
		const struct picture_block *drawn = &picture->blocks[i];
		if (drawn->id == block->id)
			return drawn->size == block->size &&
			       drawn->from_ns == block->allocated_ns &&
			       drawn->site == block->site &&
			       drawn->to_ns == (block->is_freed ? block->end_ns : INT64_MAX);
	}
	return false;
}

static void check_drawn(const struct picture *picture, const struct expected *expected)
{
	const struct picture_world *world = expected->world;
	size_t n = expected->n_drawn < PICTURE_MAX_BLOCKS ? expected->n_drawn : PICTURE_MAX_BLOCKS;
	size_t n_known = 0;

	check_equal(picture->n_drawn_blocks, n);
	for (size_t i = 0; i < world->shape.n_blocks && n < 200; i++)
		n_known += is_drawn(picture, &world->blocks[i]);
	if (n < 200)
		check_equal(n_known, n);
}

static void check_points(const struct picture *picture, const struct expected *expected)
{
	const struct picture_world *world = expected->world;
	bool has_points = expected->n_touches <= PICTURE_MAX_POINTS;

	check_equal(picture->n_points, has_points ? expected->n_touches : 0);
	for (size_t i = 0; i < picture->n_points; i++) {
		const struct picture_point *point = &picture->points[i];
		const struct row_touch *touch = &world->touches[point->sample - 7];
		check_equal(point->time_ns, touch->time_ns);
		check_equal(point->y, place_of(expected, touch->address));
		check_equal(point->thread, touch->thread);
		check_equal(point->is_write, touch->is_write);
		ck_assert_uint_lt(point->category, picture->n_categories);
	}
}

/* The sums of categories, and that none has more than the one a cell is said to have most of. */
static void check_categories(const struct picture *picture)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < picture->n_categories; i++)
		sum += picture->categories[i].n;
	check_equal(sum, picture->n_touches);
	for (size_t i = 0; i < (size_t)picture->request.width * picture->request.height; i++) {
		if (picture->counts[i] && picture->category[i] >= picture->n_categories)
			ck_abort_msg("cell %zu has category %d", i, picture->category[i]);
	}
}

static void check_picture(const struct picture_world *world, struct picture_store *store,
			  const struct picture_request *request)
{
	struct expected expected = { .world = world };
	struct picture *picture = NULL;

	ck_assert_int_eq(picture_make(store, request, &picture), 0);
	size_t n = (size_t)picture->request.width * picture->request.height;
	check_equal(picture->stride, 1);
	check_equal(picture->cell_ns, 0);
	check_equal(picture->cell_bytes, 0);
	expected.request = picture->request;
	expected.counts = calloc(n, sizeof(*expected.counts));
	expected.occupancy = calloc(n, sizeof(*expected.occupancy));
	ck_assert_int_eq(picture_bands(store, 1, picture->request.process_id, &expected.bands,
				       &expected.n_bands),
			 0);
	expect_touches(&expected);
	expect_blocks(&expected);
	check_equal(picture->n_touches, expected.n_touches);
	check_equal(picture->n_blocks, expected.n_blocks);
	check_cells(picture, &expected);
	check_drawn(picture, &expected);
	check_points(picture, &expected);
	check_categories(picture);
	free(expected.counts);
	free(expected.occupancy);
	picture_free(picture);
}

/* A stretch of an axis, of any order of magnitude. */
static void pick(struct picture_world *world, uint64_t length, uint64_t *ret_from, uint64_t *ret_to)
{
	uint64_t span = 1 + (length >> picture_world_below(world, 40));

	if (span > length)
		span = length;
	*ret_from = trace_random_bits(&world->random) % (length - span + 1);
	*ret_to = *ret_from + span;
}

static struct picture_request random_request(struct picture_world *world,
					     struct picture_store *store)
{
	struct picture_request request = {
		.run_id = 1,
		.process_id = 1 + picture_world_below(world, (uint32_t)world->shape.n_processes),
		.source_id = picture_world_below(world, 4),
		.by = (enum picture_by)picture_world_below(world, PICTURE_BY_COUNT),
		.width = 1 + picture_world_below(world, 1u << picture_world_below(world, 8)),
		.height = 1 + picture_world_below(world, 1u << picture_world_below(world, 8)),
	};
	const struct picture_band *bands;
	uint64_t from, to;
	size_t n;

	ck_assert_int_eq(picture_bands(store, 1, request.process_id, &bands, &n), 0);
	if (picture_world_below(world, 4)) {
		pick(world, (uint64_t)world->shape.duration_ns + 1, &from, &to);
		request.from_ns = (int64_t)from;
		request.to_ns = (int64_t)to;
	}
	if (picture_world_below(world, 4))
		pick(world, bands[n - 1].y + (bands[n - 1].end - bands[n - 1].start), &request.low,
		     &request.high);
	return request;
}

static const struct shape shapes[] = {
	{ 1, 300, 500, 1000000, 3 },
	{ 2, 5000, 8000, 1000000000, 2 },
	{ 3, 75000, 80000, 5000000000, 1 }, /* enough for two threads */
	{ 4, 0, 3000, 100000, 1 },
	{ 5, 3000, 0, 100000, 2 },
	{ 6, 100, 100, 0, 1 },
	{ 7, 50, 50, 1, 2 },
	{ 8, 20000, 20000, 40000, 3 },
};

START_TEST(pictures_are_what_the_rows_give)
{
	struct picture_world *world = picture_world_make(&shapes[_i]);
	struct picture_store *store = open_store(world);

	for (int i = 0; i < 60; i++) {
		struct picture_request request = random_request(world, store);
		check_picture(world, store, &request);
	}
	picture_store_close(store);
	picture_world_end(world);
}
END_TEST

START_TEST(bands_cover_all_that_there_is_and_nothing_twice)
{
	struct picture_world *world = picture_world_make(&shapes[_i]);
	struct picture_store *store = open_store(world);

	for (int process = 1; process <= world->shape.n_processes; process++) {
		struct expected expected = { .world = world };
		uint64_t y = 0;
		ck_assert_int_eq(
			picture_bands(store, 1, process, &expected.bands, &expected.n_bands), 0);
		for (size_t i = 0; i < expected.n_bands; i++) {
			const struct picture_band *band = &expected.bands[i];
			ck_assert_uint_lt(band->start, band->end);
			check_equal(band->y, y);
			if (i > 0)
				ck_assert_uint_ge(band->start, band[-1].end);
			y += band->end - band->start;
		}
		for (size_t i = 0; i < world->shape.n_blocks; i++) {
			const struct row_block *block = &world->blocks[i];
			if (block->process == process)
				check_equal(place_of(&expected, block->address + block->size - 1),
					    place_of(&expected, block->address) + block->size - 1);
		}
	}
	picture_store_close(store);
	picture_world_end(world);
}
END_TEST

START_TEST(places_and_addresses_are_each_others_inverse)
{
	struct picture_world *world = picture_world_make(&shapes[1]);
	struct picture_store *store = open_store(world);
	const struct picture_band *bands;
	uint64_t y, address;
	size_t n;

	ck_assert_int_eq(picture_bands(store, 1, 1, &bands, &n), 0);
	uint64_t height = bands[n - 1].y + (bands[n - 1].end - bands[n - 1].start);
	for (int i = 0; i < 10000; i++) {
		uint64_t place = trace_random_bits(&world->random) % height;
		ck_assert(picture_address(bands, n, place, &address));
		ck_assert(picture_place(bands, n, address, &y));
		check_equal(y, place);
	}
	ck_assert(!picture_address(bands, n, height, &address));
	ck_assert(!picture_place(bands, n, bands[n - 1].end, &y));
	ck_assert(!picture_place(bands, n, bands[0].start - 1, &y));
	picture_store_close(store);
	picture_world_end(world);
}
END_TEST

START_TEST(categories_add_up_to_all_touches_and_name_what_they_count)
{
	struct picture_world *world = picture_world_make(&shapes[1]);
	struct picture_store *store = open_store(world);

	for (unsigned by = 0; by < PICTURE_BY_COUNT; by++) {
		struct picture_request request = { .run_id = 1,
						   .process_id = 1,
						   .by = (enum picture_by)by,
						   .width = 7,
						   .height = 9 };
		struct picture *picture = NULL;
		ck_assert_int_eq(picture_make(store, &request, &picture), 0);
		check_categories(picture);
		for (size_t i = 0; i < picture->n_categories; i++)
			ck_assert_str_ne(picture->categories[i].name, "");
		picture_free(picture);
	}
	check_no_row(world->handle,
		     "SELECT * FROM picture JOIN (SELECT run_id, process_id, colour, sum(n) AS n"
		     " FROM picture_category GROUP BY 1, 2, 3) AS sums USING (run_id, process_id)"
		     " WHERE sums.n <> n_touches");
	/* 20 threads are more than there are colours: the last one is all others. */
	check_equal(memory_db_integer(world->handle,
				      "SELECT item_id FROM picture_category WHERE process_id = 1"
				      " AND colour = 'thread' AND number = 15"),
		    -1);
	picture_store_close(store);
	picture_world_end(world);
}
END_TEST

START_TEST(levels_over_time_are_what_the_touches_tell)
{
	struct picture_world *world = picture_world_make(&shapes[1]);

	picture_store_close(open_store(world));
	check_no_row(world->handle,
		     "WITH rows AS (SELECT coalesce(level, '') AS level, count(*) AS n FROM touch"
		     " JOIN data_source USING (data_src) WHERE role = 0 GROUP BY 1)"
		     " SELECT * FROM rows LEFT JOIN (SELECT level, sum(n) AS n FROM timeline_level"
		     " GROUP BY 1) AS stored USING (level) WHERE stored.n IS NOT rows.n");
	picture_world_end(world);
}
END_TEST

/* ---- Curves ---- */

#define FINE 128u

/* Slots of 2^n ns, as few as reach over all that happens. */
static unsigned slot_log2(const struct picture_world *world)
{
	uint64_t last = (uint64_t)world->shape.duration_ns;
	unsigned log2 = 10;

	for (size_t i = 0; i < world->shape.n_blocks; i++) {
		const struct row_block *block = &world->blocks[i];
		uint64_t end = (uint64_t)(block->is_freed ? block->end_ns : block->allocated_ns);
		last = end > last ? end : last;
	}
	while (last >> log2 >= FINE)
		log2++;
	return log2;
}

/* What a site held at a time; with what is born then up to block n. */
static uint64_t held_at(const struct picture_world *world, int64_t site, uint64_t at, size_t n)
{
	uint64_t sum = 0;

	for (size_t j = 0; j < world->shape.n_blocks; j++) {
		const struct row_block *block = &world->blocks[j];
		bool is_live = !block->is_freed || (uint64_t)block->end_ns > at || n == j;
		bool is_born =
			n < world->shape.n_blocks ? j <= n : (uint64_t)block->allocated_ns < at;

		if (block->site == site && is_born && is_live)
			sum += block->size;
	}
	return sum;
}

/*
 * The most that a site held in each 1/32 of the run, to the next borders of slots: at their begins,
 * and at each allocation.
 */
static void expect_curve(const struct picture_world *world, int64_t site, uint64_t most[32])
{
	uint64_t duration = (uint64_t)world->shape.duration_ns, fine[FINE] = { 0 };
	unsigned log2 = slot_log2(world);
	size_t n = world->shape.n_blocks;

	for (uint64_t slot = 0; slot < FINE; slot++)
		fine[slot] = held_at(world, site, slot << log2, n);
	for (size_t i = 0; i < n; i++) {
		uint64_t at = (uint64_t)world->blocks[i].allocated_ns;
		uint64_t sum = held_at(world, site, at, i);
		uint64_t *of = &fine[at >> log2];
		*of = sum > *of ? sum : *of;
	}
	memset(most, 0, 32 * sizeof(*most));
	for (uint64_t i = 0; i < 32; i++) {
		uint64_t to = i == 31 ? UINT64_MAX : duration * (i + 1) / 32;
		uint64_t slot = duration * i / 32 >> log2;
		for (; slot < FINE && slot << log2 < to; slot++)
			most[i] = fine[slot] > most[i] ? fine[slot] : most[i];
	}
}

START_TEST(a_site_s_curve_is_the_most_that_it_held)
{
	const struct shape shape = { 11, 600, 0, 1000000007, 1 };
	struct picture_world *world = picture_world_make(&shape);
	uint64_t most[32];

	picture_world_exec(world, "DELETE FROM allocation WHERE size = 0");
	picture_store_close(open_store(world));
	sqlite3_stmt *row =
		picture_world_prepare(world, "SELECT stack_id, live_bytes FROM site_curve");
	size_t n_left = 0;
	for (size_t i = 0; i < world->shape.n_blocks; i++) {
		/* A row of size 0 counts as 1 byte in pictures, and as nothing here. */
		if (memory_db_integer(world->handle, "SELECT count(*) FROM allocation") < 0)
			break;
		char sql[80];
		snprintf(sql, sizeof(sql), "SELECT size FROM allocation WHERE id = %lld",
			 (long long)world->blocks[i].id);
		if (memory_db_integer(world->handle, sql) > 0)
			world->blocks[n_left++] = world->blocks[i];
	}
	world->shape.n_blocks = n_left;
	while (sqlite3_step(row) == SQLITE_ROW) {
		expect_curve(world, sqlite3_column_int64(row, 0), most);
		const uint8_t *bytes = sqlite3_column_blob(row, 1);
		size_t width = (size_t)sqlite3_column_bytes(row, 1) / 32;
		ck_assert(width > 0 && width <= 8);
		for (size_t i = 0; i < 32; i++) {
			uint64_t found = 0;
			memcpy(&found, bytes + i * width, width);
			check_equal(found, most[i]);
		}
	}
	sqlite3_finalize(row);
	picture_world_end(world);
}
END_TEST

/* ---- Runs that go ---- */

static const char *const picture_tables[] = {
	"band", "site_curve", "timeline_level", "picture", "picture_category", "picture_tile",
};
#define N_PICTURE_TABLES (sizeof(picture_tables) / sizeof(picture_tables[0]))

/* A row of any values: of pictures that small runs do not have, and of another run. */
static void add_row(struct picture_world *world, const char *table, int run)
{
	char sql[200];

	snprintf(sql, sizeof(sql),
		 "SELECT group_concat(CASE WHEN name = 'run_id' THEN %d"
		 " WHEN name = 'id' THEN 1000000 ELSE 1 END) FROM pragma_table_info('%s')",
		 run, table);
	sqlite3_stmt *row = picture_world_prepare(world, sql);
	ck_assert_int_eq(sqlite3_step(row), SQLITE_ROW);
	snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES(%s)", table,
		 (const char *)sqlite3_column_text(row, 0));
	sqlite3_finalize(row);
	picture_world_exec(world, sql);
}

static int64_t count_rows(struct picture_world *world, const char *table, int run)
{
	char sql[100];

	snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s WHERE run_id = %d", table, run);
	return memory_db_integer(world->handle, sql);
}

START_TEST(a_run_that_goes_takes_its_pictures_with_it)
{
	static int (*const ways[])(struct db * db, int64_t run_id) = { import_delete_run,
								       import_drop_rows };
	const struct shape shape = { 3, 300, 300, 1000000, 2 };
	struct picture_world *world = picture_world_make(&shape);

	picture_store_close(open_store(world));
	for (size_t i = 0; i < N_PICTURE_TABLES; i++) {
		if (count_rows(world, picture_tables[i], 1) == 0)
			add_row(world, picture_tables[i], 1);
		add_row(world, picture_tables[i], 2);
	}
	ck_assert_int_eq(ways[_i](&world->db, 1), 0);
	for (size_t i = 0; i < N_PICTURE_TABLES; i++) {
		ck_assert_msg(count_rows(world, picture_tables[i], 1) == 0, "%s has rows left",
			      picture_tables[i]);
		ck_assert_msg(count_rows(world, picture_tables[i], 2) == 1,
			      "%s has lost those of another run", picture_tables[i]);
	}
	picture_world_end(world);
}
END_TEST

/* ---- What is not there ---- */

START_TEST(without_stored_pictures_there_is_no_data)
{
	const struct shape shape = { 1, 10, 10, 1000, 1 };
	struct picture_world *world = picture_world_make(&shape);
	struct picture_store *store = NULL;

	ck_assert_int_eq(picture_store_open(world->handle, &store), -ENODATA);
	picture_world_exec(world, "UPDATE run SET detail = 'totals'");
	ck_assert_int_eq(picture_world_draw(&world->db, 1), 0);
	ck_assert_int_eq(picture_store_open(world->handle, &store), -ENODATA);
	picture_world_exec(world, "DROP TABLE picture"); /* as an older version left it */
	ck_assert_int_eq(picture_store_open(world->handle, &store), -ENODATA);
	picture_world_end(world);
}
END_TEST

/* A path for a file that is not there yet. */
static char *make_path(void)
{
	char *path = NULL;
	const char *folder = getenv("TMPDIR");

	ck_assert_int_gt(asprintf(&path, "%s/test-picture-XXXXXX", folder ? folder : "/tmp"), 0);
	int fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	close(fd);
	unlink(path);
	return path;
}

/* ---- From a trace ---- */

/* The pictures of a trace's database, plain or compact. */
static struct picture_store *import(const char *trace, const char *path, unsigned mode,
				    struct db **ret_db)
{
	struct import_options options = { .compact = mode & DB_COMPACT };
	struct import_result result;
	struct picture_store *store = NULL;
	struct db *db = NULL;

	ck_assert_int_eq(db_begin(path, DB_REPLACE | mode, &db), 0);
	ck_assert_int_eq(import_trace(db, trace, &options, &result), 0);
	ck_assert_int_eq(db_commit(db), 0);
	db_close(db);
	ck_assert_int_eq(db_open(path, ret_db), 0);
	ck_assert_int_eq(picture_store_open(db_handle(*ret_db), &store), 0);
	return store;
}

static void check_equal_pictures(struct picture_store *stores[2],
				 const struct picture_request *request)
{
	struct picture *pictures[2];
	size_t n = (size_t)request->width * request->height;

	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(picture_make(stores[i], request, &pictures[i]), 0);
	check_equal(pictures[0]->n_touches, pictures[1]->n_touches);
	check_equal(pictures[0]->n_blocks, pictures[1]->n_blocks);
	ck_assert_uint_gt(pictures[0]->n_blocks, 0);
	check_equal(memcmp(pictures[0]->counts, pictures[1]->counts, n * sizeof(uint32_t)), 0);
	check_equal(memcmp(pictures[0]->occupancy, pictures[1]->occupancy, n), 0);
	check_equal(pictures[0]->n_drawn_blocks, pictures[1]->n_drawn_blocks);
	for (int i = 0; i < 2; i++)
		picture_free(pictures[i]);
}

START_TEST(a_compact_database_gives_the_same_pictures)
{
	struct make_trace_options options = MAKE_TRACE_DEFAULTS;
	auto_free char *trace = make_path();
	char *paths[2] = { make_path(), make_path() };
	struct picture_store *stores[2];
	struct db *dbs[2];

	options.n_processes = 2;
	options.n_samples = 20000;
	ck_assert_int_eq(make_trace(open(trace, O_RDWR | O_CREAT | O_EXCL, 0600), &options, NULL),
			 0);
	stores[0] = import(trace, paths[0], 0, &dbs[0]);
	stores[1] = import(trace, paths[1], DB_COMPACT, &dbs[1]);
	for (int i = 0; i < 10; i++) {
		struct picture_request request = {
			.run_id = 1, .process_id = 1 + i % 2, .width = 100, .height = 50
		};
		request.by = (enum picture_by)(i % PICTURE_BY_COUNT);
		check_equal_pictures(stores, &request);
	}
	/* What was touched in the heap has the site of its block. */
	check_no_row(dbs[0]->handle, "SELECT * FROM picture_category WHERE colour = 'direction'"
				     " AND item_id NOT IN (2, 3)");
	for (int i = 0; i < 2; i++) {
		picture_store_close(stores[i]);
		db_close(dbs[i]);
		unlink(paths[i]);
		free(paths[i]);
	}
	unlink(trace);
}
END_TEST

START_TEST(requests_out_of_range_are_refused)
{
	struct picture_world *world = picture_world_make(&shapes[0]);
	struct picture_store *store = open_store(world);
	struct picture *picture = NULL;
	const struct {
		struct picture_request request;
		int error;
	} cases[] = {
		{ { .run_id = 1, .width = 0, .height = 1 }, -EINVAL },
		{ { .run_id = 1, .width = 1, .height = 2049 }, -EINVAL },
		{ { .run_id = 1, .width = 1, .height = 1, .by = PICTURE_BY_COUNT }, -EINVAL },
		{ { .run_id = 1, .width = 1, .height = 1, .from_ns = 9, .to_ns = 9 }, -EINVAL },
		{ { .run_id = 1, .width = 1, .height = 1, .low = 9, .high = 3 }, -EINVAL },
		{ { .run_id = 1,
		    .width = 1,
		    .height = 1,
		    .from_ns = INT64_MAX - 1,
		    .to_ns = INT64_MAX,
		    .is_whole = true },
		  -EINVAL },
		{ { .run_id = 2, .width = 1, .height = 1 }, -ENOENT },
		{ { .run_id = 1, .process_id = 9, .width = 1, .height = 1 }, -ENOENT },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ck_assert_int_eq(picture_make(store, &cases[i].request, &picture), cases[i].error);
	picture_store_close(store);
	picture_world_end(world);
}
END_TEST

/* Changes to a database with stored pictures, after which none can be drawn. */
static const char *const damages[] = {
	"UPDATE band SET y = y + 1 WHERE number = 0",
	"UPDATE band SET y = 1 << 62 WHERE number > 0",
	"UPDATE band SET start = 1, end = -1 WHERE number = 1",
	"DELETE FROM band WHERE number = 0",
	"UPDATE picture SET height = height + 4096",
};

START_TEST(a_damaged_picture_is_told_of_and_not_drawn)
{
	struct picture_world *world = picture_world_make(&shapes[1]);
	const struct picture_request request = {
		.run_id = 1, .width = 64, .height = 32, .by = PICTURE_BY_THREAD
	};
	struct picture_store *store = open_store(world);
	struct picture *picture = NULL;

	ck_assert_int_eq(picture_make(store, &request, &picture), 0);
	picture_free(picture);
	picture_store_close(store);
	picture_world_exec(world, damages[_i]);
	ck_assert_int_eq(picture_store_open(world->handle, &store), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(picture_make(store, &request, &picture), -EPROTO);
	picture_store_close(store);
	picture_world_end(world);
}
END_TEST

/* ---- More than is looked at one by one ---- */

/*
 * All touches in one page, where the grid has but one cell: some are looked at, and that is told.
 */
static void check_hot_page(struct picture_store *store)
{
	struct picture_request request = {
		.run_id = 1, .process_id = 1, .width = 64, .height = 64
	};
	const struct picture_band *bands;
	struct picture *picture = NULL;
	uint64_t sum = 0;
	size_t n;

	ck_assert_int_eq(picture_bands(store, 1, 1, &bands, &n), 0);
	ck_assert(picture_place(bands, n, 94000000000000, &request.low));
	request.high = request.low + 4096;
	ck_assert_int_eq(picture_make(store, &request, &picture), 0);
	check_equal(picture->stride, 4);
	for (size_t i = 0; i < 64ul * 64; i++) {
		sum += picture->counts[i];
		/* 2,000,000 / 4 / 4,096 cells, spread evenly. */
		ck_assert_uint_gt(picture->counts[i], 122 / 3);
		ck_assert_uint_lt(picture->counts[i], 122 * 3);
	}
	check_equal(picture->n_touches, 4 * sum);
	ck_assert_uint_gt(sum, 2000000 / 4 * 95 / 100);
	ck_assert_uint_lt(sum, 2000000 / 4 * 105 / 100);
	check_equal(picture->n_points, 0);
	picture_free(picture);
}

START_TEST(the_grid_counts_what_the_rows_count)
{
	const struct shape shape = { 21, 30000, 0, 1000000000, 1 };
	struct picture_world *world = picture_world_make(&shape);
	struct picture_request request = {
		.run_id = 1, .process_id = 1, .width = 800, .height = 400
	};

	/* Many, by the database itself: three threads, reads and writes, two sources. */
	picture_world_exec(
		world,
		"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1999999)"
		" INSERT INTO sample(id, run_id, source_id, process_id, thread_id, time_ns, weight,"
		" is_kernel) SELECT i + 1, 1, 1 + i % 2, 1, 1 + i % 3, i * 499, 1, 0 FROM n;"
		"INSERT INTO touch(sample_id, run_id, role, share, address, is_write, owner_kind,"
		" phase)"
		" SELECT id, 1, source_id = 1, 1, 94000000000000 + id * 7919 % 4096, id % 5 = 0,"
		" 13, 0"
		" FROM sample");
	struct picture_store *store = open_store(world);
	for (unsigned by = 0; by < PICTURE_BY_COUNT; by++) {
		struct picture *picture = NULL;
		uint64_t sum = 0;
		request.by = (enum picture_by)by;
		ck_assert_int_eq(picture_make(store, &request, &picture), 0);
		check_equal(picture->stride, 1);
		check_equal(picture->n_touches, 2000000);
		check_categories(picture);
		for (size_t i = 0; i < (size_t)request.width * request.height; i++)
			sum += picture->counts[i];
		check_equal(sum, 2000000);
		if (by == PICTURE_BY_DIRECTION) {
			check_equal(picture->categories[0].n, 1600000);
			check_equal(picture->categories[1].n, 400000);
		}
		if (by == PICTURE_BY_THREAD)
			check_equal(picture->categories[0].n, 666667);
		picture_free(picture);
	}
	request.source_id = 2;
	struct picture *picture = NULL;
	ck_assert_int_eq(picture_make(store, &request, &picture), 0);
	check_equal(picture->n_touches, 1000000);
	picture_free(picture);
	check_hot_page(store);
	picture_world_exec(world, "DELETE FROM picture_category WHERE number > 1");
	request.by = PICTURE_BY_THREAD; /* whose tiles have three */
	request.source_id = 0;
	ck_assert_int_eq(picture_make(store, &request, &picture), -EPROTO);
	picture_store_close(store);
	picture_world_end(world);
}
END_TEST

/* One address has a fifth of each sample's time, another three fifths, and what is left none. */
START_TEST(a_sample_of_time_counts_once_at_a_place_drawn_by_shares)
{
	const struct shape shape = { 1, 1, 0, 2000000, 1 };
	struct picture_world *world = picture_world_make(&shape);
	struct picture_request request = { .run_id = 1, .process_id = 1, .width = 1, .height = 1 };
	struct picture *picture = NULL;
	enum { N = 3000 };

	picture_world_exec(
		world,
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
		" INSERT INTO sample(id, run_id, source_id, process_id, thread_id, time_ns, weight,"
		" is_kernel) SELECT i, 1, 1, 1, 1, i * 499, 1, 0 FROM n;"
		"INSERT INTO touch(sample_id, run_id, role, share, address, is_write, owner_kind,"
		" phase)"
		" SELECT id, 1, column1, column2, column3, column4, 13, 0 FROM sample, (VALUES"
		" (0, 1.0, 94000000000000, 0), (1, 0.2, 94000000000000, 0), (1, 0.2, NULL, 0),"
		" (1, 0.6, 94000000002048, 1), (2, 1.0, 94000000000000, 0), (5, 1.0,"
		" 94000000000000, 0))"
		" ORDER BY id, column1, column2");
	struct picture_store *store = open_store(world);
	ck_assert_int_eq(picture_make(store, &request, &picture), 0);
	/* 5 standard deviations. */
	ck_assert_double_eq_tol((double)picture->categories[0].n, N * 0.2, 5 * sqrt(N * 0.2 * 0.8));
	ck_assert_double_eq_tol((double)picture->categories[1].n, N * 0.6, 5 * sqrt(N * 0.6 * 0.4));
	check_equal(picture->n_touches, picture->counts[0]);
	check_categories(picture);
	picture_free(picture);
	picture_store_close(store);
	picture_world_end(world);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("picture");
	TCase *tcase = tcase_create("picture");
	int n_shapes = (int)(sizeof(shapes) / sizeof(shapes[0]));

	tcase_set_timeout(tcase, 600);
	tcase_add_loop_test(tcase, pictures_are_what_the_rows_give, 0, n_shapes);
	tcase_add_loop_test(tcase, bands_cover_all_that_there_is_and_nothing_twice, 0, n_shapes);
	tcase_add_test(tcase, places_and_addresses_are_each_others_inverse);
	tcase_add_test(tcase, categories_add_up_to_all_touches_and_name_what_they_count);
	tcase_add_test(tcase, levels_over_time_are_what_the_touches_tell);
	tcase_add_test(tcase, a_sample_of_time_counts_once_at_a_place_drawn_by_shares);
	tcase_add_test(tcase, a_site_s_curve_is_the_most_that_it_held);
	tcase_add_loop_test(tcase, a_run_that_goes_takes_its_pictures_with_it, 0, 2);
	tcase_add_test(tcase, without_stored_pictures_there_is_no_data);
	tcase_add_test(tcase, a_compact_database_gives_the_same_pictures);
	tcase_add_test(tcase, requests_out_of_range_are_refused);
	tcase_add_loop_test(tcase, a_damaged_picture_is_told_of_and_not_drawn, 0,
			    (int)(sizeof(damages) / sizeof(damages[0])));
	tcase_add_test(tcase, the_grid_counts_what_the_rows_count);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
