#include "runner/control/triggers.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/parse.h"
#include "common/text.h"

#define NS_PER_SECOND UINT64_C(1000000000)
#define USUAL_NS      (60 * NS_PER_SECOND)
#define WINDOW_PREFIX "window:"

enum bound_kind {
	BOUND_BYTES,
	BOUND_BYTES_OR_PART,
	BOUND_COUNT_IN, /* a number / a span of time */
	BOUND_BYTES_IN,
	BOUND_TIME,
	BOUND_NONE, /* of the program's end */
};

static const struct {
	const char *name;
	enum bound_kind bound;
	bool needs_totals;
	const char *example;
} kinds[TRIGGER_KINDS] = {
	[TRIGGER_LIVE] = { "live", BOUND_BYTES, true, "live>2G" },
	[TRIGGER_RSS] = { "rss", BOUND_BYTES_OR_PART, false, "rss>80% or rss>4G" },
	[TRIGGER_RATE] = { "rate", BOUND_COUNT_IN, true, "rate>1M/s" },
	[TRIGGER_LEAKED] = { "leaked", BOUND_BYTES, true, "leaked>100M" },
	[TRIGGER_GROWTH] = { "growth", BOUND_BYTES_IN, true, "growth>10M/min" },
	[TRIGGER_IDLE] = { "idle", BOUND_TIME, true, "idle>5s" },
	[TRIGGER_EXIT] = { "exit", BOUND_NONE, false, "exit" },
	[TRIGGER_CRASH] = { "crash", BOUND_NONE, false, "crash" },
	[TRIGGER_OOM] = { "oom", BOUND_NONE, false, "oom" },
};

/* 1M: a million, as of allocations. */
static int read_count(const char *text, double *ret_count)
{
	static const char units[] = "kMG";
	char *end;
	double count = strtod(text, &end);
	const char *unit = *end ? strchr(units, *end == 'K' ? 'k' : *end) : NULL;

	if (end == text || (*end && (!unit || end[1])))
		return -EINVAL;
	for (; unit && unit >= units; unit--)
		count *= 1000;
	*ret_count = count;
	return count > 0 ? 0 : -EINVAL;
}

static int read_bytes(const char *text, double *ret_bytes)
{
	uint64_t bytes;
	int err = parse_size(text, &bytes);

	if (err == 0)
		*ret_bytes = (double)bytes;
	return err < 0 || bytes == 0 ? -EINVAL : 0;
}

static int read_part(const char *text, double *ret_part)
{
	char *end;
	double percent = strtod(text, &end);

	if (end == text || strcmp(end, "%") != 0 || !(percent > 0) || percent > 100)
		return -EINVAL;
	*ret_part = percent / 100;
	return 0;
}

/* "s", "min", "10s": the time behind the slash. */
static int read_span(const char *text, uint64_t *ret_ns)
{
	char with_number[32];
	int64_t ns;

	snprintf(with_number, sizeof(with_number), "%s%s", *text >= '0' && *text <= '9' ? "" : "1",
		 text);
	if (parse_duration(with_number, &ns) < 0 || ns < (int64_t)NS_PER_SECOND)
		return -EINVAL;
	*ret_ns = (uint64_t)ns;
	return 0;
}

static int read_bound(struct trigger *trigger, char *text)
{
	enum bound_kind kind = kinds[trigger->kind].bound;
	char *slash = strchr(text, '/');
	int64_t ns = 0;
	int err;

	if (!slash == (kind == BOUND_COUNT_IN || kind == BOUND_BYTES_IN))
		return -EINVAL;
	if (slash) {
		*slash = '\0';
		err = read_span(slash + 1, &trigger->span_ns);
		if (err < 0)
			return err;
	}
	switch (kind) {
	case BOUND_COUNT_IN:
		return read_count(text, &trigger->bound);
	case BOUND_TIME:
		err = parse_duration(text, &ns);
		trigger->bound = (double)ns;
		return err < 0 || ns <= 0 ? -EINVAL : 0;
	case BOUND_BYTES_OR_PART:
		trigger->is_part = strchr(text, '%') != NULL;
		if (trigger->is_part)
			return read_part(text, &trigger->bound);
		return read_bytes(text, &trigger->bound);
	default:
		return read_bytes(text, &trigger->bound);
	}
}

static int read_one(const char *text, struct trigger *trigger, char message[TRIGGER_MESSAGE])
{
	size_t n_name = strcspn(text, "><=");
	char bound[sizeof(trigger->text)];

	*trigger = (struct trigger){ .kind = TRIGGER_KINDS };
	for (int kind = 0; kind < TRIGGER_KINDS; kind++)
		if (strlen(kinds[kind].name) == n_name &&
		    strncmp(kinds[kind].name, text, n_name) == 0)
			trigger->kind = (enum trigger_kind)kind;
	if (trigger->kind == TRIGGER_KINDS)
		return text_refuse(
			-EINVAL, message, TRIGGER_MESSAGE,
			"--trigger: '%.60s' cannot be measured: live, rss, rate, leaked, growth, "
			"idle, and exit, crash and oom can",
			text);
	snprintf(trigger->text, sizeof(trigger->text), "%s", text);
	snprintf(bound, sizeof(bound), "%s", text[n_name] ? text + n_name + 1 : "");
	if (trigger_is_of_end(trigger) && !text[n_name])
		return 0;
	if (trigger_is_of_end(trigger) || text[n_name] != '>' || strlen(text) >= sizeof(bound) ||
	    read_bound(trigger, bound) < 0)
		return text_refuse(-EINVAL, message, TRIGGER_MESSAGE,
				   "--trigger: '%.60s' is not a condition such as %s", text,
				   kinds[trigger->kind].example);
	return 0;
}

int triggers_read(const char *const *texts, struct triggers *ret_triggers,
		  char message[TRIGGER_MESSAGE])
{
	int err = 0;

	ret_triggers->n = 0;
	for (; err == 0 && texts && *texts; texts++) {
		if (ret_triggers->n == TRIGGERS_MAX)
			return text_refuse(-EINVAL, message, TRIGGER_MESSAGE,
					   "--trigger: at most %d may be given", TRIGGERS_MAX);
		err = read_one(*texts, &ret_triggers->items[ret_triggers->n++], message);
	}
	return err;
}

bool trigger_is_of_end(const struct trigger *trigger)
{
	return kinds[trigger->kind].bound == BOUND_NONE;
}

bool trigger_is_end(const struct trigger *trigger, int status, bool was_oom,
		    char ret_value[static 32])
{
	static const int crashes[] = { SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP };
	int number = status >= 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	if (number)
		snprintf(ret_value, 32, "signal %d", number);
	else if (status >= 0)
		snprintf(ret_value, 32, "status %d", WEXITSTATUS(status));
	else
		snprintf(ret_value, 32, "status not known");
	if (trigger->kind == TRIGGER_OOM)
		return number == SIGKILL && was_oom;
	for (size_t i = 0; trigger->kind == TRIGGER_CRASH && i < sizeof(crashes) / sizeof(*crashes);
	     i++)
		if (crashes[i] == number)
			return true;
	return trigger->kind == TRIGGER_EXIT;
}

bool trigger_needs_totals(const struct trigger *trigger)
{
	return kinds[trigger->kind].needs_totals;
}

/*
 * By how much a value has grown in one span of time, as it did since the latest point that is a
 * span old; negative where it fell, or where the first span is not over yet.
 */
static double grown(struct trigger *trigger, uint64_t now_ns, uint64_t value)
{
	const uint64_t step_ns = trigger->span_ns / (TRIGGER_POINTS - 2);
	const uint64_t n = trigger->n_points;

	if (n == 0 || now_ns >= trigger->points[(n - 1) % TRIGGER_POINTS].ns + step_ns) {
		trigger->points[n % TRIGGER_POINTS].ns = now_ns;
		trigger->points[n % TRIGGER_POINTS].value = value;
		trigger->n_points++;
	}
	for (uint64_t i = trigger->n_points; i > 0 && i + TRIGGER_POINTS > trigger->n_points; i--) {
		uint64_t then_ns = trigger->points[(i - 1) % TRIGGER_POINTS].ns;
		uint64_t then = trigger->points[(i - 1) % TRIGGER_POINTS].value;

		if (then_ns + trigger->span_ns <= now_ns)
			return ((double)value - (double)then) * (double)trigger->span_ns /
			       (double)(now_ns - then_ns);
	}
	return -1;
}

static double measure(struct trigger *trigger, const struct trigger_measures *now)
{
	switch (trigger->kind) {
	case TRIGGER_LIVE:
		return (double)now->live_bytes;
	case TRIGGER_RSS:
		return (double)now->rss_bytes;
	case TRIGGER_LEAKED:
		return (double)now->old_bytes;
	case TRIGGER_RATE:
		return grown(trigger, now->now_ns, now->n_allocations);
	case TRIGGER_GROWTH:
		return grown(trigger, now->now_ns, now->live_bytes);
	default:
		if (trigger->changed_ns == 0 || now->n_events != trigger->last_events)
			trigger->changed_ns = now->now_ns;
		trigger->last_events = now->n_events;
		return (double)(now->now_ns - trigger->changed_ns);
	}
}

bool trigger_holds(struct trigger *trigger, const struct trigger_measures *now,
		   char ret_value[static 32])
{
	double value = trigger_is_of_end(trigger) ? 0 : measure(trigger, now);
	double bound = trigger->bound * (trigger->is_part ? (double)now->limit_bytes : 1);
	const char *span = strchr(trigger->text, '/'); /* "/min" */

	if (trigger_is_of_end(trigger))
		return false;
	if (trigger->kind == TRIGGER_IDLE)
		snprintf(ret_value, 32, "%.1f s", value / NS_PER_SECOND);
	else if (trigger->kind == TRIGGER_RATE)
		snprintf(ret_value, 32, "%.0f allocations%s", value, span ? span : "");
	else
		snprintf(ret_value, 32, "%.1f MiB%s", value / (1 << 20), span ? span : "");
	return value > bound;
}

int64_t trigger_window_ns(const char *action)
{
	int64_t ns;

	if (strncmp(action, WINDOW_PREFIX, strlen(WINDOW_PREFIX)) != 0)
		return 0;
	return parse_duration(action + strlen(WINDOW_PREFIX), &ns) < 0 || ns <= 0 ? -EINVAL : ns;
}

bool trigger_is_command(const char *action)
{
	return *action && strcmp(action, TRIGGER_SNAPSHOT) != 0 && trigger_window_ns(action) == 0;
}

bool triggers_begin_windows(const char *const *actions)
{
	for (; actions && *actions; actions++)
		if (trigger_window_ns(*actions) > 0)
			return true;
	return false;
}

const char *triggers_command(const char *const *actions)
{
	for (; actions && *actions; actions++)
		if (trigger_is_command(*actions))
			return *actions;
	return NULL;
}

uint64_t trigger_time_ns(const char *text)
{
	int64_t ns;

	if (!text)
		return USUAL_NS;
	return parse_duration(text, &ns) < 0 || ns < (int64_t)NS_PER_SECOND ? 0 : (uint64_t)ns;
}
