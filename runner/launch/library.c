#include "runner/launch/library.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/text.h"
#include "schemas/recording.h"

/* From most to least specific; a '/' in front is absolute, else it is relative to the binary. */
static const char *const places[] = {
	"",
	"../" MEMSIGHT_LIBDIR_NAME "/",
	MEMSIGHT_LIBDIR "/",
};

static int try_path(const char *path, char *ret_path, size_t ret_bytes)
{
	char real[PATH_MAX];

	if (!realpath(path, real) || access(real, R_OK) < 0)
		return -errno;
	if (strlen(real) >= ret_bytes)
		return -ENAMETOOLONG;
	memcpy(ret_path, real, strlen(real) + 1);
	return 0;
}

static int binary_folder(char *ret_folder, size_t ret_bytes)
{
	ssize_t n = readlink("/proc/self/exe", ret_folder, ret_bytes - 1);

	if (n < 0)
		return -errno;
	ret_folder[n] = '\0';
	*(strrchr(ret_folder, '/') ?: ret_folder) = '\0';
	return 0;
}

int library_find_beside(const char *name, char *ret_path, size_t ret_bytes)
{
	char folder[PATH_MAX] = "";
	char path[2 * PATH_MAX];
	int err;

	binary_folder(folder, sizeof(folder));
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (places[i][0] == '/')
			snprintf(path, sizeof(path), "%s%s", places[i], name);
		else
			snprintf(path, sizeof(path), "%s/%s%s", folder, places[i], name);
		err = try_path(path, ret_path, ret_bytes);
		if (err == 0)
			return 0;
	}
	return -ENOENT;
}

int library_find(const char *given, char *ret_path, size_t ret_bytes)
{
	return given ? try_path(given, ret_path, ret_bytes)
		     : library_find_beside(RECORDING_LIBRARY, ret_path, ret_bytes);
}

/* What lies beside it in the folder must be found by its name. */
static const char *link_name(const char *path)
{
	return strcmp(text_base_name(path), RECORDING_HEAP_LIBRARY) == 0 ? RECORDING_HEAP_LIBRARY
									 : RECORDING_LIBRARY;
}

int library_preload_name(const char *path, const char *folder, char *ret_path, size_t ret_bytes)
{
	int n;

	if (!strpbrk(path, " :\t\n$")) {
		n = snprintf(ret_path, ret_bytes, "%s", path);
		return n < 0 || (size_t)n >= ret_bytes ? -ENAMETOOLONG : 0;
	}
	n = snprintf(ret_path, ret_bytes, "%s/%s", folder, link_name(path));
	if (n < 0 || (size_t)n >= ret_bytes)
		return -ENAMETOOLONG;
	return symlink(path, ret_path) < 0 ? -errno : 0;
}
