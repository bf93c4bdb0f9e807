#include "cli/options/config-file.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/parse.h"

#define FILE_NAME      "memsight.ini"
#define MAX_FILE_BYTES (1 << 20)

/* A file while it is read. */
struct reading {
	FILE *file;
	int line; /* that was read last */
	int section_line;
	int wrong_line;
	struct option_set *options;
	enum option_origin origin;
	int error;
};

/* Options of a folder's file that write, overwrite, run or let out something. */
static const enum option_id never_of_folder[] = {
	OPTION_FORCE,	    OPTION_ARCHIVE, OPTION_BUFFERS,   OPTION_EXECUTOR,	 OPTION_PRIVATE,
	OPTION_SBATCH_ARGS, OPTION_RETRY,   OPTION_ANONYMISE, OPTION_ON_TRIGGER, OPTION_ANALYZE,
};

/* What is only read: what is accepted, and what is compared with, belongs to a project. */
static const enum option_id read_only[] = { OPTION_SUPPRESSIONS, OPTION_AGAINST,
					    OPTION_FUNCTION_LIST };

static bool is_among(enum option_id id, const enum option_id *ids, size_t n)
{
	return array_find(ids, n, it, *it == id);
}
#define IS_AMONG(id, ids) is_among(id, ids, sizeof(ids) / sizeof((ids)[0]))

/* A new option that takes a file is refused without a word here. */
static bool is_refused_to_folder(enum option_id id)
{
	static const char *const names_files[] = { "FILE", "DIR", "DATA" };
	const char *argument = option_row(id)->argument;

	if (IS_AMONG(id, read_only))
		return false;
	for (size_t i = 0; argument && i < sizeof(names_files) / sizeof(names_files[0]); i++) {
		if (strstr(argument, names_files[i]))
			return true;
	}
	return IS_AMONG(id, never_of_folder);
}

static int complain(struct reading *reading, const char *what, const char *word, const char *why)
{
	snprintf(reading->options->message, OPTION_MESSAGE_BYTES, "%s%.60s%s", what, word, why);
	return -EINVAL;
}

/* Whether the file may set this option; a name that is none is refused when it is taken. */
static int check_key(struct reading *reading, const char *key)
{
	for (int id = 0; id < OPTION_COUNT; id++) {
		if (!option_is_of((enum option_id)id, reading->options->command) ||
		    strcmp(option_row((enum option_id)id)->name, key) != 0)
			continue;
		if (id == OPTION_NO_CONFIG)
			return complain(reading, "", key, " is for the command line only");
		if (reading->origin == OPTION_FROM_FOLDER_FILE &&
		    is_refused_to_folder((enum option_id)id))
			return complain(reading, "", key,
					" is not taken from a folder's file, which may be anybody's"
					": put it into that of ~/.config");
	}
	return 0;
}

static int check_section(struct reading *reading, const char *section)
{
	struct parse_nearest nearest = { .word = section };
	char hint[64];

	for (int i = COMMAND_GLOBAL + 1; i < COMMAND_COUNT; i++) {
		const char *name = option_command((enum command_id)i)->name;

		if (strcmp(name, section) == 0)
			return 0;
		parse_nearest_offer(&nearest, name);
	}
	if (!section[0])
		return complain(reading, "a key stands before the first section, such as ",
				"[record]", "");
	snprintf(hint, sizeof(hint), "] is no command%s%s%s",
		 nearest.name ? "; did you mean [" : "", nearest.name ? nearest.name : "",
		 nearest.name ? "]?" : "");
	return complain(reading, "[", section, hint);
}

static int take(struct reading *reading, const char *key, const char *value)
{
	struct option_set *options = reading->options;
	char *text = value && *value ? strdup(value) : NULL;
	int r = check_key(reading, key);

	/* Kept first: a refused one must go, too. */
	if (value && *value) {
		int kept = option_keep(options, text);
		r = kept < 0 ? kept : r;
	}
	return r < 0 ? r : option_assign(options, key, text, reading->origin);
}

/* libinih's handler: 0 says that this line is wrong. */
static int handle(void *user, const char *section, const char *key, const char *value)
{
	struct reading *reading = user;
	const char *command = option_command(reading->options->command)->name;

	if (reading->error < 0)
		return 0;
	reading->error = check_section(reading, section);
	reading->wrong_line =
		reading->error < 0 && *section ? reading->section_line : reading->line;
	/* What another command reads is not looked at: it must not stop this one. */
	if (reading->error == 0 && strcmp(section, command) == 0)
		reading->error = take(reading, key, value);
	return reading->error == 0;
}

/* libinih's reader, as fgets. Without the blanks before it no line goes on with the one before. */
static char *read_line(char *line, int n_bytes, void *user)
{
	struct reading *reading = user;

	if (reading->error < 0 || !fgets(line, n_bytes, reading->file))
		return NULL;
	reading->line++;
	char *text = line + strspn(line, " \t");
	memmove(line, text, strlen(text) + 1);
	if (*line == '[')
		reading->section_line = reading->line;
	return line;
}

/* Put before what is wrong where that is. */
static int locate(const struct reading *reading, const char *path, int line)
{
	char *message = reading->options->message;
	char what[OPTION_MESSAGE_BYTES];

	memcpy(what, message, sizeof(what));
	snprintf(message, OPTION_MESSAGE_BYTES, "%.80s%s:%d: %.160s",
		 strlen(path) > 80 ? "..." : "",
		 strlen(path) > 80 ? path + strlen(path) - 77 : path, line, what);
	return -EINVAL;
}

static int parse(struct reading *reading, const char *path)
{
	ini_max_line = 4096;
	ini_use_stack = false;
	ini_allow_inline_comments = false; /* a value may hold " ;" */

	int r = ini_parse_stream(read_line, reading, handle, reading);

	if (r < 0 || reading->error == -ENOMEM)
		return -ENOMEM;
	/* Of two mistakes the first; libinih numbers lines as we do. */
	if (reading->error < 0 && r == reading->line)
		return locate(reading, path, reading->wrong_line);
	if (r == 0)
		return 0;
	complain(reading, "", "a line", " is no [section], no KEY = VALUE and no comment");
	return locate(reading, path, r);
}

/* Why a file that is there must not be read; NULL: it may be. */
static const char *why_not_read(const struct stat *status)
{
	if (!S_ISREG(status->st_mode))
		return "it is no regular file";
	if (status->st_uid != geteuid() && status->st_uid != 0)
		return "it belongs to another user";
	if (status->st_mode & S_IWOTH)
		return "all may write it (chmod o-w)";
	return status->st_size > MAX_FILE_BYTES ? "it has more than 1 MiB" : NULL;
}

static int take_file(struct option_set *options, enum option_origin origin,
		     struct config_file *file)
{
	struct reading reading = { .options = options, .origin = origin };
	struct stat status;

	/* A pipe that nobody writes into must not hold us up. */
	auto_close int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int failed = errno;
	/* What cannot be seen, such as in a home that is not ours, is not there. */
	if ((fd < 0 ? stat(file->path, &status) : fstat(fd, &status)) < 0)
		return 0;
	const char *why = fd < 0 ? strerror(failed) : why_not_read(&status);
	if (why) {
		snprintf(file->why_not, sizeof(file->why_not), "%s", why);
		return 0;
	}
	auto_fclose FILE *stream = fdopen(fd, "r");
	if (!stream)
		return -ENOMEM;
	fd = -1;
	reading.file = stream;
	file->is_read = true;
	return parse(&reading, file->path) ?: option_take_preset(options);
}

static void find_places(struct config_file files[CONFIG_COUNT])
{
	const char *config = getenv("XDG_CONFIG_HOME");
	const char *home = getenv("HOME");
	char *path = files[CONFIG_OF_USER].path;

	files[CONFIG_OF_FOLDER] = (struct config_file){ .path = "./" FILE_NAME };
	files[CONFIG_OF_USER] = (struct config_file){ 0 };
	if (config && config[0] == '/')
		snprintf(path, CONFIG_PATH_BYTES, "%s/" FILE_NAME, config);
	else if (home && home[0] == '/')
		snprintf(path, CONFIG_PATH_BYTES, "%s/.config/" FILE_NAME, home);
}

static bool is_same(const char *path, const char *other)
{
	struct stat status, of_other;

	return stat(path, &status) == 0 && stat(other, &of_other) == 0 &&
	       status.st_dev == of_other.st_dev && status.st_ino == of_other.st_ino;
}

int config_files_take(struct option_set *options, struct config_file ret_files[CONFIG_COUNT])
{
	static const enum option_origin origins[CONFIG_COUNT] = {
		[CONFIG_OF_FOLDER] = OPTION_FROM_FOLDER_FILE,
		[CONFIG_OF_USER] = OPTION_FROM_USER_FILE,
	};
	int r = 0;

	find_places(ret_files);
	if (option_flag(options, OPTION_NO_CONFIG))
		return 0;
	/* The stronger one first: a preset of the weaker one then counts for nothing. */
	for (int i = 0; i < CONFIG_COUNT && r == 0; i++) {
		/* In ~/.config both are one, the user's. */
		if (ret_files[i].path[0] &&
		    !(i == CONFIG_OF_FOLDER &&
		      is_same(ret_files[i].path, ret_files[CONFIG_OF_USER].path)))
			r = take_file(options, origins[i], &ret_files[i]);
	}
	return r;
}
