/* When things of a trace happen, and what waits for its time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/import-internal.h"
#include "common/array.h"

int64_t import_time(struct import *import, uint64_t ticks)
{
	int64_t time_ns = merge_clock_of_ticks(&import->clock, ticks);

	if (time_ns > import->last_ns)
		import->last_ns = time_ns;
	return time_ns;
}

int64_t import_order(const struct import *import, uint64_t ticks)
{
	return (int64_t)(ticks - import->clock.start_ticks);
}

int import_add_moment(struct import *import, const struct import_moment *moment)
{
	if (grow_array(&import->moments, import->n_moments, &import->n_moments_allocated,
		       sizeof(*import->moments)) < 0)
		return -ENOMEM;
	struct import_moment *copy = &import->moments[import->n_moments];
	*copy = *moment;
	copy->order = import->n_moments;
	if (moment->mapping.path) {
		copy->mapping.path = strdup(moment->mapping.path);
		if (!copy->mapping.path)
			return -ENOMEM;
	}
	import->n_moments++;
	return 0;
}
