#include "series/host-state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text-stream.h"
#include "runner/host/host-facts.h"
#include "series/run.h"

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

void series_host_take(struct series_host *host)
{
	host->text = facts_text();
}

void series_host_finish(struct series_host *host)
{
	free(host->text);
	host->text = NULL;
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

void series_host_compare(struct series_host *host, const char *name,
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
