#include "series/config-file.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "series/config-keys.h"

#define MAX_LINE_BYTES 65536

/* What the reader puts behind the line of a section: libinih tells of keys only. */
#define SECTION_BEGINS	    "\x01"
#define SECTION_BEGINS_LINE SECTION_BEGINS " =\n"

static bool has_workload(const struct series *series, const char *name)
{
	for (size_t i = 0; i < series->n_workloads; i++) {
		if (strcmp(series->workloads[i].name, name) == 0)
			return true;
	}
	return false;
}

static bool has_mode(const struct series *series, const char *name)
{
	for (size_t i = 0; i < series->n_modes; i++) {
		if (strcmp(series->modes[i].name, name) == 0)
			return true;
	}
	return false;
}

static int open_workload(struct series_reading *reading, const char *name)
{
	if (!*name || strpbrk(name, "/ \t"))
		return series_complain(reading,
				       "[%s]: a workload needs a name without blanks and '/'",
				       reading->section);
	if (has_workload(reading->series, name))
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
	if (has_mode(reading->series, name))
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
