#pragma once
/* Which rows of a run a selection has. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/selection/selection.h"

/* What threads did within a region: spans of each thread in their order, none meets another. */
struct filter_span {
	int64_t thread_id;
	int64_t from_ns;
	int64_t to_ns; /* not included */
};

struct filter {
	const struct selection *selection;
	bool is_timed; /* it has a part of the time only */
	int64_t *processes; /* process.id of the pid */
	size_t n_processes;
	int64_t *threads; /* thread.id of the tid */
	size_t n_threads;
	struct filter_span *spans; /* by thread and time */
	size_t n_spans;
};

/* Returns 0 or a negative errno. Finish in any case. */
int filter_init(struct filter *filter, struct db *db, const struct selection *selection,
		int64_t run_id);
void filter_finish(struct filter *filter);

/* Whether what a thread did at a time is of the selection's process, thread and region. */
bool filter_takes(const struct filter *filter, int64_t process_id, int64_t thread_id,
		  int64_t time_ns);

/* Whether some of the bytes from an address on lie in its addresses, in the order of int64_t. */
static inline bool filter_has_bytes(const struct filter *filter, int64_t address, int64_t size)
{
	__int128 end = (__int128)address + (size > 0 ? size : 1);

	return !filter->selection->high || (address < (int64_t)filter->selection->high &&
					    end > (int64_t)filter->selection->low);
}
