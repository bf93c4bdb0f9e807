#include <sys/stat.h>

#include "report/export/export.h"
#include "store/query-value.h"

#define ROWS_BETWEEN_LOOKS 1024

void export_begin(sqlite3 *db, const struct export_request *request, const char *phase,
		  const char *n_sql)
{
	struct export_progress *progress = request->progress;

	if (!progress)
		return;
	progress->step = (struct progress_step){
		.phase = phase,
		.unit = "rows",
		.n_all = n_sql ? (uint64_t)report_sql_number(db, n_sql, request->run_id) : 0,
		.size_is = "file of some",
	};
	progress->show(progress->context, &progress->step);
}

void export_row(FILE *out, const struct export_request *request)
{
	struct export_progress *progress = request->progress;
	struct stat status;

	if (!progress || ++progress->step.n_done % ROWS_BETWEEN_LOOKS)
		return;
	struct progress_step *step = &progress->step;
	if (out && step->n_all && fstat(fileno(out), &status) == 0 && S_ISREG(status.st_mode))
		step->size_bytes = (uint64_t)((double)status.st_size * (double)step->n_all /
					      (double)step->n_done);
	progress->show(progress->context, step);
}
