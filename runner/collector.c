#include "runner/collector.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "runner/agent/helper.h"
#include "runner/trace-records-write.h"

#define NS_PER_MS	 UINT64_C(1000000)
#define NS_PER_SECOND	 UINT64_C(1000000000)
#define MIN_INTERVAL_NS	 NS_PER_MS
#define MAX_INTERVAL_NS	 (50 * NS_PER_MS)
#define BUSY_INTERVAL_NS (20 * NS_PER_MS)
#define CALM_INTERVAL_NS (100 * NS_PER_MS)
#define CALM_PART	 32 /* of the time in which nothing was new a round may take */
/* And up to twice that, so that it falls into step with nothing. */
#define HASTE_INTERVAL_NS (3 * NS_PER_MS)
#define ROUND_BYTES	  (4u << 20) /* what a round should find: it stays in the caches */
#define MAX_NEWS	  8
#define MAX_ROUND_CHUNKS  128 /* then look at hellos: they wait for 100 ms at most */
#define CLOCK_NS	  (20 * NS_PER_MS)
#define SAMPLE_NS	  (100 * NS_PER_MS)
#define FIRST_COMMIT_NS	  (50 * NS_PER_MS)
#define COMMIT_NS	  (TRACE_SEGMENT_NS / 4)

void collector_mark_begin(struct collector *collector)
{
	collector->command_begin_ns = clock_ns(CLOCK_MONOTONIC);
}

uint64_t collector_wall_ns(const struct collector *collector)
{
	return collector->command_end_ns ? collector->command_end_ns - collector->command_begin_ns
					 : 0;
}

static int watch(struct collector *collector, int fd, uint64_t tag)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = tag };

	if (fd < 0)
		return 0;
	return epoll_ctl(collector->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static void forget_image(void *user, uint32_t process_id)
{
	struct collector *collector = user;
	struct image *image = images_find_id(&collector->tracker.images, process_id);

	samples_forget(&collector->samples, process_id);
	watches_forget(&collector->watches, process_id);
	if (collector->totals)
		live_totals_forget(collector->totals, process_id);
	if (image)
		collector_forget_touches(collector, image);
}

static void warn_of_watch(void *user, const char *line)
{
	collector_warn(user, "%s", line);
}

/* Their texts were parsed by the caller. */
static void init_watches(struct collector *collector)
{
	struct watches *watches = &collector->watches;

	watches->writer = collector->writer;
	watches->clock = collector->clock;
	watches->ticks_per_second = collector->ticks_per_second;
	watches->rate = collector->options->watch_rate;
	watches->warn = warn_of_watch;
	watches->user = collector;
	if (watches_wanted(watches))
		collector->tracker.watches = watches;
}

static void init_tracker(struct collector *collector)
{
	collector->tracker = (struct tracker){
		.pool = collector->pool,
		.drain = &collector->drain,
		.writer = collector->writer,
		.clock = collector->clock,
		.ticks_per_second = collector->ticks_per_second,
		.epoll_fd = collector->epoll_fd,
		.epoll_tag = collector_tag(COLLECTOR_PROCESS, 0),
		.no_alloc = collector->options->no_alloc,
		.no_follow = collector->options->no_follow,
		.functions = collector->options->functions,
		.samples = &collector->samples,
		.forget = forget_image,
		.user = collector,
		.loaded = collector->observer ? collector->observer->loaded : NULL,
		.files = collector->observer ? collector->observer->files : NULL,
	};
}

/* Without it programs wait less for a recorder that is late. */
static int start_pulse(struct collector *collector)
{
	if (collector->options->no_alloc || pulse_start(&collector->pulse, collector->pool) < 0)
		return 0;
	return watch(collector, collector->pulse.event_fd, collector_tag(COLLECTOR_WAITING, 0));
}

int collector_init(struct collector *collector, const struct clock_pair *first_pair,
		   uint64_t ticks_per_second, int signal_fd)
{
	collector->clock = (enum ring_clock)collector->pool->control->clock;
	collector->first_pair = *first_pair;
	collector->last_pair = *first_pair;
	collector->ticks_per_second = ticks_per_second;
	collector->signal_fd = signal_fd;
	collector->wait_status = -1;
	collector->interval_ns = MIN_INTERVAL_NS;
	collector->pages_ns = collector_pages_interval(collector->options);
	collector->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (collector->epoll_fd < 0)
		return -errno;
	collector->n_trips = calloc(collector->pool->n_trips + 1, sizeof(*collector->n_trips));
	if (!collector->n_trips)
		return -ENOMEM;
	init_tracker(collector);
	init_watches(collector);
	collector_begin_picks(collector);
	int err = collector_begin_totals(collector);
	if (err < 0)
		return err;
	struct drain_handler handler = tracker_drain_handler(&collector->tracker);
	err = drain_init(&collector->drain, collector->pool, collector->writer, &handler,
			 ticks_per_second / 1000);
	collector->drain.safe_ticks = first_pair->ticks;
	collector->lanes_wanted = collector->options->recorder_threads;
	collector->n_lanes = 1;
	if (err == 0 && collector->lanes_wanted)
		collector_use_lanes(collector);
	collector->samples.writer = collector->writer;
	collector->samples.tracker = &collector->tracker;
	for (int i = 0; err == 0 && i < 2; i++)
		err = watch(collector, collector->recording->listen_fds[i],
			    collector_tag(COLLECTOR_CONNECTION, 0));
	err = err ?: watch(collector, signal_fd, collector_tag(COLLECTOR_SIGNAL, 0));
	return err < 0 ? err : start_pulse(collector);
}

void collector_finish(struct collector *collector)
{
	pulse_stop(&collector->pulse);
	while (collector->n_connections > 0)
		close(collector->connections[--collector->n_connections]);
	watches_finish(&collector->watches);
	samples_close(&collector->samples);
	pmu_counters_close(&collector->counters);
	images_finish(&collector->tracker.images);
	collector->totals = live_totals_destroy(collector->totals);
	free(collector->n_trips);
	collector->n_trips = NULL;
	if (collector->drain.pool)
		drain_finish(&collector->drain);
	net_finish(&collector->last.net);
	if (collector->epoll_fd > 0)
		close(collector->epoll_fd);
	collector->epoll_fd = -1;
}

/* A recorder that is killed soon after its start loses little: at first it commits more often. */
static bool is_commit_due(struct collector *collector)
{
	if (collector->now_ns < collector->next_commit_ns)
		return trace_writer_pending_bytes(collector->writer) >=
		       collector_segment_bytes(collector);
	if (collector->commit_interval_ns < COMMIT_NS)
		collector->commit_interval_ns *= 2;
	if (collector->commit_interval_ns > COMMIT_NS)
		collector->commit_interval_ns = COMMIT_NS;
	collector->next_commit_ns = collector->now_ns + collector->commit_interval_ns;
	return true;
}

static int commit_what_is_due(struct collector *collector)
{
	collector_tick_last(collector);
	collector_tick_gap(collector);
	if (collector->now_ns < collector->retry_ns)
		return 0;
	int err = collector_check_room(collector);
	if (err == 0 && collector->now_ns >= collector->retry_ns && is_commit_due(collector))
		err = collector_commit(collector);
	return err;
}

/* All of a process that has ended comes at once: more than a ring on a small disk can take. */
static void read_ahead(struct collector *collector)
{
	uint32_t n_chunks = 0;

	do {
		collector_round(collector);
		n_chunks += collector->drain.n_round_chunks;
		collector->now_ns = clock_ns(CLOCK_MONOTONIC);
	} while (collector->last.is_on && commit_what_is_due(collector) == 0 &&
		 collector->drain.n_round_chunks >= collector->round_chunks &&
		 n_chunks < collector->pool->n_shared);
}

static void end_process(struct collector *collector, pid_t pid)
{
	read_ahead(collector);
	tracker_gone(&collector->tracker, pid, STORE_STATUS_UNKNOWN, clock_ticks(collector->clock));
}

/* All that it wrote before its end is read, and stamped, before its end is. */
static void end_command(struct collector *collector, int status)
{
	read_ahead(collector);
	collector->command_has_ended = true;
	collector->command_end_ns = clock_ns(CLOCK_MONOTONIC);
	tracker_gone(&collector->tracker, collector->command_pid, status,
		     clock_ticks(collector->clock));
}

static void look_for_end_of_command(struct collector *collector)
{
	int status = -1;
	pid_t pid;

	if (collector->n_attached > 0) {
		while ((pid = collector_next_ended(collector)))
			end_process(collector, pid);
		if (!collector_is_attached(collector))
			end_command(collector, STORE_STATUS_UNKNOWN);
		return;
	}
	if (wait4(collector->command_pid, &status, WNOHANG, &collector->usage) !=
	    collector->command_pid)
		return;
	collector->wait_status = status;
	end_command(collector, status);
}

/* The one that we have started, or one that was attached to. */
static bool is_command(const struct collector *collector, pid_t pid)
{
	for (size_t i = 0; i < collector->n_attached; i++)
		if (pid == collector->attached[i].order.pid && !collector->attached[i].has_ended)
			return true;
	return pid == collector->command_pid && collector->n_attached == 0;
}

static void take_event(struct collector *collector, const struct epoll_event *event)
{
	uint32_t value = (uint32_t)event->data.u64;

	switch ((enum collector_tag)(event->data.u64 >> 32)) {
	case COLLECTOR_SIGNAL:
		collector_take_signals(collector);
		if (collector->wants_to_leave && !collector->command_has_ended)
			look_for_end_of_command(collector);
		break;
	case COLLECTOR_CONNECTION:
		collector_take_connections(collector);
		break;
	case COLLECTOR_PROCESS:
		if (is_command(collector, (pid_t)value) && !collector->command_has_ended)
			look_for_end_of_command(collector);
		else
			end_process(collector, (pid_t)value);
		break;
	case COLLECTOR_RING:
		break; /* each round reads the rings */
	case COLLECTOR_WAITING:
		pulse_take(&collector->pulse);
		break; /* and the pool */
	case COLLECTOR_SNAPSHOT:
		break; /* and looks for what is done */
	case COLLECTOR_ATTACHER:
		collector_hear_attacher(collector, value);
		if (!collector->command_has_ended)
			look_for_end_of_command(collector);
		break;
	}
}

/*
 * Who reads the trace puts a record in time by the pairs before it: with the nominal rate, which is
 * some 100 ppm wrong, a second behind the last pair would be more than the life of a short program.
 */
static void keep_clock_fresh(struct collector *collector)
{
	if (clock_raw_ns() - collector->last_pair.raw_ns < CLOCK_NS)
		return;
	struct clock_pair pair = clock_pair_read(collector->clock);
	collector->last_pair = pair;
	store_clock(collector->writer, &pair);
}

int64_t collector_round(struct collector *collector)
{
	uint64_t ticks = clock_ticks(collector->clock);
	struct inject_news news[MAX_NEWS];
	struct tracker_slots slots;
	size_t n_news = 0;

	/* What is told of a program came behind perf's records of it. */
	while (n_news < MAX_NEWS && helper_hear(collector->helper, false, &news[n_news]))
		n_news++;
	keep_clock_fresh(collector);
	drain_begin(&collector->drain, ticks);
	/* A fork's task record was written before the child could claim its slot. */
	tracker_find_slots(&collector->tracker, &slots);
	int err = samples_read(&collector->samples, ticks, &collector->last_pair,
			       collector->ticks_per_second);
	if (err < 0)
		return err;
	tracker_attach_slots(&collector->tracker, &slots);
	tracker_look_at_new(&collector->tracker);
	collector_take_leaving(collector);
	watches_round(&collector->watches, &collector->tracker.images, ticks);
	collector->round_chunks =
		collector_max_chunks(collector, MAX_ROUND_CHUNKS * collector->n_lanes);
	int64_t n = drain_round(&collector->drain, collector->round_chunks);
	for (size_t i = 0; i < n_news; i++)
		tracker_note_static(&collector->tracker, news[i].name, news[i].why);
	return n;
}

/*
 * A round costs the same for few samples as for many: to wake, to read what may have changed. So
 * rounds are rare where nothing is new. Allocations may come at any speed.
 */
static uint64_t longest_interval(const struct collector *collector, bool is_busy)
{
	/* Something runs: its code must be taken before it ends. */
	uint64_t usual = is_busy ? BUSY_INTERVAL_NS : MAX_INTERVAL_NS;
	uint64_t most = collector->options->no_alloc ? CALM_INTERVAL_NS : MAX_INTERVAL_NS;
	uint64_t calm = samples_calm_ns(&collector->samples, collector->now_ns) / CALM_PART;

	if (samples_want_haste(&collector->samples) || watches_want_haste(&collector->watches))
		return HASTE_INTERVAL_NS + collector->now_ns % HASTE_INTERVAL_NS;
	if (calm < usual)
		return usual;
	return calm < most ? calm : most;
}

/* Come back when a round's worth should be there. */
static void adapt_interval(struct collector *collector, int64_t n_slots)
{
	uint64_t bytes = (uint64_t)n_slots * RING_RECORD_BYTES;
	/*
	 * A thread that ends gives back a chunk that is nearly empty: chunks run out before bytes.
	 */
	uint64_t chunk_bytes = (uint64_t)collector->drain.n_round_chunks * RING_CHUNK_BYTES;
	uint64_t target = (uint64_t)collector->pool->n_shared * RING_CHUNK_BYTES / 16;
	uint64_t elapsed = collector->now_ns - collector->last_round_ns;
	uint64_t interval = 2 * collector->interval_ns;
	uint64_t most = longest_interval(collector, bytes > 0 || collector->samples.n_new > 0);

	if (bytes < chunk_bytes)
		bytes = chunk_bytes;
	if (target > ROUND_BYTES)
		target = ROUND_BYTES;
	if (bytes > 0 && elapsed * target / bytes < interval)
		interval = elapsed * target / bytes;
	if (collector->pages_ns && (uint64_t)collector->pages_ns < most)
		most = (uint64_t)collector->pages_ns;
	if (interval > most)
		interval = most;
	if (interval < MIN_INTERVAL_NS)
		interval = MIN_INTERVAL_NS;
	/* The round was cut short: go on at once. */
	collector_adapt_lanes(collector,
			      collector->drain.n_round_chunks >= collector->round_chunks);
	if (bytes >= (uint64_t)MAX_ROUND_CHUNKS * RING_CHUNK_BYTES / 2 ||
	    collector->drain.n_round_chunks >= collector->round_chunks)
		interval = 0;
	collector->interval_ns = interval;
}

static void each_second(struct collector *collector)
{
	struct clock_pair pair = clock_pair_read(collector->clock);

	collector->last_pair = pair;
	if (pair.raw_ns - collector->first_pair.raw_ns > NS_PER_SECOND / 2)
		collector->ticks_per_second = clock_pair_rate(&collector->first_pair, &pair);
	collector->tracker.ticks_per_second = collector->ticks_per_second;
	store_clock(collector->writer, &pair);
	collector_look_at_room(collector);
	collector_tick_progress(collector);
	collector->next_second_ns = collector->now_ns + NS_PER_SECOND;
}

static void sample_process(struct collector *collector, struct image *image)
{
	struct run_node_bytes nodes[RUN_MAX_NODES];
	struct trace_process_sample sample = { 0 };

	if (run_process_sample(&image->sampler, &sample, nodes, RUN_MAX_NODES) < 0)
		return;
	sample.head.type = TRACE_RECORD_PROCESS_SAMPLE;
	sample.ticks = clock_ticks(collector->clock);
	sample.process_id = image->id;
	trace_writer_add(collector->writer, &sample, trace_bytes(nodes, sample.node_bytes));
	collector_saw_resident(collector, image, sample.rss_bytes);
}

static void sample_processes(struct collector *collector)
{
	if (collector->stopped_ticks)
		return;
	for (struct image *image = collector->tracker.images.first; image; image = image->next) {
		if (image->is_written) /* a sample in front of its PROCESS record means nothing */
			sample_process(collector, image);
	}
}

/* What a person at the terminal may be waiting for. */
static void say_what_is_waited_for(struct collector *collector)
{
	const struct image *image = collector->tracker.images.first;

	if (collector->n_interrupts == 1 && collector->n_attached == 0 &&
	    !collector->said_interrupt && !collector->command_has_ended &&
	    collector->now_ns > collector->interrupted_ns + NS_PER_SECOND) {
		collector->said_interrupt = true;
		collector_warn(collector, "the program goes on after Ctrl-C; press it once more to "
					  "end the recording and let the program run");
	}
	if (collector->command_has_ended && !collector->said_waiting && image &&
	    collector->now_ns > collector->command_end_ns + 2 * NS_PER_SECOND) {
		collector->said_waiting = true;
		collector_warn(collector,
			       "the command has ended; waiting for %u processes that it started "
			       "(such as %d, %s). Ctrl-C ends the recording, --wait child does "
			       "not wait",
			       collector->tracker.images.n_live, (int)image->pid, image->exe);
	}
}

static int do_timed_work(struct collector *collector)
{
	if (collector->now_ns >= collector->next_sample_ns) {
		if (!collector->command_has_ended)
			look_for_end_of_command(collector);
		say_what_is_waited_for(collector);
		if (!collector->options->is_natural) {
			tracker_find_children(&collector->tracker);
			sample_processes(collector);
		}
		tracker_settle(&collector->tracker, clock_ticks(collector->clock));
		collector->next_sample_ns = collector->now_ns + SAMPLE_NS;
	}
	collector_tick_pages(collector);
	collector_tick_touches(collector);
	if (collector->now_ns >= collector->next_second_ns)
		each_second(collector);
	return commit_what_is_due(collector);
}

static bool has_ended(struct collector *collector)
{
	if (collector->was_let_go)
		return true;
	if (!collector->command_has_ended)
		return false;
	if (collector->options->wait_child)
		return true;
	tracker_settle(&collector->tracker, clock_ticks(collector->clock));
	return !images_has_known(&collector->tracker.images);
}

/* Kernels before 5.11 (and qemu-user) know whole milliseconds only. */
static int wait_epoll(int epoll_fd, struct epoll_event *events, int n_events, uint64_t ns)
{
	struct timespec timeout = { .tv_nsec = (long)ns };
	int n = epoll_pwait2(epoll_fd, events, n_events, &timeout, NULL);

	if (n < 0 && errno == ENOSYS)
		n = epoll_wait(epoll_fd, events, n_events, (int)((ns + 999999) / 1000000));
	return n;
}

/* Periods are turned between rare rounds too: else all their turns were in step with them. */
static int wait_for_events(struct collector *collector)
{
	struct epoll_event events[64];
	uint64_t most_ns = collector_control_wait(collector), now_ns = clock_ns(CLOCK_MONOTONIC);
	uint64_t end_ns =
		now_ns + (collector->interval_ns < most_ns ? collector->interval_ns : most_ns);
	int n = 0, err = 0;

	do {
		uint64_t until_ns = samples_next_turn_ns(&collector->samples);

		if (until_ns < now_ns + BUSY_INTERVAL_NS)
			until_ns = now_ns + BUSY_INTERVAL_NS;
		if (until_ns > end_ns)
			until_ns = end_ns;
		n = wait_epoll(collector->epoll_fd, events, 64, until_ns - now_ns);
		now_ns = clock_ns(CLOCK_MONOTONIC);
	} while (n == 0 && now_ns < end_ns && (err = samples_turn(&collector->samples)) == 0);
	collector->now_ns = now_ns;
	if (err < 0)
		return err;
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++)
		take_event(collector, &events[i]);
	return 0;
}

/* Programs that were about to say hello when the last known process ended are not left out. */
static bool is_really_over(struct collector *collector)
{
	if (!has_ended(collector))
		return false;
	if (collector->was_let_go || collector->options->wait_child)
		return true;
	collector_take_connections(collector);
	tracker_find_strays(&collector->tracker, collector->recording->socket_path);
	collector_round(collector);
	return has_ended(collector) && collector->n_connections == 0;
}

int collector_run_until(struct collector *collector, int fd)
{
	struct pollfd heard = { .fd = fd, .events = POLLIN };
	int err = 0;

	while (err == 0 && poll(&heard, 1, 0) == 0) {
		err = wait_for_events(collector);
		if (err == 0 && collector->n_connections > 0)
			collector_take_connections(collector);
		if (err == 0 && collector_round(collector) < 0)
			err = -EIO;
	}
	return err;
}

int collector_run(struct collector *collector)
{
	int64_t n_slots;
	int err = 0;

	collector->last_round_ns = clock_ns(CLOCK_MONOTONIC);
	collector->next_second_ns = collector->last_round_ns + NS_PER_SECOND;
	collector->commit_interval_ns = FIRST_COMMIT_NS;
	collector->next_commit_ns = collector->last_round_ns + FIRST_COMMIT_NS;
	collector->now_ns = collector->last_round_ns;
	collector_tick_control(collector);
	while (err == 0 && !is_really_over(collector)) {
		err = wait_for_events(collector);
		if (err < 0)
			break;
		if (collector->n_connections > 0)
			collector_take_connections(collector);
		n_slots = collector_round(collector);
		if (n_slots < 0)
			return (int)n_slots;
		adapt_interval(collector, n_slots);
		collector->last_round_ns = collector->now_ns;
		collector_tick_control(collector);
		collector_tick_dump(collector);
		collector_tick_totals(collector);
		collector_tick_snapshots(collector);
		collector_tick_picks(collector);
		err = do_timed_work(collector);
	}
	return err;
}
