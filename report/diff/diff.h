#pragma once
/*
 * Two runs, or two sets of repetitions, compared call site by call site. A site is its call path by
 * names, as site_name() has them: functions and lines of the program's calls, so that neither where
 * a file lies nor where it was loaded matters, nor how a library works inside. Between two builds
 * lines move, and functions are renamed, moved and split: diff-sites.h says how sites are paired
 * then. Both databases are only read.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "report/callgraph/profile.h"
#include "report/text/table.h"

struct diff_side {
	sqlite3 *db; /* with report_functions_register() */
	int64_t *runs; /* run.id, n_runs of them: repetitions of one thing */
	size_t n_runs;
	const char *label; /* in text; NULL: "before", "after" */
};

struct diff_request {
	struct diff_side sides[2]; /* before and after */
	enum profile_metric metric;
	int64_t limit; /* rows; 0: of text 20, of CSV and JSON all; negative: all */
	enum table_format format;
	unsigned width; /* of the terminal; 0: lines are not cut */
};

static inline const char *diff_label(const struct diff_request *request, int side)
{
	const char *label = request->sides[side].label;

	return label ? label : side == 0 ? "before" : "after";
}

/*
 * The runs that a person names: an id or PROGRAM.MODE.N: that one; PROGRAM.MODE or PROGRAM: all its
 * repetitions; NULL: all repetitions of what was imported last. *ret_runs is allocated. Returns 0,
 * -ENOENT when nothing is called so, -ENODATA when the database holds no run, -ENOMEM, -EPROTO.
 */
int diff_runs(sqlite3 *db, const char *selector, int64_t **ret_runs, size_t *ret_n);

/*
 * Why a side's runs cannot be compared by a metric, as words behind a name: "recorded no page
 * faults ...": what was not recorded would read as gone, or as new. Allocated; NULL: they can, or
 * there is no memory.
 */
char *diff_why_not(const struct diff_side *side, enum profile_metric metric);

/*
 * Half of the 95 % interval of the difference of two means (Welch), from sums and sums of squares
 * of n values each; -1: one side has less than two.
 */
double diff_half_of_means(const double sums[2], const double sums_sq[2], const size_t n[2]);

/* Something that runs took, as means over the runs of both sides. */
struct diff_measure {
	const char *name;
	enum table_kind kind; /* and so the unit: ns or bytes */
	double before, after;
	double half; /* of the 95 % interval of after - before (Welch); negative: not known */
};

#define DIFF_MEASURES 3u /* wall time, CPU time, max RSS */

/* Those that are known of all runs; of a run beside itself none. Returns how many. */
size_t diff_measure(const struct diff_request *request, struct diff_measure ret[DIFF_MEASURES]);

/*
 * Write what the runs of both sides took, as means: wall and CPU time and most resident memory of
 * the command. The change is in percent of the value before; its 95 % interval (Welch) in the same
 * unit, where both sides have two runs at least. Left out is what is not known of a run. 0 or -EIO.
 */
int diff_write_runs(FILE *out, const struct diff_request *request);

/* What a call site has on both sides: means over the runs. */
struct diff_row {
	double before, after;
	double half; /* of the 95 % interval of after - before; negative: exact, or none is known */
	int64_t stack_id; /* of the newer side that has it */
	int side; /* which one that is */
	bool is_unknown[2]; /* before, after: anything within the interval */
	char *was; /* owned: how a function of its path was called before; NULL: as now */
};

struct diff_rows {
	struct diff_row *rows; /* the biggest change first, sites without a change last */
	size_t n;
	double whole[2]; /* of all sites */
};

void diff_rows_finish(struct diff_rows *rows);

/*
 * Compare; limit, format and width of the request are not looked at. Errors as diff_write(); the
 * caller finishes the rows.
 */
int diff_find(const struct diff_request *request, struct diff_rows *ret_rows, sqlite3 **ret_failed);

/*
 * Write what the runs took (text only), and the sites that differ, biggest change first. With two
 * repetitions or more on both sides the 95 % interval of a change is that of the difference of two
 * means (Welch); for time of single runs it comes from their samples; else values are exact and
 * have none. Text leaves out, and counts, changes that their interval does not tell from 0. Returns
 * 0, -EIO, -ENOMEM, -EPROTO with *ret_failed the database whose sqlite3_errmsg() tells.
 */
int diff_write(FILE *out, const struct diff_request *request, sqlite3 **ret_failed);
