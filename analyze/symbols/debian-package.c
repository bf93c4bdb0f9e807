#include "analyze/symbols/debian-package.h"

#include <errno.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "common/text.h"

#define MAX_LIST_BYTES (64u << 20)

/* Whether one of the list's lines is the path. */
static bool has_line(const char *list, const char *path)
{
	size_t n = strlen(path);

	for (const char *at = strstr(list, path); at; at = strstr(at + 1, path)) {
		bool is_start = at == list || at[-1] == '\n';
		if (is_start && (at[n] == '\n' || at[n] == '\0'))
			return true;
	}
	return false;
}

/*
 * A file in /usr/lib can also be reached by /lib. Packages built before the merge of the two list
 * /lib/..., later ones /usr/lib/...; the loader gives either, as the library was looked for.
 */
static bool list_has(const char *list_path, const char *path)
{
	static const char usr[] = "/usr";
	char other[4096];
	auto_free char *list = NULL;
	bool is_usr = strncmp(path, usr, sizeof(usr) - 1) == 0;

	if (io_read_file(list_path, MAX_LIST_BYTES, &list, NULL) < 0)
		return false;
	snprintf(other, sizeof(other), "%s%s", is_usr ? "" : usr,
		 is_usr ? path + sizeof(usr) - 1 : path);
	return has_line(list, path) || has_line(list, other);
}

/* ".../info/libc6:amd64.list" -> "libc6" */
static void name_of_list(const char *list_path, char *ret_name, size_t n_bytes)
{
	const char *base = text_base_name(list_path);
	size_t n = strcspn(base, ":");

	if (!base[n])
		n = strlen(base) - strlen(".list");
	snprintf(ret_name, n_bytes, "%.*s", (int)n, base);
}

/*
 * Whether packages may install there (Debian policy 9.1; /usr/local is the administrator's): a
 * user's own program is no reason to read a thousand lists.
 */
static bool may_be_packaged(const char *path)
{
	static const char *const folders[] = { "/usr/", "/lib", "/bin/", "/sbin/", "/opt/" };

	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		if (strncmp(path, folders[i], strlen(folders[i])) == 0)
			return strncmp(path, "/usr/local/", strlen("/usr/local/")) != 0;
	}
	return false;
}

int package_of_file(const char *info_folder, const char *path, char *ret_name, size_t n_bytes)
{
	char pattern[4096];
	glob_t lists = { 0 };
	int r = -ENOENT;

	if (!may_be_packaged(path))
		return -ENOENT;
	snprintf(pattern, sizeof(pattern), "%s/*.list", info_folder);
	if (glob(pattern, GLOB_NOSORT, NULL, &lists) != 0)
		return -ENOENT;
	for (size_t i = 0; r == -ENOENT && i < lists.gl_pathc; i++) {
		if (!list_has(lists.gl_pathv[i], path))
			continue;
		name_of_list(lists.gl_pathv[i], ret_name, n_bytes);
		r = 0;
	}
	globfree(&lists);
	return r;
}

void package_debug_name(const char *package, char *ret_name, size_t n_bytes)
{
	bool is_libc = strcmp(package, "libc6") == 0;

	snprintf(ret_name, n_bytes, "%s-%s", package, is_libc ? "dbg" : "dbgsym");
}
