#include "runner/attach/family.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/io.h"
#include "runner/attach/attach.h"
#include "runner/attach/remote.h"
#include "runner/processes/image-proc.h"

#define POOL_NAME "memfd:memsight-pool"

static void note_pool(void *user, const struct image_map *map)
{
	uint64_t *inode = user;

	if (strstr(map->path, POOL_NAME))
		*inode = map->inode;
}

/* 0: none. */
static uint64_t pool_of(pid_t pid)
{
	uint64_t inode = 0;

	return image_each_map(pid, note_pool, &inode) == 0 ? inode : 0;
}

int family_read(pid_t pid, uintptr_t root_at, struct family *ret_family)
{
	struct family family = { .pool = pool_of(pid), .root_at = root_at };
	uint32_t root = 0;
	int r = remote_read(pid, root_at, &root, sizeof(root));

	if (r < 0 || !family.pool || !root)
		return r < 0 ? r : -ENOENT;
	family.root = (pid_t)root;
	family.started = attach_started(pid);
	*ret_family = family;
	return 0;
}

static bool is_member(const struct family *family, pid_t pid)
{
	uint32_t root = 0;

	return pid != family->root && attach_started(pid) >= family->started &&
	       pool_of(pid) == family->pool &&
	       remote_read(pid, family->root_at, &root, sizeof(root)) == 0 &&
	       root == (uint32_t)family->root;
}

size_t family_list(const struct family *family, pid_t *ret_pids, size_t n)
{
	auto_folder DIR *folder = family->root ? opendir("/proc") : NULL;
	size_t n_found = 0;

	for (pid_t pid; n_found < n && (pid = io_next_number(folder));)
		if (pid != getpid() && is_member(family, pid))
			ret_pids[n_found++] = pid;
	return n_found;
}
