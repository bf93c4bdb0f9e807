#include "runner/run-command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "common/elf-check.h"

static int check(const char *path)
{
	struct stat status;

	if (stat(path, &status) < 0)
		return -errno;
	return S_ISDIR(status.st_mode) || access(path, X_OK) < 0 ? -EACCES : 0;
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

	if (!*name)
		return -ENOENT;
	if (!strchr(name, '/'))
		return search(name, folders ? folders : "/bin:/usr/bin", ret_path);
	if (strlen(name) >= PATH_MAX)
		return -ENAMETOOLONG;
	int err = check(name);
	if (err == 0)
		memcpy(ret_path, name, strlen(name) + 1);
	return err;
}

/* The file is there, and the kernel has not found what it needs to start it. */
static void explain_incomplete(const char *path, char *ret_why, size_t n_bytes)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char interpreter[PATH_MAX];

	if (fd >= 0 && program_file_interpreter(io_read_at, fd, interpreter, sizeof(interpreter)))
		snprintf(ret_why, n_bytes, "its first line names %.200s, which is not there",
			 interpreter);
	else
		snprintf(ret_why, n_bytes,
			 "it is there, but not the loader (ld.so) that it asks for");
}

void run_command_explain(const char *name, int err, char *ret_why, size_t n_bytes)
{
	bool is_path = strchr(name, '/') != NULL;
	struct stat status;
	bool is_there = is_path && stat(name, &status) == 0;

	if (err == -ENOENT && !is_path)
		snprintf(ret_why, n_bytes, "it is in no folder of PATH%s",
			 access(name, X_OK) == 0 ? ", only here: ./ in front of it names this one"
						 : "");
	else if (err == -ENOENT && is_there)
		explain_incomplete(name, ret_why, n_bytes);
	else if (err == -EACCES && is_there && S_ISDIR(status.st_mode))
		snprintf(ret_why, n_bytes, "it is a folder");
	else if (err == -EACCES && is_there && access(name, X_OK) < 0)
		snprintf(ret_why, n_bytes, "you may not execute it (chmod +x allows it)");
	else
		snprintf(ret_why, n_bytes, "%s", strerror(-err));
}
