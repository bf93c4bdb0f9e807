/* What --source pages knows, in the cells of a picture. */
#include <check.h>
#include <stdio.h>

#include "store/heatmap/heatmap.h"
#include "tests/support/suite.h"
#include "tests/unit/analyze/fixtures/chunk-rows.h"
#include "tests/unit/analyze/fixtures/picture-world.h"

#define SIDE	20u
#define IN_FULL 255.0

static struct picture_world *world;
static struct picture_store *store;
static struct picture *picture;
static const struct picture_band *bands;
static size_t n_bands;

static void setup(void)
{
	const struct shape shape = { 1, 300, 500, 1000000, 1 };
	const struct picture_request request = {
		.run_id = 1, .process_id = 1, .width = SIDE, .height = SIDE
	};

	world = picture_world_make(&shape);
	ck_assert_int_eq(chunk_rows(&world->db), 0);
	ck_assert_int_eq(picture_world_draw(&world->db, 1), 0);
	ck_assert_int_eq(picture_store_open(world->handle, &store), 0);
	ck_assert_int_eq(picture_make(store, &request, &picture), 0);
	ck_assert_int_eq(picture_bands(store, 1, 1, &bands, &n_bands), 0);
	ck_assert_uint_ge(n_bands, 3);
}

static void teardown(void)
{
	picture_free(picture);
	picture_store_close(store);
	picture_world_end(world);
}

/* Pages from the begin of the first band to the end of the second, in the first half of the run. */
static void add_row(const char *table, const char *process, const char *what)
{
	const struct picture_request *part = &picture->request;
	char sql[400];

	snprintf(sql, sizeof(sql),
		 "INSERT INTO %s SELECT 1, %s, address, size, %s FROM (SELECT %lld AS address,"
		 " %lld AS size)",
		 table, process, what, (long long)bands[0].start,
		 (long long)(bands[1].end - bands[0].start));
	picture_world_exec(world, sql);
	snprintf(sql, sizeof(sql), "UPDATE %s SET begin_ns = %lld, end_ns = %lld", table,
		 (long long)part->from_ns, (long long)(part->from_ns + part->to_ns) / 2);
	picture_world_exec(world, sql);
}

/* The share of the whole picture that a layer has; none of it is in the second half. */
static double share_of(const uint8_t *layer)
{
	double sum = 0;

	for (unsigned y = 0; y < SIDE; y++)
		for (unsigned x = 0; x < SIDE; x++) {
			sum += layer[y * SIDE + x] / IN_FULL;
			if (x > SIDE / 2)
				ck_assert_uint_eq(layer[y * SIDE + x], 0);
		}
	return sum / SIDE / SIDE;
}

/* Holes between the bands are not on the axis, and so not in the picture. */
static double expected_share(void)
{
	const struct picture_request *part = &picture->request;
	uint64_t n_bytes = bands[1].end - bands[1].start + bands[0].end - bands[0].start;

	return (double)n_bytes / (double)(part->high - part->low) / 2;
}

static const struct {
	const char *table;
	const char *process;
	const char *what; /* the columns behind the size */
	int layer; /* -1: says nothing */
} rows[] = {
	{ "page_write", "1", "'written', 0, 0, 1", PICTURE_PAGES_WRITTEN },
	{ "page_write", "1", "'clean', 0, 0, 1", -1 },
	{ "page_write", "1", "'huge', 0, 0, 1", -1 },
	{ "page_write", "2", "'written', 0, 0, 1", -1 },
	{ "page_run", "1", "'anonymous', 0, 0, 0, 1, 4096, 0, NULL", PICTURE_PAGES_UNTOUCHED },
	{ "page_run", "1", "'file', 0, 0, 0, 1, 4096, 0, NULL", PICTURE_PAGES_UNTOUCHED },
	{ "page_run", "1", "'hugetlb', 0, 0, 0, 1, 4096, 0, NULL", -1 },
	{ "page_run", "1", "'tool', 0, 0, 0, 1, 4096, 0, NULL", -1 },
	{ "page_run", "1", "'anonymous', 0, 0, 0, 1, 8192, 4096, NULL", -1 },
	{ "page_run", "1", "'anonymous', 0, 0, 0, 1, size, size, NULL", PICTURE_PAGES_TOUCHED },
	{ "page_run", "1", "'file', 0, 0, 0, 1, size, size, NULL", -1 },
};

START_TEST(pages_are_drawn_where_and_when_something_is_known_of_them)
{
	struct picture_pages pages = { 0 };

	add_row(rows[_i].table, rows[_i].process, rows[_i].what);
	ck_assert_int_eq(picture_pages_read(world->handle, store, picture, &pages), 0);
	for (int i = 0; i < PICTURE_PAGE_LAYERS; i++) {
		if (rows[_i].layer < 0)
			ck_assert_ptr_null(pages.shares[i]);
		else
			ck_assert_double_eq_tol(share_of(pages.shares[i]),
						i == rows[_i].layer ? expected_share() : 0,
						0.01 * expected_share());
	}
	picture_pages_finish(&pages);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("picture-pages");
	TCase *tcase = tcase_create("layers");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_loop_test(tcase, pages_are_drawn_where_and_when_something_is_known_of_them, 0,
			    sizeof(rows) / sizeof(rows[0]));
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
