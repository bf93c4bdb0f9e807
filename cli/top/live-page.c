#include "cli/top/live-page.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/top/history.h"
#include "cli/top/top.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/parse.h"
#include "common/text.h"
#include "report/text/json.h"
#include "runner/control/client.h"

#define NS_PER_SECOND	 UINT64_C(1000000000)
#define HALF_WIDTH	 1.96 /* of a 95 % interval, in standard deviations */
#define ROWS_BY_A_COLUMN 50u
#define MAX_THREADS	 64u
#define MAX_WIDTH	 2048u
#define STATUS_NS	 (5 * NS_PER_SECOND)
#define SILENT_NS	 (3 * NS_PER_SECOND) /* the recorder looks each second */
#define LATE_NS		 (2 * NS_PER_SECOND) /* the curves begin with the look, not with the run */
#define ORDER_SECONDS	 10u
#define N_SNAPSHOTS	 (VIEW_SERVER_PARTS - 1)

enum state {
	STATE_RECORDING,
	STATE_PAUSED,
	STATE_SILENT,
	STATE_STOPPED,
	STATE_ENDED,
	STATE_SHOWN,
	STATE_FAILED,
};

static const char *const state_names[] = {
	[STATE_RECORDING] = "recording", [STATE_PAUSED] = "paused", [STATE_SILENT] = "silent",
	[STATE_STOPPED] = "stopped",	 [STATE_ENDED] = "ended",   [STATE_SHOWN] = "shown",
	[STATE_FAILED] = "failed",
};

enum snapshot_state { SNAPSHOT_WAITS, SNAPSHOT_TAKEN, SNAPSHOT_SHOWN, SNAPSHOT_FAILED };

struct snapshot {
	char path[PATH_MAX];
	enum snapshot_state state;
};

/* Of a thread, as of the last look. */
struct thread_look {
	uint64_t n_allocations;
	double rate;
};

struct live_page {
	struct view_live source;
	pthread_mutex_t names_lock; /* of symbols; never taken by who has the other one */
	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t has_looked;
	pthread_t namer; /* finds names, which may take seconds: a look must not wait for them */
	bool has_namer, is_closing;
	struct control_recording recording;
	char program[32];
	int totals_fd;
	int recorder_fd; /* a pidfd; -1: there is none */
	uint64_t began_ns; /* CLOCK_MONOTONIC: the program's start */
	time_t began; /* the same, of files */
	struct top top;
	struct history *history;
	struct history_point point; /* the last one */
	uint64_t since_ns; /* of the run: when it was looked at first */
	struct thread_look *threads; /* LIVE_MAX_THREADS */
	uint64_t asked_ns; /* CLOCK_MONOTONIC of the last status */
	uint64_t n_looks;
	enum state state;
	bool is_ordered; /* the run's trace is being analysed */
	char message[VIEW_MESSAGE_BYTES];
	struct snapshot *snapshots; /* number i has the part i + 1 */
	unsigned n_snapshots;
};

/* ---- Looking ---- */

static bool has_recorder(const struct live_page *page)
{
	struct pollfd wait = { .fd = page->recorder_fd, .events = POLLIN };

	if (page->recorder_fd >= 0)
		return poll(&wait, 1, 0) == 0;
	return kill((pid_t)page->recording.status.recorder_pid, 0) == 0 || errno != ESRCH;
}

/* What has become of the recording. */
static void look_at_recorder(struct live_page *page, uint64_t now_ns)
{
	const struct live_header *header = page->top.header;
	uint64_t looked_ns = atomic_load(&header->looked_ns);
	struct control_reply reply;

	if (!has_recorder(page)) {
		page->state = STATE_ENDED;
		return;
	}
	if (looked_ns && now_ns > looked_ns + SILENT_NS) {
		page->state = STATE_SILENT;
		return;
	}
	if (now_ns - page->asked_ns >= STATUS_NS) {
		page->asked_ns = now_ns;
		if (control_status(&page->recording, &reply) == 0)
			page->recording.status.has_stopped = reply.has_stopped;
	}
	if (page->recording.status.has_stopped)
		page->state = STATE_STOPPED;
	else
		page->state = atomic_load(&header->is_paused) ? STATE_PAUSED : STATE_RECORDING;
}

static void remember_point(struct live_page *page)
{
	const struct top_now *now = &page->top.now;
	struct history_point *point = &page->point;
	uint64_t n_allocations = now->n_allocations;
	uint64_t n_frees = atomic_load(&page->top.header->n_frees);
	static const struct history_point none;
	struct history_point before = page->n_looks ? *point : none;

	*point = (struct history_point){
		.begin_ns = before.end_ns,
		.end_ns = page->top.refreshed_ns - page->began_ns,
		.live_bytes = now->live_bytes,
		.max_live_bytes = now->live_bytes,
		.rss_bytes = now->rss_bytes,
		.n_allocations = n_allocations,
		.n_frees = n_frees,
	};
	if (page->n_looks == 0)
		page->since_ns = point->end_ns > LATE_NS ? point->end_ns : 0;
	if (page->n_looks == 0 && page->since_ns)
		return; /* what was before is not known */
	struct history_point added = *point;
	added.n_allocations -= before.n_allocations; /* of a point: all so far */
	added.n_frees -= before.n_frees;
	history_add(page->history, &added);
}

static uint32_t count_threads(const struct live_page *page)
{
	uint32_t n = atomic_load_explicit(&page->top.header->n_threads, memory_order_acquire);

	return n < LIVE_MAX_THREADS ? n : LIVE_MAX_THREADS;
}

static void look_at_threads(struct live_page *page, double since_s)
{
	uint32_t n = count_threads(page);

	for (uint32_t i = 0; i < n; i++) {
		struct thread_look *own = &page->threads[i];
		uint64_t n_now = atomic_load(&page->top.header->threads[i].n_allocations);

		own->rate = since_s > 0 ? (double)(n_now - own->n_allocations) / since_s : 0;
		own->n_allocations = n_now;
	}
}

/* ---- Names ---- */

static void *keep_naming(void *user)
{
	struct live_page *page = user;
	uint32_t sites[TOP_UNNAMED];

	pthread_mutex_lock(&page->lock);
	while (!page->is_closing) {
		size_t n = top_unnamed(&page->top, sites, TOP_UNNAMED);

		for (size_t i = 0; i < n && !page->is_closing; i++) {
			pthread_mutex_unlock(&page->lock);
			pthread_mutex_lock(&page->names_lock);
			char *name = top_find_name(&page->top, sites[i]);
			pthread_mutex_unlock(&page->names_lock);
			pthread_mutex_lock(&page->lock);
			if (name)
				top_set_name(&page->top, sites[i], name);
		}
		if (!page->is_closing)
			pthread_cond_wait(&page->has_looked, &page->lock);
	}
	pthread_mutex_unlock(&page->lock);
	return NULL;
}

static int refresh(struct live_page *page)
{
	static const struct top_wish wish = { .sort = TOP_LIVE,
					      .n_rows = ROWS_BY_A_COLUMN,
					      .is_for_all_sorts = true,
					      .is_hurried = true };
	uint64_t before_ns = page->top.refreshed_ns ? page->top.refreshed_ns : page->began_ns;
	int r = top_refresh(&page->top, &wish, page->began_ns);

	look_at_threads(page, (double)(page->top.refreshed_ns - before_ns) / (double)NS_PER_SECOND);
	remember_point(page);
	page->n_looks++;
	/* From a thread of the server: it blocks all signals, and so does what it starts. */
	if (!page->has_namer)
		page->has_namer = pthread_create(&page->namer, NULL, keep_naming, page) == 0;
	pthread_cond_signal(&page->has_looked);
	return r;
}

/* ---- Events ---- */

static double half_width(double variance)
{
	return HALF_WIDTH * sqrt(fmax(0, variance));
}

static double rate_of(uint64_t n, const struct history_point *point)
{
	return point->end_ns > point->begin_ns ? (double)n * (double)NS_PER_SECOND /
							 (double)(point->end_ns - point->begin_ns)
					       : 0;
}

static void write_now(const struct live_page *page, struct json *json)
{
	const struct top_now *now = &page->top.now;
	const struct live_header *header = page->top.header;

	json_set_open(json, "now", '{');
	json_set_integer(json, "time_ns", (int64_t)page->point.end_ns);
	json_set_integer(json, "since_ns", (int64_t)page->since_ns);
	json_set_integer(json, "live_bytes", (int64_t)now->live_bytes);
	json_set_real(json, "half", now->half_width);
	json_set_integer(json, "n_live", (int64_t)now->n_live);
	json_set_integer(json, "leaked_bytes", (int64_t)now->leaked_bytes);
	json_set_integer(json, "rss_bytes", (int64_t)now->rss_bytes);
	json_set_integer(json, "n_allocations", (int64_t)now->n_allocations);
	json_set_integer(json, "allocated_bytes", (int64_t)now->allocated_bytes);
	json_set_real(json, "rate", now->rate);
	json_set_real(json, "bytes_rate", now->bytes_rate);
	json_set_real(json, "growth", now->growth);
	json_set_integer(json, "n_lost", (int64_t)atomic_load(&header->n_lost));
	json_set_integer(json, "n_left_out", (int64_t)atomic_load(&header->n_left_out));
	json_set_integer(json, "n_processes", now->n_processes);
	json_set_integer(json, "one_in", now->one_in);
	json_set_integer(json, "old_s", header->old_seconds);
	json_close(json, '}');
}

static const char *const point_names[] = { "time_ns",	     "interval_ns", "live_bytes",
					   "max_live_bytes", "rss_bytes",   "rate",
					   "free_rate" };
#define N_POINT_NAMES (sizeof(point_names) / sizeof(point_names[0]))

static void write_points(struct json *json, const char *name, const struct history_point *points,
			 size_t n)
{
	auto_columns struct columns columns;

	columns_begin(&columns, point_names, N_POINT_NAMES);
	for (size_t i = 0; i < n; i++) {
		const struct history_point *point = &points[i];

		json_integer(columns_at(&columns, 0), (int64_t)point->end_ns);
		json_integer(columns_at(&columns, 1), (int64_t)(point->end_ns - point->begin_ns));
		json_integer(columns_at(&columns, 2), (int64_t)point->live_bytes);
		json_integer(columns_at(&columns, 3), (int64_t)point->max_live_bytes);
		json_integer(columns_at(&columns, 4), (int64_t)point->rss_bytes);
		json_real(columns_at(&columns, 5), rate_of(point->n_allocations, point));
		json_real(columns_at(&columns, 6), rate_of(point->n_frees, point));
		columns_end_row(&columns);
	}
	columns_set(json, name, &columns);
}

static void write_last_point(const struct live_page *page, struct json *json)
{
	struct history_point last;
	size_t n =
		history_read(page->history, page->point.end_ns - 1, page->point.end_ns, &last, 1);

	write_points(json, "point", &last, n);
}

static void write_sites(const struct live_page *page, struct json *json)
{
	static const char *const names[] = { "site",   "name",	       "live_bytes",   "half",
					     "growth", "rate",	       "leaked_bytes", "n_live",
					     "age_ms", "n_allocations" };
	auto_columns struct columns columns;

	columns_begin(&columns, names, sizeof(names) / sizeof(names[0]));
	for (size_t i = 0; i < page->top.n_rows; i++) {
		const struct top_row *row = &page->top.rows[i];

		json_integer(columns_at(&columns, 0), row->site);
		json_text(columns_at(&columns, 1), row->name);
		json_integer(columns_at(&columns, 2), (int64_t)row->live_bytes);
		json_real(columns_at(&columns, 3), half_width(row->variance));
		json_real(columns_at(&columns, 4), row->growth);
		json_real(columns_at(&columns, 5), row->rate);
		json_integer(columns_at(&columns, 6), (int64_t)row->leaked_bytes);
		json_integer(columns_at(&columns, 7), (int64_t)row->n_live);
		json_real(columns_at(&columns, 8),
			  row->n_live ? (double)row->age_ms / (double)row->n_live : 0);
		json_integer(columns_at(&columns, 9), (int64_t)row->n_allocations);
		columns_end_row(&columns);
	}
	columns_set(json, "sites", &columns);
}

/* Whoever allocated most lately, then in all. */
static int compare_threads(const void *a, const void *b, void *user)
{
	const struct thread_look *looks = user;
	const struct thread_look *one = &looks[*(const uint32_t *)a];
	const struct thread_look *other = &looks[*(const uint32_t *)b];

	if (one->rate != other->rate)
		return one->rate < other->rate ? 1 : -1;
	return one->n_allocations < other->n_allocations
		       ? 1
		       : -(one->n_allocations > other->n_allocations);
}

static void write_thread(const struct live_page *page, uint32_t i, struct columns *columns)
{
	const struct live_thread *thread = &page->top.header->threads[i];
	char name[sizeof(thread->name) + 1] = "";

	memcpy(name, thread->name, sizeof(thread->name));
	json_integer(columns_at(columns, 0), thread->pid);
	json_integer(columns_at(columns, 1), thread->tid);
	json_text(columns_at(columns, 2), text_hide_controls(name));
	json_integer(columns_at(columns, 3), (int64_t)atomic_load(&thread->n_allocations));
	json_integer(columns_at(columns, 4), (int64_t)atomic_load(&thread->allocated_bytes));
	json_integer(columns_at(columns, 5), (int64_t)atomic_load(&thread->n_frees));
	json_real(columns_at(columns, 6), page->threads[i].rate);
	columns_end_row(columns);
}

static void write_threads(const struct live_page *page, struct json *json)
{
	static const char *const names[] = {
		"pid", "tid", "name", "n_allocations", "allocated_bytes", "n_frees", "rate"
	};
	auto_columns struct columns columns;
	uint32_t order[LIVE_MAX_THREADS];
	uint32_t n = count_threads(page);

	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), compare_threads, page->threads);
	columns_begin(&columns, names, sizeof(names) / sizeof(names[0]));
	for (uint32_t i = 0; i < n && i < MAX_THREADS; i++)
		write_thread(page, order[i], &columns);
	json_set_integer(json, "n_threads", atomic_load(&page->top.header->n_threads));
	columns_set(json, "threads", &columns);
}

static void write_snapshots(const struct live_page *page, struct json *json)
{
	static const char *const names[] = { "part", "path", "state" };
	static const char *const states[] = { [SNAPSHOT_WAITS] = "analysing",
					      [SNAPSHOT_TAKEN] = "analysing",
					      [SNAPSHOT_SHOWN] = "shown",
					      [SNAPSHOT_FAILED] = "failed" };
	auto_columns struct columns columns;

	columns_begin(&columns, names, sizeof(names) / sizeof(names[0]));
	for (unsigned i = 0; i < page->n_snapshots; i++) {
		json_integer(columns_at(&columns, 0), i + 1);
		json_text(columns_at(&columns, 1), page->snapshots[i].path);
		json_text(columns_at(&columns, 2), states[page->snapshots[i].state]);
		columns_end_row(&columns);
	}
	columns_set(json, "snapshots", &columns);
}

static void write_event(const struct live_page *page, struct json *json)
{
	json_open(json, '{');
	json_set_integer(json, "n", (int64_t)page->n_looks);
	json_set_text(json, "state", state_names[page->state]);
	json_set_text(json, "message", page->message);
	json_set_text(json, "program", page->program);
	json_set_text(json, "trace", page->recording.status.output);
	json_set_integer(json, "pid", page->recording.status.command_pid);
	write_now(page, json);
	write_last_point(page, json);
	json_set_integer(json, "n_sites", (int64_t)page->top.n_found);
	write_sites(page, json);
	write_threads(page, json);
	write_snapshots(page, json);
	json_close(json, '}');
}

static int look(void *user, struct json *json)
{
	struct live_page *page = user;
	int r = 0;

	pthread_mutex_lock(&page->lock);
	if (page->state < STATE_ENDED) {
		look_at_recorder(page, clock_ns(CLOCK_MONOTONIC));
		r = refresh(page);
	}
	if (r == 0 && json)
		write_event(page, json);
	r = r ?: page->state >= STATE_SHOWN;
	pthread_mutex_unlock(&page->lock);
	return r;
}

/* ---- Answers ---- */

static int answer_curve(const struct live_page *page, const struct view_values *values,
			struct json *json)
{
	uint64_t from_ns = (uint64_t)values->numbers[VIEW_FROM];
	uint64_t to_ns =
		values->is_given[VIEW_TO] ? (uint64_t)values->numbers[VIEW_TO] : page->point.end_ns;
	size_t width =
		values->is_given[VIEW_WIDTH] ? (size_t)values->numbers[VIEW_WIDTH] : MAX_WIDTH / 2;
	auto_free struct history_point *points = calloc(width, sizeof(*points));

	if (!points)
		return -ENOMEM;
	if (to_ns <= from_ns)
		return -EINVAL;
	size_t n = history_read(page->history, from_ns, to_ns, points, width);
	json_open(json, '{');
	json_set_integer(json, "from", (int64_t)from_ns);
	json_set_integer(json, "to", (int64_t)to_ns);
	write_points(json, "points", points, n);
	json_close(json, '}');
	return 0;
}

static int answer_stack(struct live_page *page, const struct view_values *values, struct json *json,
			char message[static VIEW_MESSAGE_BYTES])
{
	uint64_t site = (uint64_t)values->numbers[VIEW_SITE];
	const char *frame;

	if (!values->is_given[VIEW_SITE] || site >= LIVE_MAX_SITES)
		return text_refuse(-ENOENT, message, VIEW_MESSAGE_BYTES, "there is no such site");
	json_open(json, '{');
	json_set_open(json, "stack", '[');
	for (size_t i = 0; (frame = top_frame(&page->top, (uint32_t)site, i)); i++) {
		json_open(json, '{');
		json_set_text(json, "function", frame);
		json_set_text(json, "module", NULL);
		json_set_text(json, "file", NULL);
		json_set_integer(json, "line", 0);
		json_set_integer(json, "is_folded", 0);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_close(json, '}');
	return 0;
}

static const struct order {
	const char *kind;
	enum control_verb verb;
	const char *done;
} orders[] = {
	{ "pause", CONTROL_PAUSE, "Paused: allocations are not recorded" },
	{ "resume", CONTROL_RESUME, "Recording again" },
	{ "mark", CONTROL_MARK, "Marked" },
	{ "snapshot", CONTROL_SNAPSHOT, "Snapshot" },
};

static int read_order(const struct view_values *values, const struct order **ret_order,
		      struct control_request *request, char message[static VIEW_MESSAGE_BYTES])
{
	const char *kind = values->is_given[VIEW_KIND] ? values->texts[VIEW_KIND] : "";
	const char *text = values->is_given[VIEW_FILTER] ? values->texts[VIEW_FILTER] : "";

	*ret_order = NULL;
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
		if (strcmp(orders[i].kind, kind) == 0)
			*ret_order = &orders[i];
	if (!*ret_order)
		snprintf(message, VIEW_MESSAGE_BYTES, "kind is pause, resume, mark or snapshot");
	else if ((*ret_order)->verb == CONTROL_MARK && (!*text || strlen(text) > 255))
		snprintf(message, VIEW_MESSAGE_BYTES, "a mark has 1 to 255 bytes");
	if (message[0])
		return -EINVAL;
	request->verb = (*ret_order)->verb;
	if (request->verb == CONTROL_MARK)
		snprintf(request->text, sizeof(request->text), "%s", text);
	return 0;
}

static int keep_snapshot(struct live_page *page, const char *path)
{
	if (page->n_snapshots == N_SNAPSHOTS)
		return -ENOSPC;
	snprintf(page->snapshots[page->n_snapshots].path, PATH_MAX, "%s", path);
	page->snapshots[page->n_snapshots++].state = SNAPSHOT_WAITS;
	return 0;
}

/* Without the lock while it waits: the recorder may take some time. */
static int answer_control(struct live_page *page, const struct view_values *values,
			  struct json *json, char message[static VIEW_MESSAGE_BYTES])
{
	struct control_request request = { 0 };
	struct control_reply reply;
	const struct order *order;
	int r = read_order(values, &order, &request, message);

	if (r < 0)
		return r;
	pthread_mutex_unlock(&page->lock);
	r = control_ask_for(&page->recording, &request, ORDER_SECONDS, &reply);
	pthread_mutex_lock(&page->lock);
	if (r == -ETIMEDOUT)
		snprintf(message, VIEW_MESSAGE_BYTES,
			 "the recorder has not answered for %u s; it may still do it",
			 ORDER_SECONDS);
	else if (r < 0)
		snprintf(message, VIEW_MESSAGE_BYTES, "the recording has ended");
	else if (reply.error < 0)
		snprintf(message, VIEW_MESSAGE_BYTES, "%.*s", (int)VIEW_MESSAGE_BYTES - 1,
			 reply.message);
	if (r < 0 || reply.error < 0)
		return r < 0 ? -EPIPE : -EBUSY;
	json_open(json, '{');
	json_set_text(json, "text",
		      order->verb == CONTROL_SNAPSHOT && keep_snapshot(page, reply.path) < 0
			      ? "The snapshot is there; this page shows no more of them"
			      : order->done);
	json_close(json, '}');
	return 0;
}

static int answer(void *user, enum view_answer answer, const struct view_values *values,
		  struct json *json, char message[static VIEW_MESSAGE_BYTES])
{
	struct live_page *page = user;
	int r;

	if (answer == VIEW_STACK) {
		pthread_mutex_lock(&page->names_lock);
		r = answer_stack(page, values, json, message);
		pthread_mutex_unlock(&page->names_lock);
		return r;
	}
	pthread_mutex_lock(&page->lock);
	if (answer == VIEW_CURVE)
		r = answer_curve(page, values, json);
	else
		r = answer_control(page, values, json, message);
	pthread_mutex_unlock(&page->lock);
	return r;
}

const struct view_live *live_page_source(const struct live_page *page)
{
	return &page->source;
}

/* ---- Traces that are to be shown ---- */

/* The run's trace: one that is older was there before, and a killed recorder leaves its part. */
static bool find_trace(struct live_page *page, char trace[static PATH_MAX])
{
	const char *output = page->recording.status.output;
	struct stat status;

	snprintf(trace, PATH_MAX, "%s", output);
	if (stat(trace, &status) == 0 && status.st_mtime >= page->began)
		return true;
	if (snprintf(trace, PATH_MAX, "%s.partial", output) < PATH_MAX &&
	    access(trace, F_OK) == 0) {
		snprintf(page->message, sizeof(page->message),
			 "The recorder was killed: what it had written is analysed.");
		return true;
	}
	return false;
}

bool live_page_next(struct live_page *page, struct live_order *ret_order)
{
	bool is_found = false;

	pthread_mutex_lock(&page->lock);
	if (page->state == STATE_ENDED && !page->is_ordered) {
		page->is_ordered = true;
		ret_order->part = 0;
		is_found = find_trace(page, ret_order->trace);
		if (!is_found) {
			page->state = STATE_FAILED;
			snprintf(page->message, sizeof(page->message),
				 "The recording has ended and has left no trace.");
		}
	}
	for (unsigned i = 0; i < page->n_snapshots && !is_found; i++) {
		if (page->snapshots[i].state != SNAPSHOT_WAITS)
			continue;
		page->snapshots[i].state = SNAPSHOT_TAKEN;
		ret_order->part = i + 1;
		snprintf(ret_order->trace, sizeof(ret_order->trace), "%s", page->snapshots[i].path);
		is_found = true;
	}
	pthread_mutex_unlock(&page->lock);
	return is_found;
}

void live_page_done(struct live_page *page, unsigned part, bool is_shown)
{
	pthread_mutex_lock(&page->lock);
	if (part > 0)
		page->snapshots[part - 1].state = is_shown ? SNAPSHOT_SHOWN : SNAPSHOT_FAILED;
	else
		page->state = is_shown ? STATE_SHOWN : STATE_FAILED;
	if (part == 0 && !is_shown)
		snprintf(page->message, sizeof(page->message),
			 "The trace cannot be shown; memsight view has said why in its terminal.");
	pthread_mutex_unlock(&page->lock);
}

/* ---- Begin and end ---- */

/* Whose process or trace it is; false: there is none. */
static bool find_owner(const char *what, uid_t *ret_uid)
{
	char path[PATH_MAX + 16];
	struct stat status;
	uint64_t pid;

	if (parse_number(what, &pid) == 0)
		snprintf(path, sizeof(path), "/proc/%" PRIu64, pid);
	else
		snprintf(path, sizeof(path), "%s.partial", what);
	if (stat(path, &status) < 0 && stat(what, &status) < 0)
		return false;
	*ret_uid = status.st_uid;
	return true;
}

static int fail_to_find(const char *what, int err)
{
	uid_t owner = geteuid();
	uint64_t pid;

	if (err == -ENOTUNIQ)
		return cmd_fail("view: %s: more than one recording is meant", what);
	if (err != -ENOENT)
		return cmd_fail("view: cannot look for recordings: %s", strerror(-err));
	if (geteuid() != 0 && find_owner(what, &owner) && owner != geteuid()) {
		const struct passwd *user = getpwuid(owner);
		char number[16];

		snprintf(number, sizeof(number), "'#%u'", owner);
		return cmd_fail("view: %s is of another user, and only its own user and root may "
				"look at a recording: sudo -u %s memsight view --live %s",
				what, user ? user->pw_name : number, what);
	}
	if (parse_number(what, &pid) == 0 && find_owner(what, &owner))
		return cmd_fail("view: process %s is not being recorded: `memsight attach "
				"--live-totals -o FILE.mst %s' begins that",
				what, what);
	return cmd_fail("view: %s: no recording of this user is under way that writes this trace "
			"or has this process; `memsight ctl' lists them",
			what);
}

static int take_totals(struct live_page *page, const char *what)
{
	struct control_reply *reply = &page->recording.status;
	int err = control_totals(&page->recording, reply, &page->totals_fd);

	if (err < 0)
		return cmd_fail("view: %s: the recorder does not answer: %s", what, strerror(-err));
	if (reply->error == -ENODATA)
		return cmd_fail("view: the recording of %s keeps no live totals: begin it with "
				"`memsight record --live-totals'",
				what);
	if (reply->error < 0)
		return cmd_fail("view: %s: %s", what, reply->message);
	page->began_ns = clock_ns(CLOCK_MONOTONIC) - reply->wall_ns;
	page->began = time(NULL) - (time_t)(reply->wall_ns / NS_PER_SECOND) - 1;
	page->recorder_fd = (int)syscall(SYS_pidfd_open, reply->recorder_pid, 0);
	err = top_begin(&page->top, page->totals_fd);
	return err < 0 ? cmd_fail("view: cannot look at the totals: %s", strerror(-err)) : CMD_DONE;
}

/* What the recorded program is called, as the kernel has it. */
static void read_program(struct live_page *page)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/comm", page->recording.status.command_pid);
	auto_fclose FILE *file = fopen(path, "re");
	if (!file || !fgets(page->program, sizeof(page->program), file))
		snprintf(page->program, sizeof(page->program), "%u",
			 page->recording.status.command_pid);
	page->program[strcspn(page->program, "\n")] = '\0';
	text_hide_controls(page->program);
}

int live_page_open(const char *what, struct live_page **ret_page)
{
	struct live_page *page = calloc(1, sizeof(*page));

	*ret_page = page;
	if (!page)
		return cmd_fail("out of memory");
	page->totals_fd = page->recorder_fd = -1;
	page->source = (struct view_live){ look, answer, page };
	pthread_mutex_init(&page->names_lock, NULL);
	pthread_mutex_init(&page->lock, NULL);
	pthread_cond_init(&page->has_looked, NULL);
	page->history = history_create();
	page->threads = calloc(LIVE_MAX_THREADS, sizeof(*page->threads));
	page->snapshots = calloc(N_SNAPSHOTS, sizeof(*page->snapshots));
	if (!page->history || !page->threads || !page->snapshots)
		return cmd_fail("out of memory");
	int r = control_find(what, &page->recording);
	if (r < 0)
		return fail_to_find(what, r);
	r = take_totals(page, what);
	if (r == CMD_DONE)
		read_program(page);
	return r;
}

struct live_page *live_page_close(struct live_page *page)
{
	if (!page)
		return NULL;
	pthread_mutex_lock(&page->lock);
	page->is_closing = true;
	pthread_cond_signal(&page->has_looked);
	pthread_mutex_unlock(&page->lock);
	if (page->has_namer)
		pthread_join(page->namer, NULL);
	top_end(&page->top);
	cleanup_close(&page->totals_fd);
	cleanup_close(&page->recorder_fd);
	history_destroy(page->history);
	free_all(page->threads, page->snapshots);
	pthread_cond_destroy(&page->has_looked);
	pthread_mutex_destroy(&page->lock);
	pthread_mutex_destroy(&page->names_lock);
	free(page);
	return NULL;
}
