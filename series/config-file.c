#include "series/config-file.h"

#include <errno.h>
#include <ini.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/parse.h"
#include "common/text.h"

/* A file while it is read. */
struct series_reading {
	FILE *file;
	int line; /* that was read last */
	bool section_begins;
	const struct series_file_reader *reader;
	struct series *series;
	struct series_workload *workload; /* of the section that we are in */
	struct series_mode *mode;
	char section[256];
	char key[64]; /* that is being taken */
	int error;
	char *message; /* of the first thing that is wrong */
};

/* ---- Keys ---- */

#define MAX_REPETITIONS 1000000u

/* A key of a section: how its value is taken, and into which field of the section's struct. */
struct key_row {
	const char *name;
	enum { KEY_TEXT, KEY_TIME, KEY_ENVIRONMENT, KEY_OTHER } kind;
	size_t field;
	int (*take)(struct series_reading *reading, const char *value); /* KEY_OTHER: 0 or errno */
};

/* Say what is wrong, of the key at hand or of its section. Returns -EINVAL. */
#define series_complain(reading, ...)                                                              \
	text_refuse(-EINVAL, (reading)->message, SERIES_MESSAGE_BYTES, __VA_ARGS__)

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

static const struct key_row series_keys[] = {
	{ "name", KEY_TEXT, offsetof(struct series, name) },
	{ "output", KEY_TEXT, offsetof(struct series, output) },
	{ "repetitions", KEY_OTHER, .take = series_repetitions },
	{ "warm-ups", KEY_OTHER, .take = series_warm_ups },
	{ "seed", KEY_OTHER, .take = series_seed },
	{ "order", KEY_OTHER, .take = series_order },
	{ "timeout", KEY_TIME, offsetof(struct series, timeout_ns) },
	{ "cool-down", KEY_TIME, offsetof(struct series, cool_down_ns) },
	{ "environment", KEY_ENVIRONMENT, offsetof(struct series, environment) },
	{ .name = NULL },
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

static int workload_status(struct series_reading *reading, const char *value)
{
	uint64_t number = 0;
	int err = take_number(reading, value, 255, &number);

	reading->workload->expected_status = (int)number;
	return err;
}

static const struct key_row workload_keys[] = {
	{ "command", KEY_OTHER, .take = workload_command },
	{ "directory", KEY_TEXT, offsetof(struct series_workload, directory) },
	{ "environment", KEY_ENVIRONMENT, offsetof(struct series_workload, environment) },
	{ "stdin", KEY_TEXT, offsetof(struct series_workload, input) },
	{ "check", KEY_TEXT, offsetof(struct series_workload, check) },
	{ "expected-status", KEY_OTHER, .take = workload_status },
	{ .name = NULL },
};

/* ---- [mode NAME] ---- */

static int mode_dry(struct series_reading *reading, const char *value)
{
	if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
		return series_complain(reading, "dry: '%s' is neither yes nor no", value);
	reading->mode->is_dry = strcmp(value, "yes") == 0;
	return 0;
}

static int take_option(struct series_reading *reading, const char *key, const char *value);

/* Whether a value is recorded of every run anyway. */
static bool is_always_collected(const char *name)
{
	static const char *const names[] = { "wall_clock",   "cpu_clock",    "user_time",
					     "system_time",  "peak_rss",     "page_faults",
					     "minor_faults", "major_faults", "allocations",
					     "peak_bytes" };

	return array_find(names, COUNT_OF(names), it, strcmp(*it, name) == 0);
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
	{ "collect", KEY_OTHER, .take = mode_collect },
	{ "dry", KEY_OTHER, .take = mode_dry },
	{ "environment", KEY_ENVIRONMENT, offsetof(struct series_mode, environment) },
	{ .name = NULL },
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

static int take_key(struct series_reading *reading, const struct key_row *row, const char *value)
{
	char *section = reading->workload ? (char *)reading->workload
			: reading->mode	  ? (char *)reading->mode
					  : (char *)reading->series;
	void *field = section + row->field;

	switch (row->kind) {
	case KEY_TEXT:
		return take_text(field, value);
	case KEY_TIME:
		return take_duration(reading, value, field);
	case KEY_ENVIRONMENT:
		return take_environment(reading, value, field);
	default:
		return row->take(reading, value);
	}
}

/*
 * Take a key of the section that we are in; an empty value opens a list on the lines below. 0,
 * -ENOMEM, or -EINVAL after series_complain().
 */
static int series_key_take(struct series_reading *reading, const char *key, const char *value)
{
	const struct key_row *rows = reading->workload ? workload_keys
				     : reading->mode   ? mode_keys
						       : series_keys;

	snprintf(reading->key, sizeof(reading->key), "%s", key);
	for (const struct key_row *row = rows; row->name; row++) {
		/* An empty value opens a list on the lines below. */
		if (strcmp(row->name, key) == 0)
			return *value ? take_key(reading, row, value) : 0;
	}
	return rows == mode_keys ? take_option(reading, key, value)
				 : unknown_key(reading, rows, key);
}

#define MAX_LINE_BYTES 65536

/* What the reader puts behind the line of a section: libinih tells of keys only. */
#define SECTION_BEGINS	    "\x01"
#define SECTION_BEGINS_LINE SECTION_BEGINS " =\n"

static int open_workload(struct series_reading *reading, const char *name)
{
	if (!*name || strpbrk(name, "/ \t"))
		return series_complain(reading,
				       "[%s]: a workload needs a name without blanks and '/'",
				       reading->section);
	if (array_find(reading->series->workloads, reading->series->n_workloads, it,
		       strcmp(it->name, name) == 0))
		return series_complain(reading, "there are two sections [%s]", reading->section);
	reading->workload = series_add_workload(reading->series, name);
	return reading->workload ? 0 : -ENOMEM;
}

static int open_mode(struct series_reading *reading, const char *name)
{
	if (!series_is_mode_name(name))
		return series_complain(reading,
				       "[%s]: a mode's name has letters, digits and _ only",
				       reading->section);
	if (array_find(reading->series->modes, reading->series->n_modes, it,
		       strcmp(it->name, name) == 0))
		return series_complain(reading, "there are two sections [%s]", reading->section);
	reading->mode = series_add_mode(reading->series, name);
	return reading->mode ? 0 : -ENOMEM;
}

static int open_section(struct series_reading *reading, const char *section)
{
	snprintf(reading->section, sizeof(reading->section), "%s", section);
	reading->workload = NULL;
	reading->mode = NULL;
	if (strcmp(section, "series") == 0)
		return 0;
	if (strncmp(section, "workload ", 9) == 0)
		return open_workload(reading, section + 9);
	if (strncmp(section, "mode ", 5) == 0)
		return open_mode(reading, section + 5);
	return series_complain(reading, "[%s] is none of [series], [workload NAME], [mode NAME]",
			       section);
}

/* libinih's handler: 0 tells of an error in this line. */
static int handle(void *user, const char *section, const char *key, const char *value)
{
	struct series_reading *reading = user;
	int err = 0;

	if (reading->error < 0)
		return 0;
	if (!*section)
		err = series_complain(reading, "'%s' stands before the first section", key);
	else if (strcmp(key, SECTION_BEGINS) == 0 && (!value || !*value))
		err = open_section(reading, section);
	else if (strcmp(key, SECTION_BEGINS) == 0)
		err = series_complain(reading,
				      "a line that begins with a blank goes on with the one "
				      "before; a key stands in the first column");
	else
		err = series_key_take(reading, key, value ? value : "");
	reading->error = err;
	return err == 0;
}

/* libinih's reader: as fgets. */
static char *read_line(char *line, int n_bytes, void *user)
{
	struct series_reading *reading = user;

	if (reading->error < 0)
		return NULL;
	if (reading->section_begins) {
		reading->section_begins = false;
		snprintf(line, (size_t)n_bytes, SECTION_BEGINS_LINE);
		return line;
	}
	if (!fgets(line, n_bytes, reading->file))
		return NULL;
	reading->line++;
	reading->section_begins = line[strspn(line, " \t")] == '[';
	return line;
}

static int check_whole(struct series_reading *reading)
{
	struct series *series = reading->series;

	if (series->n_workloads == 0)
		return series_complain(reading, "there is no [workload NAME] section");
	if (series->n_modes == 0)
		return series_complain(reading, "there is no [mode NAME] section");
	for (size_t i = 0; i < series->n_workloads; i++) {
		if (series->workloads[i].commands.n == 0)
			return series_complain(reading, "[workload %s] has no command",
					       series->workloads[i].name);
	}
	return 0;
}

static int parse(struct series_reading *reading)
{
	ini_max_line = MAX_LINE_BYTES;
	ini_use_stack = false;
	ini_allow_inline_comments = false; /* a command may hold " ;" */

	int r = ini_parse_stream(read_line, reading, handle, reading);

	if (r < 0)
		return -ENOMEM;
	if (reading->error < 0 || r == 0)
		return reading->error;
	/* r counts the lines that were put in, too. */
	return series_complain(reading, "a line is no [section], no KEY = VALUE and no comment");
}

/* Put before what is wrong where that is. */
static void locate(const char *path, int line, char *message)
{
	char what[SERIES_MESSAGE_BYTES];

	memcpy(what, message, sizeof(what));
	if (!what[0])
		snprintf(what, sizeof(what), "out of memory");
	if (line > 0)
		snprintf(message, SERIES_MESSAGE_BYTES, "%.200s:%d: %.290s", path, line, what);
	else
		snprintf(message, SERIES_MESSAGE_BYTES, "%.200s: %.290s", path, what);
}

int series_file_read(const char *path, const struct series_file_reader *reader,
		     struct series **ret_series, char *message)
{
	auto_series struct series *series = series_create();
	auto_fclose FILE *file = fopen(path, "re");
	struct series_reading reading = {
		.file = file, .reader = reader, .series = series, .message = message
	};
	int err;

	message[0] = '\0';
	if (!series)
		return -ENOMEM;
	if (!file) {
		err = -errno;
		snprintf(message, SERIES_MESSAGE_BYTES, "cannot read %.300s: %s", path,
			 strerror(-err));
		return err;
	}
	err = parse(&reading);
	if (err < 0) {
		locate(path, reading.error < 0 ? reading.line : 0, message);
		return err;
	}
	err = check_whole(&reading);
	if (err < 0) {
		locate(path, 0, message);
		return err;
	}
	*ret_series = steal_ptr(&series);
	return 0;
}
