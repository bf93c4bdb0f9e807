#include "runner/processes/page-scan.h"

#include <errno.h>
#include <stdint.h>

/* The kernel gathers so many at once; with room for more it names some of them twice (6.18). */
#define N_REGIONS 512u

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
