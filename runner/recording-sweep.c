#include "runner/recording.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"

#define PREFIX "memsight-"
/* A folder without a lock file is either being made right now, or was left half made. */
#define HALF_MADE_SECONDS 60

static void close_folder(DIR **folder)
{
	if (*folder)
		closedir(*folder);
}

/* Gone: its lock can be taken. In a folder in use it has been locked since it had this name. */
static bool collector_is_gone(int dir_fd)
{
	struct stat status;
	auto_close int lock_fd = openat(dir_fd, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);

	if (lock_fd >= 0)
		return flock(lock_fd, LOCK_EX | LOCK_NB) == 0;
	return errno == ENOENT && fstat(dir_fd, &status) == 0 &&
	       time(NULL) - status.st_mtime > HALF_MADE_SECONDS;
}

void recording_empty(int dir_fd)
{
	static const char *const names[] = {
		"socket",	    RECORDING_STATIC_NAME, "lock",
		RECORDING_NEW_LOCK, RECORDING_LIBRARY,	   RECORDING_HEAP_LIBRARY
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlinkat(dir_fd, names[i], 0);
}

static bool sweep_one(int base_fd, const char *name)
{
	struct stat status;
	auto_close int dir_fd =
		openat(base_fd, name, O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (dir_fd < 0 || fstat(dir_fd, &status) < 0 || status.st_uid != geteuid())
		return false;
	if (!collector_is_gone(dir_fd))
		return false;
	recording_empty(dir_fd);
	return unlinkat(base_fd, name, AT_REMOVEDIR) == 0;
}

int recording_sweep(const char *base)
{
	__attribute__((cleanup(close_folder))) DIR *folder = opendir(base);
	struct dirent *entry;
	int n_removed = 0;

	if (!folder)
		return -errno;
	while ((entry = readdir(folder)) != NULL) {
		if (strlen(entry->d_name) == sizeof(PREFIX) - 1 + 6 &&
		    strncmp(entry->d_name, PREFIX, sizeof(PREFIX) - 1) == 0)
			n_removed += sweep_one(dirfd(folder), entry->d_name);
	}
	return n_removed;
}
