#include "report/chart/curves.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "store/query-value.h"
#include "store/statement.h"

/* The last interval reaches beyond the end of the run. */
/* clang-format off */
static const char span_sql[] =
	"SELECT min(time_ns), max(time_ns + interval_ns), (SELECT duration_ns FROM run WHERE id ="
	" :run) FROM timeline WHERE run_id = :run";
/* clang-format on */
static const char intervals_sql[] =
	"SELECT time_ns, time_ns + interval_ns, max_live_bytes, n_allocations, n_samples, n_faults"
	" FROM timeline WHERE run_id = :run ORDER BY time_ns";
static const char resident_sql[] = "SELECT process_id, time_ns, rss FROM process_sample"
				   " WHERE run_id = :run ORDER BY process_id, time_ns";
static const char touched_sql[] = "SELECT process_id, begin_ns, end_ns, touched FROM page_interval"
				  " WHERE run_id = :run ORDER BY process_id, begin_ns";

void curves_finish(struct curves *curves)
{
	for (int id = 0; id < CURVE_COUNT; id++)
		free(curves->of[id].values);
	*curves = (struct curves){ 0 };
}

static int read_span(sqlite3 *db, int64_t run_id, struct curves *curves)
{
	auto_statement sqlite3_stmt *stmt = report_sql_prepare(db, span_sql, run_id, -1);
	int r = -EPROTO;

	if (stmt && sqlite3_step(stmt) == SQLITE_ROW) {
		int64_t end = sqlite3_column_int64(stmt, 2);
		curves->from_ns = sqlite3_column_int64(stmt, 0);
		curves->to_ns = sqlite3_column_int64(stmt, 1);
		if (curves->to_ns > end && end > curves->from_ns)
			curves->to_ns = end;
		r = curves->to_ns > curves->from_ns ? 0 : -ENODATA;
	}
	return r;
}

static double column_ns(const struct curves *curves)
{
	return (double)(curves->to_ns - curves->from_ns) / curves->n_columns;
}

/* Which columns a span of time is in, as fractions of columns. */
static void place(const struct curves *curves, int64_t from_ns, int64_t to_ns, double ends[2])
{
	double width = column_ns(curves);

	ends[0] = fmax((double)(from_ns - curves->from_ns) / width, 0);
	ends[1] = fmin((double)(to_ns - curves->from_ns) / width, curves->n_columns);
}

static void raise_to(double *value, double other)
{
	if (isnan(*value) || *value < other)
		*value = other;
}

/*
 * A count is spread evenly over the columns that its interval is in: nothing tells where it
 * happened.
 */
static void spread(struct curves *curves, enum curve_id id, const double ends[2], int64_t count)
{
	struct curve *curve = &curves->of[id];
	double per_second = 1e9 / column_ns(curves);

	curve->n += count;
	for (unsigned i = (unsigned)ends[0]; i < ends[1]; i++) {
		double part = fmin(ends[1], i + 1) - fmax(ends[0], i);
		double share = part / (ends[1] - ends[0]);
		curve->values[i] = (isnan(curve->values[i]) ? 0 : curve->values[i]) +
				   share * (double)count * per_second;
	}
}

static int read_intervals(sqlite3 *db, int64_t run_id, struct curves *curves)
{
	auto_statement sqlite3_stmt *stmt = report_sql_prepare(db, intervals_sql, run_id, -1);
	int code = SQLITE_ERROR;

	while (stmt && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		double live = (double)sqlite3_column_int64(stmt, 2);
		double ends[2];

		place(curves, sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1), ends);
		for (unsigned i = (unsigned)ends[0]; i < ends[1]; i++)
			raise_to(&curves->of[CURVE_LIVE].values[i], live);
		spread(curves, CURVE_ALLOCATIONS, ends, sqlite3_column_int64(stmt, 3));
		spread(curves, CURVE_SAMPLES, ends, sqlite3_column_int64(stmt, 4));
		spread(curves, CURVE_FAULTS, ends, sqlite3_column_int64(stmt, 5));
	}
	return code == SQLITE_DONE ? 0 : -EPROTO;
}

/* One process after the other: its own columns, which are then added to the sum. */
struct resident {
	struct curves *curves;
	double *own;
	int64_t process;
	int64_t time_ns; /* of the last value, which holds until the next */
	double rss;
};

static void hold_until(struct resident *resident, int64_t time_ns)
{
	double ends[2];

	place(resident->curves, resident->time_ns, time_ns + 1, ends);
	for (unsigned i = (unsigned)ends[0]; i < ends[1]; i++)
		raise_to(&resident->own[i], resident->rss);
}

static void add_own(const struct curves *curves, enum curve_id id, double *own)
{
	double *sum = curves->of[id].values;

	for (unsigned i = 0; i < curves->n_columns; i++) {
		if (!isnan(own[i]))
			sum[i] = (isnan(sum[i]) ? 0 : sum[i]) + own[i];
		own[i] = NAN;
	}
}

static void end_process(struct resident *resident)
{
	if (resident->process)
		hold_until(resident, resident->time_ns);
	add_own(resident->curves, CURVE_RSS, resident->own);
}

static void take_resident(struct resident *resident, sqlite3_stmt *stmt)
{
	int64_t process = sqlite3_column_int64(stmt, 0);
	int64_t time_ns = sqlite3_column_int64(stmt, 1);

	if (process != resident->process)
		end_process(resident);
	else
		hold_until(resident, time_ns - 1);
	resident->process = process;
	resident->time_ns = time_ns;
	resident->rss = (double)sqlite3_column_int64(stmt, 2);
}

static int read_resident(sqlite3 *db, int64_t run_id, struct curves *curves, double *own)
{
	struct resident resident = { .curves = curves, .own = own };
	sqlite3_stmt *stmt = report_sql_prepare(db, resident_sql, run_id, -1);
	int code = SQLITE_ERROR;

	for (unsigned i = 0; i < curves->n_columns; i++)
		own[i] = NAN;
	while (stmt && (code = sqlite3_step(stmt)) == SQLITE_ROW)
		take_resident(&resident, stmt);
	sqlite3_finalize(stmt);
	end_process(&resident);
	return code == SQLITE_DONE ? 0 : -EPROTO;
}

/* own: NAN in each column, as read_resident() leaves it. */
static int read_touched(sqlite3 *db, int64_t run_id, struct curves *curves, double *own)
{
	auto_statement sqlite3_stmt *stmt = report_sql_prepare(db, touched_sql, run_id, -1);
	int code = SQLITE_ERROR;
	int64_t process = 0;

	while (stmt && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		double ends[2];

		if (process != sqlite3_column_int64(stmt, 0))
			add_own(curves, CURVE_TOUCHED, own);
		process = sqlite3_column_int64(stmt, 0);
		place(curves, sqlite3_column_int64(stmt, 1), sqlite3_column_int64(stmt, 2), ends);
		for (unsigned i = (unsigned)ends[0]; i < ends[1]; i++)
			raise_to(&own[i], (double)sqlite3_column_int64(stmt, 3));
	}
	add_own(curves, CURVE_TOUCHED, own);
	return code == SQLITE_DONE ? 0 : -EPROTO;
}

static int allocate(struct curves *curves)
{
	for (int id = 0; id < CURVE_COUNT; id++) {
		double *values = calloc(curves->n_columns, sizeof(*values));
		if (!values)
			return -ENOMEM;
		curves->of[id].values = values;
		for (unsigned i = 0; i < curves->n_columns; i++)
			values[i] = NAN;
	}
	return 0;
}

static void find_most(struct curves *curves)
{
	for (int id = 0; id < CURVE_COUNT; id++)
		for (unsigned i = 0; i < curves->n_columns; i++)
			curves->of[id].most = fmax(curves->of[id].most, curves->of[id].values[i]);
}

int curves_read(sqlite3 *db, int64_t run_id, unsigned n_columns, struct curves *curves)
{
	*curves = (struct curves){ .n_columns = n_columns };
	double *own = calloc(n_columns, sizeof(*own));
	int r = own ? allocate(curves) : -ENOMEM;

	r = r ?: read_span(db, run_id, curves);
	r = r ?: read_intervals(db, run_id, curves);
	r = r ?: read_resident(db, run_id, curves, own);
	r = r ?: read_touched(db, run_id, curves, own);
	free(own);
	if (r == 0)
		find_most(curves);
	return r;
}
