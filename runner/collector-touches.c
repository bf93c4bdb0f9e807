/*
 * --source pages: which pages each process touches in each interval (processes/page-touches.h). An
 * interval is as long as --pages says, and longer where reading and clearing marks, and setting
 * them again in the program, would cost more than their share of the time.
 */
#include <errno.h>
#include <linux/kcmp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/parse.h"
#include "runner/collector.h"
#include "runner/processes/page-touches.h"
#include "runner/trace-records-write.h"

#define VFORK_SHARE	  5 /* of a second: longer nobody needs from vfork to exec */
#define NS_PER_SECOND	  UINT64_C(1000000000)
#define USUAL_INTERVAL_NS NS_PER_SECOND
#define LONGEST_NS	  (60 * NS_PER_SECOND)
#define USUAL_PPM	  10000u /* of the time, without --pages and --budget */
#define MOST_PPM	  100000u /* with --pages: so often nobody needs to know it */

void collector_begin_touches(struct collector *collector)
{
	struct collector_touches *touches = &collector->touches;
	const struct run_options *options = collector->options;

	touches->is_on = samples_has(&collector->samples, ACCESS_ROLE_PAGES);
	if (!touches->is_on)
		return;
	touches->interval_ns = collector->pages_ns > 0 && collector->pages_ns != INT64_MAX
				       ? (uint64_t)collector->pages_ns
				       : USUAL_INTERVAL_NS;
	touches->budget_ppm = options->pages ? MOST_PPM : USUAL_PPM;
	if (options->budget)
		samples_rate_parse_budget(options->budget, &touches->budget_ppm);
	touches->mark_ns = page_touches_mark_ns();
}

static const char *why_refused(int err)
{
	switch (-err) {
	case EACCES:
	case EPERM:
		return "touched pages not known: record as the user whose program it is";
	case EBUSY:
		return "touched pages not known: the program uses marks of pages itself";
	case E2BIG:
		return "touched pages of too many mappings to keep";
	default:
		return "touched pages not known: /proc/PID/clear_refs or smaps fails (mount /proc "
		       "read-write; Linux with CONFIG_PROC_PAGE_MONITOR)";
	}
}

/* From here on nothing is known of this image. */
static void refuse(struct collector *collector, struct image *image, int err)
{
	image->touches.is_refused = true;
	if (err != -ESRCH) /* it has ended */
		collector_refuse_pages(collector, image, "", why_refused(err),
				       &collector->touches.has_warned);
}

static void write_parts(struct collector *collector, struct trace_touches *record,
			const struct page_touches *touches)
{
	size_t at = 0;

	do {
		size_t n = touches->n_run_bytes - at;
		struct trace_string runs = { .bytes = touches->runs + at };

		if (n > TRACE_PAGES_PART_BYTES)
			n = TRACE_PAGES_PART_BYTES;
		runs.n_bytes = record->runs_bytes = (uint32_t)n;
		at += n;
		record->is_last = at == touches->n_run_bytes;
		trace_writer_record(collector->writer, record, sizeof(*record), &runs, 1);
	} while (!record->is_last);
}

/*
 * When the next interval of an image ends: what all have cost, and this one will as the last one
 * did, is at most its share of the time since the first began.
 */
static uint64_t next_ns(const struct collector_touches *shared, const struct image_touches *own,
			uint64_t now_ns, uint64_t cost_ns)
{
	uint64_t paid_ns = (own->spent_ns + cost_ns) * 1000000 / shared->budget_ppm;
	uint64_t next = now_ns + shared->interval_ns, latest = now_ns + LONGEST_NS;

	if (next < own->first_ns + paid_ns)
		next = own->first_ns + paid_ns;
	return next > latest && shared->interval_ns < LONGEST_NS ? latest : next;
}

/* The marks are cleared: an interval begins. */
static int begin_interval(struct collector *collector, struct image *image)
{
	int err = page_touches_clear(image->pid);

	image->touches.begin_ticks = err == 0 ? clock_ticks(collector->clock) : 0;
	return err;
}

static void end_interval(struct collector *collector, struct image *image, bool is_end)
{
	struct collector_touches *shared = &collector->touches;
	struct page_touches touches = { 0 };
	struct trace_touches record = {
		.head.type = TRACE_RECORD_TOUCHES,
		.begin_ticks = image->touches.begin_ticks,
		.ticks = clock_ticks(collector->clock),
		.process_id = image->id,
		.page_bytes = (uint32_t)sysconf(_SC_PAGESIZE),
		.is_end = is_end,
	};
	uint64_t begin_ns = clock_ns(CLOCK_MONOTONIC), now_ns;
	int err = page_touches_read(image->pid, &touches);

	record.end_ticks = clock_ticks(collector->clock);
	if (err == 0 && !is_end)
		err = begin_interval(collector, image);
	now_ns = clock_ns(CLOCK_MONOTONIC);
	if (touches.n_run_bytes > 0 && (err == 0 || err == -ESRCH)) {
		record.number = ++shared->n_intervals;
		record.resident_bytes = touches.resident_bytes;
		record.touched_bytes = touches.touched_bytes;
		record.own_ns = now_ns - begin_ns;
		record.program_ns = touches.small_bytes / record.page_bytes * shared->mark_ns;
		write_parts(collector, &record, &touches);
	}
	image->touches.spent_ns += record.own_ns + record.program_ns;
	image->touches.next_ns =
		next_ns(shared, &image->touches, now_ns, record.own_ns + record.program_ns);
	page_touches_finish(&touches);
	if (err < 0)
		refuse(collector, image, err);
}

/*
 * A child of vfork and posix_spawn runs in the memory of its parent up to its exec: whoever clears
 * its marks clears the parent's, in an interval of which all is to be seen.
 */
static bool may_share_memory(const struct collector *collector, const struct image *image)
{
	const struct image *parent = images_find_id(&collector->tracker.images, image->parent_id);
	uint64_t age = clock_ticks(collector->clock) - image->start_ticks;
	long order;

	if (!parent || parent->pid <= 0 || parent->pid == image->pid)
		return false;
	order = syscall(SYS_kcmp, image->pid, parent->pid, KCMP_VM, 0, 0);
	/* Where nobody may ask (no CONFIG_KCMP) it is believed to share for a moment. */
	return order == 0 ||
	       (order < 0 && errno != ESRCH && age < collector->ticks_per_second / VFORK_SHARE);
}

static void tick_image(struct collector *collector, struct image *image)
{
	struct image_touches *touches = &image->touches;
	int err;

	if (touches->is_refused || image->pid <= 0 || !image->is_written || image->is_gone)
		return;
	if (touches->begin_ticks == 0) {
		if (may_share_memory(collector, image))
			return;
		err = begin_interval(collector, image);
		touches->first_ns = collector->now_ns;
		touches->next_ns = collector->now_ns + collector->touches.interval_ns;
		if (err < 0)
			refuse(collector, image, err);
	} else if (collector->now_ns >= touches->next_ns) {
		end_interval(collector, image, false);
	}
}

void collector_tick_touches(struct collector *collector)
{
	if (!collector->touches.is_on || collector->stopped_ticks)
		return;
	for (struct image *image = collector->tracker.images.first; image; image = image->next)
		tick_image(collector, image);
}

void collector_end_touches(struct collector *collector, struct image *image)
{
	if (collector->touches.is_on && !image->touches.is_refused && image->touches.begin_ticks)
		end_interval(collector, image, true);
}
