#pragma once
/*
 * What functions and their callers are charged with: bytes, blocks, time ... of call sites, summed
 * up along the call paths. A function counts once per path however often it stands in it; a call
 * that leads back to a function further out (recursion) is marked and carries nothing. So the
 * callers of a function always add up to it, and the whole is the sum over all sites.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/callgraph/call-paths.h"
#include "report/callgraph/needs.h"
#include "report/text/table.h"

enum profile_metric {
	PROFILE_BYTES,
	PROFILE_BLOCKS,
	PROFILE_PEAK,
	PROFILE_LEAKED,
	PROFILE_TIME,
	PROFILE_FAULTS,
	PROFILE_METRIC_COUNT
};

/* SQL: the CPU time in ns that the samples of :run, or of the selected part of it, stand for. */
#define PROFILE_CLOCK_TIME                                                                         \
	"(SELECT sum(source.n_samples * coalesce(1.0 * weight / nullif(all_of.n_samples, 0),"      \
	" source.period)) FROM source JOIN main.source AS all_of ON all_of.id = source.id"         \
	" LEFT JOIN source_ledger ON source_id = source.id WHERE source.run_id = :run"             \
	" AND source.measures = 'time')"

struct profile_metric_row {
	const char *name; /* as in --by NAME */
	const char *title; /* "bytes asked for" */
	enum report_needs needs;
	enum table_kind kind; /* how values are shown */
	/*
	 * stack_id, value, samples, samples squared for :run; the last two 0 but for time. Of time
	 * at blocks also what was resolved of it, the ends of the 95 % interval in ns, and whether
	 * the value is known: else it is what surely is the site's, and the answer lies anywhere
	 * between the ends.
	 */
	const char *sql;
};

/*
 * run_id: a run with call stacks of samples (record --sample-stacks) has time and faults by them;
 * behind selection_apply() those of the selection.
 */
const struct profile_metric_row *profile_metric_row(enum profile_metric metric);
const struct profile_metric_row *profile_metric_row_of(sqlite3 *db, int64_t run_id,
						       enum profile_metric metric);

/*
 * A title with the time that the run's samples are of in place of "user CPU time": that, "CPU time"
 * or "kernel CPU time". Allocated; NULL without memory.
 */
char *profile_title(sqlite3 *db, int64_t run_id, const char *title);

/* The metric of a name, or -EINVAL. */
int profile_metric_find(const char *name);

/* Sums of shares of clock samples, for intervals; zero for other metrics. */
struct profile_sum {
	double value;
	double n;
	double n_sq;
	double told; /* of value: what samples resolve */
	double low, high; /* sums of the ends */
	uint32_t n_sites;
	uint32_t n_unknown; /* of them: only their ends are known */
	bool has_ends;
};

/* Sum of the next row of a metric's query; of one without samples, stack_id and value will do. */
struct profile_sum profile_row(sqlite3_stmt *row);
void profile_sum_add(struct profile_sum *sum, const struct profile_sum *more);

struct profile_function {
	struct profile_sum self; /* of sites right in it */
	struct profile_sum all; /* of sites that it or whom it called */
	uint32_t number; /* index of paths.functions */
};

/* Function 0 is "all of it": the caller of outermost functions. */
struct profile_edge {
	uint32_t caller; /* indexes of paths.functions */
	uint32_t callee;
	double value;
	int is_cycle; /* also, or only, from within the callee */
};

/* What a line of a function is charged with: itself (callee 0), or by what it calls there. */
struct profile_place {
	uint32_t function; /* indexes of paths.functions */
	uint32_t callee;
	uint32_t source; /* index of paths.sources */
	int32_t line; /* 0: not known */
	double value;
};

struct profile {
	struct paths *paths; /* owned */
	struct profile_function *functions; /* by number; function 0: the total in `all` */
	struct profile_edge *edges;
	size_t n_edges;
	size_t n_edges_allocated;
	struct key_map edge_of; /* (caller, callee): index + 1 */
	struct profile_place *places; /* on request; without calls that only close a cycle */
	size_t n_places;
	size_t n_places_allocated;
	struct key_map place_of;
};

struct profile_request {
	int64_t run_id;
	enum profile_metric metric;
	struct paths_options paths; /* their texts must outlive the profile */
	int has_places; /* profile.places, too */
};

/* Returns 0, -ENOMEM, -EPROTO (sqlite3_errmsg() tells). */
int profile_open(sqlite3 *db, const struct profile_request *request, struct profile **ret_profile);
struct profile *profile_close(struct profile *profile); /* accepts NULL, returns NULL */

static inline void profile_cleanup(struct profile **profile)
{
	*profile = profile_close(*profile);
}
#define auto_profile __attribute__((cleanup(profile_cleanup)))

/*
 * Put it into the temporary tables profile_function(id, function, module, and of self and total
 * each: self, self_n, self_sq, self_told, self_low, self_high, self_sites, self_unknown; low and
 * high NULL where the metric has none) and profile_call(caller, callee, value, is_cycle), for
 * queries. Function 0 is the whole. Returns 0, -ENOMEM or -EPROTO.
 */
int profile_tables(const struct profile *profile, sqlite3 *db);
