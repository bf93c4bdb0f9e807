/*
 * When the pages of processes are looked at (processes/page-state.h): when one has more resident
 * memory than before, at each --pages, and when one ends. Then the library makes the program wait
 * for us in exit() and _exit(): its memory is gone as soon as it has ended. The program is not
 * stopped for the others.
 */
#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/parse.h"
#include "runner/collector.h"
#include "runner/processes/page-state.h"
#include "runner/processes/process-sampler.h"
#include "runner/trace-records-write.h"

#define PEAK_SHARE 10 /* a peak is a tenth more than the one before, ... */
#define PEAK_BYTES (UINT64_C(1) << 20) /* ... and so much */
/* Where it has stopped growing, less is enough, so that the last look is near the real peak. */
#define REST_SHARE	  100
#define REST_BYTES	  (UINT64_C(256) << 10)
#define LEAST_INTERVAL_NS 10000000
#define COST_SHARE	  100 /* looks at peaks take at most one part in 100 of the time */
#define MAX_TRIES	  3 /* of a look, while memory comes and goes too fast */
#define LOOKS_SHARE	  4u /* one part in 4 of what --budget gives --source pages */

int64_t collector_pages_interval(const struct run_options *options)
{
	int64_t ns = 0;

	if (options->is_natural || options->null_sink || options->sample_bytes)
		return INT64_MAX;
	if (!options->pages)
		return 0;
	if (strcmp(options->pages, "off") == 0)
		return INT64_MAX;
	return parse_duration(options->pages, &ns) < 0 || ns < LEAST_INTERVAL_NS ? -EINVAL : ns;
}

static void write_parts(struct collector *collector, const struct page_state *state)
{
	struct trace_pages record = state->record;
	size_t run_at = 0, map_at = 0;

	do {
		struct trace_string runs =
			trace_next_part(state->runs.bytes, state->runs.n_bytes, &run_at);
		struct trace_string maps =
			trace_next_part(state->maps, state->n_map_bytes, &map_at);

		record.is_last = run_at == state->runs.n_bytes && map_at == state->n_map_bytes;
		trace_writer_add(collector->writer, &record, runs, maps);
	} while (!record.is_last);
}

static const char *why_refused(int err)
{
	switch (-err) {
	case E2BIG:
		return "state of the pages too large to keep";
	case EACCES:
	case EPERM:
		return "pages not readable: record as the user whose program it is, or with"
		       " CAP_SYS_PTRACE";
	default:
		return "pages not readable: /proc/PID/pagemap is missing (mount /proc; Linux with"
		       " CONFIG_PROC_PAGE_MONITOR)";
	}
}

/* Whether others may have pages of its memory, by fork. */
static bool is_related(const struct collector *collector, const struct image *image)
{
	if (image->birth == RING_BIRTH_FORK)
		return true;
	for (const struct image *other = collector->tracker.images.first; other;
	     other = other->next)
		if (other->birth == RING_BIRTH_FORK && other->parent_id == image->id)
			return true;
	return false;
}

/* Peaks come often while a program grows: of these Pss is asked where it has relatives. */
static unsigned asked_of(const struct collector *collector, const struct image *image,
			 enum trace_pages_reason reason)
{
	bool has_relatives = is_related(collector, image);

	return (has_relatives ? PAGE_STATE_RELATED : 0) |
	       (has_relatives || reason != TRACE_PAGES_PEAK ? PAGE_STATE_PSS : 0) |
	       (run_count_nodes() > 1 ? PAGE_STATE_NODES : 0);
}

/*
 * With --source pages --budget looks take a quarter of it at most, so that intervals of touches are
 * left the most; they pay for all looks, too.
 */
static bool may_look(const struct collector *collector, struct image *image)
{
	const struct page_share *all = &collector->touches.share;
	const struct page_share part = { .ppm = (all->ppm + LOOKS_SHARE - 1) / LOOKS_SHARE,
					 .is_strict = true };

	if (!collector->touches.is_on || !all->is_strict || image->pid <= 0)
		return true;
	if (image->budget.begin.now_ns == 0)
		image->budget.begin = page_clock_read(image->pid);
	const struct page_budget looks = { .begin = image->budget.begin,
					   .spent_ns = image->pages.spent_ns };
	const struct page_clock now = page_clock_read(image->pid);

	return page_budget_wait_ns(&looks, &part, &now, image->pages.cost_ns) == 0;
}

/*
 * A look may be interrupted for as long as others have the processor, and what comes and goes
 * meanwhile is in it or not: then another one is shorter, most likely. The last one counts.
 */
static int read_state(struct collector *collector, const struct image *image, unsigned asked,
		      struct page_state *state)
{
	int err = 0;

	for (unsigned i = 0; i < MAX_TRIES && err == 0 && (i == 0 || !page_state_fits(state));
	     i++) {
		page_state_finish(state);
		state->record.ticks = clock_ticks(collector->clock);
		err = page_state_read(image->pid, asked | (i > 0 ? PAGE_STATE_EACH : 0), state);
		state->record.end_ticks = clock_ticks(collector->clock);
	}
	return err;
}

/* Nothing is lost where the process went first: that it has no last look is seen in the trace. */
static void look(struct collector *collector, struct image *image, enum trace_pages_reason reason)
{
	struct page_state state = { 0 };
	/* Of CPU time: while we wait for a processor, others have it. */
	uint64_t begin_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	if (image->pages.is_refused || image->pid <= 0 || !image->is_written)
		return;
	int err = read_state(collector, image, asked_of(collector, image, reason), &state);
	if (err == 0) {
		state.record.head.type = TRACE_RECORD_PAGES;
		state.record.process_id = image->id;
		image->pages.looked_bytes = state.record.rss_bytes;
		image->pages.small_bytes = state.small_bytes;
		state.record.number = ++collector->n_pages;
		state.record.reason = (uint8_t)reason;
		write_parts(collector, &state);
	} else if (err != -ESRCH) {
		image->pages.is_refused = true;
		collector_refuse_pages(collector, image,
				       "what is resident is not known: ", why_refused(err),
				       &collector->said_pages);
	}
	page_state_finish(&state);
	image->pages.cost_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
	image->pages.spent_ns += image->pages.cost_ns;
	if (collector->touches.share.is_strict)
		image->budget.spent_ns += image->pages.cost_ns;
	if (reason == TRACE_PAGES_PEAK)
		image->pages.not_before_ns =
			clock_ns(CLOCK_MONOTONIC) + COST_SHARE * image->pages.cost_ns;
}

void collector_saw_resident(struct collector *collector, struct image *image, uint64_t bytes)
{
	struct image_pages *pages = &image->pages;
	uint64_t peak = pages->peak_bytes;
	bool rests = bytes <= pages->last_bytes;

	pages->last_bytes = bytes;
	if (collector->pages_ns == INT64_MAX || collector->now_ns < pages->not_before_ns)
		return;
	if (bytes <
	    peak + (rests ? peak / REST_SHARE + REST_BYTES : peak / PEAK_SHARE + PEAK_BYTES))
		return;
	if (!may_look(collector, image))
		return;
	pages->peak_bytes = bytes;
	look(collector, image, TRACE_PAGES_PEAK);
}

int collector_look_at_pages(struct collector *collector)
{
	if (collector->pages_ns == INT64_MAX)
		return -ENOTSUP;
	for (struct image *image = collector->tracker.images.first; image; image = image->next)
		look(collector, image, TRACE_PAGES_TICK);
	return 0;
}

void collector_tick_pages(struct collector *collector)
{
	if (collector->pages_ns == 0 || collector->pages_ns == INT64_MAX ||
	    collector->now_ns < collector->next_pages_ns || collector->stopped_ticks)
		return;
	for (struct image *image = collector->tracker.images.first; image; image = image->next)
		if (may_look(collector, image))
			look(collector, image, TRACE_PAGES_TICK);
	collector->next_pages_ns = collector->now_ns + (uint64_t)collector->pages_ns;
}

static void let_go(struct collector *collector, struct ring_process *process, struct image *image)
{
	uint32_t asked = RING_LEAVING_ASKED;

	/* It may have waited long enough: then it is on its way. */
	if (!atomic_compare_exchange_strong(&process->leaving, &asked, RING_LEAVING_SEEN))
		return;
	if (image && !collector->stopped_ticks) {
		tracker_announce(&collector->tracker, image);
		collector_end_touches(collector, image);
		look(collector, image, TRACE_PAGES_END);
	}
	atomic_store(&process->leaving, RING_LEAVING_DONE);
	syscall(SYS_futex, &process->leaving, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void collector_take_leaving(struct collector *collector)
{
	const struct drain *drain = &collector->drain;
	uint32_t n_used = tracker_slots_used(&collector->tracker);

	for (uint32_t i = 0; i < n_used; i++) {
		struct ring_process *process = &collector->pool->processes[i];

		if (atomic_load_explicit(&process->lent, memory_order_acquire) ==
		    RING_LEAVING_ASKED)
			collector_give_back(collector, process,
					    drain->slots[i].is_attached ? drain->slots[i].image
									: NULL);
		if (atomic_load_explicit(&process->leaving, memory_order_acquire) ==
		    RING_LEAVING_ASKED)
			let_go(collector, process,
			       drain->slots[i].is_attached ? drain->slots[i].image : NULL);
	}
}
