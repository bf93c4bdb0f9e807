#include "report/check/check.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/human-number.h"
#include "report/queries.h"
#include "report/report.h"
#include "store/statement.h"

struct rule {
	const char *name;
	bool is_bytes;
	bool needs_events; /* lost events make it uncertain */
	enum profile_metric metric; /* of its differences; PROFILE_METRIC_COUNT: no site has any */
	/* of :run; NULL: not recorded; then its standard error, where blocks were picked */
	const char *sql;
	const char *places_sql; /* the largest, at most :limit; their value is column 0 */
	int text_column, stack_column; /* the latter 0: there are no call stacks */
	bool grows_by_lost_frees;
};

/* clang-format off */
#define NOT_KEPT \
	" AND stack_id NOT IN (SELECT stack_id FROM temp.suppressed) AND stack_id NOT IN (" \
	BEFORE_ATTACH ")"

static const struct rule rules[CHECK_RULE_COUNT] = {
	[CHECK_PEAK] = { "peak", true, true, PROFILE_PEAK,
		/* the highest of many estimates is too high by chance: report/summary.c */
		"SELECT value, (SELECT error.value * max(1, sqrt(2 * ln(40 * picked.value)) / 1.96)"
		" FROM total AS error JOIN total AS picked USING (run_id) WHERE error.run_id = :run"
		" AND error.name = 'peak_bytes_error' AND picked.name = 'picked_blocks')"
		" FROM total WHERE run_id = :run AND name = 'peak_bytes'",
		"SELECT bytes, site_name(stack_id, 3), stack_id FROM site_peak WHERE run_id = :run"
		" ORDER BY 1 DESC, 3 LIMIT :limit", 1, 2, true },
	[CHECK_LEAKED] = { "leaked", true, true, PROFILE_LEAKED,
		"SELECT coalesce(sum(" REPORT_LEFT_BYTES "), 0), CASE WHEN sum(n_picked) > 0 THEN"
		" sqrt(sum(live_variance)) END FROM site"
		" WHERE run_id = :run" NOT_KEPT,
		"SELECT " REPORT_LEFT_BYTES ", site_name(stack_id, 3), stack_id FROM site"
		" WHERE run_id = :run AND " REPORT_LEFT_BLOCKS " > 0" NOT_KEPT
		" ORDER BY 1 DESC, 3 LIMIT :limit", 1, 2, true },
	[CHECK_RSS] = { "rss", true, false, PROFILE_METRIC_COUNT,
		"SELECT nullif(max_rss, 0), NULL FROM run WHERE id = :run",
		report_resident_sql, 11, 0, false },
	[CHECK_ALLOCATIONS] = { "allocations", false, true, PROFILE_BLOCKS,
		"SELECT value, (SELECT value FROM total WHERE run_id = :run AND name ="
		" 'allocations_error') FROM total WHERE run_id = :run AND name = 'allocations'",
		"SELECT n_blocks, site_name(stack_id, 3), stack_id FROM site WHERE run_id = :run"
		" ORDER BY 1 DESC, 3 LIMIT :limit", 1, 2, false },
};

/* What makes events uncertain: a stack that was cut short changes no number. */
static const char lost_sql[] =
	"SELECT count || ' lost (' || source || ': ' || reason || ')' FROM loss"
	" WHERE run_id = :run AND source IN ('tracealloc', 'collector', 'last', 'trace')"
	" AND reason <> 'stack cut short' LIMIT 1";

/* What else is missing: numbers without it are too small, if anything. */
static const char missing_sql[] =
	"SELECT exe || ' was not traced (' || coalesce(why_not, 'unknown') || ')'"
	" FROM process WHERE run_id = :run AND NOT traced AND why_not IS NOT 'perf.data'"
	" UNION ALL SELECT 'the recording broke off' FROM run WHERE id = :run"
	" AND NOT ended_cleanly LIMIT 1";

static const char killed_sql[] =
	"SELECT printf('killed by signal %d: what it would have freed', exit_status & 127)"
	" FROM run WHERE id = :run AND ended_cleanly AND exit_status & 127 UNION ALL SELECT"
	" 'recorded by attach: what it would have freed' FROM fact WHERE run_id = :run AND"
	" key = 'memsight.attach.blocks'";

/* Innermost first: the line that the program has there, else any that is known. */
static const char line_sql[] =
	"WITH RECURSIVE up(id, depth) AS (SELECT :run, 0 UNION ALL SELECT parent_id, up.depth + 1"
	"  FROM up JOIN stack USING (id) WHERE parent_id IS NOT NULL)"
	" SELECT file, line FROM up JOIN stack USING (id) JOIN frame ON frame.id = stack.frame_id"
	" JOIN frame_line ON frame_line.frame_id = frame.id WHERE file IS NOT NULL AND line > 0"
	" ORDER BY path IN (SELECT exe FROM process) DESC, up.depth, frame_line.depth LIMIT 1";
/* clang-format on */

const char *check_rule_name(enum check_rule rule)
{
	return rules[rule].name;
}

struct format_text check_rule_text(enum check_rule rule, double value)
{
	return rules[rule].is_bytes ? format_bytes(llround(value)) : format_count(llround(value));
}

const char *check_verdict_name(enum check_verdict verdict)
{
	static const char *const names[CHECK_VERDICT_COUNT] = {
		[CHECK_KEPT] = "kept",
		[CHECK_EXCEEDED] = "exceeded",
		[CHECK_NOT_KNOWN] = "not known",
	};

	return names[verdict];
}

enum check_verdict check_worst(const struct check_results *results)
{
	enum check_verdict worst = CHECK_KEPT;

	for (size_t i = 0; i < results->n; i++) {
		if (results->items[i].verdict == CHECK_EXCEEDED)
			return CHECK_EXCEEDED;
		if (results->items[i].verdict == CHECK_NOT_KNOWN)
			worst = CHECK_NOT_KNOWN;
	}
	return worst;
}

/* ---- Numbers of a side ---- */

/* A rule's numbers over the runs of a side. */
struct numbers {
	double sum, sum_sq, most;
	double half; /* of the 95 % interval of the most, where it is an estimate; else 0 */
	double variance; /* of the sum, likewise */
	int64_t run; /* that has the most */
	char *why; /* owned: why they are not known */
	bool may_be_less; /* than they seem */
};

static void finish_numbers(struct numbers *numbers)
{
	free(numbers->why);
}
#define auto_numbers __attribute__((cleanup(finish_numbers)))

/* Why a number of a run is not known, allocated; NULL: it is. */
static char *why_not(const struct check_request *request, sqlite3 *db, int64_t run,
		     enum check_rule rule, bool *ret_may_be_less)
{
	const struct diff_side only = { db, &run, 1 };
	char *why = NULL;

	if (!rules[rule].needs_events)
		return NULL;
	why = diff_why_not(&only, PROFILE_BYTES);
	if (why)
		return why;
	if (rule == CHECK_LEAKED)
		why = report_sql_text(db, killed_sql, run);
	if (!why && !request->allows_losses)
		why = report_sql_text(db, lost_sql, run);
	*ret_may_be_less |= why && rules[rule].grows_by_lost_frees;
	return why || request->allows_losses ? why : report_sql_text(db, missing_sql, run);
}

/* What libraries keep, and what suppressions name, is not looked at. */
static int hide_known(const struct check_request *request, sqlite3 *db, int64_t run)
{
	const struct report_request known = { .run_id = run,
					      .suppressions = request->suppressions };

	return report_leaks.prepare(db, &known);
}

static int add_run(const struct check_request *request, sqlite3 *db, int64_t run,
		   enum check_rule rule, struct numbers *numbers)
{
	int r = rule == CHECK_LEAKED ? hide_known(request, db, run) : 0;
	if (r < 0)
		return r;
	auto_statement sqlite3_stmt *stmt = report_sql_prepare(db, rules[rule].sql, run, 0);
	r = stmt ? statement_step(stmt) : -EPROTO;
	if (r < 0)
		return r;
	bool is_there = r > 0 && sqlite3_column_type(stmt, 0) != SQLITE_NULL;
	double value = is_there ? sqlite3_column_double(stmt, 0) : 0;

	if (!numbers->why)
		numbers->why = is_there ? why_not(request, db, run, rule, &numbers->may_be_less)
					: strdup("was not recorded");
	if (!is_there && !numbers->why)
		return -ENOMEM;
	double error = is_there ? sqlite3_column_double(stmt, 1) : 0;
	numbers->variance += error * error;
	if (numbers->run == 0 || value > numbers->most) {
		numbers->most = value;
		numbers->half = 1.96 * error;
		numbers->run = run;
	}
	numbers->sum += value;
	numbers->sum_sq += value * value;
	return statement_verdict(db, 0);
}

static int read_numbers(const struct check_request *request, int side, enum check_rule rule,
			struct numbers *ret_numbers, sqlite3 **ret_failed)
{
	const struct diff_side *from = &request->sides[side];
	int r = 0;

	*ret_failed = from->db;
	for (size_t i = 0; r == 0 && i < from->n_runs; i++)
		r = add_run(request, from->db, from->runs[i], rule, ret_numbers);
	return r;
}

/* ---- Who has it ---- */

static int add_place(struct check_result *result, sqlite3 *db, int64_t value, const char *text,
		     int64_t stack_id)
{
	struct check_place *place = &result->places[result->n_places];

	*place = (struct check_place){ .value = value, .text = strdup(text ? text : "") };
	if (!place->text)
		return -ENOMEM;
	result->n_places++;
	if (stack_id <= 0)
		return 0;
	auto_statement sqlite3_stmt *stmt = report_sql_prepare(db, line_sql, stack_id, 0);
	int r = stmt ? statement_step(stmt) : -EPROTO;
	if (r <= 0)
		return r;
	place->file = strdup(statement_string(stmt, 0));
	place->line = sqlite3_column_int64(stmt, 1);
	return place->file ? 0 : -ENOMEM;
}

static int find_largest(sqlite3 *db, int64_t run, struct check_result *result)
{
	const struct rule *rule = &rules[result->rule];
	auto_statement sqlite3_stmt *stmt =
		report_sql_prepare(db, rule->places_sql, run, CHECK_PLACES);
	int r = stmt ? 0 : -EPROTO;

	while (r == 0 && (r = statement_step(stmt)) > 0)
		r = add_place(result, db, sqlite3_column_int64(stmt, 0),
			      statement_string(stmt, rule->text_column),
			      rule->stack_column ? sqlite3_column_int64(stmt, rule->stack_column)
						 : 0);
	return r;
}

static int find_grown(const struct check_request *request, struct check_result *result,
		      sqlite3 **ret_failed)
{
	const struct diff_request wanted = {
		.sides = { request->sides[0], request->sides[1] },
		.metric = rules[result->rule].metric,
	};
	struct diff_rows rows = { 0 };

	if (wanted.metric == PROFILE_METRIC_COUNT)
		return 0;
	int r = diff_find(&wanted, &rows, ret_failed);
	for (size_t i = 0; r == 0 && i < rows.n && result->n_places < CHECK_PLACES; i++) {
		const struct diff_row *row = &rows.rows[i];
		sqlite3 *db = request->sides[row->side].db;

		if (row->after <= row->before)
			continue;
		auto_free char *text =
			report_sql_text(db, "SELECT site_name(:run, 3)", row->stack_id);
		*ret_failed = db;
		r = add_place(result, db, llround(row->after - row->before), text, row->stack_id);
	}
	diff_rows_finish(&rows);
	return r;
}

/* ---- Verdicts ---- */

/* Why a limit within the interval of an estimate is neither kept nor exceeded; NULL: no memory. */
static char *estimate_text(enum check_rule rule, const struct numbers *numbers)
{
	bool is_bytes = rules[rule].is_bytes;
	double low = fmax(numbers->most - numbers->half, 0);
	double high = numbers->most + numbers->half;
	char *text = NULL;
	int n = asprintf(
		&text, "is an estimate from picked blocks, %s to %s",
		is_bytes ? format_bytes(llround(low)).text : format_count(llround(low)).text,
		is_bytes ? format_bytes(llround(high)).text : format_count(llround(high)).text);

	return n < 0 ? NULL : text;
}

/* More than the limit is more however much was lost; but for a lost free a block lives on. */
static int judge_limit(const struct check_request *request, enum check_rule rule,
		       struct numbers *numbers, struct check_results *results)
{
	struct check_result *result = &results->items[results->n++];
	double most = (double)request->most[rule];

	*result = (struct check_result){
		.rule = rule, .value = numbers->most, .most = most, .half = -1
	};
	if (!numbers->why && fabs(numbers->most - most) < numbers->half)
		numbers->why = estimate_text(rule, numbers);
	if (numbers->most - numbers->half > most && !numbers->may_be_less)
		result->verdict = CHECK_EXCEEDED;
	else if (numbers->why)
		result->verdict = CHECK_NOT_KNOWN;
	if (result->verdict == CHECK_NOT_KNOWN) {
		result->why = strdup(numbers->why);
		return result->why ? 0 : -ENOMEM;
	}
	if (result->verdict == CHECK_KEPT)
		return 0;
	if (rule == CHECK_LEAKED) {
		int r = hide_known(request, request->sides[1].db, numbers->run);
		if (r < 0)
			return r;
	}
	return find_largest(request->sides[1].db, numbers->run, result);
}

/* Exceeded is what is surely above: with repetitions on both sides, with all of its interval. */
static int judge_change(const struct check_request *request, enum check_rule rule,
			const struct numbers sides[2], struct check_results *results,
			sqlite3 **ret_failed)
{
	struct check_result *result = &results->items[results->n++];
	size_t n[2] = { request->sides[0].n_runs, request->sides[1].n_runs };
	double mean[2] = { sides[0].sum / (double)n[0], sides[1].sum / (double)n[1] };
	const char *why = sides[1].why ? sides[1].why : sides[0].why;

	*result = (struct check_result){
		.rule = rule,
		.is_change = true,
		.value = mean[1],
		.before = mean[0],
		.most = mean[0] * (1 + request->tolerance),
		.half = diff_half_of_means((const double[]){ sides[0].sum, sides[1].sum },
					   (const double[]){ sides[0].sum_sq, sides[1].sum_sq }, n),
	};
	if (result->half < 0 && sides[0].variance + sides[1].variance > 0)
		result->half = 1.96 * sqrt(sides[0].variance / (double)(n[0] * n[0]) +
					   sides[1].variance / (double)(n[1] * n[1]));
	if (why) {
		result->verdict = CHECK_NOT_KNOWN;
		result->why = strdup(why);
		return result->why ? 0 : -ENOMEM;
	}
	if (result->value - fmax(result->half, 0) <= result->most)
		return 0;
	result->verdict = CHECK_EXCEEDED;
	return find_grown(request, result, ret_failed);
}

/* Resident memory differs from run to run: single runs of it say nothing about a change. */
static bool is_comparable(const struct check_request *request, enum check_rule rule)
{
	return rules[rule].needs_events ||
	       (request->sides[0].n_runs > 1 && request->sides[1].n_runs > 1);
}

static int check_rule_of(const struct check_request *request, enum check_rule rule,
			 struct check_results *results, sqlite3 **ret_failed)
{
	auto_numbers struct numbers before = { 0 };
	auto_numbers struct numbers after = { 0 };
	bool has_base = request->sides[0].n_runs > 0;
	int r = 0;

	if (!request->has_most[rule] && !has_base)
		return 0;
	if (has_base)
		r = read_numbers(request, 0, rule, &before, ret_failed);
	r = r ?: read_numbers(request, 1, rule, &after, ret_failed);
	if (r == 0 && request->has_most[rule])
		r = judge_limit(request, rule, &after, results);
	if (r == 0 && has_base && is_comparable(request, rule))
		r = judge_change(request, rule, (const struct numbers[]){ before, after }, results,
				 ret_failed);
	return r;
}

int check_runs(const struct check_request *request, struct check_results *ret_results,
	       sqlite3 **ret_failed)
{
	int r = 0;

	*ret_results = (struct check_results){ 0 };
	for (enum check_rule rule = 0; r == 0 && rule < CHECK_RULE_COUNT; rule++)
		r = check_rule_of(request, rule, ret_results, ret_failed);
	return r;
}

void check_results_finish(struct check_results *results)
{
	for (size_t i = 0; i < results->n; i++) {
		struct check_result *result = &results->items[i];

		free(result->why);
		for (size_t k = 0; k < result->n_places; k++) {
			free_all(result->places[k].text, result->places[k].file);
		}
	}
	results->n = 0;
}
