#include "runner/processes/page-budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io.h"

#define PPM	 UINT64_C(1000000)
#define GRACE_NS UINT64_C(1000000000) /* that nobody need have had where it is not strict */
#define N_CHUNKS 64u

static uint64_t chunk_ns(volatile char *memory, size_t page_bytes, bool writes)
{
	uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	for (size_t i = 0; i < PAGE_SWEEP_PAGES; i++)
		if (writes)
			memory[i * page_bytes] = 1;
		else
			(void)memory[i * page_bytes];
	return clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
}

DEFINE_ORDER(compare_times, uint64_t, ORDER(*a, *b));

uint64_t page_sweep_ns(volatile char *memory, size_t n_pages, size_t page_bytes, bool writes)
{
	uint64_t times[N_CHUNKS] = { 0 };
	size_t n = 0;

	for (; n < N_CHUNKS && (n + 1) * PAGE_SWEEP_PAGES <= n_pages; n++)
		times[n] = chunk_ns(memory + n * PAGE_SWEEP_PAGES * page_bytes, page_bytes, writes);
	qsort(times, n, sizeof(*times), compare_times);
	return times[n / 2];
}

struct page_clock page_clock_read(pid_t pid)
{
	struct page_clock clock = { 0 };
	unsigned long long ran = 0, waited = 0;
	auto_free char *text = NULL;

	if (io_read_proc(pid, "schedstat", 256, &text, NULL) == 0 &&
	    sscanf(text, "%llu %llu", &ran, &waited) == 2) {
		clock.ran_ns = ran;
		clock.waited_ns = waited;
	}
	clock.now_ns = clock_ns(CLOCK_MONOTONIC);
	return clock;
}

static uint64_t above(uint64_t value, uint64_t least)
{
	return value > least ? value - least : 0;
}

uint64_t page_clock_had_ns(const struct page_clock *begin, const struct page_clock *now)
{
	uint64_t elapsed = above(now->now_ns, begin->now_ns);
	uint64_t had = above(elapsed, above(now->waited_ns, begin->waited_ns));
	uint64_t ran = above(now->ran_ns, begin->ran_ns);

	if (had < ran)
		had = ran;
	return had < elapsed ? had : elapsed;
}

static uint64_t share_ns(const struct page_budget *budget, const struct page_share *share,
			 const struct page_clock *now)
{
	uint64_t had = page_clock_had_ns(&budget->begin, now);

	if (!share->is_strict) {
		had = above(now->now_ns, budget->begin.now_ns);
		had = had > GRACE_NS ? had : GRACE_NS;
	}
	/* In two parts: of a year in ns times ppm would be too much. */
	return had / PPM * share->ppm + had % PPM * share->ppm / PPM;
}

uint64_t page_budget_left_ns(const struct page_budget *budget, const struct page_share *share,
			     const struct page_clock *now)
{
	return above(share_ns(budget, share, now), budget->spent_ns);
}

uint64_t page_budget_wait_ns(const struct page_budget *budget, const struct page_share *share,
			     const struct page_clock *now, uint64_t need_ns)
{
	uint64_t lacks_ns = above(budget->spent_ns + need_ns, share_ns(budget, share, now));

	return lacks_ns == 0 ? 0 : lacks_ns * PPM / share->ppm + 1;
}
