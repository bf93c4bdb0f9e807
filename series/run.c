#include "series/run.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/text-stream.h"
#include "runner/host/host-facts.h"
#include "series/execute.h"

struct series_host {
	char *text; /* "key=value" lines as they were at first */
};

/* What of the machine must not change while a series runs, or its runs cannot be compared. */

/* Facts that decide about speed and samples. Memory and load change all the time. */
static const char *const watched[] = {
	"kernel",
	"cpus_online",
	"smt",
	"clocksource",
	"governor",
	"turbo",
	"thp",
	"thp_defrag",
	"numa_balancing",
	"randomize_va_space",
	"overcommit_memory",
	"swappiness",
	"perf_event_paranoid",
	"perf_event_max_sample_rate",
	"perf_cpu_time_max_percent",
};

static int is_watched(const char *key)
{
	for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++) {
		if (strcmp(watched[i], key) == 0)
			return 1;
	}
	return 0;
}

static int put(void *context, const char *key, const char *value)
{
	if (is_watched(key))
		fprintf(context, "%s=%s\n", key, value);
	return 0;
}

static char *facts_text(void)
{
	char *text = NULL;
	size_t n_bytes = 0;
	FILE *to = text_stream_open(&text, &n_bytes);

	if (!to)
		return NULL;
	run_facts(put, to);
	text_stream_close(to, &text);
	return text;
}

/* The line of text that begins as `line` does, up to its '='. */
static const char *same_key(const char *text, const char *line)
{
	size_t n = strcspn(line, "=") + 1;

	for (; *text; text += strcspn(text, "\n") + 1) {
		if (strncmp(text, line, n) == 0)
			return text;
	}
	return NULL;
}

static void warn(const struct series_observer *observer, const char *name, const char *was,
		 const char *is)
{
	char line[512];
	size_t key = strcspn(is, "=");

	snprintf(
		line, sizeof(line),
		"%.*s changed from %.*s to %.*s during %s: runs before and after it differ in more "
		"than their mode",
		(int)key, is, (int)strcspn(was + key + 1, "\n"), was + key + 1,
		(int)strcspn(is + key + 1, "\n"), is + key + 1, name);
	if (observer->warn)
		observer->warn(observer->user, line);
}

/* Warn of what has changed since, once for each change; name: the run that has just ended. */
static void series_host_compare(struct series_host *host, const char *name,
				const struct series_observer *observer)
{
	char *now = facts_text();

	if (!now || !host->text || strcmp(now, host->text) == 0) {
		free(now);
		return;
	}
	for (const char *line = now; *line; line += strcspn(line, "\n") + 1) {
		const char *was = same_key(host->text, line);
		size_t n = strcspn(line, "\n");

		if (was && (strncmp(was, line, n) != 0 || was[n] != '\n'))
			warn(observer, name, was, line);
	}
	free(host->text);
	host->text = now;
}

#define NS_PER_MS INT64_C(1000000)

/* A call under way. */
struct running {
	const struct series_request *request;
	struct series_totals *totals;
	struct series_host host;
	int stop_fd;
	size_t n_earlier;
	int64_t begin_ns;
};

static void tell(struct running *running, const char *name, const struct series_outcome *outcome)
{
	const struct series_request *request = running->request;
	size_t n_left = running->totals->n_all - running->n_earlier - running->totals->n_done;
	struct series_progress progress = {
		.n_done = running->totals->n_done,
		.n_earlier = running->n_earlier,
		.n_all = running->totals->n_all,
		.name = name,
		.outcome = outcome,
		.elapsed_ns = (int64_t)clock_ns(CLOCK_MONOTONIC) - running->begin_ns,
		.left_ns = -1,
	};

	if (progress.n_done > 0)
		progress.left_ns = progress.elapsed_ns / (int64_t)progress.n_done * (int64_t)n_left;
	if (request->observer.progress)
		request->observer.progress(request->observer.user, &progress);
}

/* Whether the series is to stop, after at most timeout_ns of rest. */
static bool rest(struct running *running, int64_t timeout_ns)
{
	struct pollfd fd = { running->stop_fd, POLLIN, 0 };

	return poll(&fd, 1, (int)(timeout_ns / NS_PER_MS)) > 0;
}

static struct series_execution execution_of(const struct running *running, size_t i,
					    const char *path)
{
	const struct series_plan *plan = running->request->plan;

	return (struct series_execution){
		.plan = plan,
		.item = &plan->items[i],
		.folder = running->request->folder,
		.path = path,
		.options = running->request->modes[plan->items[i].mode],
		.prepare = running->request->prepare,
		.user = running->request->user,
		.position = i + 1,
		.timeout_ns = plan->series->timeout_ns,
	};
}

static int do_item(struct running *running, size_t i, const char *name)
{
	const struct series_folder *folder = running->request->folder;
	struct series_outcome outcome;
	char path[PATH_MAX];
	int err = series_folder_begin(folder, name, path);

	if (err < 0)
		return err;
	tell(running, name, NULL);

	struct series_execution execution = execution_of(running, i, path);

	err = series_execute(&execution, running->stop_fd, &outcome);
	err = err ?: series_execution_note(&execution, &outcome);
	err = err ?: series_folder_end(folder, name);
	if (err < 0)
		return series_folder_remove(folder, name), err;
	running->totals->n_done++;
	running->totals->n_bad += outcome.result != SERIES_OK;
	series_host_compare(&running->host, name, &running->request->observer);
	tell(running, name, &outcome);
	return outcome.result != SERIES_OK && running->request->fail_fast ? -ECANCELED : 0;
}

static bool is_wanted(const struct series_request *request, const char *name)
{
	const char *const *only = request->only;

	while (only && *only && strcmp(*only, name) != 0)
		only++;
	return !only || *only;
}

/* Whether an earlier call has done it, or another one is to. */
static bool is_done(const struct running *running, const char *name)
{
	enum series_result result = series_folder_result(running->request->folder, name);

	if (!is_wanted(running->request, name))
		return true;

	return result == SERIES_OK || (result != SERIES_MISSING && !running->request->retry);
}

static void count_earlier(struct running *running)
{
	const struct series_plan *plan = running->request->plan;
	char name[SERIES_NAME_BYTES];

	for (size_t i = 0; i < plan->n_items; i++) {
		series_item_name(plan, &plan->items[i], name);
		if (!is_done(running, name))
			continue;
		running->n_earlier++;
		if (is_wanted(running->request, name))
			running->totals->n_bad +=
				series_folder_result(running->request->folder, name) != SERIES_OK;
	}
}

/* Jobs of a cluster share the folder: each warms up under the name of a run that is its own. */
static void name_warm_up(const struct running *running, char *name, size_t n_bytes)
{
	const char *const *only = running->request->only;

	snprintf(name, n_bytes, "warm-up%s%s", only && *only ? "-" : "",
		 only && *only ? *only : "");
}

/* A name that is none would do nothing, and say that all is well. */
static int check_only(const struct series_request *request, char *message)
{
	const struct series_plan *plan = request->plan;
	char name[SERIES_NAME_BYTES];

	for (const char *const *only = request->only; only && *only; only++) {
		size_t i = 0;
		for (; i < plan->n_items; i++) {
			series_item_name(plan, &plan->items[i], name);
			if (strcmp(*only, name) == 0)
				break;
		}
		if (i == plan->n_items)
			return snprintf(message, SERIES_MESSAGE_BYTES,
					"--only %s: the series has no such run; names are "
					"PROGRAM.MODE.N, as --check shows them",
					*only),
			       -EINVAL;
	}
	return 0;
}

/* Natural runs that nobody keeps: files are read into the cache, clocks go up. */
static int warm_up(struct running *running)
{
	char name[SERIES_NAME_BYTES + 16];
	const struct series_plan *plan = running->request->plan;
	size_t n =
		running->n_earlier == plan->n_items ? 0 : plan->n_programs * plan->series->warm_ups;
	int err = 0;

	name_warm_up(running, name, sizeof(name));
	for (size_t i = 0; i < n && err == 0; i++) {
		struct series_item item = { (uint32_t)(i % plan->n_programs), 0, 1 };
		struct series_outcome outcome;
		char path[PATH_MAX];

		err = series_folder_begin(running->request->folder, name, path);
		if (err < 0)
			return err;

		struct series_execution execution = execution_of(running, 0, path);

		execution.item = &item;
		execution.prepare = NULL;
		execution.options = (struct run_options){ .is_natural = true,
							  .no_alloc = true,
							  .source = "none" };
		err = series_execute(&execution, running->stop_fd, &outcome);
		series_folder_remove(running->request->folder, name);
	}
	return err;
}

static int do_all(struct running *running)
{
	const struct series_plan *plan = running->request->plan;
	char name[SERIES_NAME_BYTES];
	int err = warm_up(running);

	for (size_t i = 0; i < plan->n_items && err == 0; i++) {
		series_item_name(plan, &plan->items[i], name);
		if (is_done(running, name))
			continue;
		if (running->totals->n_done > 0 && rest(running, plan->series->cool_down_ns))
			return -ECANCELED;
		err = do_item(running, i, name);
	}
	return err;
}

int series_run(const struct series_request *request, struct series_totals *ret_totals,
	       char *message)
{
	struct running running = { .request = request, .totals = ret_totals };
	auto_close int stop_fd = series_process_signals();

	*ret_totals = (struct series_totals){ .n_all = request->plan->n_items };
	message[0] = '\0';
	int err = check_only(request, message);
	if (err < 0)
		return err;
	running.stop_fd = stop_fd;
	running.begin_ns = (int64_t)clock_ns(CLOCK_MONOTONIC);
	count_earlier(&running);
	/* Note how it is now. Without memory nothing is noted, and nothing will differ. */
	running.host.text = facts_text();
	err = do_all(&running);
	free(running.host.text);
	running.host.text = NULL;
	if (err == -ECANCELED) {
		ret_totals->was_stopped = rest(&running, 0); /* else by fail_fast */
		return 0;
	}
	if (err < 0)
		snprintf(message, SERIES_MESSAGE_BYTES, "cannot go on in %.300s: %s",
			 request->folder->path, strerror(-err));
	return err;
}
