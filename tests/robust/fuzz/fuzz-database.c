/*
 * Opens a database that somebody changed (hostile.h), and writes reports and exports of it: all of
 * them, or the one that the first byte names, of the whole run or of a part. The first bit makes
 * the base compact.
 */
#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "report/export/export.h"
#include "report/report.h"
#include "store/selection/selection.h"
#include "store/database.h"
#include "tests/robust/fuzz/fuzz.h"
#include "tests/robust/fuzz/hostile.h"

#define MAX_CHANGES 12u

static struct hostile_base bases[2] = { { .is_compact = false }, { .is_compact = true } };

/* A report as text or JSON; number 0: all of them as both. */
static void write_reports(FILE *out, sqlite3 *db, int64_t run_id, unsigned number)
{
	static const enum table_format formats[] = { TABLE_TEXT, TABLE_JSON };

	for (unsigned i = 0; i < 2; i++) {
		const struct report_request request = { .run_id = run_id,
							.limit = 20,
							.format = formats[i],
							.width = 80,
							.name = "t.mst" };
		unsigned at = 1 + i;
		for (const struct report *const *next = reports, *report; (report = *next);
		     next++, at += 2) {
			if (number == 0 || number == at)
				report_write(out, db, report, &request);
		}
	}
}

static void write_exports(FILE *out, sqlite3 *db, int64_t run_id)
{
	const struct export_request request = { .run_id = run_id, .view = "allocation" };

	for (const struct export_format *format = export_formats; format->name; format++)
		export_write(out, db, format, &request);
}

static int count(void *user, int n, char **values, char **names)
{
	(void)n;
	(void)values;
	(void)names;
	++*(unsigned *)user;
	return 0;
}

static unsigned count_reports(void)
{
	unsigned n = 0;

	while (reports[n])
		n++;
	return n;
}

static void read_all(const char *path, bool is_part, unsigned number)
{
	auto_db struct db *db = NULL;
	int64_t run_id = 0;
	unsigned n_rows = 0, n_numbers = 2 * count_reports() + 2;

	if (db_open(path, &db) < 0 || report_functions_register(db_handle(db)) != SQLITE_OK)
		return;
	auto_fclose FILE *out = fopen("/dev/null", "w");
	FUZZ_REQUIRE(out);
	number = number % n_numbers;
	if (number == 0)
		sqlite3_exec(db_handle(db), "SELECT * FROM leak; SELECT * FROM site", count,
			     &n_rows, NULL);
	if (report_run_find(db_handle(db), NULL, &run_id) < 0)
		return;
	const struct selection selection = { .runs = &run_id,
					     .n_runs = 1,
					     .from_ns = 1000,
					     .to_ns = INT64_MAX,
					     .wants = number % 4 };
	if (is_part && selection_apply(db, &selection) < 0)
		return;
	write_reports(out, db_handle(db), run_id, number);
	if (!is_part && (number == 0 || number == n_numbers - 1))
		write_exports(out, db_handle(db), run_id);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	uint8_t mode = (uint8_t)fuzz_take(&bytes, &n_bytes, 1);
	const char *path = hostile_write(&bases[mode & 1], MAX_CHANGES, &bytes, &n_bytes);

	read_all(path, mode & 2, mode >> 2);
	return 0;
}
