#include "analyze/input/run-discovery.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyze/input/heimdallr/folder.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "common/parse.h"
#include "common/text.h"

#define SUFFIX	      ".mst"
#define RUN_FILE      "run.ini"
#define MAX_RUN_BYTES (1u << 20)

/* ---- Names ---- */

static bool ends_in_trace(const char *path)
{
	size_t n = strlen(path);

	return n > strlen(SUFFIX) && strcmp(path + n - strlen(SUFFIX), SUFFIX) == 0;
}

static bool is_mode(const char *text)
{
	if (*text == '\0')
		return false;
	for (; *text; text++) {
		if (!isalnum((unsigned char)*text) && *text != '_')
			return false;
	}
	return true;
}

/* The part behind the last dot, which becomes the end of the text; NULL: there is none. */
static char *cut_last(char *text)
{
	char *dot = strrchr(text, '.');

	if (!dot || dot == text)
		return NULL;
	*dot = '\0';
	return dot + 1;
}

/* `record` calls a trace memsight.PROGRAM.PID.mst, if nobody says otherwise: that names no run. */
static bool is_default_name(const char *name)
{
	return strncmp(name, "memsight.", strlen("memsight.")) == 0;
}

/* The last part of a path, without its suffix; allocated. */
static char *base_of(const char *path)
{
	char *base = strdup(text_base_name(path));

	if (base && ends_in_trace(base))
		base[strlen(base) - strlen(SUFFIX)] = '\0';
	return base;
}

int results_name(const char *path, struct result *result)
{
	auto_free char *text = base_of(path);
	uint64_t repetition;

	if (!text)
		return -ENOMEM;
	if (is_default_name(text))
		return 0;
	char *number = cut_last(text);
	char *mode = number ? cut_last(text) : NULL;
	if (!mode || !is_mode(mode) || parse_number(number, &repetition) < 0 || repetition == 0 ||
	    repetition > UINT32_MAX)
		return 0;
	result->run = (struct import_name){ text, mode, (uint32_t)repetition };
	result->name = steal_ptr(&text);
	return 0;
}

char *results_label(const char *path)
{
	auto_free char *text = base_of(path);
	size_t n = text && !is_default_name(text) ? strlen(text) : 0;

	while (n > 0 && !isalpha((unsigned char)text[n - 1]))
		n--;
	for (size_t i = 0; i < n; i++)
		text[i] = (char)(isalnum((unsigned char)text[i]) ? text[i] : '_');
	return n > 0 ? strndup(text, n) : NULL;
}

/* ---- What is there ---- */

/* named: the path that the run is called by, that of the trace or of the folder around it. */
static int add(struct results *results, const char *path, const char *named, struct result *result)
{
	int r = grow_one(&results->items, results->n, &results->n_allocated);

	r = r ?: results_name(named, result);
	if (r < 0)
		return r;
	result->path = strdup(path);
	if (!result->path)
		return free(result->name), -ENOMEM;
	result->is_one_of_many = result->is_one_of_many && result->name;
	result->order = results->n;
	results->items[results->n++] = *result;
	return 0;
}

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int is_shown(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* The paths of what a folder holds, in order, for a visitor. The first that fails ends it. */
typedef int (*visit_entry)(struct results *results, const char *path, const char *folder);

static int visit_folder(struct results *results, const char *folder, visit_entry visit)
{
	struct dirent **entries;
	int n = scandir(folder, &entries, is_shown, alphasort);
	int r = n < 0 ? -errno : 0;

	for (int i = 0; i < n; i++) {
		auto_free char *path = NULL;
		if (r == 0 && asprintf(&path, "%s/%s", folder, entries[i]->d_name) < 0)
			r = -ENOMEM;
		r = r ?: visit(results, path, folder);
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	return r;
}

/* What `memsight run` says became of a run; NULL: it did not make it. */
static char *read_verdict(const char *folder)
{
	auto_free char *path = NULL;
	auto_free char *text = NULL;

	if (asprintf(&path, "%s/" RUN_FILE, folder) < 0 ||
	    io_read_file(path, MAX_RUN_BYTES, &text, NULL) < 0)
		return NULL;
	const char *found = strstr(text, "\nresult = ");
	return found ? strndup(found + 10, strcspn(found + 10, "\n")) : NULL;
}

static int visit_trace(struct results *results, const char *path, const char *folder)
{
	struct result result = { .is_one_of_many = true };

	if (!ends_in_trace(path) || is_folder(path))
		return 0;
	result.verdict = read_verdict(folder);
	return add(results, path, folder, &result);
}

/* The folder of one run. */
static int add_run_folder(struct results *results, const char *folder, bool is_one_of_many)
{
	struct result result = { .is_one_of_many = is_one_of_many, .is_heimdallr = true };
	size_t n = results->n;
	int r = visit_folder(results, folder, visit_trace);

	for (size_t i = n; i < results->n; i++)
		results->items[i].is_one_of_many &= is_one_of_many;
	if (r < 0 || results->n > n)
		return r;
	if (heimdallr_is_folder(folder))
		return add(results, folder, folder, &result);
	results->n_without++;
	return 0;
}

/* Whether a folder is called as a run is. */
static bool is_run_name(const char *folder)
{
	struct result result = { 0 };
	bool is_one = results_name(folder, &result) == 0 && result.name;

	free(result.name);
	return is_one;
}

static int visit_result(struct results *results, const char *path, const char *folder)
{
	struct result result = { .is_one_of_many = true };

	(void)folder;
	if (is_folder(path))
		return is_run_name(path) ? add_run_folder(results, path, true) : 0;
	return ends_in_trace(path) ? add(results, path, path, &result) : 0;
}

static int add_folder(struct results *results, const char *folder)
{
	size_t n = results->n;
	int r;

	if (heimdallr_is_folder(folder) || is_run_name(folder))
		r = add_run_folder(results, folder, false);
	else
		r = visit_folder(results, folder, visit_result);
	return r < 0 ? r : results->n > n ? 0 : -ENODATA;
}

/* What a pattern matches is as what a folder holds. */
static int add_pattern(struct results *results, const char *pattern)
{
	size_t n = results->n;
	glob_t found = { 0 };
	int code = glob(pattern, 0, NULL, &found);
	int r = code == GLOB_NOSPACE ? -ENOMEM : 0;

	for (size_t i = 0; code == 0 && i < found.gl_pathc && r == 0; i++) {
		struct result result = { .is_one_of_many = true };
		if (is_folder(found.gl_pathv[i]))
			r = visit_result(results, found.gl_pathv[i], NULL);
		else
			r = add(results, found.gl_pathv[i], found.gl_pathv[i], &result);
	}
	globfree(&found);
	return r < 0 ? r : results->n > n ? 0 : -ENODATA;
}

int results_add_file(struct results *results, const char *path)
{
	struct result result = { 0 };
	auto_free char *folder = strdup(path);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	int r = folder ? results_name(path, &result) : -ENOMEM;
	bool is_named = result.name;

	free(result.name);
	if (r < 0)
		return r;
	if (slash)
		*slash = '\0';
	result = (struct result){ 0 };
	return add(results, path, slash && !is_named ? folder : path, &result);
}

int results_add(struct results *results, const char *operand)
{
	auto_free char *path = strdup(operand);
	struct stat st;

	if (!path)
		return -ENOMEM;
	for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = '\0';
	if (stat(path, &st) < 0)
		return errno == ENOENT && strpbrk(path, "*?[") ? add_pattern(results, path)
							       : -errno;
	return S_ISDIR(st.st_mode) ? add_folder(results, path) : results_add_file(results, path);
}

/* ---- Order ---- */

bool results_are_repetitions(const struct result *left, const struct result *right)
{
	return left->is_one_of_many && right->is_one_of_many &&
	       strcmp(left->run.program, right->run.program) == 0 &&
	       strcmp(left->run.mode, right->run.mode) == 0;
}

static int compare(const void *a, const void *b)
{
	const struct result *left = a, *right = b;
	int order = 0;

	if (left->is_one_of_many != right->is_one_of_many)
		return left->is_one_of_many ? 1 : -1;
	if (left->is_one_of_many) {
		order = strcmp(left->run.program, right->run.program);
		order = order ?: strcmp(left->run.mode, right->run.mode);
		if (order == 0 && left->run.repetition != right->run.repetition)
			order = left->run.repetition < right->run.repetition ? -1 : 1;
	}
	return order ? order : left->order < right->order ? -1 : 1;
}

void results_sort(struct results *results)
{
	if (results->n > 1)
		qsort(results->items, results->n, sizeof(*results->items), compare);
}

/* ---- Where to ---- */

/* The folder of results that a run lies in: of a folder of one run the one around it. Allocated. */
static char *folder_of(const struct result *result)
{
	auto_free char *path = strdup(result->path);
	char *slash;

	if (!path)
		return NULL;
	for (unsigned level = 0; level < 2; level++) {
		slash = strrchr(path, '/');
		if (!slash)
			return strdup(".");
		*slash = '\0';
		if (!is_run_name(path) || result->is_heimdallr)
			break;
	}
	return strdup(*path ? path : "/");
}

char *results_database(const struct results *results)
{
	auto_free char *folder = results->n ? folder_of(&results->items[0]) : NULL;
	char *path = NULL;

	for (size_t i = 1; folder && i < results->n; i++) {
		auto_free char *other = folder_of(&results->items[i]);
		if (!other || strcmp(other, folder) != 0)
			return NULL;
	}
	return folder && asprintf(&path, "%s/memsight.db", folder) >= 0 ? path : NULL;
}

void results_finish(struct results *results)
{
	array_free(results->items, results->n, it, free(it->path), free(it->name),
		   free(it->verdict));
	*results = (struct results){ 0 };
}
