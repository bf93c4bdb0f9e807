/* perf's own clock beside ours: by pairs, and by two events that tell of one thing. */
#include <check.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "perf/record.h"
#include "pmu/event.h"
#include "pmu/perf-clock.h"
#include "pmu/ring.h"
#include "tests/support/suite.h"

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

START_TEST(perf_s_clock_and_ours_go_alike)
{
	struct pmu_perf_clock *clock = NULL;
	uint64_t perf[2], raw[2], error[2], before = now_ns();
	struct timespec pause = { .tv_nsec = 20000000 };
	int64_t drift;

	if (pmu_perf_clock_open(&clock) < 0)
		return; /* page faults may not be sampled here: PEBS says so and does without */
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(pmu_perf_clock_pair(clock, &perf[i], &raw[i], &error[i]), 0);
		nanosleep(&pause, NULL);
	}
	ck_assert_uint_ge(raw[0] + error[0], before);
	ck_assert_uint_le(raw[1], now_ns());
	ck_assert_uint_ge(raw[1] - raw[0], 20000000);
	/* sched_clock and RAW may differ in rate by what NTP would correct: 500 ppm. */
	drift = (int64_t)(perf[1] - perf[0]) - (int64_t)(raw[1] - raw[0]);
	ck_assert_int_le(llabs(drift), (int64_t)(error[0] + error[1] + (raw[1] - raw[0]) / 2000));
	pmu_perf_clock_close(clock);
}
END_TEST

/* The maps of this process as an event stamped by one of the clocks tells them. */
struct maps {
	struct pmu_ring ring;
	struct pmu_losses losses;
	int fd;
	uint64_t address, time_ns;
};

static const struct pmu_format map_format = { .sample_type = PERF_SAMPLE_TIME };

static int find_map(void *context, const void *records, size_t n_bytes, uint32_t n_samples)
{
	struct maps *maps = context;
	const uint8_t *at = records;
	struct pmu_record record;
	int length;

	(void)n_samples;
	while ((length = pmu_record_parse(&map_format, at, n_bytes, &record)) > 0) {
		if (record.type == PERF_RECORD_MMAP &&
		    maps->address - record.map.address < record.map.size)
			maps->time_ns = record.origin.time_ns;
		at += length;
		n_bytes -= (size_t)length;
	}
	return 0;
}

static bool maps_open(struct maps *maps, bool is_raw)
{
	const struct perf_event_attr attr = { .size = sizeof(attr),
					      .type = PERF_TYPE_SOFTWARE,
					      .config = PERF_COUNT_SW_DUMMY,
					      .sample_type = map_format.sample_type,
					      .sample_id_all = 1,
					      .mmap = 1,
					      .mmap_data = 1,
					      .exclude_kernel = 1,
					      .exclude_hv = 1,
					      .use_clockid = is_raw,
					      .clockid = is_raw ? CLOCK_MONOTONIC_RAW : 0 };

	*maps = (struct maps){ .fd = -1 };
	return pmu_event_open(&attr, 0, -1, &maps->fd) == 0 &&
	       pmu_ring_init(&maps->ring, maps->fd, 0) == 0;
}

static uint64_t maps_time(struct maps *maps, const void *page)
{
	maps->address = (uintptr_t)page;
	maps->time_ns = 0;
	pmu_ring_drain(&maps->ring, find_map, maps, &maps->losses);
	return maps->time_ns;
}

/*
 * Of two events that tell of the same map one is stamped by each clock, one right behind the other.
 * The best of some maps was not interrupted in between; 20 us are room for slow machines.
 */
START_TEST(a_pair_turns_a_stamp_of_perf_s_clock_into_ours)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct pmu_perf_clock *clock = NULL;
	struct maps raw, perf;
	uint64_t perf_ns, raw_ns, error_ns, best = UINT64_MAX;

	if (pmu_perf_clock_open(&clock) < 0)
		return;
	ck_assert(maps_open(&raw, true) && maps_open(&perf, false));
	ck_assert_int_eq(pmu_perf_clock_pair(clock, &perf_ns, &raw_ns, &error_ns), 0);
	for (int i = 0; i < 30; i++) {
		uint64_t by_raw, by_perf, apart;

		ck_assert_ptr_eq(mmap(page, page_bytes, PROT_READ,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
				 page);
		by_raw = maps_time(&raw, page);
		by_perf = maps_time(&perf, page);
		if (!by_raw || !by_perf)
			continue; /* other maps had filled a ring */
		apart = (uint64_t)llabs((int64_t)(by_perf - perf_ns + raw_ns - by_raw));
		if (apart < best)
			best = apart;
	}
	ck_assert_msg(best <= error_ns + 20000, "%llu ns apart, promised %llu",
		      (unsigned long long)best, (unsigned long long)error_ns);
	pmu_ring_finish(&raw.ring);
	pmu_ring_finish(&perf.ring);
	pmu_perf_clock_close(clock);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("perf-clock");
	TCase *tcase = tcase_create("perf-clock");

	tcase_add_test(tcase, perf_s_clock_and_ours_go_alike);
	tcase_add_test(tcase, a_pair_turns_a_stamp_of_perf_s_clock_into_ours);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
