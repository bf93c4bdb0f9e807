#include "series/config-keys.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/parse.h"

#define MAX_REPETITIONS 1000000u

/* A key of a section: how its value is taken. Returns 0 or a negative errno. */
struct key_row {
	const char *name;
	int (*take)(struct series_reading *reading, const char *value);
};

__attribute__((format(printf, 2, 3))) int series_complain(struct series_reading *reading,
							  const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(reading->message, SERIES_MESSAGE_BYTES, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

static int take_text(char **field, const char *value)
{
	free(*field);
	*field = strdup(value);
	return *field ? 0 : -ENOMEM;
}

static int take_number(struct series_reading *reading, const char *value, uint64_t most,
		       uint64_t *ret)
{
	uint64_t number;

	if (parse_number(value, &number) < 0 || number > most)
		return series_complain(reading, "%s: '%s' is no number up to %llu", reading->key,
				       value, (unsigned long long)most);
	*ret = number;
	return 0;
}

static int take_duration(struct series_reading *reading, const char *value, int64_t *ret_ns)
{
	if (parse_duration(value, ret_ns) < 0 || *ret_ns < 0)
		return series_complain(reading, "%s: '%s' is no time such as 30s, 200ms or 5min",
				       reading->key, value);
	return 0;
}

/* Words as NAME=VALUE, several in a line. */
static int take_environment(struct series_reading *reading, const char *value,
			    struct series_texts *texts)
{
	auto_free char **words = NULL;
	int err = series_split(value, &words);

	if (err < 0)
		return err == -ENOMEM
			       ? err
			       : series_complain(reading, "environment: '%s' is no NAME=VALUE",
						 value);
	for (char **word = words; *word && err == 0; word++) {
		if (**word == '=' || !strchr(*word, '='))
			return series_complain(reading, "environment: '%s' is no NAME=VALUE",
					       *word);
		err = series_texts_add(texts, *word);
	}
	return err;
}

/* ---- [series] ---- */

static int series_name(struct series_reading *reading, const char *value)
{
	return take_text(&reading->series->name, value);
}

static int series_output(struct series_reading *reading, const char *value)
{
	return take_text(&reading->series->output, value);
}

static int series_repetitions(struct series_reading *reading, const char *value)
{
	uint64_t number = 0;
	int err = take_number(reading, value, MAX_REPETITIONS, &number);

	if (err == 0 && number == 0)
		return series_complain(reading, "repetitions: 0 runs are no series");
	reading->series->repetitions = (uint32_t)number;
	return err;
}

static int series_warm_ups(struct series_reading *reading, const char *value)
{
	uint64_t number = 0;
	int err = take_number(reading, value, MAX_REPETITIONS, &number);

	reading->series->warm_ups = (uint32_t)number;
	return err;
}

static int series_seed(struct series_reading *reading, const char *value)
{
	reading->series->has_seed = true;
	return take_number(reading, value, UINT64_MAX, &reading->series->seed);
}

static int series_order(struct series_reading *reading, const char *value)
{
	static const char *const names[] = {
		[SERIES_ORDER_BLOCKS] = "blocks",
		[SERIES_ORDER_SEQUENTIAL] = "sequential",
		[SERIES_ORDER_WITHIN_MODE] = "shuffle-within-mode",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(value, names[i]) == 0) {
			reading->series->order = (enum series_order)i;
			return 0;
		}
	}
	return series_complain(
		reading, "order: '%s' is none of blocks, sequential, shuffle-within-mode", value);
}

static int series_timeout(struct series_reading *reading, const char *value)
{
	return take_duration(reading, value, &reading->series->timeout_ns);
}

static int series_cool_down(struct series_reading *reading, const char *value)
{
	return take_duration(reading, value, &reading->series->cool_down_ns);
}

static int series_environment(struct series_reading *reading, const char *value)
{
	return take_environment(reading, value, &reading->series->environment);
}

static const struct key_row series_keys[] = {
	{ "name", series_name },
	{ "output", series_output },
	{ "repetitions", series_repetitions },
	{ "warm-ups", series_warm_ups },
	{ "seed", series_seed },
	{ "order", series_order },
	{ "timeout", series_timeout },
	{ "cool-down", series_cool_down },
	{ "environment", series_environment },
	{ NULL, NULL },
};

/* ---- [workload NAME] ---- */

static int workload_command(struct series_reading *reading, const char *value)
{
	auto_free char **words = NULL;
	int err = series_split(value, &words);

	if (err == -EINVAL)
		return series_complain(reading, "command: '%s' is empty, or a quote is not closed",
				       value);
	return err < 0 ? err : series_texts_add(&reading->workload->commands, value);
}

static int workload_directory(struct series_reading *reading, const char *value)
{
	return take_text(&reading->workload->directory, value);
}

static int workload_environment(struct series_reading *reading, const char *value)
{
	return take_environment(reading, value, &reading->workload->environment);
}

static int workload_input(struct series_reading *reading, const char *value)
{
	return take_text(&reading->workload->input, value);
}

static int workload_check(struct series_reading *reading, const char *value)
{
	return take_text(&reading->workload->check, value);
}

static int workload_status(struct series_reading *reading, const char *value)
{
	uint64_t number = 0;
	int err = take_number(reading, value, 255, &number);

	reading->workload->expected_status = (int)number;
	return err;
}

static const struct key_row workload_keys[] = {
	{ "command", workload_command },
	{ "directory", workload_directory },
	{ "environment", workload_environment },
	{ "stdin", workload_input },
	{ "check", workload_check },
	{ "expected-status", workload_status },
	{ NULL, NULL },
};

/* ---- [mode NAME] ---- */

static int mode_dry(struct series_reading *reading, const char *value)
{
	if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
		return series_complain(reading, "dry: '%s' is neither yes nor no", value);
	reading->mode->is_dry = strcmp(value, "yes") == 0;
	return 0;
}

static int mode_environment(struct series_reading *reading, const char *value)
{
	return take_environment(reading, value, &reading->mode->environment);
}

static int take_option(struct series_reading *reading, const char *key, const char *value);

/* Whether a value is recorded of every run anyway. */
static bool is_always_collected(const char *name)
{
	static const char *const names[] = { "wall_clock",   "cpu_clock",    "user_time",
					     "system_time",  "peak_rss",     "page_faults",
					     "minor_faults", "major_faults", "allocations",
					     "peak_bytes" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(names[i], name) == 0)
			return true;
	}
	return false;
}

/* Values by name: what is no value of each run is an event to count. */
static int mode_collect(struct series_reading *reading, const char *value)
{
	auto_free char *names = strdup(value);
	auto_free char *events = calloc(strlen(value) + 1, 1);
	char *rest = names, *name;

	if (!names || !events)
		return -ENOMEM;
	while ((name = strsep(&rest, ", \t"))) {
		if (!*name || is_always_collected(name))
			continue;
		if (*events)
			strcat(events, ",");
		strcat(events, name);
	}
	return *events ? take_option(reading, "counters", events) : 0;
}

static const struct key_row mode_keys[] = {
	{ "collect", mode_collect },
	{ "dry", mode_dry },
	{ "environment", mode_environment },
	{ NULL, NULL },
};

/* What people call options of `record`. */
static const char *option_of(const char *key)
{
	static const char *const aliases[][2] = {
		{ "frequency", "freq" },
		{ "cpubind", "cpunodebind" },
		{ "threshold", "min-size" },
	};

	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++) {
		if (strcmp(key, aliases[i][0]) == 0)
			return aliases[i][1];
	}
	return key;
}

static int take_option(struct series_reading *reading, const char *key, const char *value)
{
	char clause[SERIES_MESSAGE_BYTES] = "";
	const char *option = option_of(key);
	int err = reading->reader->check(reading->reader->user, option, value, clause);

	if (err < 0)
		return series_complain(reading, "%.400s", clause[0] ? clause : strerror(-err));
	return series_add_setting(reading->mode, option, value);
}

/* ---- All ---- */

static int unknown_key(struct series_reading *reading, const struct key_row *rows, const char *key)
{
	struct parse_nearest nearest = { .word = key };

	for (; rows->name; rows++)
		parse_nearest_offer(&nearest, rows->name);
	return series_complain(reading, "[%s] has no key '%s'%s%s%s", reading->section, key,
			       nearest.name ? "; did you mean " : "",
			       nearest.name ? nearest.name : "", nearest.name ? "?" : "");
}

int series_key_take(struct series_reading *reading, const char *key, const char *value)
{
	const struct key_row *rows = reading->workload ? workload_keys
				     : reading->mode   ? mode_keys
						       : series_keys;

	snprintf(reading->key, sizeof(reading->key), "%s", key);
	for (const struct key_row *row = rows; row->name; row++) {
		/* An empty value opens a list on the lines below. */
		if (strcmp(row->name, key) == 0)
			return *value ? row->take(reading, value) : 0;
	}
	return rows == mode_keys ? take_option(reading, key, value)
				 : unknown_key(reading, rows, key);
}
