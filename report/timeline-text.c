#include "report/queries.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "common/human-number.h"
#include "report/chart/axis.h"
#include "report/chart/curves.h"
#include "report/chart/palette.h"

/* The memory of all processes: the sum of what each had at most within the interval. */
#define RESIDENT(low, high)                                                                        \
	"(SELECT sum(most) FROM (SELECT max(rss) AS most FROM process_sample WHERE run_id = :run"  \
	" AND time_ns >= " low " AND time_ns < " high " GROUP BY process_id))"

/* Pages that were touched in intervals of --source pages that meet this one. */
#define TOUCHED(low, high)                                                                         \
	"(SELECT sum(most) FROM (SELECT max(touched) AS most FROM page_interval WHERE run_id ="    \
	" :run AND end_ns > " low " AND begin_ns < " high " GROUP BY process_id))"

/* clang-format off */
static const char timeline_sql[] =
	"SELECT time_ns AS time, interval_ns AS interval, " REPORT_SQL_BLOCKS("live_bytes")
	" AS live_bytes,"
	" " REPORT_SQL_BLOCKS("max_live_bytes") " AS max_live_bytes,"
	" " RESIDENT("timeline.time_ns", "timeline.time_ns + interval_ns") " AS rss,"
	" " REPORT_SQL_BLOCKS("n_allocations") " AS allocations, " REPORT_SQL_BLOCKS("n_frees")
	" AS frees, " REPORT_SQL_SAMPLES("n_samples") " AS samples, "
	REPORT_SQL_FAULTS("n_faults") " AS faults, "
	TOUCHED("timeline.time_ns", "timeline.time_ns + interval_ns") " AS touched"
	" FROM timeline WHERE run_id = :run ORDER BY time_ns LIMIT :limit";
/* clang-format on */

/* As many lines as --limit, each of several intervals. */
/* clang-format off */
static const char timeline_text_sql[] =
	"WITH line AS (SELECT CASE WHEN :limit > 0 THEN 1 + (count(*) - 1) / :limit ELSE 1 END"
	" AS n,"
	"  max(max_live_bytes) AS peak FROM timeline WHERE run_id = :run),"
	" joined AS (SELECT min(time_ns) AS start, max(time_ns + interval_ns) AS stop,"
	"  max(max_live_bytes) AS most, sum(n_allocations + n_frees) AS events,"
	"  sum(n_samples) AS samples, sum(n_faults) AS faults, peak"
	"  FROM timeline, line WHERE run_id = :run AND EXISTS (SELECT 1 FROM timeline"
	"   WHERE run_id = :run AND n_allocations + n_samples + n_faults > 0) GROUP BY time_ns /"
	" interval_ns / line.n)"
	" SELECT start AS \"from\", " REPORT_SQL_BLOCKS("most") " AS live, "
	RESIDENT("start", "stop") " AS rss,"
	" " REPORT_SQL_BLOCKS("CAST(1e9 * events / (stop - start) AS INTEGER)")
	" AS \"events/s\","
	" " REPORT_SQL_SAMPLES("samples") " AS samples, " REPORT_SQL_FAULTS("faults")
	" AS faults, 1.0 * most / peak AS \"live bytes, at most\""
	" FROM joined ORDER BY start";
/* clang-format on */

#define LABEL_COLUMNS	24
#define DEFAULT_COLUMNS 100
#define LEAST_COLUMNS	8
#define EIGHTHS		8

/* How each curve is drawn: lines of text, colour of a terminal with 256. */
static const struct look {
	const char *name;
	unsigned n_lines;
	unsigned colour;
	bool is_bytes;
} looks[CURVE_COUNT] = {
	[CURVE_LIVE] = { "live", 5, TERMINAL_BLUE, true },
	[CURVE_RSS] = { "rss", 3, TERMINAL_ORANGE, true },
	[CURVE_TOUCHED] = { "touched", 3, TERMINAL_ORANGE, true },
	[CURVE_ALLOCATIONS] = { "allocations/s", 2, TERMINAL_GREEN, false },
	[CURVE_SAMPLES] = { "samples/s", 2, TERMINAL_PURPLE, false },
	[CURVE_FAULTS] = { "faults/s", 2, TERMINAL_VERMILION, false },
};

static const char *const levels[EIGHTHS + 1] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };

/* How much of a column's part in this line is filled; what is not nothing is seen. */
static const char *cell(double value, double most, unsigned line, unsigned n_lines)
{
	double eighths = isnan(value) ? 0 : value / most * n_lines * EIGHTHS;
	double below = (double)(n_lines - 1 - line) * EIGHTHS;

	if (line == n_lines - 1 && value > 0)
		eighths = fmax(eighths, 1);
	double part = fmin(fmax(floor(eighths - below + 0.5), 0), EIGHTHS);
	return levels[(int)part];
}

static void draw_line(FILE *out, const struct curves *curves, enum curve_id id, unsigned line)
{
	const struct look *look = &looks[id];
	const struct curve *curve = &curves->of[id];

	for (unsigned i = 0; i < curves->n_columns; i++)
		fputs(cell(curve->values[i], curve->most, line, look->n_lines), out);
}

/* In a column of 8: 1,234 or 1.01 M. */
static struct format_text rate_text(double rate)
{
	struct format_text text = format_count(llround(ceil(rate)));

	if (rate >= 1e5)
		snprintf(text.text, sizeof(text.text), "%.3g %s", rate / (rate < 1e9 ? 1e6 : 1e9),
			 rate < 1e9 ? "M" : "G");
	return text;
}

static void draw_curve(FILE *out, const struct curves *curves, enum curve_id id, bool is_coloured)
{
	const struct look *look = &looks[id];
	double most = curves->of[id].most;
	struct format_text text = look->is_bytes ? format_bytes(llround(most)) : rate_text(most);

	for (unsigned line = 0; line < look->n_lines; line++) {
		if (line == 0)
			fprintf(out, "%13s %8s ┤", look->name, text.text);
		else
			fprintf(out, "%*s│", LABEL_COLUMNS - 1, "");
		if (is_coloured)
			fprintf(out, "\033[38;5;%um", look->colour);
		draw_line(out, curves, id, line);
		fputs(is_coloured ? "\033[0m\n" : "\n", out);
	}
}

void report_time_axis_draw(FILE *out, const struct report_time_axis *axis)
{
	char texts[512];
	struct axis ticks;
	unsigned used = 0;
	double span = (double)(axis->to_ns - axis->from_ns);
	double ends[2] = { (double)axis->from_ns, (double)axis->to_ns };

	axis_make(AXIS_TIME, ends, 2 + axis->n_columns / 12, &ticks);
	memset(texts, ' ', sizeof(texts));
	fprintf(out, "%*s└", (int)axis->indent - 1, "");
	for (unsigned i = 0, tick = 0; i < axis->n_columns; i++) {
		bool is_tick = false;
		for (; tick < ticks.n_ticks &&
		       (ticks.ticks[tick].value - ends[0]) / span * axis->n_columns < i + 1;
		     tick++) {
			char text[40];
			int n = snprintf(text, sizeof(text), "%s %s", ticks.ticks[tick].text,
					 ticks.unit);
			unsigned at = axis->indent + i;
			is_tick = true;
			if (at >= used && at + (unsigned)n < sizeof(texts)) {
				memcpy(texts + at, text, (size_t)n);
				used = at + (unsigned)n + 1;
			}
		}
		fputs(is_tick ? "┬" : "─", out);
	}
	fprintf(out, "\n%.*s\n", (int)(used ? used - 1 : 0), texts);
}

/* Live bytes, resident memory and rates over time, drawn with blocks of Unicode. */
static int draw_curves(FILE *out, sqlite3 *db, const struct report_request *request)
{
	unsigned width = request->width ? request->width : DEFAULT_COLUMNS;
	unsigned n_columns =
		width > LABEL_COLUMNS + LEAST_COLUMNS ? width - LABEL_COLUMNS : LEAST_COLUMNS;
	auto_curves struct curves curves;
	int r = curves_read(db, request->run_id, n_columns < 400 ? n_columns : 400, &curves);

	if (r == -ENODATA)
		return 0; /* the list says why */
	if (r < 0)
		return r;
	bool is_empty = true;
	for (int id = 0; id < CURVE_COUNT; id++) {
		if (id != CURVE_RSS && id != CURVE_TOUCHED && curves.of[id].most > 0)
			is_empty = false;
	}
	if (is_empty)
		return 0;
	for (int id = 0; id < CURVE_COUNT; id++) {
		if (curves.of[id].most > 0)
			draw_curve(out, &curves, (enum curve_id)id, request->is_coloured);
	}
	report_time_axis_draw(out, &(struct report_time_axis){ curves.from_ns, curves.to_ns,
							       LABEL_COLUMNS, curves.n_columns });
	return ferror(out) ? -EIO : 0;
}

const struct report report_timeline = {
	.name = "timeline",
	.wants = SELECTION_TIMELINE,
	.counts_blocks = true,
	.scope = REPORT_OF_PART,
	.title = "Live bytes over time",
	.needs = REPORT_NEEDS_BLOCKS,
	.note = "live: the most within the interval; rss: resident memory of all"
		" processes, sampled (drawn up to the next one); touched: in pages read or"
		" written within an interval of --source pages; events: allocations and"
		" frees; the axis of each curve begins at 0 and ends at its most",
	.sql = timeline_sql,
	.text_sql = timeline_text_sql,
	.n_sql = "SELECT 0", /* a line joins intervals */
	.draw = draw_curves,
	KINDS(TABLE_TIME, TABLE_BYTES, TABLE_BYTES, TABLE_COUNT, TABLE_COUNT, TABLE_COUNT,
	      TABLE_BAR),
};
