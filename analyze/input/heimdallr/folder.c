#include "analyze/input/heimdallr/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "common/parse.h"

#define MAX_SIDE_BYTES (16u << 20) /* of maps.log and its like: more is something else */
#define MAX_LIBRARIES  (1u << 20)

/* alloc_ID_TID.log */
static bool read_log_name(const char *name, uint32_t *ret_id, uint32_t *ret_tid)
{
	char id[11], tid[11];
	uint64_t id_number, tid_number;
	int n = 0;

	if (sscanf(name, "alloc_%10[0-9]_%10[0-9].log%n", id, tid, &n) != 2 || n == 0 || name[n] ||
	    parse_number(id, &id_number) < 0 || parse_number(tid, &tid_number) < 0 ||
	    id_number > UINT32_MAX || tid_number > INT32_MAX)
		return false;
	*ret_id = (uint32_t)id_number;
	*ret_tid = (uint32_t)tid_number;
	return true;
}

static int is_log(const struct dirent *entry)
{
	uint32_t id, tid;

	return read_log_name(entry->d_name, &id, &tid);
}

static bool has_file(const char *folder, const char *name)
{
	auto_free char *path = NULL;
	struct stat st;

	return asprintf(&path, "%s/%s", folder, name) >= 0 && stat(path, &st) == 0 &&
	       S_ISREG(st.st_mode);
}

bool heimdallr_is_folder(const char *path)
{
	struct dirent **entries = NULL;
	struct stat st;

	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return false;
	if (has_file(path, "time.log") || has_file(path, "access.dat"))
		return true;
	int n = scandir(path, &entries, is_log, NULL);
	array_free(entries, n, it, free(*it));
	return n > 0;
}

/* ---- What runs are told apart by: FNV-1a (draft-eastlake-fnv) with two bases ---- */

static void mix(struct heimdallr_folder *folder, const void *bytes, size_t n_bytes)
{
	uint64_t sums[2];

	memcpy(sums, folder->identity, sizeof(sums));
	for (size_t i = 0; i < n_bytes; i++) {
		uint8_t byte = ((const uint8_t *)bytes)[i];
		sums[0] = (sums[0] ^ byte) * UINT64_C(0x100000001b3);
		sums[1] = (sums[1] ^ (uint8_t)~byte) * UINT64_C(0x100000001b3);
	}
	memcpy(folder->identity, sums, sizeof(sums));
}

static void mix_begin(struct heimdallr_folder *folder)
{
	static const uint64_t bases[2] = { UINT64_C(0xcbf29ce484222325),
					   UINT64_C(0x84222325cbf29ce4) };
	const char *name = strrchr(folder->path, '/');

	memcpy(folder->identity, bases, sizeof(bases));
	name = name ? name + 1 : folder->path;
	mix(folder, name, strlen(name));
}

/* ---- Logs ---- */

/* Its name, size and first lines. */
static int mix_log(struct heimdallr_folder *folder, const struct heimdallr_log *log)
{
	char text[4096];
	auto_fclose FILE *file = fopen(log->path, "re");

	if (!file)
		return -errno;
	size_t n = fread(text, 1, sizeof(text), file);
	mix(folder, &log->id, sizeof(log->id));
	mix(folder, &log->tid, sizeof(log->tid));
	mix(folder, &log->n_file_bytes, sizeof(log->n_file_bytes));
	mix(folder, text, n);
	return ferror(file) ? -EIO : 0;
}

static int add_log(struct heimdallr_folder *folder, const char *name)
{
	struct heimdallr_log log = { 0 };
	struct stat st;

	int r = grow_one(&folder->logs, folder->n_logs, &folder->n_logs_allocated);
	if (r < 0)
		return r;
	read_log_name(name, &log.id, &log.tid);
	if (asprintf(&log.path, "%s/%s", folder->path, name) < 0)
		return -ENOMEM;
	folder->logs[folder->n_logs++] = log;
	if (stat(log.path, &st) < 0)
		return -errno;
	struct heimdallr_log *kept = &folder->logs[folder->n_logs - 1];
	kept->n_file_bytes = kept->end = (uint64_t)st.st_size;
	folder->n_bytes += kept->n_file_bytes;
	return 0;
}

DEFINE_ORDER(compare_ids, struct heimdallr_log, BY(id) ?: BY(tid));

/* A log and the process that it is of. */
struct owned_log {
	struct heimdallr_log log;
	uint32_t process;
};

DEFINE_ORDER(compare_processes, struct owned_log, BY(process) ?: compare_ids(&a->log, &b->log));

/*
 * Each process has one log of id 0, and its tid is the lowest. With one process that is all; with
 * several a log goes to the process whose first tid is the nearest below its own.
 */
static uint32_t process_of(const struct heimdallr_folder *folder, const struct heimdallr_log *log)
{
	uint32_t process = 1;

	for (uint32_t i = 0; i < folder->n_processes; i++) {
		if (folder->logs[i].tid <= log->tid)
			process = i + 1;
	}
	return process;
}

static int find_processes(struct heimdallr_folder *folder)
{
	auto_free struct owned_log *owned = calloc(folder->n_logs + 1, sizeof(*owned));

	folder->processes = calloc(folder->n_logs + 1, sizeof(*folder->processes));
	if (!owned || !folder->processes)
		return -ENOMEM;
	if (folder->n_logs > 1)
		qsort(folder->logs, folder->n_logs, sizeof(*folder->logs), compare_ids);
	while (folder->n_processes < folder->n_logs && folder->logs[folder->n_processes].id == 0)
		folder->n_processes++;
	for (size_t i = 0; i < folder->n_logs; i++)
		owned[i] =
			(struct owned_log){ folder->logs[i], process_of(folder, &folder->logs[i]) };
	if (folder->n_logs > 1)
		qsort(owned, folder->n_logs, sizeof(*owned), compare_processes);
	for (size_t i = 0; i < folder->n_logs; i++) {
		folder->logs[i] = owned[i].log;
		folder->processes[i] = owned[i].process;
	}
	if (folder->n_processes == 0)
		folder->n_processes = 1;
	return 0;
}

static int read_logs(struct heimdallr_folder *folder)
{
	struct dirent **entries = NULL;
	int n = scandir(folder->path, &entries, is_log, NULL);
	int r = n < 0 ? -errno : 0;

	for (int i = 0; i < n; i++) {
		r = r ?: add_log(folder, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	r = r ?: find_processes(folder);
	for (size_t i = 0; i < folder->n_logs && r == 0; i++)
		r = mix_log(folder, &folder->logs[i]);
	return r;
}

/* ---- The other files ---- */

/* The text of a file; "" when there is none. Allocated. */
static int read_side(const struct heimdallr_folder *folder, const char *name, char **ret_text)
{
	auto_free char *path = NULL;

	if (asprintf(&path, "%s/%s", folder->path, name) < 0)
		return -ENOMEM;
	int r = io_read_file(path, MAX_SIDE_BYTES, ret_text, NULL);
	if (r == -ENOENT) {
		*ret_text = strdup("");
		r = *ret_text ? 0 : -ENOMEM;
	}
	return r;
}

/* "NUMBER: PATH", the path may be empty. */
static int add_library(struct heimdallr_folder *folder, const char *line)
{
	struct heimdallr_library library;
	const char *colon = strstr(line, ": ");
	char number[11] = "";
	uint64_t value;

	if (colon && colon - line < (ptrdiff_t)sizeof(number))
		memcpy(number, line, (size_t)(colon - line));
	if (parse_number(number, &value) < 0 || value == 0 || value > MAX_LIBRARIES) {
		folder->n_bad_libraries++;
		return 0;
	}
	int r = grow_one(&folder->libraries, folder->n_libraries, &folder->n_libraries_allocated);
	if (r < 0)
		return r;
	library = (struct heimdallr_library){ (uint32_t)value, strdup(colon + 2) };
	folder->libraries[folder->n_libraries++] = library;
	return library.path ? 0 : -ENOMEM;
}

static int read_libraries(struct heimdallr_folder *folder)
{
	auto_free char *text = NULL;
	int r = read_side(folder, "maps.log", &text);
	char *rest = text, *line;

	while (r == 0 && (line = strsep(&rest, "\n"))) {
		if (*line)
			r = add_library(folder, line);
	}
	return r;
}

static int read_usage(struct heimdallr_folder *folder)
{
	auto_free char *text = NULL;
	int r = read_side(folder, "time.log", &text);

	if (r < 0)
		return r;
	mix(folder, text, strlen(text));
	folder->is_bad_usage = *text && heimdallr_usage_parse(text, &folder->usage) < 0;
	return 0;
}

/* Between its words stands one space: a variable of runs.sh that is empty leaves two. */
static void join_words(char *text)
{
	char *to = text;

	text[strcspn(text, "\n")] = '\0';
	for (const char *from = text; *from; from++) {
		if (*from != ' ' || (to > text && to[-1] != ' '))
			*to++ = *from;
	}
	if (to > text && to[-1] == ' ')
		to--;
	*to = '\0';
}

/* The command, and what its variables say. */
static int read_command(struct heimdallr_folder *folder)
{
	static const char threshold[] = "TRAC_THRESHOLD=";
	auto_free char *path = NULL;
	struct stat st;
	int r = read_side(folder, "cmd.log", &folder->command);

	if (r < 0)
		return r;
	join_words(folder->command);
	const char *found = strstr(folder->command, threshold);
	if (found)
		folder->min_bytes = strtoull(found + strlen(threshold), NULL, 0);
	if (asprintf(&path, "%s/cmd.log", folder->path) < 0)
		return -ENOMEM;
	if (stat(path, &st) == 0)
		folder->command_unix_ns =
			(int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	return 0;
}

void heimdallr_folder_finish(struct heimdallr_folder *folder)
{
	for (size_t i = 0; i < folder->n_logs; i++)
		heimdallr_log_finish(&folder->logs[i]);
	for (size_t i = 0; i < folder->n_libraries; i++)
		free(folder->libraries[i].path);
	free_all(folder->logs, folder->processes, folder->libraries, folder->command, folder->path);
	*folder = (struct heimdallr_folder){ 0 };
}

int heimdallr_folder_open(const char *path, struct heimdallr_folder *ret_folder)
{
	struct heimdallr_folder folder = { .path = strdup(path) };
	int r = folder.path ? 0 : -ENOMEM;

	if (r == 0 && !heimdallr_is_folder(path))
		r = -ENOENT;
	if (r == 0) {
		mix_begin(&folder);
		r = read_logs(&folder);
	}
	r = r ?: read_libraries(&folder) ?: read_usage(&folder) ?: read_command(&folder);
	if (r < 0)
		return heimdallr_folder_finish(&folder), r;
	folder.has_accesses = has_file(path, "access.dat");
	*ret_folder = folder;
	return 0;
}

/* ---- time.log: GNU time's default format ---- */

/* The start of the number that stands right before a word; NULL: there is none. */
static const char *number_before(const char *text, const char *word)
{
	const char *at = strstr(text, word);
	const char *start = at;

	while (start && start > text && strchr("0123456789.:", start[-1]))
		start--;
	return start == at ? NULL : start;
}

/* SECONDS[.FRACTION] in ns, to its last digit; the end of it in *ret_end. -EINVAL */
static int read_seconds(const char *text, char **ret_end, uint64_t *ret_ns)
{
	uint64_t ns, unit = 100000000;

	errno = 0;
	uint64_t seconds = strtoull(text, ret_end, 10);
	if (*ret_end == text || errno || seconds > INT64_MAX / 1000000000 - 1)
		return -EINVAL;
	ns = seconds * 1000000000;
	if (**ret_end == '.') {
		for ((*ret_end)++; **ret_end >= '0' && **ret_end <= '9'; (*ret_end)++) {
			ns += unit * (uint64_t)(**ret_end - '0');
			unit /= 10;
		}
	}
	*ret_ns = ns;
	return 0;
}

static int read_time(const char *text, const char *word, uint64_t *ret_ns)
{
	const char *start = number_before(text, word);
	char *end;

	if (!start || read_seconds(start, &end, ret_ns) < 0)
		return -EINVAL;
	return strncmp(end, word, strlen(word)) == 0 ? 0 : -EINVAL;
}

/* [HOURS:]MINUTES:SECONDS[.FRACTION]elapsed */
static int read_elapsed(const char *text, uint64_t *ret_ns)
{
	const char *at = number_before(text, "elapsed");
	uint64_t sixty = 0, part = 0;
	char *end = (char *)at;

	for (unsigned i = 0; at && i < 3; i++) {
		if (read_seconds(at, &end, &part) < 0 || sixty > INT64_MAX / 120)
			return -EINVAL;
		sixty = sixty * 60 + part;
		if (*end != ':')
			break;
		at = end + 1;
	}
	if (!at || strncmp(end, "elapsed", strlen("elapsed")) != 0 || sixty > INT64_MAX)
		return -EINVAL;
	*ret_ns = sixty;
	return 0;
}

static int read_count(const char *text, const char *word, uint64_t *ret_count)
{
	const char *start = number_before(text, word);
	char *end;

	errno = 0;
	*ret_count = start ? strtoull(start, &end, 10) : 0;
	return start && !errno && strncmp(end, word, strlen(word)) == 0 ? 0 : -EINVAL;
}

/* The line before, where the command did not end with 0. */
static int read_status(const char *text)
{
	const char *exited = strstr(text, "Command exited with non-zero status ");
	const char *killed = strstr(text, "Command terminated by signal ");
	int number;

	if (exited && sscanf(exited, "Command exited with non-zero status %3d", &number) == 1)
		return (number & 0xff) << 8;
	if (killed && sscanf(killed, "Command terminated by signal %3d", &number) == 1)
		return number & 0x7f;
	return 0;
}

int heimdallr_usage_parse(const char *text, struct heimdallr_usage *ret_usage)
{
	struct heimdallr_usage usage = { .is_known = true, .status = read_status(text) };
	uint64_t kib;

	if (read_time(text, "user", &usage.user_ns) < 0 ||
	    read_time(text, "system", &usage.system_ns) < 0 ||
	    read_elapsed(text, &usage.wall_ns) < 0 || read_count(text, "maxresident", &kib) < 0 ||
	    kib > INT64_MAX / 1024)
		return -EINVAL;
	usage.max_rss_bytes = kib * 1024;
	read_count(text, "major", &usage.major_faults);
	read_count(text, "minor", &usage.minor_faults);
	*ret_usage = usage;
	return 0;
}
