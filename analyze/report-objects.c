#include "analyze/report-objects.h"

#include <errno.h>
#include <stdbool.h>

#include "analyze/format.h"
#include "analyze/report-queries.h"
#include "analyze/report-sql.h"
#include "analyze/statement.h"
#include "analyze/table-text.h"

#define PLACE_COLUMN 55 /* where the last column starts */

#define STALL_COLUMNS 15 /* ... or so much further, with what was waited for */

#define CANDIDATES "10 * :limit" /* rows that are looked at before they are grouped */

/*
 * One row for what reads alike: heap sites by their three innermost frames (the C++ runtime's
 * operator new is none of the program's), mappings by what asked for them. Heap sites come from
 * their aggregate, the others from theirs. For a row of several sites the sum of their peaks is a bound, and so is
 * n for the sum of squares: no sample can give a row more than 1.
 */
static const char objects_sql[] =
	"WITH other AS ("
	"  SELECT owner_kind, owner_id, n_samples AS n, n_samples_sq AS sq, n_stalls AS st,"
	"  n_stalls_sq AS st_sq FROM object_total"
	"  WHERE run_id = :run AND owner_kind IN (2, 3, 4, 5, 6) AND n_samples + n_stalls > 0"
	"  ORDER BY n DESC LIMIT " CANDIDATES "),"
	" site_of AS ("
	"  SELECT site.*, CASE WHEN function GLOB 'operator new*' AND stack.parent_id IS NOT NULL"
	"  THEN stack.parent_id ELSE stack.id END AS inner_id"
	"  FROM site LEFT JOIN stack ON stack.id = stack_id"
	"  LEFT JOIN frame ON frame.id = stack.frame_id WHERE run_id = :run),"
	" heap AS ("
	"  SELECT count(*) AS n_parts, sum(n_samples) AS n, sum(n_samples_sq) AS sq,"
	"  sum(n_stalls) AS st, sum(n_stalls_sq) AS st_sq, sum(peak_bytes) AS bytes, sum(n_blocks) AS blocks, min(first_ns) AS first,"
	"  max(last_ns) AS last, min(inner_id) AS stack_id"
	"  FROM site_of LEFT JOIN stack AS a ON a.id = inner_id"
	"  LEFT JOIN stack AS b ON b.id = a.parent_id LEFT JOIN stack AS c ON c.id = b.parent_id"
	"  GROUP BY a.frame_id, b.frame_id, c.frame_id, a.stop, b.stop, c.stop"
	"  ORDER BY n DESC, bytes DESC, stack_id LIMIT " CANDIDATES "),"
	" object AS ("
	"  SELECT n_parts, n, sq, st, st_sq, bytes, blocks, first, last, stack_text(stack_id, 3) AS place FROM heap"
	"  UNION ALL SELECT 1, n, sq, st, st_sq, size, 1, time_ns, coalesce(object_name.end_ns, duration_ns),"
	"  'named ' || name"
	"  FROM other JOIN object_name ON object_name.id = owner_id JOIN run ON run.id = :run"
	"  WHERE owner_kind = 2"
	"  UNION ALL SELECT 1, n, sq, st, st_sq, CASE kind WHEN 'reserved' THEN NULL ELSE size END, 1, birth_ns,"
	"  coalesce(death_ns, duration_ns), CASE WHEN stack_id IS NOT NULL"
	"  THEN CASE kind WHEN 'reserved' THEN 'mmap, reserved: ' ELSE 'mmap: ' END || stack_text(stack_id, 3)"
	"  ELSE " MAPPING_NAME " END"
	"  FROM other JOIN mapping ON mapping.id = owner_id JOIN mapping_kind ON mapping_id = owner_id"
	"  JOIN run ON run.id = :run WHERE owner_kind = 3"
	"  UNION ALL SELECT 1, n, sq, st, st_sq, NULL, NULL, 0, duration_ns, owner.meaning"
	"  FROM other JOIN owner ON owner.id = owner_kind JOIN run ON run.id = :run"
	"  WHERE owner_kind = 3 AND owner_id NOT IN (SELECT id FROM mapping)"
	"  UNION ALL SELECT 1, n, sq, st, st_sq, symbol.size, NULL, 0, duration_ns,"
	"  CASE WHEN symbol.name GLOB '[[]*' THEN 'section ' || trim(symbol.name, '[]')"
	"  ELSE 'global ' || symbol.name END || ' in ' || symbol.path"
	"  FROM other JOIN symbol ON symbol.id = owner_id JOIN run ON run.id = :run"
	"  WHERE owner_kind = 4"
	"  UNION ALL SELECT 1, n, sq, st, st_sq, NULL, NULL, start_ns, coalesce(end_ns, duration_ns),"
	"  CASE owner_kind WHEN 5 THEN 'stack' ELSE 'thread-local storage' END || ' of thread '"
	"  || tid || coalesce(' (' || (SELECT name FROM thread_name WHERE thread_id = thread.id"
	"  ORDER BY time_ns DESC LIMIT 1) || ')', '')"
	"  FROM other JOIN thread ON thread.id = owner_id JOIN run ON run.id = :run"
	"  WHERE owner_kind IN (5, 6)) "
	"SELECT sum(n) AS n_all, CASE WHEN sum(n_parts) > 1 THEN sum(n) ELSE sum(sq) END,"
	"  sum(st), CASE WHEN sum(n_parts) > 1 THEN sum(st) ELSE sum(st_sq) END,"
	"  sum(bytes) AS bytes_all, sum(blocks), min(first), max(last), place, sum(n_parts)"
	" FROM object GROUP BY place ORDER BY n_all DESC, bytes_all DESC LIMIT :limit";

enum {
	COLUMN_N,
	COLUMN_SQ,
	COLUMN_STALLS,
	COLUMN_STALLS_SQ,
	COLUMN_BYTES,
	COLUMN_BLOCKS,
	COLUMN_FIRST,
	COLUMN_LAST,
	COLUMN_PLACE,
	COLUMN_PARTS
};

/* What the rows of a run are measured by. */
struct objects {
	int64_t n_samples;
	bool has_stalls; /* samples tell what was waited for */
};

/* A text with its padding: "±" and "≤" have more bytes than columns. */
static void write_left(FILE *out, const char *text, unsigned width)
{
	unsigned columns = table_text_columns(text);

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

/* A share in column, the sum of its squares in the one behind. */
static void write_share(FILE *out, sqlite3_stmt *stmt, int column, int64_t n_samples)
{
	double sum = sqlite3_column_double(stmt, column);
	double squares = sqlite3_column_double(stmt, column + 1);
	struct format_text text = { "-" };

	if (n_samples > 0)
		text = format_percent_interval(sum / (double)n_samples,
					       format_half_width(sum, squares, n_samples));
	fprintf(out, "%*s%s", 13 - (int)table_text_columns(text.text), "", text.text);
}

static void write_object(FILE *out, sqlite3_stmt *stmt, const struct report_request *request,
			 const struct objects *objects)
{
	struct format_text life = format_interval(sqlite3_column_int64(stmt, COLUMN_FIRST),
						  sqlite3_column_int64(stmt, COLUMN_LAST));
	unsigned column = PLACE_COLUMN + (objects->has_stalls ? STALL_COLUMNS : 0);
	unsigned left = request->width > column + 20 ? request->width - column : 0;
	const char *place = statement_string_or_null(stmt, COLUMN_PLACE);

	fputs("  ", out);
	write_share(out, stmt, COLUMN_N, objects->n_samples);
	if (objects->has_stalls) {
		fputs("  ", out);
		write_share(out, stmt, COLUMN_STALLS, objects->n_samples);
	}
	write_peak(out, stmt);
	write_blocks(out, stmt);
	fprintf(out, "  %-14s  ", life.text);
	table_text_cut(out, place ? place : "(unknown)", left);
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
		"time: share of the samples of CPU time at accesses to it; %sphase of life: from the "
		"first birth to the last end\n",
		objects->has_stalls ? "stall: right behind an instruction that waited for it; "
				    : "");
}

int report_objects_write(FILE *out, sqlite3 *db, const struct report_request *request,
			 int64_t n_rows)
{
	const struct objects objects = {
		.n_samples =
			report_sql_number(db,
					  "SELECT sum(n_samples) FROM source"
					  " WHERE run_id = :run AND name IN ('clock', 'signal')",
					  request->run_id),
		.has_stalls = report_sql_number(db,
						"SELECT count(*) FROM owner_share"
						" WHERE run_id = :run AND role = 2",
						request->run_id) > 0,
	};
	sqlite3_stmt *stmt = report_sql_prepare(db, objects_sql, request->run_id, n_rows);
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
	if (row > 0)
		write_note(out, &objects);
	return code == SQLITE_DONE ? 0 : -EPROTO;
}
