/*
 * follow-trace FILE.mst STEP: makes FILE.mst.db as an analysis beside the recording does that sees
 * STEP bytes more of the trace each time. An errno as exit status.
 */
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "analyze/analyze.h"
#include "analyze/input/input.h"
#include "report/report.h"

struct steps {
	uint64_t step;
	uint64_t all;
};

static int64_t wait_for_more(void *context, uint64_t n_bytes)
{
	const struct steps *steps = context;

	return (int64_t)(n_bytes + steps->step < steps->all ? n_bytes + steps->step : steps->all);
}

static int conclude(struct db *db, int64_t run_id)
{
	int r = report_functions_register(db_handle(db)) == SQLITE_OK ? 0 : -1;

	return r ?: report_findings_store(db, run_id);
}

int main(int argc, char **argv)
{
	struct stat st;

	if (argc != 3 || stat(argv[1], &st) < 0)
		errx(255, "usage: follow-trace FILE.mst STEP");
	struct steps steps = { strtoull(argv[2], NULL, 10), (uint64_t)st.st_size };
	const struct feed_growing growing = { argv[1], wait_for_more, &steps };
	const struct import_options options = { .growing = &growing,
						.is_for_answer = true,
						.conclude = conclude };
	struct import_result result;
	size_t n_failed;
	int r = analyze_beside(argv[1], &options, &result, &n_failed);

	return r < 0 ? -r : 0;
}
