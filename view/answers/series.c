/*
 * Repetitions and modes: request "series"; the numbers of `memsight report --stat` and --overhead.
 */
#include "view/answers/internal.h"

#include <stddef.h>

#include "report/queries.h"

int view_series(struct view_question *question)
{
	const struct {
		const char *name;
		const char *sql;
	} parts[] = {
		{ "values", report_series_values_sql },
		{ "statistics", report_series_statistics_sql },
		{ "overhead", report_series_overhead_sql },
	};
	int r = 0;

	json_open(&question->json, '{');
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && r == 0; i++)
		r = view_columns(question, parts[i].name, parts[i].sql);
	json_close(&question->json, '}');
	return r;
}
