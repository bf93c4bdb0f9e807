#include "analyze/report-objects.h"

#include <errno.h>
#include <stdbool.h>

#include "analyze/format.h"
#include "analyze/report-sql.h"
#include "analyze/table-text.h"

#define PLACE_COLUMN 54 /* where the last column starts */

/*
 * Heap sites come from their aggregate; the others, few, from the touches: shares of one sample are
 * added up before they are squared.
 */
static const char objects_sql[] =
	"WITH per_sample AS ("
	"  SELECT owner_kind, owner_id, sample_id, sum(share) AS share FROM touch"
	"  WHERE run_id = :run AND role = 1 AND owner_kind IN (3, 4, 5, 6) GROUP BY 1, 2, 3),"
	" other AS ("
	"  SELECT owner_kind, owner_id, sum(share) AS n, sum(share * share) AS sq FROM per_sample"
	"  GROUP BY 1, 2 ORDER BY n DESC LIMIT :limit),"
	" heap AS ("
	"  SELECT * FROM site WHERE run_id = :run"
	"  ORDER BY n_samples DESC, peak_bytes DESC, stack_id LIMIT :limit)"
	"SELECT n_samples AS n, n_samples_sq AS sq, peak_bytes AS bytes, n_blocks AS blocks,"
	"  first_ns AS first, last_ns AS last, stack_text(stack_id, 3) AS place FROM heap "
	"UNION ALL SELECT n, sq, size, 1, birth_ns, coalesce(death_ns, duration_ns),"
	"  CASE WHEN stack_id IS NOT NULL THEN 'mmap: ' || stack_text(stack_id, 3)"
	"  ELSE 'mapping of ' || coalesce(nullif(path, ''), 'anonymous memory') END"
	"  FROM other JOIN mapping ON mapping.id = owner_id JOIN run ON run.id = :run"
	"  WHERE owner_kind = 3 "
	"UNION ALL SELECT n, sq, symbol.size, NULL, 0, duration_ns,"
	"  CASE WHEN symbol.name GLOB '[[]*' THEN 'section ' || trim(symbol.name, '[]')"
	"  ELSE 'global ' || symbol.name END || ' in ' || symbol.path"
	"  FROM other JOIN symbol ON symbol.id = owner_id JOIN run ON run.id = :run"
	"  WHERE owner_kind = 4 "
	"UNION ALL SELECT n, sq, NULL, NULL, start_ns, coalesce(end_ns, duration_ns),"
	"  CASE owner_kind WHEN 5 THEN 'stack' ELSE 'thread-local storage' END || ' of thread '"
	"  || tid || coalesce(' (' || (SELECT name FROM thread_name WHERE thread_id = thread.id"
	"  ORDER BY time_ns DESC LIMIT 1) || ')', '')"
	"  FROM other JOIN thread ON thread.id = owner_id JOIN run ON run.id = :run"
	"  WHERE owner_kind IN (5, 6) "
	"ORDER BY n DESC, bytes DESC LIMIT :limit";

enum { COLUMN_N, COLUMN_SQ, COLUMN_BYTES, COLUMN_BLOCKS, COLUMN_FIRST, COLUMN_LAST, COLUMN_PLACE };

static void write_number(FILE *out, sqlite3_stmt *stmt, int column, int width,
			 struct format_text (*format)(int64_t))
{
	bool is_null = sqlite3_column_type(stmt, column) == SQLITE_NULL;

	fprintf(out, "  %-*s", width,
		is_null ? "-" : format(sqlite3_column_int64(stmt, column)).text);
}

/* "±" has two bytes and one column, so the padding is ours. */
static void write_share(FILE *out, sqlite3_stmt *stmt, int64_t n_samples)
{
	double sum = sqlite3_column_double(stmt, COLUMN_N);
	double squares = sqlite3_column_double(stmt, COLUMN_SQ);
	struct format_text text = { "-" };

	if (n_samples > 0)
		text = format_percent_interval(sum / (double)n_samples,
					       format_half_width(sum, squares, n_samples));
	fprintf(out, "%*s%s", 13 - (int)table_text_columns(text.text), "", text.text);
}

static void write_object(FILE *out, sqlite3_stmt *stmt, const struct report_request *request,
			 int64_t n_samples)
{
	struct format_text life = format_interval(sqlite3_column_int64(stmt, COLUMN_FIRST),
						  sqlite3_column_int64(stmt, COLUMN_LAST));
	unsigned left = request->width > PLACE_COLUMN + 20 ? request->width - PLACE_COLUMN : 0;
	const char *place = (const char *)sqlite3_column_text(stmt, COLUMN_PLACE);

	fputs("  ", out);
	write_share(out, stmt, n_samples);
	write_number(out, stmt, COLUMN_BYTES, 8, format_bytes);
	write_number(out, stmt, COLUMN_BLOCKS, 9, format_count);
	fprintf(out, "  %-14s  ", life.text);
	table_text_cut(out, place ? place : "(unknown)", left);
	fputc('\n', out);
}

int report_objects_write(FILE *out, sqlite3 *db, const struct report_request *request, int n_rows)
{
	int64_t n_samples = report_sql_number(
		db, "SELECT sum(n_samples) FROM source WHERE run_id = :run AND name = 'clock'",
		request->run_id);
	sqlite3_stmt *stmt = report_sql_prepare(db, objects_sql, request->run_id, n_rows);
	int code = SQLITE_DONE;

	if (!stmt)
		return -EPROTO;
	for (size_t row = 0; (code = sqlite3_step(stmt)) == SQLITE_ROW; row++) {
		if (row == 0)
			fprintf(out, "  %13s  %-8s  %-9s  %-14s  %s\n", "time \u00b195 % ", "peak",
				"blocks", "phase of life", "allocated at");
		write_object(out, stmt, request, n_samples);
	}
	sqlite3_finalize(stmt);
	return code == SQLITE_DONE ? 0 : -EPROTO;
}
