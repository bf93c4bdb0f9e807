#include "runner/launch/memory-limit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"

#define MAX_TEXT_BYTES 65536
#define NO_LIMIT       (UINT64_C(1) << 60) /* version 1 writes a number near LLONG_MAX */

static const struct {
	const char *line; /* of /proc/PID/cgroup, up to the path of the group */
	const char *mount;
	const char *file;
} versions[] = {
	{ "0::", "/sys/fs/cgroup", "memory.max" },
	{ ":memory:", "/sys/fs/cgroup/memory", "memory.limit_in_bytes" },
};

/* 0: none. */
static uint64_t read_limit(const char *mount, const char *group, const char *file)
{
	char path[PATH_MAX];
	auto_free char *text = NULL;
	int n = snprintf(path, sizeof(path), "%s%s/%s", mount, group, file);
	uint64_t limit;

	if (n < 0 || (size_t)n >= sizeof(path) ||
	    io_read_file(path, MAX_TEXT_BYTES, &text, NULL) < 0)
		return 0;
	limit = strtoull(text, NULL, 10); /* "max": 0 */
	return limit < NO_LIMIT ? limit : 0;
}

static void take_smaller(uint64_t *limit, uint64_t other)
{
	if (other && (*limit == 0 || other < *limit))
		*limit = other;
}

/* Of a group, and of those that it lies in; group is cut up on the way. */
static uint64_t limit_of_group(char *group, const char *mount, const char *file)
{
	uint64_t limit = 0;
	char *slash;

	do {
		take_smaller(&limit, read_limit(mount, group, file));
		slash = strrchr(group, '/');
		if (slash)
			*slash = '\0';
	} while (slash);
	return limit;
}

uint64_t run_memory_limit(pid_t pid)
{
	auto_free char *text = NULL;
	uint64_t limit = 0;

	if (io_read_proc(pid ? pid : getpid(), "cgroup", MAX_TEXT_BYTES, &text, NULL) < 0)
		return 0;
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		const char *found = strstr(text, versions[i].line);
		auto_free char *group = NULL;

		if (!found)
			continue;
		found += strlen(versions[i].line);
		group = strndup(found, strcspn(found, "\n"));
		if (group)
			take_smaller(&limit,
				     limit_of_group(group, versions[i].mount, versions[i].file));
	}
	return limit;
}
