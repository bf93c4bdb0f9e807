#include "pmu/perf-clock.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "perf/record.h"
#include "pmu/event.h"
#include "pmu/ring.h"

#define TRIES 5

struct pmu_perf_clock {
	struct pmu_ring ring;
	struct pmu_losses losses;
	int fd;
	void *page; /* ours, to be mapped again and again */
	size_t page_bytes;
	uint64_t last_ns; /* of the newest map of our page in the ring */
};

static const struct pmu_format format = { .sample_type = PERF_SAMPLE_TIME };

struct pmu_perf_clock *pmu_perf_clock_close(struct pmu_perf_clock *clock)
{
	if (!clock)
		return NULL;
	pmu_ring_finish(&clock->ring);
	if (clock->fd >= 0)
		close(clock->fd);
	if (clock->page)
		munmap(clock->page, clock->page_bytes);
	free(clock);
	return NULL;
}

static void close_clock(struct pmu_perf_clock **clock)
{
	pmu_perf_clock_close(*clock);
}

static int open_event(struct pmu_perf_clock *clock)
{
	const struct perf_event_attr attr = { .size = sizeof(attr),
					      .type = PERF_TYPE_SOFTWARE,
					      .config = PERF_COUNT_SW_DUMMY,
					      .sample_type = format.sample_type,
					      .sample_id_all = 1,
					      .mmap = 1,
					      .mmap_data = 1,
					      .exclude_kernel = 1,
					      .exclude_hv = 1 };
	int r = pmu_event_open(&attr, 0, -1, &clock->fd);

	return r < 0 ? r : pmu_ring_init(&clock->ring, clock->fd, 0);
}

int pmu_perf_clock_open(struct pmu_perf_clock **ret_clock)
{
	__attribute__((cleanup(close_clock))) struct pmu_perf_clock *clock =
		calloc(1, sizeof(*clock));

	if (!clock)
		return -ENOMEM;
	clock->fd = -1;
	clock->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, clock->page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return -errno;
	clock->page = page;
	int r = open_event(clock);
	if (r == 0)
		*ret_clock = steal_ptr(&clock);
	return r;
}

/*
 * The last map of our page stays in clock->last_ns; others of this thread are passed over. A record
 * is of the whole area, which the kernel may have merged with its neighbours.
 */
static int take(void *context, const void *records, size_t n_bytes, uint32_t n_samples)
{
	struct pmu_perf_clock *clock = context;
	const uint8_t *at = records;
	struct pmu_record record;
	int length;

	(void)n_samples;
	while ((length = pmu_record_parse(&format, at, n_bytes, &record)) > 0) {
		if (record.type == PERF_RECORD_MMAP &&
		    (uintptr_t)clock->page - record.map.address < record.map.size)
			clock->last_ns = record.origin.time_ns;
		at += length;
		n_bytes -= (size_t)length;
	}
	return 0;
}

/* One try. false: the record was lost, as when other maps had filled the ring. */
static bool pair_once(struct pmu_perf_clock *clock, uint64_t *ret_perf_ns, uint64_t *ret_before,
		      uint64_t *ret_after)
{
	void *page;

	clock->last_ns = 0;
	*ret_before = clock_raw_ns();
	page = mmap(clock->page, clock->page_bytes, PROT_READ,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	*ret_after = clock_raw_ns();
	if (page == MAP_FAILED)
		return false;
	pmu_ring_drain(&clock->ring, take, clock, &clock->losses);
	*ret_perf_ns = clock->last_ns;
	return clock->last_ns != 0;
}

int pmu_perf_clock_pair(struct pmu_perf_clock *clock, uint64_t *ret_perf_ns, uint64_t *ret_raw_ns,
			uint64_t *ret_error_ns)
{
	uint64_t best = UINT64_MAX;

	/* Room in the ring first. */
	pmu_ring_drain(&clock->ring, take, clock, &clock->losses);
	for (int i = 0; i < TRIES; i++) {
		uint64_t perf_ns, before, after;

		if (!pair_once(clock, &perf_ns, &before, &after) || after - before >= best)
			continue;
		best = after - before;
		*ret_perf_ns = perf_ns;
		*ret_raw_ns = before + best / 2;
		*ret_error_ns = best / 2 + 1;
	}
	return best == UINT64_MAX ? -EAGAIN : 0;
}
