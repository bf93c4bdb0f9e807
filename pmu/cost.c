#include "pmu/cost.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "pmu/event.h"
#include "pmu/ring.h"

#define PAIRS	       9
#define SLICE_NS       UINT64_C(2000000)
#define PERIOD_NS      UINT64_C(80000) /* far above what a sample takes */
#define RING_PAGES_LOG 6
#define LEAST_NS       500
#define MOST_NS	       40000

static uint64_t work(uint64_t n)
{
	volatile uint64_t sum = 0;
	uint64_t begin_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	for (uint64_t i = 0; i < n; i++)
		sum += i;
	(void)sum; /* clang counts += as no use */
	return clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

static int take_none(void *context, const void *records, size_t n_bytes, uint32_t n_samples)
{
	(void)records;
	(void)n_bytes;
	*(uint64_t *)context += n_samples;
	return 0;
}

/* One pair of slices: what each sample added. 0: no sample came. */
static double measure_pair(int fd, struct pmu_ring *ring, uint64_t n)
{
	struct pmu_losses losses = { 0 };
	uint64_t n_samples = 0;

	uint64_t without_ns = work(n);
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	uint64_t with_ns = work(n);
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	pmu_ring_drain(ring, take_none, &n_samples, &losses);
	return n_samples ? ((double)with_ns - (double)without_ns) / (double)n_samples : 0;
}

static uint64_t measure(int fd, struct pmu_ring *ring)
{
	uint64_t n = 100000;
	double costs[PAIRS];

	n = n * SLICE_NS / (work(n) + 1) + 1; /* the first warms up, too */
	for (size_t i = 0; i < PAIRS; i++)
		costs[i] = measure_pair(fd, ring, n);
	qsort(costs, PAIRS, sizeof(*costs), compare);
	double median = costs[PAIRS / 2];
	return median < LEAST_NS || median > MOST_NS ? PMU_COST_DEFAULT_NS : (uint64_t)median;
}

uint64_t pmu_cost_measure(const struct access_source *source, const struct access_options *options)
{
	struct perf_event_attr attr = { .size = sizeof(attr) };
	struct pmu_notes notes = { 0 };
	struct pmu_ring ring = { 0 };
	auto_close int fd = -1;
	uint64_t cost_ns = PMU_COST_DEFAULT_NS;

	if (!source->configure)
		return cost_ns;
	source->configure(options, &attr);
	attr.disabled = 1;
	attr.sample_period = PERIOD_NS;
	if (pmu_event_negotiate(&attr, 0, -1, &notes, &fd) < 0 ||
	    pmu_ring_init(&ring, fd, RING_PAGES_LOG) < 0)
		return cost_ns;
	cost_ns = measure(fd, &ring);
	pmu_ring_finish(&ring);
	return cost_ns;
}

uint64_t pmu_max_sample_rate(void)
{
	auto_fclose FILE *file = fopen("/proc/sys/kernel/perf_event_max_sample_rate", "re");
	unsigned long long rate;

	return file && fscanf(file, "%llu", &rate) == 1 ? rate : 0;
}
