/*
 * --source pages: which pages each process touches in each interval (processes/page-touches.h), and
 * which it writes (processes/page-writes.h). An interval is as long as --pages says, and longer
 * where reading and clearing marks, and setting them again in the program, would cost more than
 * their share of the time. Pages are asked in the order marks, writes; then marks are cleared. So
 * each interval of writes holds that of touches: what was touched and not written was read.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "runner/collector.h"
#include "runner/processes/image-proc.h"
#include "runner/processes/page-touches.h"
#include "runner/processes/process-sampler.h"
#include "runner/trace-records-write.h"

#define VFORK_SHARE	  5 /* of a second: longer nobody needs from vfork to exec */
#define NS_PER_SECOND	  UINT64_C(1000000000)
#define USUAL_INTERVAL_NS NS_PER_SECOND
#define LEAST_WAIT_NS	  UINT64_C(5000000) /* until the budget is asked again */
#define USUAL_PPM	  10000u /* of the time, without --pages and --budget */
#define MOST_PPM	  100000u /* with --pages: so often nobody needs to know it */
#define PPM		  UINT64_C(1000000)
#define LEAST_SHARE_PPM	  10000u /* of watched pages are thought to be written, at least */
#define FIRST_PART	  4u /* of a program's pages are thought to be in use: one in so many */
#define USUAL_READ_NS	  20u /* for a page of another program's marks, to read or to clear, ... */
#define LEAST_READ_NS	  UINT64_C(500000) /* ... and for its mappings */
#define USUAL_NODE_NS	  35u /* for the NUMA node of a page */
#define USUAL_WRITE_NS	  1000u /* where load hides what a first write costs, ... */
#define USUAL_MARK_NS	  250u /* ... or a mark */
/*
 * That is what it costs on a few pages, one behind the other. A program that goes about 4 GiB pays
 * 1.65 times as much, as its caches have neither page tables nor code of the kernel: measured by
 * `bench-pages.py hot'.
 */
#define COLD_PERCENT 170u

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
	touches->share.ppm = options->pages ? MOST_PPM : USUAL_PPM;
	if (options->budget)
		samples_rate_parse_budget(options->budget, &touches->share.ppm);
	touches->share.is_strict = options->budget != NULL;
	touches->has_nodes = run_count_nodes() > 1;
	touches->mark_ns = page_touches_mark_ns();
	if (touches->mark_ns == 0)
		touches->mark_ns = USUAL_MARK_NS;
	touches->writes_err = page_writes_probe(&touches->write_ns);
	if (touches->write_ns == 0)
		touches->write_ns = USUAL_WRITE_NS;
	touches->mark_ns = touches->mark_ns * COLD_PERCENT / 100;
	touches->write_ns = touches->write_ns * COLD_PERCENT / 100;
	if (touches->writes_err == 0)
		collector->pool->control->flags |= RING_FLAG_WRITES;
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

/* From here on nothing is known of what this image touches; of what it writes, perhaps. */
static void refuse(struct collector *collector, struct image *image, int err)
{
	image->touches.is_refused = true;
	if (err != -ESRCH)
		image->touches.forbidden_ticks = 0;
	if (err != -ESRCH) /* it has ended */
		collector_refuse_pages(collector, image, "", why_refused(err),
				       &collector->touches.has_warned);
}

static const char *why_not_written(int err)
{
	switch (-err) {
	case 0:
		return "written pages not known: the program is not traced, is confined by "
		       "seccomp, or may not use userfaultfd";
	case ENOTSUP:
	case ENOTTY:
		return "written pages not known: needs Linux 6.7 with CONFIG_USERFAULTFD and "
		       "CONFIG_PROC_PAGE_MONITOR";
	case E2BIG:
		return "written pages not known: too many mappings to watch";
	case EBUSY:
		return "written pages not known: the program uses userfaultfd itself";
	default:
		return "written pages not known: userfaultfd is refused, or a seccomp filter "
		       "confines the recorder (record outside of the container)";
	}
}

/* Once for each image. */
static void miss_writes(struct collector *collector, struct image *image, int err)
{
	const struct store_loss loss = {
		.count = 1,
		.from_ticks = clock_ticks(collector->clock),
		.process_id = image->id,
		.source = "pages",
		.reason = why_not_written(err),
	};

	if (!image->touches.misses_writes && err != -ESRCH)
		store_loss(collector->writer, &loss);
	image->touches.misses_writes = true;
}

/* ---- Records ---- */

static void write_touches(struct collector *collector, struct trace_touches *record,
			  const struct page_touches *touches)
{
	size_t at = 0;

	do {
		struct trace_string runs =
			trace_next_part(touches->runs.bytes, touches->runs.n_bytes, &at);

		record->is_last = at == touches->runs.n_bytes;
		trace_writer_add(collector->writer, record, runs);
	} while (!record->is_last);
}

static void write_writes(struct collector *collector, struct trace_writes *record,
			 const struct page_writes_look *look)
{
	size_t at = 0;

	do {
		struct trace_string runs =
			trace_next_part(look->runs.bytes, look->runs.n_bytes, &at);

		record->is_last = at == look->runs.n_bytes;
		trace_writer_add(collector->writer, record, runs);
	} while (!record->is_last);
}

/* ---- What it may cost ---- */

/* CPU time: while we wait for a processor ourselves, the program loses nothing. */
static uint64_t own_time(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* So many pages more may be watched, if of them as many are written as of those before. */
static uint64_t most_new_pages(const struct collector *collector, const struct image *image)
{
	const struct collector_touches *shared = &collector->touches;
	const struct page_clock now = page_clock_read(image->pid);
	uint64_t left_ns = page_budget_left_ns(&image->budget, &shared->share, &now);
	uint64_t need_ns = image->touches.need_ns;

	if (left_ns <= need_ns)
		return 1;
	return (left_ns - need_ns) * PPM / (shared->write_ns * image->touches.share_ppm) + 1;
}

/* May the next step be taken now? If not, it is due when it might be. */
static bool is_allowed(const struct collector *collector, struct image *image)
{
	struct image_touches *own = &image->touches;
	const struct page_clock now = page_clock_read(image->pid);
	uint64_t wait_ns =
		page_budget_wait_ns(&image->budget, &collector->touches.share, &now, own->need_ns);

	if (wait_ns == 0)
		return true;
	if (!own->begin_ticks && !own->forbidden_ticks)
		own->forbidden_ticks = clock_ticks(collector->clock);
	own->next_ns = now.now_ns + (wait_ns > LEAST_WAIT_NS ? wait_ns : LEAST_WAIT_NS);
	return false;
}

/* Of that time nothing is known, as the budget allows no interval. */
static void say_forbidden(struct collector *collector, struct image *image, uint64_t ticks)
{
	uint64_t since = image->touches.forbidden_ticks;
	uint64_t n_ms = (ticks - since) * 1000 / collector->ticks_per_second;
	const struct store_loss loss = {
		.count = n_ms + 1,
		.from_ticks = since,
		.to_ticks = ticks,
		.process_id = image->id,
		.source = "pages",
		.reason = "ms without touched pages: larger --budget",
	};

	image->touches.forbidden_ticks = 0;
	if (since)
		store_loss(collector->writer, &loss);
}

/* ---- Intervals ---- */

/* Touches of the memory of which marks were cleared: not of another program that it has become. */
static int read_interval(const struct image *image, bool with_nodes, struct page_touches *touches)
{
	int err = page_touches_read(image->pid, with_nodes, touches);

	if (image->touches.table < 0 || !image_memory_has_gone(image->touches.table))
		return err;
	page_touches_finish(touches);
	return -ESRCH;
}

/* What a look at writes gave, to be written behind its interval of touches. */
struct written {
	struct trace_writes record;
	struct page_writes_look look;
};

static void learn_share(struct image_touches *own, const struct page_writes_look *look)
{
	if (look->known_bytes >= 1024)
		own->share_ppm = look->written_bytes / 1024 * 2 * PPM / (look->known_bytes / 1024);
	if (own->share_ppm < LEAST_SHARE_PPM)
		own->share_ppm = LEAST_SHARE_PPM;
	if (own->share_ppm > PPM)
		own->share_ppm = PPM;
}

/* What was written since the last look, if there was one, and protect it again. */
static void look_at_writes(struct collector *collector, struct image *image,
			   const struct page_touches *touches, struct written *ret_written)
{
	struct page_writes_look *look = &ret_written->look;
	struct trace_writes *record = &ret_written->record;
	uint64_t begin_ns = own_time();

	if (image->touches.share_ppm == 0)
		image->touches.share_ppm = PPM;
	record->begin_ticks = image->touches.writes_begin_ticks;
	record->ticks = clock_ticks(collector->clock);
	int err = page_writes_look(&image->writes, image->pid, touches,
				   most_new_pages(collector, image), look);
	record->end_ticks = clock_ticks(collector->clock);
	record->own_ns = own_time() - begin_ns;
	record->page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);
	record->program_ns = look->written_bytes / record->page_bytes * collector->touches.write_ns;
	image->touches.writes_begin_ticks = err == 0 ? record->end_ticks : 0;
	if (err < 0) {
		page_writes_look_finish(look);
		page_writes_finish(&image->writes);
		miss_writes(collector, image, err);
		return;
	}
	learn_share(&image->touches, look);
}

static void write_written(struct collector *collector, const struct image *image,
			  struct written *written, uint32_t number)
{
	struct trace_writes *record = &written->record;

	record->head.type = TRACE_RECORD_WRITES;
	record->known_bytes = written->look.known_bytes;
	record->written_bytes = written->look.written_bytes;
	record->process_id = image->id;
	record->number = number;
	if (record->begin_ticks && written->look.runs.n_bytes > 0)
		write_writes(collector, record, &written->look);
	page_writes_look_finish(&written->look);
}

/*
 * The marks are cleared: an interval begins. The table is opened before, so that an exec that comes
 * in between is seen at the end, too.
 */
static int begin_interval(struct collector *collector, struct image *image)
{
	int table = image_open_file(image->pid, "pagemap", O_RDONLY), err;

	if (table < 0)
		return table;
	cleanup_close(&image->touches.table);
	image->touches.table = table;
	err = page_touches_clear(image->pid);
	image->touches.begin_ticks = clock_ticks(collector->clock);
	return err;
}

/* It has begun: what it may cost until it ends is left of the budget already. */
static void follow_first(struct collector *collector, struct image *image)
{
	const struct collector_touches *shared = &collector->touches;
	struct image_touches *own = &image->touches;
	uint64_t missed_ticks = own->begin_ticks - own->forbidden_ticks;

	own->next_ns = collector->now_ns + shared->interval_ns;
	/* Less than an interval: it begins a little later, and nothing is missing. */
	if (own->forbidden_ticks &&
	    missed_ticks > shared->interval_ns / 1000 * collector->ticks_per_second / 1000000)
		say_forbidden(collector, image, own->begin_ticks);
	own->forbidden_ticks = 0;
}

/* Pages of which each may cost a look and a mark: of huge ones few do. */
static uint64_t small_pages(const struct image *image)
{
	const struct image_pages *pages = &image->pages;
	double part = pages->looked_bytes > pages->small_bytes
			      ? (double)pages->small_bytes / (double)pages->looked_bytes
			      : 1;

	return (uint64_t)((double)pages->last_bytes * part) / (uint64_t)sysconf(_SC_PAGESIZE);
}

/* What is written from now on, unless the budget cannot pay for the look. */
static int begin_writes(struct collector *collector, struct image *image, uint64_t read_ns)
{
	const struct page_share *share = &collector->touches.share;
	struct page_touches touches = { 0 };
	struct written written = { 0 };
	const struct page_clock now = page_clock_read(image->pid);

	if (image->writes.fd < 0 ||
	    (share->is_strict &&
	     page_budget_left_ns(&image->budget, share, &now) < image->touches.need_ns + read_ns))
		return 0;
	int err = page_touches_read(image->pid, false, &touches);
	if (err == 0)
		look_at_writes(collector, image, &touches, &written);
	page_writes_look_finish(&written.look);
	page_touches_finish(&touches);
	return err;
}

/*
 * The first one. To look at what it will cost would cost as much. So with --budget it waits until
 * it may spend what clearing and reading so many pages usually take, and a part of the marks that
 * they could cost. What it has cost more is paid back before the next one.
 */
static void try_first(struct collector *collector, struct image *image)
{
	const struct collector_touches *shared = &collector->touches;
	struct image_touches *own = &image->touches;
	uint64_t n_pages = small_pages(image), begin_ns = own_time();

	own->read_ns =
		LEAST_READ_NS + n_pages * (USUAL_READ_NS + (shared->has_nodes ? USUAL_NODE_NS : 0));
	if (shared->share.is_strict)
		own->need_ns = 2 * own->read_ns + n_pages * shared->mark_ns / FIRST_PART;
	if (!is_allowed(collector, image))
		return;
	int err = begin_writes(collector, image, own->read_ns) ?: begin_interval(collector, image);
	image->budget.spent_ns += shared->share.is_strict ? own_time() - begin_ns : 0;
	if (err == 0)
		follow_first(collector, image);
	if (err < 0) { /* without marks written pages may be known all the same */
		if (err == -ESRCH || !own->begin_ticks)
			page_writes_finish(&image->writes);
		own->next_ns = collector->now_ns + shared->interval_ns;
		refuse(collector, image, err);
	}
}

void collector_give_back(struct collector *collector, struct ring_process *process,
			 struct image *image)
{
	if (image) {
		page_writes_finish(&image->writes);
		image->touches.gave_back = true;
		tracker_announce(&collector->tracker, image);
		miss_writes(collector, image, -EBUSY);
	}
	atomic_store(&process->lent, RING_LEAVING_DONE);
	syscall(SYS_futex, &process->lent, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void end_interval(struct collector *collector, struct image *image, bool is_end)
{
	struct collector_touches *shared = &collector->touches;
	struct image_touches *own = &image->touches;
	struct page_touches touches = { 0 };
	struct written written = { 0 };
	struct trace_touches record = {
		.head.type = TRACE_RECORD_TOUCHES,
		.begin_ticks = own->begin_ticks,
		.ticks = clock_ticks(collector->clock),
		.process_id = image->id,
		.page_bytes = (uint32_t)sysconf(_SC_PAGESIZE),
		.has_nodes = shared->has_nodes,
		.is_end = is_end,
	};
	uint64_t begin_ns = own_time(), cost_ns;
	int err = read_interval(image, shared->has_nodes, &touches);

	own->read_ns = own_time() - begin_ns;
	record.end_ticks = clock_ticks(collector->clock);
	record.number = ++shared->n_intervals;
	if (err < 0)
		page_writes_finish(&image->writes);
	else if (image->writes.fd >= 0)
		look_at_writes(collector, image, &touches, &written);
	else if (shared->writes_err < 0)
		miss_writes(collector, image, shared->writes_err);
	else
		own->lacks_writes = true;
	if (err == 0 && !is_end && !own->is_refused)
		err = begin_interval(collector, image);
	record.own_ns = own_time() - begin_ns - written.record.own_ns;
	if (touches.runs.n_bytes > 0 && !own->is_refused && (err == 0 || err == -ESRCH)) {
		record.resident_bytes = touches.resident_bytes;
		record.touched_bytes = touches.touched_bytes;
		record.program_ns = touches.small_bytes / record.page_bytes * shared->mark_ns;
		write_touches(collector, &record, &touches);
	}
	write_written(collector, image, &written, record.number);
	cost_ns = record.own_ns + written.record.own_ns + record.program_ns +
		  written.record.program_ns;
	image->budget.spent_ns += cost_ns;
	/* For this one, and for the next, which begins with its end. */
	own->need_ns = cost_ns;
	if (shared->share.is_strict) /* and for what is read at the end of the process */
		own->need_ns += own->read_ns + image->pages.cost_ns;
	own->next_ns = clock_ns(CLOCK_MONOTONIC) + shared->interval_ns;
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

	if (!parent || parent->pid <= 0 || parent->pid == image->pid)
		return false;
	long order = syscall(SYS_kcmp, image->pid, parent->pid, KCMP_VM, 0, 0);
	/* Where nobody may ask (no CONFIG_KCMP) it is believed to share for a moment. */
	return order == 0 ||
	       (order < 0 && errno != ESRCH && age < collector->ticks_per_second / VFORK_SHARE);
}

static void tick_image(struct collector *collector, struct image *image)
{
	struct image_touches *touches = &image->touches;

	if ((touches->is_refused && image->writes.fd < 0) || image->pid <= 0 ||
	    !image->is_written || image->is_gone)
		return;
	if (collector->now_ns < touches->next_ns ||
	    (!touches->begin_ticks && may_share_memory(collector, image)))
		return;
	if (image->budget.begin.now_ns == 0)
		image->budget.begin = page_clock_read(image->pid);
	if (!touches->begin_ticks)
		try_first(collector, image);
	else if (is_allowed(collector, image))
		end_interval(collector, image, false);
}

void collector_tick_touches(struct collector *collector)
{
	if (!collector->touches.is_on || collector->stopped_ticks)
		return;
	for (struct image *image = collector->tracker.images.first; image; image = image->next)
		tick_image(collector, image);
}

void collector_look_at_touches(struct collector *collector)
{
	for (struct image *image = collector->tracker.images.first; image; image = image->next) {
		const struct image_touches *own = &image->touches;

		if (own->begin_ticks && (!own->is_refused || image->writes.fd >= 0) &&
		    image->pid > 0 && image->is_written && !image->is_gone)
			end_interval(collector, image, false);
	}
}

void collector_end_touches(struct collector *collector, struct image *image)
{
	struct image_touches *own = &image->touches;

	if (!collector->touches.is_on || !own->begin_ticks ||
	    (own->is_refused && image->writes.fd < 0))
		return;
	/* What it takes was put by when it began, and its marks are paid for already. */
	end_interval(collector, image, true);
	own->begin_ticks = 0;
	own->next_ns = UINT64_MAX;
}

void collector_forget_touches(struct collector *collector, struct image *image)
{
	if (image->touches.lacks_writes)
		miss_writes(collector, image, 0);
	if (!image->touches.begin_ticks && image->touches.forbidden_ticks)
		say_forbidden(collector, image, clock_ticks(collector->clock));
}
