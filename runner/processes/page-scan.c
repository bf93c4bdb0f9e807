#include "runner/processes/page-scan.h"

#include <errno.h>

#include "common/array.h"
#include "trace/varint.h"

/* The kernel gathers so many at once; with room for more it names some of them twice (6.18). */
#define N_REGIONS 512u

#define MAX_RUN_BYTES (64u << 20) /* 65,530 mappings need less than 2 MiB */

int page_scan_range(int table, struct page_scan *request, page_scan_take take, void *user)
{
	struct page_scan_region regions[N_REGIONS];
	int taken = 0;

	request->size = sizeof(*request);
	request->vec = (uintptr_t)regions;
	request->vec_len = N_REGIONS;
	request->walk_end = request->start;
	while (taken == 0 && request->walk_end < request->end) {
		request->start = request->walk_end;
		int n = ioctl(table, PAGE_SCAN, request);

		if (n < 0) {
			request->walk_end = request->start;
			return -errno;
		}
		if (request->walk_end <= request->start)
			break;
		taken = take(user, request, regions, (size_t)n);
		if (taken < 0)
			request->walk_end = request->start;
	}
	return taken;
}

int page_runs_put(struct page_runs *runs, const uint64_t *numbers, size_t n)
{
	if (runs->n_bytes > MAX_RUN_BYTES)
		return -E2BIG;
	if (grow_array_by(&runs->bytes, runs->n_bytes, n * TRACE_VARINT_MAX_BYTES,
			  &runs->n_allocated, 1) < 0)
		return -ENOMEM;
	uint8_t *at = runs->bytes + runs->n_bytes;
	for (size_t i = 0; i < n; i++)
		at = trace_varint_put_slow(at, numbers[i]);
	runs->n_bytes = (size_t)(at - runs->bytes);
	return 0;
}
