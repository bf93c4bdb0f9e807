#pragma once
/*
 * SQL for rows of objects: call sites of the heap, and what else was touched. OBJECT_ITEMS are
 * common table expressions, of which item has a row for each; OBJECT_ROWS shows rows of a table
 * "kept" of items. Needs report_functions_register().
 */

/*
 * The place of the program's innermost call, else of the call that allocated: for an order, and of
 * the rows that are shown.
 */
#define OBJECT_PLACE(column)                                                                       \
	"(SELECT " column " FROM stack AS made JOIN stack AS user ON user.id ="                    \
	" coalesce(made.user_id, made.id) JOIN frame ON frame.id = user.frame_id"                  \
	" LEFT JOIN frame_line ON frame_line.frame_id = frame.id AND frame_line.depth ="           \
	" coalesce(user_depth, 0) WHERE made.id = item.stack_id)"
#define OBJECT_FUNCTION OBJECT_PLACE("coalesce(frame_line.function, frame.function)")

/* Variables, mappings and stacks of threads that were touched. */
/* clang-format off */
#define OBJECT_THINGS \
	"SELECT 2 AS kind, id, size, NULL AS stack_id, name, NULL AS path FROM object_name" \
	"  WHERE run_id = :run UNION ALL SELECT 3, id, CASE WHEN prot = 0 AND seen = 0" \
	" THEN NULL ELSE size END, stack_id," \
	"  CASE path WHEN '[heap]' THEN 'heap (brk)' ELSE coalesce(nullif(path, '')," \
	" 'anonymous memory') END, NULL FROM mapping WHERE run_id = :run" \
	" UNION ALL SELECT 4, id, size, NULL, name, path FROM symbol" \
	" UNION ALL SELECT 5, id, NULL, NULL, 'stack of thread ' || tid, NULL FROM thread" \
	"  WHERE run_id = :run UNION ALL SELECT 6, id, NULL, NULL," \
	"  'thread-local storage of thread ' || tid, NULL FROM thread WHERE run_id = :run"

#define OBJECT_ITEMS \
	"clock(n_clock) AS (SELECT nullif(sum(n_samples), 0) FROM source WHERE run_id = :run" \
	"  AND measures = 'time')," \
	" accessed AS (SELECT owner_kind, owner_id, sum(n) AS n_accesses," \
	"  1.0 * sum(latency) / nullif(sum(n_latencies), 0) AS latency FROM access_total" \
	"  WHERE run_id = :run GROUP BY 1, 2)," \
	" raw AS (SELECT stack_id AS site, 1 AS kind, stack_id AS id, n_blocks, bytes," \
	"  live_bytes, peak_bytes, n_temporary, 1e9 * byte_seconds / nullif(bytes, 0) AS" \
	"  mean_life_ns, n_samples + n_imputed AS n_samples, time_ns, share, share_low," \
	" share_high, n_faults, stack_id," \
	"  NULL AS name, NULL AS path FROM site WHERE run_id = :run" \
	"  UNION ALL SELECT NULL, owner_kind, owner_id, NULL, NULL, NULL, size, NULL, NULL," \
	"  n_samples + n_imputed, time_ns, share, share_low, share_high, n_faults, stack_id," \
	" name, path" \
	"  FROM object_total LEFT JOIN (" OBJECT_THINGS ") AS thing" \
	"  ON thing.kind = owner_kind AND thing.id = owner_id" \
	"  WHERE run_id = :run AND owner_kind IN (2, 3, 4, 5, 6))," \
	" item AS (SELECT raw.*, n_accesses, latency FROM raw JOIN clock" \
	"  LEFT JOIN accessed ON owner_kind = kind AND owner_id = raw.id)"
/* clang-format on */

/* clang-format off */
#define OBJECT_ROWS \
	"SELECT site, (SELECT name FROM owner WHERE owner.id = kind) AS owner, item.id," \
	" CASE WHEN kind = 1 THEN site_name(item.stack_id, 3) WHEN kind = 3 AND name =" \
	" 'anonymous memory' AND item.stack_id IS NOT NULL THEN 'mmap: ' ||" \
	" site_name(item.stack_id, 3) ELSE name END AS name," \
	" " OBJECT_FUNCTION " AS function," \
	" coalesce(item.path, " OBJECT_PLACE("file") ") AS file," \
	" " OBJECT_PLACE("line") " AS line," \
	" n_blocks, bytes, live_bytes, peak_bytes, n_temporary, mean_life_ns, n_samples, time_ns," \
	" share, share_low, share_high, n_faults," \
	" n_accesses, latency, (SELECT live_bytes FROM main.site_curve AS curve" \
	"  WHERE curve.run_id = :run AND curve.stack_id = site) AS spark FROM kept AS item"
/* clang-format on */
