#include "report/diff/diff.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/human-number.h"
#include "report/diff/diff-sites.h"
#include "report/report.h"
#include "report/text/fit-text.h"
#include "report/text/sampling-notes.h"
#include "store/query-value.h"
#include "store/statement.h"

#define N_ROWS 20 /* of text, when nobody says how many */

/* ---- Which runs ---- */

static const char runs_sql[] =
	"SELECT id FROM run WHERE CASE WHEN ?1 IS NULL THEN (program, mode) ="
	"  (SELECT program, mode FROM run ORDER BY id DESC LIMIT 1)"
	" ELSE CAST(id AS TEXT) = ?1 OR program || '.' || mode || '.' || repetition = ?1"
	"  OR (NOT EXISTS (SELECT 1 FROM run WHERE CAST(id AS TEXT) = ?1)"
	"   AND (program || '.' || mode = ?1 OR program = ?1)) END ORDER BY id";

int diff_runs(sqlite3 *db, const char *selector, int64_t **ret_runs, size_t *ret_n)
{
	sqlite3_stmt *stmt = report_sql_prepare(db, runs_sql, 0, -1);
	auto_free int64_t *runs = NULL;
	size_t n = 0, n_allocated = 0;
	int r = stmt ? 0 : -EPROTO;

	if (stmt && selector)
		sqlite3_bind_text(stmt, 1, selector, -1, SQLITE_STATIC);
	while (r == 0 && statement_advance(stmt) == SQLITE_ROW) {
		r = array_add(runs, n, n_allocated, sqlite3_column_int64(stmt, 0));
	}
	sqlite3_finalize(stmt);
	r = statement_verdict(db, r);
	if (r == 0 && n == 0)
		r = selector ? -ENOENT : -ENODATA;
	if (r < 0)
		return r;
	*ret_n = n;
	*ret_runs = steal_ptr(&runs);
	return 0;
}

#define NEED(has, what)                                                                            \
	"SELECT 'recorded no " what ": there is nothing to compare by' WHERE NOT" has

static const char *const missing_sql[REPORT_NEEDS_COUNT] = {
	[REPORT_NEEDS_BLOCKS] =
		"SELECT 'recorded no allocations (' || coalesce((" REPORT_SQL_WHY_NO_BLOCKS
		"), 'no process was traced') || '): there are no call sites to compare'"
		" WHERE NOT" REPORT_SQL_HAS_BLOCKS(":run"),
	[REPORT_NEEDS_CLOCK] =
		NEED(" EXISTS (SELECT 1 FROM source WHERE run_id = :run AND error = 0"
		     " AND measures = 'time')",
		     "samples of CPU time"),
	[REPORT_NEEDS_FAULTS] = NEED(REPORT_SQL_HAS_FAULTS(":run"), "page faults"),
};

char *diff_why_not(const struct diff_side *side, enum profile_metric metric)
{
	const char *sql = missing_sql[profile_metric_row(metric)->needs];
	char *why = NULL;

	for (size_t i = 0; !why && i < side->n_runs; i++) {
		why = report_sql_text(side->db, missing_sql[REPORT_NEEDS_BLOCKS], side->runs[i]);
		if (!why)
			why = report_sql_text(side->db, sql, side->runs[i]);
	}
	return why;
}

/* ---- What differs, and how surely ---- */

struct diff {
	const struct diff_request *request;
	struct diff_sites sites;
	double n_samples[2]; /* time: of all runs of a side, and what they stand for in ns */
	double time_ns[2];
	double unknown[2]; /* the most that the whole may be off, by what is not known of sites */
	struct diff_rows rows;
	size_t n_changes;
	size_t n_noise; /* changes that their interval does not tell from 0 */
};

/*
 * The interval that the samples of time give, in ns a run. A side that does not have the site, or
 * not the ends of its interval, has that of n samples.
 */
static double half_of_samples(const struct diff *diff, const struct diff_site *site)
{
	double squares = 0;

	for (int side = 0; side < 2; side++) {
		const struct diff_sum *sum = &site->sides[side];
		double n_runs = (double)diff->request->sides[side].n_runs;
		double share = format_half_width(sum->n, sum->n_sq,
						 (int64_t)llround(diff->n_samples[side]));
		double half = sum->has_ends ? sqrt(sum->half_sq) / n_runs
					    : share * diff->time_ns[side] / n_runs;
		squares += half * half;
	}
	return sqrt(squares);
}

/* What is not known is no matter of chance: more samples and repetitions do not make it less. */
static double half_of_unknown(const struct diff *diff, const struct diff_site *site)
{
	double half = 0;

	for (int side = 0; side < 2; side++)
		half += site->sides[side].half_unknown / (double)diff->request->sides[side].n_runs;
	return half;
}

/* Blocks and bytes of single runs are exact, but those estimated from picked blocks. */
static double half_of_picks(const struct diff *diff, const struct diff_site *site)
{
	double variance = 0;

	for (int side = 0; side < 2; side++) {
		double n_runs = (double)diff->request->sides[side].n_runs;
		variance += site->sides[side].n_sq / (n_runs * n_runs);
	}
	return variance > 0 ? 1.96 * sqrt(variance) : -1;
}

static double half_of(const struct diff *diff, const struct diff_site *site)
{
	const struct diff_side *runs = diff->request->sides;
	const struct diff_sum *sums = site->sides;
	double half = diff_half_of_means((const double[]){ sums[0].sum, sums[1].sum },
					 (const double[]){ sums[0].sum_sq, sums[1].sum_sq },
					 (const size_t[]){ runs[0].n_runs, runs[1].n_runs });

	if (half >= 0)
		return half + half_of_unknown(diff, site);
	return diff->request->metric == PROFILE_TIME
		       ? half_of_samples(diff, site) + half_of_unknown(diff, site)
		       : half_of_picks(diff, site);
}

static bool is_sure(const struct diff_row *change)
{
	return fabs(change->after - change->before) > change->half;
}

DEFINE_ORDER(compare, struct diff_row,
	     ORDER(fabs(b->after - b->before), fabs(a->after - a->before)));

/* A site as means over the runs. 0 or -ENOMEM. */
static int add_row(struct diff *diff, const struct diff_site *site)
{
	struct diff_row row = { .side = site->sides[1].stack_id >= 0 };
	double means[2];

	for (int side = 0; side < 2; side++) {
		double n_runs = (double)diff->request->sides[side].n_runs;

		means[side] = site->sides[side].sum / n_runs;
		diff->rows.whole[side] += means[side];
		diff->unknown[side] += site->sides[side].half_unknown / n_runs;
		row.is_unknown[side] = site->sides[side].half_unknown != 0;
	}
	if (means[0] == 0 && means[1] == 0)
		return 0;
	row.before = means[0];
	row.after = means[1];
	row.half = half_of(diff, site);
	row.stack_id = site->sides[row.side].stack_id;
	if (site->was && !(row.was = strdup(site->was)))
		return -ENOMEM;
	if (row.before != row.after)
		diff->n_noise += !is_sure(&row);
	diff->n_changes += row.before != row.after;
	diff->rows.rows[diff->rows.n++] = row;
	return 0;
}

static int find_changes(struct diff *diff)
{
	int r = 0;

	diff->rows.rows = calloc(diff->sites.n + 1, sizeof(*diff->rows.rows));
	if (!diff->rows.rows)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < diff->sites.n; i++)
		r = add_row(diff, &diff->sites.items[i]);
	qsort(diff->rows.rows, diff->rows.n, sizeof(*diff->rows.rows), compare);
	return r;
}

/* ---- As rows ---- */

static const char table_sql[] =
	"DROP TABLE IF EXISTS temp.diff_site;CREATE TEMP TABLE diff_site(id INTEGER PRIMARY KEY,"
	" before INTEGER, after INTEGER, half INTEGER, is_sure INTEGER, place TEXT, change"
	" INTEGER)";

/* clang-format off */
static const char rows_sql[] =
	"SELECT change, iif(after IS NULL, NULL, 1.0 * change / nullif(before, 0)) AS \"of %w\","
	" half AS \"\u00b195 %%\", before AS \"%w\", after AS \"%w\", CASE is_sure WHEN 1 THEN"
	" 'yes' WHEN 0 THEN 'no' END AS significant, place AS \"allocated at\" FROM temp.diff_site"
	" ORDER BY id LIMIT :limit";
/* clang-format on */

/* The call path as the newer side that has it tells it; allocated. */
static char *place_of(const struct diff *diff, const struct diff_row *row)
{
	char *sql = row->was ? sqlite3_mprintf("SELECT site_name(:run, 5) || ' (was ' || %Q || ')'",
					       row->was)
			     : sqlite3_mprintf("SELECT site_name(:run, 5)");
	char *place = sql ? report_sql_text(diff->request->sides[row->side].db, sql, row->stack_id)
			  : NULL;

	sqlite3_free(sql);
	return place;
}

static int insert(const struct diff *diff, size_t i, sqlite3_stmt *stmt)
{
	const struct diff_row *row = &diff->rows.rows[i];
	auto_free char *place = place_of(diff, row);

	sqlite3_reset(stmt);
	sqlite3_bind_int64(stmt, 1, (int64_t)i + 1);
	statement_integer_or_null(stmt, 2, llround(row->before), !row->is_unknown[0]);
	statement_integer_or_null(stmt, 3, llround(row->after), !row->is_unknown[1]);
	statement_integer_or_null(stmt, 4, llround(row->half), row->half >= 0);
	statement_integer_or_null(stmt, 5, is_sure(row), row->half >= 0);
	sqlite3_bind_text(stmt, 6, place, -1, SQLITE_TRANSIENT);
	sqlite3_bind_int64(stmt, 7, llround(row->after - row->before));
	return statement_advance(stmt) == SQLITE_DONE ? 0 : -EPROTO;
}

static bool is_listed(const struct diff *diff, const struct diff_row *change)
{
	return diff->request->format != TABLE_TEXT || change->half < 0 || is_sure(change);
}

static int64_t limit_of(const struct diff_request *request)
{
	if (request->limit)
		return request->limit;
	return request->format == TABLE_TEXT ? N_ROWS : -1;
}

static int fill_table(const struct diff *diff)
{
	sqlite3 *db = diff->request->sides[0].db;
	int64_t left = limit_of(diff->request);

	int result = sqlite3_exec(db, table_sql, NULL, NULL, NULL);
	if (result != SQLITE_OK) {
		statement_keep(db, result);
		return -EPROTO;
	}
	auto_statement sqlite3_stmt *stmt = report_sql_prepare(
		db, "INSERT INTO temp.diff_site VALUES (?, ?, ?, ?, ?, ?, ?)", 0, -1);
	int r = stmt ? 0 : -EPROTO;
	for (size_t i = 0; r == 0 && left != 0 && i < diff->n_changes; i++) {
		if (!is_listed(diff, &diff->rows.rows[i]))
			continue;
		r = insert(diff, i, stmt);
		left--;
	}
	return r;
}

static void write_head(FILE *out, const struct diff *diff)
{
	const struct profile_metric_row *metric = profile_metric_row(diff->request->metric);
	const struct diff_side *sides = diff->request->sides;

	auto_free char *title = profile_title(sides[1].db, sides[1].runs[0], metric->title);

	fprintf(out, "Call sites by %s: ", title ? title : metric->title);
	for (int side = 0; side < 2; side++) {
		if (sides[side].label)
			fprintf(out, "%s ", sides[side].label);
		fputs(table_value_text(diff->rows.whole[side], metric->kind).text, out);
		if (diff->unknown[side] > 0)
			fprintf(out, " \u00b1%s",
				table_value_text(diff->unknown[side], metric->kind).text);
		fprintf(out, " (%zu run%s)%s", sides[side].n_runs,
			sides[side].n_runs > 1 ? "s, mean" : "", side == 0 ? " -> " : "\n");
	}
}

static void write_foot(FILE *out, const struct diff *diff, size_t n_rows)
{
	size_t n_sure = diff->n_changes - diff->n_noise;

	if (n_sure == 0)
		fputs("No call site differs.\n", out);
	else
		report_rest_write(out, (int64_t)n_sure - (int64_t)n_rows);
	if (diff->unknown[0] + diff->unknown[1] > 0)
		fputs("-: not known, the change is to what lies in the middle of what it may be,"
		      " and its interval has all of it\n",
		      out);
	if (n_rows > 0 && diff->rows.rows[0].half < 0)
		fputs("significant, \u00b195 %: not known from one run on each side; several of"
		      " each show changes from chance\n",
		      out);
	if (diff->n_noise)
		fprintf(out, "%zu differ by less than their 95 %% interval: not listed\n",
			diff->n_noise);
	for (int side = 0; side < 2; side++)
		report_picked_foot(out, diff->request->sides[side].db,
				   diff->request->sides[side].runs[0]);
}

static int write_rows(FILE *out, void *user)
{
	const struct diff *diff = user;
	bool is_text = diff->request->format == TABLE_TEXT;
	enum table_kind kind = profile_metric_row(diff->request->metric)->kind;
	const enum table_kind kinds[] = { kind, TABLE_PERCENT_CHANGE, kind, kind, kind };
	const struct table_style style = { diff->request->format, kinds, 5, diff->request->width,
					   true };
	const char *before = is_text ? diff_label(diff->request, 0) : "before";
	const char *after = is_text ? diff_label(diff->request, 1) : "after";
	char *sql = sqlite3_mprintf(rows_sql, before, before, after);
	size_t n_rows = 0;

	if (!sql)
		return -ENOMEM;
	sqlite3_stmt *stmt =
		report_sql_prepare(diff->request->sides[0].db, sql, 0, limit_of(diff->request));
	sqlite3_free(sql);
	if (!stmt)
		return -EPROTO;
	if (is_text) {
		diff_write_runs(out, diff->request);
		write_head(out, diff);
	}
	int r = table_write(out, stmt, &style, &n_rows);
	sqlite3_finalize(stmt);
	if (r == 0 && is_text)
		write_foot(out, diff, n_rows);
	return r;
}

/* How many samples of time the runs of a side took, and what those stand for. */
static void count_samples(struct diff *diff, int side)
{
	static const char n_sql[] = "SELECT sum(n_samples) FROM source WHERE run_id = :run AND"
				    " measures = 'time'";
	static const char time_sql[] =
		"SELECT sum(coalesce(weight, n_samples * period)) FROM source"
		" LEFT JOIN source_ledger ON source_id = source.id WHERE source.run_id = :run"
		" AND measures = 'time'";
	const struct diff_side *from = &diff->request->sides[side];

	for (size_t i = 0; i < from->n_runs; i++) {
		diff->n_samples[side] += (double)report_sql_number(from->db, n_sql, from->runs[i]);
		diff->time_ns[side] += (double)report_sql_number(from->db, time_sql, from->runs[i]);
	}
}

static int find(struct diff *diff, sqlite3 **ret_failed)
{
	const struct diff_request *request = diff->request;
	int r = 0;

	for (int side = 0; side < 2 && r == 0; side++) {
		*ret_failed = request->sides[side].db;
		count_samples(diff, side);
		r = diff_sites_read(&diff->sites, request, side);
	}
	if (r < 0)
		return r;
	*ret_failed = request->sides[0].db;
	return diff_sites_pair(&diff->sites) ?: find_changes(diff);
}

int diff_write(FILE *out, const struct diff_request *request, sqlite3 **ret_failed)
{
	struct diff diff = { .request = request };
	int r = find(&diff, ret_failed) ?: fill_table(&diff);
	if (r == 0)
		r = fit_lines_write(out, request->format == TABLE_TEXT ? request->width : 0,
				    write_rows, &diff);
	diff_rows_finish(&diff.rows);
	diff_sites_finish(&diff.sites);
	for (int side = 0; side < 2 && r == 0; side++) {
		*ret_failed = request->sides[side].db;
		r = statement_verdict(*ret_failed, r);
	}
	return ferror(out) ? -EIO : r;
}

void diff_rows_finish(struct diff_rows *rows)
{
	for (size_t i = 0; rows->rows && i < rows->n; i++)
		free(rows->rows[i].was);
	free(rows->rows);
	rows->rows = NULL;
}

int diff_find(const struct diff_request *request, struct diff_rows *ret_rows, sqlite3 **ret_failed)
{
	struct diff diff = { .request = request };
	int r = find(&diff, ret_failed);

	diff_sites_finish(&diff.sites);
	*ret_rows = diff.rows;
	return r;
}
