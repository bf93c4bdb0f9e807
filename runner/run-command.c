#include "runner/run-command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int check(const char *path)
{
	struct stat status;

	if (stat(path, &status) < 0)
		return -errno;
	if (S_ISDIR(status.st_mode) || access(path, X_OK) < 0)
		return -EACCES;
	return 0;
}

static int search(const char *name, const char *folders, char ret_path[static PATH_MAX])
{
	int worst = -ENOENT;

	for (const char *folder = folders;; folder++) {
		size_t n_bytes = strcspn(folder, ":");
		char path[PATH_MAX];
		int n = snprintf(path, sizeof(path), "%.*s%s%s", (int)n_bytes, folder,
				 n_bytes ? "/" : "", name);

		if (n > 0 && n < PATH_MAX) {
			int err = check(path);

			if (err == 0) {
				memcpy(ret_path, path, (size_t)n + 1);
				return 0;
			}
			if (err == -EACCES && access(path, F_OK) == 0)
				worst = err; /* execvp goes on, and reports it at the end */
		}
		folder += n_bytes;
		if (!*folder)
			return worst;
	}
}

int run_command_find(const char *name, char ret_path[static PATH_MAX])
{
	const char *folders = getenv("PATH");
	int err;

	if (!*name)
		return -ENOENT;
	if (!strchr(name, '/'))
		return search(name, folders ? folders : "/bin:/usr/bin", ret_path);
	if (strlen(name) >= PATH_MAX)
		return -ENAMETOOLONG;
	err = check(name);
	if (err == 0)
		memcpy(ret_path, name, strlen(name) + 1);
	return err;
}
