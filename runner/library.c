#include "runner/library.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "schemas/recording.h"

/* From most to least specific; a '/' in front is absolute, else it is relative to the binary. */
static const char *const places[] = {
	RECORDING_LIBRARY,
	"../" MEMSIGHT_LIBDIR_NAME "/" RECORDING_LIBRARY,
	MEMSIGHT_LIBDIR "/" RECORDING_LIBRARY,
};

static int try_path(const char *path, char *ret_path, size_t ret_bytes)
{
	char real[PATH_MAX];

	if (!realpath(path, real))
		return -errno;
	if (access(real, R_OK) < 0)
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

int library_find(const char *given, char *ret_path, size_t ret_bytes)
{
	char folder[PATH_MAX] = "";
	char path[2 * PATH_MAX];
	int err;

	if (given)
		return try_path(given, ret_path, ret_bytes);
	binary_folder(folder, sizeof(folder));
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (places[i][0] == '/')
			snprintf(path, sizeof(path), "%s", places[i]);
		else
			snprintf(path, sizeof(path), "%s/%s", folder, places[i]);
		err = try_path(path, ret_path, ret_bytes);
		if (err == 0)
			return 0;
	}
	return -ENOENT;
}

int library_preload_name(const char *path, const char *folder, char *ret_path, size_t ret_bytes)
{
	int n;

	if (!strpbrk(path, " :\t\n$")) {
		n = snprintf(ret_path, ret_bytes, "%s", path);
		return n < 0 || (size_t)n >= ret_bytes ? -ENAMETOOLONG : 0;
	}
	n = snprintf(ret_path, ret_bytes, "%s/%s", folder, RECORDING_LIBRARY);
	if (n < 0 || (size_t)n >= ret_bytes)
		return -ENAMETOOLONG;
	return symlink(path, ret_path) < 0 ? -errno : 0;
}
