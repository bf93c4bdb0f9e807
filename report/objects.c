#include "report/objects.h"

#include <errno.h>
#include <stdbool.h>

#include "common/human-number.h"
#include "report/queries.h"
#include "report/text/fit-text.h"
#include "store/query-value.h"
#include "store/statement.h"

#define PLACE_COLUMN 55 /* where the last column starts */

#define LEAST_PLACE  44 /* columns; with less the place is below the numbers */
#define PLACE_INDENT 6

#define STALL_COLUMNS 15 /* ... or so much further, with what was waited for */

#define MANY_PARTS 5000 /* 0.2 s for their places */
#define CANDIDATES "10 * :limit" /* rows that are looked at before they are grouped */

/*
 * One row for what reads alike: heap sites by their three innermost frames (the C++ runtime's
 * operator new is none of the program's), mappings by what asked for them. Heap sites come from
 * their aggregate, the others from theirs. For a row of several sites the sum of their peaks is a
 * bound.
 */
#define SHARES                                                                                     \
	"n_samples + n_imputed AS n, n_samples AS told, share AS s, share_low AS s_low,"           \
	" share_high AS s_high, n_stalls + n_stalls_imputed AS st, n_stalls AS st_told,"           \
	" stall_share AS t, stall_low AS t_low, stall_high AS t_high"
#define SUMS                                                                                       \
	"sum(n) AS n, sum(told) AS told, CASE WHEN count(s) = count(*) THEN sum(s) END AS s,"      \
	" sum(s_low) AS s_low, sum(s_high) AS s_high, sum(st) AS st, sum(st_told) AS st_told,"     \
	" CASE WHEN count(t) = count(*) THEN sum(t) END AS t, sum(t_low) AS t_low,"                \
	" sum(t_high) AS t_high"
#define NAMES "n, told, s, s_low, s_high, st, st_told, t, t_low, t_high"

/*
 * An answer of several parts: their ends bound its interval, and so does the binomial one of their
 * sum. That one goes by numbers of samples, the share by their time: the interval holds the number
 * all the same.
 */
#define ANSWER(share, low, high, n, told, anybody)                                                 \
	"CASE WHEN count(" share ") = count(*) THEN sum(" share ") END, "                          \
	"CASE WHEN sum(n_parts) = 1 THEN sum(" low ") ELSE min(coalesce(sum(" share                \
	"), 1), max(sum(" low "), sum(" told ") / " CLOCK_SAMPLES " - half_width(sum(" told        \
	"), sum(" told "), " CLOCK_SAMPLES "))) END, CASE WHEN sum(n_parts) = 1 THEN sum(" high    \
	") ELSE max(coalesce(sum(" share "), 0), min(1, sum(" high "), sum(" n                     \
	") / " CLOCK_SAMPLES " + half_width(sum(" n "), sum(" n "), " CLOCK_SAMPLES                \
	") + (SELECT " anybody " FROM kind_share WHERE run_id = :run AND owner_kind = 0))) END, "

/* clang-format off */
static const char objects_sql[] = "WITH other AS ("
	"  SELECT owner_kind, owner_id, " SHARES " FROM object_total"
	"  WHERE run_id = :run AND owner_kind IN (2, 3, 4, 5, 6)"
	"  AND n_samples + n_imputed + n_stalls + n_stalls_imputed > 0"
	"  ORDER BY n DESC LIMIT " CANDIDATES "),"
	" site_of AS ("
	"  SELECT " SHARES ", peak_bytes, n_blocks, first_ns, last_ns,"
	"  CASE WHEN function GLOB 'operator new*' AND stack.parent_id IS NOT NULL"
	"  THEN stack.parent_id ELSE stack.id END AS inner_id"
	"  FROM site LEFT JOIN stack ON stack.id = stack_id"
	"  LEFT JOIN frame ON frame.id = stack.frame_id WHERE run_id = :run),"
	" heap AS ("
	"  SELECT count(*) AS n_parts, " SUMS ", sum(peak_bytes) AS bytes,"
	" sum(n_blocks) AS blocks, min(first_ns) AS first,"
	"  max(last_ns) AS last, min(inner_id) AS stack_id"
	"  FROM site_of LEFT JOIN stack AS a ON a.id = inner_id"
	"  LEFT JOIN stack AS b ON b.id = a.parent_id LEFT JOIN stack AS c ON c.id = b.parent_id"
	"  GROUP BY a.frame_id, b.frame_id, c.frame_id, a.stop, b.stop, c.stop"
	"  ORDER BY n DESC, bytes DESC, stack_id LIMIT " CANDIDATES "),"
	" object AS ("
	"  SELECT n_parts, " NAMES ", bytes, blocks, first, last, stack_text(stack_id,"
	" 3) AS place FROM heap"
	"  UNION ALL SELECT 1, " NAMES ", size, 1, time_ns, coalesce(object_name.end_ns, "
	"duration_ns),"
	"  'named ' || name"
	"  FROM other JOIN object_name ON object_name.id = owner_id JOIN run ON run.id = :run"
	"  WHERE owner_kind = 2"
	"  UNION ALL SELECT 1, " NAMES ", CASE kind WHEN 'reserved' THEN NULL ELSE size END, 1,"
	" birth_ns,"
	"  coalesce(death_ns, duration_ns), CASE WHEN stack_id IS NOT NULL"
	"  THEN CASE kind WHEN 'reserved' THEN 'mmap, reserved: ' ELSE 'mmap: '"
	" END || stack_text(stack_id, 3)"
	"  ELSE " MAPPING_NAME " END"
	"  FROM other JOIN mapping ON mapping.id = owner_id JOIN mapping_kind"
	" ON mapping_id = owner_id"
	"  JOIN run ON run.id = :run WHERE owner_kind = 3"
	"  UNION ALL SELECT 1, " NAMES ", NULL, NULL, 0, duration_ns, owner.meaning"
	"  FROM other JOIN owner ON owner.id = owner_kind JOIN run ON run.id = :run"
	"  WHERE owner_kind = 3 AND owner_id NOT IN (SELECT id FROM mapping)"
	"  UNION ALL SELECT 1, " NAMES ", symbol.size, NULL, 0, duration_ns,"
	"  CASE WHEN symbol.name GLOB '[[]*' THEN 'section ' || trim(symbol.name, '[]')"
	"  ELSE 'global ' || symbol.name END || ' in ' || symbol.path"
	"  FROM other JOIN symbol ON symbol.id = owner_id JOIN run ON run.id = :run"
	"  WHERE owner_kind = 4"
	"  UNION ALL SELECT 1, " NAMES ", NULL, NULL, start_ns, coalesce(end_ns, duration_ns),"
	"  CASE owner_kind WHEN 5 THEN 'stack' ELSE 'thread-local storage' END || ' of thread '"
	"  || tid || coalesce(' (' || (SELECT name FROM thread_name WHERE thread_id = thread.id"
	"  ORDER BY time_ns DESC LIMIT 1) || ')', '')"
	"  FROM other JOIN thread ON thread.id = owner_id JOIN run ON run.id = :run"
	"  WHERE owner_kind IN (5, 6)) "
	"SELECT sum(n) AS n_all, " ANSWER("s", "s_low", "s_high", "n", "told", "share_high")
	ANSWER("t", "t_low", "t_high", "st", "st_told", "stall_high")
	"  sum(bytes) AS bytes_all, sum(blocks), min(first), max(last), place, sum(n_parts)"
	" FROM object GROUP BY place ORDER BY n_all DESC, bytes_all DESC LIMIT :limit";
/* clang-format on */

enum {
	COLUMN_N,
	COLUMN_SHARE, /* low and high behind it */
	COLUMN_STALLS = COLUMN_SHARE + 3,
	COLUMN_BYTES = COLUMN_STALLS + 3,
	COLUMN_BLOCKS,
	COLUMN_FIRST,
	COLUMN_LAST,
	COLUMN_PLACE,
	COLUMN_PARTS
};

/* What the rows of a run are measured by. */
struct objects {
	bool has_stalls; /* samples tell what was waited for */
};

/* A text with its padding: "±" and "≤" have more bytes than columns. */
static void write_left(FILE *out, const char *text, unsigned width)
{
	unsigned columns = fit_columns(text);

	fprintf(out, "  %s%*s", text, columns < width ? (int)(width - columns) : 0, "");
}

static void write_blocks(FILE *out, sqlite3_stmt *stmt)
{
	bool is_null = sqlite3_column_type(stmt, COLUMN_BLOCKS) == SQLITE_NULL;

	write_left(out,
		   is_null ? "-" : format_count(sqlite3_column_int64(stmt, COLUMN_BLOCKS)).text, 9);
}

/* The peaks of several sites need not fall together: their sum bounds that of the row. */
static void write_peak(FILE *out, sqlite3_stmt *stmt)
{
	bool is_bound = sqlite3_column_int64(stmt, COLUMN_PARTS) > 1;
	struct format_text bytes = format_bytes(sqlite3_column_int64(stmt, COLUMN_BYTES));
	char text[sizeof(bytes.text) + 4];

	snprintf(text, sizeof(text), "%s%s", is_bound ? "\u2264" : "", bytes.text);
	write_left(out, sqlite3_column_type(stmt, COLUMN_BYTES) == SQLITE_NULL ? "-" : text, 9);
}

/* A share in column, low and high behind it. */
static void write_share(FILE *out, sqlite3_stmt *stmt, int column)
{
	struct format_text text = report_sql_share(stmt, column);

	fprintf(out, "%*s%s", 13 - (int)fit_columns(text.text), "", text.text);
}

static void write_object(FILE *out, sqlite3_stmt *stmt, const struct report_request *request,
			 const struct objects *objects)
{
	struct format_text life = format_interval(sqlite3_column_int64(stmt, COLUMN_FIRST),
						  sqlite3_column_int64(stmt, COLUMN_LAST));
	unsigned column = PLACE_COLUMN + (objects->has_stalls ? STALL_COLUMNS : 0);
	unsigned width = request->width;
	bool is_below = width && width < column + LEAST_PLACE;
	const char *place = statement_string_or_null(stmt, COLUMN_PLACE);

	fputs("  ", out);
	write_share(out, stmt, COLUMN_SHARE);
	if (objects->has_stalls) {
		fputs("  ", out);
		write_share(out, stmt, COLUMN_STALLS);
	}
	write_peak(out, stmt);
	write_blocks(out, stmt);
	fprintf(out, "  %-14s", life.text);
	fprintf(out, is_below ? "\n%*s" : "%*s", is_below ? PLACE_INDENT : 2, "");
	fit_write(out, place ? place : "(unknown)",
		  width ? width - (is_below ? PLACE_INDENT : column) : 0);
	fputc('\n', out);
}

static void write_head(FILE *out, const struct objects *objects)
{
	fprintf(out, "  %13s", "time \u00b195 % ");
	if (objects->has_stalls)
		fprintf(out, "  %14s", "stall \u00b195 % ");
	fprintf(out, "  %-9s  %-9s  %-14s  %s\n", "peak", "blocks", "phase of life",
		"what it is, or where it was allocated");
}

static void write_note(FILE *out, const struct objects *objects)
{
	fprintf(out,
		"time: share of the samples of CPU time at accesses to it, two numbers: anywhere "
		"between them; %sphase of life: from the "
		"first allocation to the last end\n",
		objects->has_stalls ? "stall: right behind an instruction that waited for it; "
				    : "");
}

/*
 * What was left out. Lines are made of the texts of places, and those take their time: where there
 * are very many, the parts of lines are told.
 */
static void write_rest(FILE *out, sqlite3 *db, const struct report_request *request)
{
	char *sql = sqlite3_mprintf("SELECT count(*) FROM (%s)", objects_sql);
	int64_t n_parts = report_sql_number(db, report_objects_n_sql, request->run_id);

	if (!sql)
		statement_keep(db, SQLITE_NOMEM);
	if (n_parts > MANY_PARTS)
		fprintf(out,
			"\u2026 more (-n 0 shows all): %s call sites and other objects in all\n",
			format_count(n_parts).text);
	else if (sql)
		report_rest_write(out,
				  report_sql_number(db, sql, request->run_id) - request->limit);
	sqlite3_free(sql);
}

int report_objects_write(FILE *out, sqlite3 *db, const struct report_request *request)
{
	const struct objects objects = {
		.has_stalls = report_sql_number(db,
						"SELECT count(*) FROM owner_share"
						" WHERE run_id = :run AND role = 2",
						request->run_id) > 0,
	};
	sqlite3_stmt *stmt = report_sql_prepare(db, objects_sql, request->run_id, request->limit);
	int code = SQLITE_DONE;

	if (!stmt)
		return -EPROTO;
	size_t row = 0;
	for (; (code = statement_advance(stmt)) == SQLITE_ROW; row++) {
		if (row == 0)
			write_head(out, &objects);
		write_object(out, stmt, request, &objects);
	}
	sqlite3_finalize(stmt);
	if (request->limit > 0 && (int64_t)row >= request->limit)
		write_rest(out, db, request);
	if (row > 0)
		write_note(out, &objects);
	return code == SQLITE_DONE ? 0 : -EPROTO;
}
