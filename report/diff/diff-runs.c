#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "report/diff/diff.h"
#include "store/query-value.h"

/* Student's t, 97.5 %, by degrees of freedom; any table of statistics. */
static double student_t(double degrees)
{
	static const double t[] = { 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
				    2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
				    2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
				    2.060,  2.056, 2.052, 2.048, 2.045, 2.042 };

	if (degrees > 30)
		return 2.042; /* wider than need be, by 4 % at most */
	return t[degrees < 1 ? 0 : (size_t)degrees - 1];
}

/* Variance of the mean of n values. */
static double variance_of_mean(double sum, double sum_sq, double n)
{
	double mean = sum / n;

	return fmax(sum_sq / n - mean * mean, 0) / (n - 1);
}

double diff_half_of_means(const double sums[2], const double sums_sq[2], const size_t n_values[2])
{
	double n[2], variance[2];

	for (int side = 0; side < 2; side++) {
		n[side] = (double)n_values[side];
		if (n[side] < 2)
			return -1;
		variance[side] = variance_of_mean(sums[side], sums_sq[side], n[side]);
	}
	double sum = variance[0] + variance[1];
	if (sum == 0)
		return 0;
	double degrees =
		sum * sum /
		(variance[0] * variance[0] / (n[0] - 1) + variance[1] * variance[1] / (n[1] - 1));
	return student_t(degrees) * sqrt(sum);
}

/* What a run took; NULL where it is not known. */
static const struct {
	const char *name;
	enum table_kind kind;
	const char *sql;
} measures[DIFF_MEASURES] = {
	{ "wall time", TABLE_DURATION, "SELECT duration_ns FROM run WHERE id = :run" },
	{ "CPU time", TABLE_DURATION, "SELECT user_ns + system_ns FROM run WHERE id = :run" },
	{ "max RSS", TABLE_BYTES, "SELECT max_rss FROM run WHERE id = :run" },
};

/* Sums over the runs of both sides. */
struct sums {
	double of[2], of_squares[2];
};

/* Whether all runs have a value. */
static bool add_up(const struct diff_request *request, const char *sql, struct sums *sums)
{
	for (int side = 0; side < 2; side++) {
		const struct diff_side *from = &request->sides[side];

		for (size_t i = 0; i < from->n_runs; i++) {
			double value = (double)report_sql_number(from->db, sql, from->runs[i]);

			if (value <= 0)
				return false;
			sums->of[side] += value;
			sums->of_squares[side] += value * value;
		}
	}
	return true;
}

static void write_measure(FILE *out, const struct diff_measure *measure)
{
	double change = measure->after - measure->before;

	fprintf(out, "%-10s %10s  %10s  %+7.1f %%", measure->name,
		table_value_text(measure->before, measure->kind).text,
		table_value_text(measure->after, measure->kind).text,
		100 * change / measure->before);
	if (measure->half < 0)
		fprintf(out, "        -\n");
	else
		fprintf(out, "  %5.1f %%%s\n", 100 * measure->half / measure->before,
			fabs(change) > measure->half ? "" : "  within chance");
}

/* A run beside itself. */
static bool is_one_run(const struct diff_request *request)
{
	const struct diff_side *before = &request->sides[0], *after = &request->sides[1];

	return before->n_runs == 1 && after->n_runs == 1 && before->runs[0] == after->runs[0] &&
	       strcmp(sqlite3_db_filename(before->db, "main"),
		      sqlite3_db_filename(after->db, "main")) == 0;
}

size_t diff_measure(const struct diff_request *request, struct diff_measure ret[DIFF_MEASURES])
{
	const size_t n[2] = { request->sides[0].n_runs, request->sides[1].n_runs };
	size_t n_found = 0;

	for (size_t i = 0; i < DIFF_MEASURES && !is_one_run(request); i++) {
		struct sums sums = { 0 };

		if (!add_up(request, measures[i].sql, &sums))
			continue;
		ret[n_found++] = (struct diff_measure){
			measures[i].name,
			measures[i].kind,
			sums.of[0] / (double)n[0],
			sums.of[1] / (double)n[1],
			diff_half_of_means(sums.of, sums.of_squares, n),
		};
	}
	return n_found;
}

int diff_write_runs(FILE *out, const struct diff_request *request)
{
	struct diff_measure found[DIFF_MEASURES];
	size_t n = diff_measure(request, found);

	if (is_one_run(request))
		return 0;
	fprintf(out, "%-10s %10s  %10s  %9s  %8s\n", "", diff_label(request, 0),
		diff_label(request, 1), "change", "±95 %");
	for (size_t i = 0; i < n; i++)
		write_measure(out, &found[i]);
	return ferror(out) ? -EIO : 0;
}
