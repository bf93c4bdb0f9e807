#include <errno.h>

#include "analyze/db.h"
#include "analyze/picture-axis.h"
#include "analyze/picture.h"
#include "analyze/statement.h"

static int add_all(struct db *db, int64_t process_id, struct picture_ranges *ranges)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(
		db_handle(db),
		"SELECT address, size, 1 FROM allocation WHERE process_id = ?1"
		" UNION ALL SELECT address, 1, 0 FROM touch JOIN sample ON sample.id = sample_id"
		" WHERE process_id = ?1 AND address IS NOT NULL",
		&row);

	if (r < 0)
		return r;
	statement_integer(row, 1, process_id);
	while ((r = statement_step(row)) > 0) {
		r = picture_ranges_add(ranges, (uint64_t)sqlite3_column_int64(row, 0),
				       (uint64_t)sqlite3_column_int64(row, 1),
				       sqlite3_column_int(row, 2));
		if (r < 0)
			return r;
	}
	return r;
}

static const char row_sql[] =
	"INSERT INTO picture(run_id, process_id, from_ns, to_ns, end_ns, height, n_blocks, n_touches)"
	" SELECT run.id, process.id, 0, duration_ns + 1, coalesce(end_ns, duration_ns + 1), ?3,"
	" (SELECT count(*) FROM allocation WHERE process_id = process.id),"
	" (SELECT count(*) FROM touch JOIN sample ON sample.id = sample_id WHERE process_id = process.id"
	" AND address IS NOT NULL) FROM run JOIN process ON run_id = run.id"
	" WHERE run.id = ?1 AND process.id = ?2";

static int write_process(struct db *db, int64_t run_id, int64_t process_id)
{
	struct picture_ranges ranges;
	uint64_t height = 0;
	int r = picture_ranges_init(&ranges);

	if (r == 0)
		r = add_all(db, process_id, &ranges);
	if (r == 0)
		r = picture_ranges_settle(&ranges);
	if (r == 0 && ranges.n > 0)
		r = picture_bands_write(&ranges, db, run_id, process_id, &height);
	if (r == 0 && ranges.n > 0)
		r = db_run(db, row_sql, "nnn", run_id, process_id, (int64_t)height);
	picture_ranges_finish(&ranges);
	return r;
}

int picture_write(struct db *db, int64_t run_id)
{
	static const char *const tables[] = { "band", "picture" };
	auto_statement sqlite3_stmt *row = NULL;
	int r = 0;

	for (size_t i = 0; i < 2 && r == 0; i++) {
		char *sql = sqlite3_mprintf("DELETE FROM %s WHERE run_id = %lld", tables[i],
					    (long long)run_id);
		r = sql ? db_exec(db, sql) : -ENOMEM;
		sqlite3_free(sql);
	}
	if (r == 0)
		r = statement_prepare(db_handle(db),
				      "SELECT process.id FROM process JOIN run ON run.id = run_id"
				      " WHERE run_id = ?1 AND detail = 'full'",
				      &row);
	if (r < 0)
		return r;
	statement_integer(row, 1, run_id);
	while ((r = statement_step(row)) > 0) {
		r = write_process(db, run_id, sqlite3_column_int64(row, 0));
		if (r < 0)
			return r;
	}
	return r;
}
