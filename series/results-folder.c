#include "series/results-folder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "common/text-stream.h"

#define LIST	       "series.lst"
#define MAX_LIST_BYTES (64u << 20)
#define PARTIAL	       ".partial"
#define MAX_PATH_BYTES 3700u /* with the name of a run and of a file in it PATH_MAX is enough */

static const char *const result_names[] = {
	[SERIES_MISSING] = "missing",
	[SERIES_OK] = "ok",
	[SERIES_FAILED] = "failed",
	[SERIES_TIMED_OUT] = "timeout",
	[SERIES_CHECK_FAILED] = "check failed",
};

const char *series_result_name(enum series_result result)
{
	return result_names[result];
}

/* ---- Opening ---- */

/* As mkdir -p: results may lie deep. */
static int make_folders(const char *path)
{
	char part[PATH_MAX];

	if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part))
		return -ENAMETOOLONG;
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(part, 0777) < 0 && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return mkdir(part, 0777) < 0 && errno != EEXIST ? -errno : 0;
}

static int open_folder(const char *path, bool is_shared, struct series_folder *folder)
{
	int err = make_folders(path);

	if (err < 0)
		return err;
	folder->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder->fd < 0 || !realpath(path, folder->path))
		return -errno;
	if (strlen(folder->path) > MAX_PATH_BYTES)
		return -ENAMETOOLONG;
	folder->lock_fd =
		openat(folder->fd, ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (folder->lock_fd < 0)
		return -errno;
	return flock(folder->lock_fd, (is_shared ? LOCK_SH : LOCK_EX) | LOCK_NB) < 0 ? -EBUSY : 0;
}

/*
 * The value of `key VALUE` at the beginning of a line of the list, up to the line's end; or NULL.
 */
static const char *find_line(const char *list, const char *key, size_t *ret_bytes)
{
	size_t n = strlen(key);

	for (const char *line = list; *line; line += strspn(line, "\n")) {
		size_t length = strcspn(line, "\n");

		if (length > n && line[n] == ' ' && strncmp(line, key, n) == 0) {
			*ret_bytes = length - n - 1;
			return line + n + 1;
		}
		line += length;
	}
	return NULL;
}

static int read_list(const struct series_folder *folder, char **ret_list)
{
	char path[PATH_MAX + sizeof(LIST)];

	snprintf(path, sizeof(path), "%s/%s", folder->path, LIST);
	return io_read_file(path, MAX_LIST_BYTES, ret_list, NULL);
}

static int append_list(const struct series_folder *folder, const char *text)
{
	auto_close int fd = openat(folder->fd, LIST,
				   O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);

	return fd < 0 ? -errno : io_write_all(fd, text, strlen(text));
}

static int begin_list(const struct series_folder *folder, const struct series *series,
		      uint64_t seed)
{
	char text[SERIES_MESSAGE_BYTES];

	snprintf(text, sizeof(text), "memsight-series 1\nname %.200s\nseed %" PRIu64 "\n",
		 series->name, seed);
	return append_list(folder, text);
}

/* The list that is there: is it of this series, and with which seed? */
static int join_list(const struct series *series, const char *list, uint64_t *seed, char *message)
{
	size_t n_bytes = 0;
	const char *name = find_line(list, "name", &n_bytes);

	if (!name || n_bytes != strlen(series->name) || strncmp(name, series->name, n_bytes) != 0) {
		snprintf(message, SERIES_MESSAGE_BYTES,
			 "%.200s holds the results of another series, '%.*s'; name another output "
			 "folder",
			 series->output, name ? (int)n_bytes : 0, name ? name : "");
		return -EEXIST;
	}
	const char *found = find_line(list, "seed", &n_bytes);
	uint64_t number = found ? strtoull(found, NULL, 10) : 0;
	if (series->has_seed && number != series->seed) {
		snprintf(message, SERIES_MESSAGE_BYTES,
			 "%.200s was begun with seed %" PRIu64
			 "; leave the seed out to go on, or name another output folder",
			 series->output, number);
		return -EEXIST;
	}
	*seed = number;
	return 0;
}

int series_folder_open(const struct series *series, bool is_shared, uint64_t *seed,
		       struct series_folder *ret_folder, char *message)
{
	auto_free char *list = NULL;
	struct series_folder folder = SERIES_FOLDER_CLOSED;
	int err = open_folder(series->output, is_shared, &folder);

	message[0] = '\0';
	err = err ?: read_list(&folder, &list);
	if (err == -ENOENT)
		err = begin_list(&folder, series, *seed);
	else if (err == 0)
		err = join_list(series, list, seed, message);
	if (err == 0) {
		*ret_folder = folder;
		return 0;
	}
	if (err == -EBUSY)
		snprintf(message, SERIES_MESSAGE_BYTES,
			 "another memsight writes into %.300s at this moment", series->output);
	else if (!message[0])
		snprintf(message, SERIES_MESSAGE_BYTES, "cannot use the output folder %.300s: %s",
			 series->output, strerror(-err));
	series_folder_close(&folder);
	return err;
}

int series_folder_look(const struct series *series, struct series_folder *ret_folder)
{
	struct series_folder folder = SERIES_FOLDER_CLOSED;

	folder.fd = open(series->output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder.fd < 0 || !realpath(series->output, folder.path))
		return -errno;
	*ret_folder = folder;
	return 0;
}

void series_folder_close(struct series_folder *folder)
{
	cleanup_close(&folder->fd);
	cleanup_close(&folder->lock_fd);
	*folder = SERIES_FOLDER_CLOSED;
}

/* ---- What the runs were made with ---- */

static void put_words(FILE *to, const char *what, char *const *words)
{
	fprintf(to, " %s", what);
	for (; words && *words; words++) {
		fputc(' ', to);
		for (const char *c = *words; *c; c++)
			fprintf(to, (unsigned char)*c <= ' ' || *c == '%' ? "%%%02x" : "%c",
				(unsigned char)*c);
	}
}

static void put_program(FILE *to, const struct series_program *program)
{
	const struct series_workload *workload = program->workload;

	put_words(to, "command", program->words);
	put_words(to, "environment", workload->environment.texts);
	put_words(to, "directory", (char *[]){ workload->directory, NULL });
	put_words(to, "stdin", (char *[]){ workload->input, NULL });
	fprintf(to, " status %d", workload->expected_status);
}

static void put_mode(FILE *to, const struct series_mode *mode)
{
	fprintf(to, " dry %d", mode->is_dry);
	for (size_t i = 0; i < mode->n_settings; i++)
		put_words(to, mode->settings[i].key, (char *[]){ mode->settings[i].value, NULL });
	put_words(to, "environment", mode->environment.texts);
}

/* Compare one definition with the list, or add it. line is "KIND-NAME DEFINITION". */
static int compare(const struct series_folder *folder, const char *list, const char *key,
		   const char *definition, char *message)
{
	size_t n_bytes = 0;
	const char *found = find_line(list, key, &n_bytes);
	char *text;

	if (found && n_bytes == strlen(definition) && strncmp(found, definition, n_bytes) == 0)
		return 0;
	if (found) {
		snprintf(message, SERIES_MESSAGE_BYTES,
			 "%.200s has runs of another %.100s; rename it, or name another output "
			 "folder",
			 folder->path, key);
		return -EEXIST;
	}
	if (asprintf(&text, "%s %s\n", key, definition) < 0)
		return -ENOMEM;
	int err = append_list(folder, text);
	free(text);
	return err;
}

/* Which program (or mode) of a plan is compared. */
struct definition {
	const char *kind;
	const char *name;
	const struct series_program *program; /* one of these two */
	const struct series_mode *mode;
};

static int check_one(const struct series_folder *folder, const char *list,
		     const struct definition *definition, char *message)
{
	char key[SERIES_NAME_BYTES + 16];
	auto_free char *text = NULL;
	size_t n_bytes = 0;
	FILE *to = text_stream_open(&text, &n_bytes);

	if (!to)
		return -ENOMEM;
	if (definition->program)
		put_program(to, definition->program);
	else
		put_mode(to, definition->mode);
	if (text_stream_close(to, &text) < 0)
		return -ENOMEM;
	snprintf(key, sizeof(key), "%s-%s", definition->kind, definition->name);
	return compare(folder, list, key, text + 1, message);
}

int series_folder_check(const struct series_folder *folder, const struct series_plan *plan,
			char *message)
{
	auto_free char *list = NULL;
	int err = read_list(folder, &list);

	message[0] = '\0';
	for (size_t i = 0; i < plan->n_programs && err == 0; i++) {
		const struct series_program *program = &plan->programs[i];

		err = check_one(folder, list,
				&(struct definition){ "program", program->name, program, NULL },
				message);
	}
	for (size_t i = 0; i < plan->series->n_modes && err == 0; i++) {
		const struct series_mode *mode = &plan->series->modes[i];

		err = check_one(folder, list,
				&(struct definition){ "mode", mode->name, NULL, mode }, message);
	}
	if (err < 0 && !message[0])
		snprintf(message, SERIES_MESSAGE_BYTES, "cannot use %.300s/" LIST ": %s",
			 folder->path, strerror(-err));
	return err;
}

/* ---- Runs ---- */

enum series_result series_folder_result(const struct series_folder *folder, const char *name)
{
	char path[2 * PATH_MAX];
	auto_free char *text = NULL;

	snprintf(path, sizeof(path), "%s/%s/" SERIES_RUN_FILE, folder->path, name);
	if (io_read_file(path, MAX_LIST_BYTES, &text, NULL) < 0)
		return SERIES_MISSING;
	const char *found = strstr(text, "\nresult = ");
	for (size_t i = SERIES_OK; found && i <= SERIES_CHECK_FAILED; i++) {
		size_t n = strlen(result_names[i]);

		if (strncmp(found + 10, result_names[i], n) == 0 && found[10 + n] == '\n')
			return (enum series_result)i;
	}
	return SERIES_MISSING;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place)
{
	(void)status;
	(void)kind;
	(void)place;
	return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

static int remove_tree(const char *path)
{
	int r = nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);

	return r < 0 && errno != ENOENT ? -errno : 0;
}

static void partial_path(const struct series_folder *folder, const char *name, char *path)
{
	snprintf(path, PATH_MAX, "%.3700s/.%.300s" PARTIAL, folder->path, name);
}

int series_folder_begin(const struct series_folder *folder, const char *name,
			char ret_path[PATH_MAX])
{
	partial_path(folder, name, ret_path);
	int err = remove_tree(ret_path);
	if (err < 0)
		return err;
	return mkdir(ret_path, 0777) < 0 ? -errno : 0;
}

int series_folder_end(const struct series_folder *folder, const char *name)
{
	char partial[PATH_MAX], path[PATH_MAX];
	int err = 0;

	partial_path(folder, name, partial);
	snprintf(path, sizeof(path), "%.3700s/%.300s", folder->path, name);
	if (access(path, F_OK) == 0)
		err = remove_tree(path);
	if (err < 0)
		return err;
	return rename(partial, path) < 0 ? -errno : 0;
}

int series_folder_remove(const struct series_folder *folder, const char *name)
{
	char path[PATH_MAX];

	partial_path(folder, name, path);
	int err = remove_tree(path);
	if (err < 0)
		return err;
	snprintf(path, sizeof(path), "%.3700s/%.300s", folder->path, name);
	return remove_tree(path);
}
