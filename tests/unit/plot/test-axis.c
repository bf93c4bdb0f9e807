#include "report/chart/axis.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/queries.h"
#include "report/plot/canvas.h"
#include "tests/support/suite.h"

static const enum axis_unit units[] = { AXIS_TIME, AXIS_BYTES, AXIS_COUNT, AXIS_RATIO };

START_TEST(ticks_are_on_the_axis_in_order_and_no_more_than_asked_for)
{
	srand(1);
	for (int i = 0; i < 20000; i++) {
		double low = exp2(rand() % 50) * (rand() % 2);
		double ends[2] = { low, low + exp2(rand() % 50) };
		unsigned most = 2 + (unsigned)rand() % 30;
		struct axis axis;

		axis_make(units[rand() % 4], ends, most, &axis);
		ck_assert_uint_le(axis.n_ticks, most);
		for (size_t k = 0; k < axis.n_ticks; k++) {
			double slack = 1e-6 * (ends[1] - ends[0]);
			ck_assert_double_ge(axis.ticks[k].value, ends[0] - slack);
			ck_assert_double_le(axis.ticks[k].value, ends[1] + slack);
			if (k)
				ck_assert_double_gt(axis.ticks[k].value, axis.ticks[k - 1].value);
		}
	}
}
END_TEST

START_TEST(texts_of_ticks_differ_and_tell_their_value)
{
	static const struct {
		const char *unit;
		double size;
	} sizes[] = { { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 } };

	srand(2);
	for (int i = 0; i < 5000; i++) {
		double low = rand() % 1000000000;
		double ends[2] = { low, low + 10 + rand() % 2000000000 };
		struct axis axis;

		axis_make(AXIS_TIME, ends, 8, &axis);
		for (size_t k = 0; k < axis.n_ticks; k++) {
			for (size_t u = 0; u < 4; u++)
				if (strcmp(sizes[u].unit, axis.unit) == 0)
					ck_assert_double_eq_tol(atof(axis.ticks[k].text) *
									sizes[u].size,
								axis.ticks[k].value,
								1e-6 * axis.ticks[k].value + 1e-6);
			if (k)
				ck_assert_str_ne(axis.ticks[k].text, axis.ticks[k - 1].text);
		}
	}
}
END_TEST

START_TEST(bytes_have_steps_of_powers_of_two)
{
	double ends[2] = { 0, 200.0 * 1048576 };
	struct axis axis;

	axis_make(AXIS_BYTES, ends, 5, &axis);
	ck_assert_str_eq(axis.unit, "MiB");
	ck_assert_uint_eq(axis.n_ticks, 4);
	ck_assert_str_eq(axis.ticks[3].text, "192");
}
END_TEST

START_TEST(an_axis_without_a_length_has_no_ticks)
{
	double ends[2] = { 5, 5 };
	struct axis axis;

	axis_make(AXIS_TIME, ends, 8, &axis);
	ck_assert_uint_eq(axis.n_ticks, 0);
}
END_TEST

START_TEST(levels_rise_with_the_number_and_use_all_that_there_are)
{
	for (uint32_t most = 1; most < 3000; most = most * 2 + 1) {
		for (unsigned n = 1; n < 10; n++) {
			unsigned last = 0;
			for (uint32_t number = 1; number <= most; number++) {
				unsigned level = report_heatmap_level(number, most, n);
				ck_assert_uint_lt(level, n);
				ck_assert_uint_ge(level, last);
				last = level;
			}
			ck_assert_uint_eq(report_heatmap_level(1, most, n), 0);
			ck_assert_uint_eq(last, most < n ? most - 1 : n - 1);
		}
	}
}
END_TEST

/* ---- SVG ---- */

static char *drawn(const struct canvas_label *label, const struct canvas_raster *raster)
{
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);
	const struct canvas_size size = { 100, 50, 300, 0, "a <title>" };
	struct canvas *canvas;

	ck_assert_int_eq(canvas_open(CANVAS_SVG, out, &size, &canvas), 0);
	if (label)
		canvas_text(canvas, label);
	if (raster)
		canvas_cells(canvas, (struct canvas_rect){ 10, 10, 30, 20 }, raster);
	ck_assert_int_eq(canvas_close(canvas), 0);
	fclose(out);
	return text;
}

START_TEST(text_of_any_bytes_is_valid_xml)
{
	char *text = drawn(&(struct canvas_label){ .text = "<a & b>\x01\n\xff" }, NULL);

	ck_assert_ptr_nonnull(strstr(text, ">&lt;a &amp; b&gt;??\xef\xbf\xbd</text>"));
	ck_assert_ptr_nonnull(strstr(text, "<title>a &lt;title&gt;</title>"));
	free(text);
}
END_TEST

START_TEST(equal_cells_of_a_row_are_one_piece_and_holes_none)
{
	const uint32_t colours[] = { 1, 1, 1, 2, CANVAS_NO_COLOUR, 1 };
	char *text = drawn(NULL, &(struct canvas_raster){ 3, 2, colours });

	ck_assert_ptr_nonnull(strstr(text, "fill=\"#000001\" d=\"M0 0h3v1h-3zM2 1h1v1h-1z\""));
	ck_assert_ptr_nonnull(strstr(text, "fill=\"#000002\" d=\"M0 1h1v1h-1z\""));
	ck_assert_ptr_nonnull(strstr(text, "scale(10.000000 10.000000)"));
	ck_assert_ptr_null(strstr(text, "ffffffff"));
	free(text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("axis");
	TCase *all = tcase_create("all");

	tcase_add_test(all, ticks_are_on_the_axis_in_order_and_no_more_than_asked_for);
	tcase_add_test(all, texts_of_ticks_differ_and_tell_their_value);
	tcase_add_test(all, bytes_have_steps_of_powers_of_two);
	tcase_add_test(all, an_axis_without_a_length_has_no_ticks);
	tcase_add_test(all, levels_rise_with_the_number_and_use_all_that_there_are);
	tcase_add_test(all, text_of_any_bytes_is_valid_xml);
	tcase_add_test(all, equal_cells_of_a_row_are_one_piece_and_holes_none);
	suite_add_tcase(suite, all);
	return suite_run(suite);
}
