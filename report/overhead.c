#include "report/queries.h"
#include "report/repetitions.h"

/*
 * Each run beside the natural run of the same program and block: a drift of the machine is in both.
 * user_ns and system_ns are the command's own, as wait4 told them.
 */
/* clang-format off */
#define PAIRS \
	"WITH told(id, program, mode, repetition, is_natural, has_tracer, has_sampler, wall, cpu," \
	"  rss) AS (SELECT id, program, mode, repetition," \
	"  EXISTS (SELECT 1 FROM fact WHERE run_id = run.id AND key = 'memsight.natural'" \
	"   AND value = 'yes')," \
	"  EXISTS (SELECT 1 FROM fact WHERE run_id = run.id AND key = 'memsight.alloc'" \
	"   AND value = 'yes')," \
	"  EXISTS (SELECT 1 FROM source WHERE run_id = run.id AND error = 0" \
	" AND measures <> 'tasks')," \
	"  (SELECT wtime_ns FROM runs WHERE runs.id = run.id), user_ns + system_ns, max_rss" \
	" FROM run" \
	"  WHERE " REPORT_RUN_IS_GOOD ")," \
	" pair(program, mode, against, has_tracer, has_sampler, wall, cpu, rss) AS (" \
	"  SELECT run.program, run.mode, natural.mode, run.has_tracer, run.has_sampler," \
	"  1.0 * run.wall / natural.wall, 1.0 * run.cpu / nullif(natural.cpu, 0)," \
	"  run.rss - natural.rss FROM told AS run JOIN told AS natural USING (program," \
	" repetition)" \
	"  WHERE natural.is_natural AND NOT run.is_natural AND natural.wall > 0" \
	"  AND (:run = 0 OR (run.program, run.mode) =" \
	"   (SELECT program, mode FROM run WHERE id = :run))) "
/* clang-format on */
#define GROUPS                                                                                     \
	" FROM pair GROUP BY program, mode, against ORDER BY program, mode, against LIMIT :limit"
#define RECORDED                                                                                   \
	"CASE WHEN has_tracer AND has_sampler THEN 'allocations + samples'"                        \
	" WHEN has_tracer THEN 'allocations' WHEN has_sampler THEN 'samples' ELSE 'nothing' END"

/* clang-format off */
const char report_overhead_sql[] = PAIRS "SELECT program || '.' || mode AS run, against, " RECORDED
	" AS recorded, count(*) AS pairs,"
	" median(wall) AS wall_ratio, interval_low(wall) AS wall_low,"
	" interval_high(wall) AS wall_high,"
	" median(cpu) AS cpu_ratio, interval_low(cpu) AS cpu_low, interval_high(cpu) AS cpu_high,"
	" median(rss) AS rss_more" GROUPS;
/* clang-format on */

#define RATIO(name, ratio)                                                                         \
	"SELECT program, mode, '" name "' AS metric, against AS base, count(" ratio ") AS n,"      \
	" median(" ratio ") AS ratio, interval_low(" ratio ") AS low, interval_high(" ratio        \
	") AS high FROM pair GROUP BY program, mode, against"

const char report_series_overhead_sql[] = PAIRS RATIO("wall time", "wall") " UNION ALL " RATIO(
	"CPU time", "cpu") " ORDER BY 1, 2, 4, 3";

/* printf() would make 0.000 of an interval that few pairs do not have. */
#define INTERVAL(name)                                                                             \
	" CASE WHEN interval_low(" name                                                            \
	") IS NOT NULL THEN printf('%.3f - %.3f', interval_low(" name "), interval_high(" name     \
	")) END AS \"95 %\","

/* clang-format off */
const char report_overhead_text_sql[] = PAIRS "SELECT program || '.' || mode AS run, against, "
	RECORDED " AS recorded, count(*) AS pairs,"
	" printf('%.3f', median(wall)) AS \"wall time\"," INTERVAL("wall")
	" printf('%.3f', median(cpu)) AS \"CPU time\"," INTERVAL("cpu")
	" unit_text(median(rss), 'bytes') AS \"max rss\"" GROUPS;
/* clang-format on */
