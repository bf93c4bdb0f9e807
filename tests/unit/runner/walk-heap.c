/*
 * Walks over the heap of a process that stands: walk-heap PID FILE. FILE gets a line for each
 * block: address, usable bytes, both hexadecimal; what was counted is printed. Exits with 77 where
 * the process may not be traced.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "runner/attach/heap-walk.h"

#define MAX_THREADS 8192

static pid_t tids[MAX_THREADS];
static uint64_t pointers[MAX_THREADS];

static int stop(pid_t tid, uint64_t *ret_pointer)
{
	int status;

	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
		return -errno;
	ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
	if (waitpid(tid, &status, __WALL) < 0)
		return -errno;
#if defined(__x86_64__)
	struct user_regs_struct registers;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &registers) < 0)
		return -errno;
	*ret_pointer = registers.fs_base;
	return 0;
#else
	return -ENOTSUP;
#endif
}

static int stop_all(pid_t pid, size_t *ret_n)
{
	char path[64];
	size_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	DIR *folder = opendir(path);
	if (!folder)
		return -errno;
	for (struct dirent *entry; (entry = readdir(folder)) && n < MAX_THREADS;) {
		if (entry->d_name[0] == '.')
			continue;
		tids[n] = atoi(entry->d_name);
		int r = stop(tids[n], &pointers[n]);
		if (r < 0) {
			closedir(folder);
			return r;
		}
		n++;
	}
	closedir(folder);
	*ret_n = n;
	return 0;
}

int main(int argc, char **argv)
{
	struct heap_target target = { .thread_pointers = pointers };
	struct heap_walk walk;

	if (argc != 3)
		return 2;
	target.pid = atoi(argv[1]);

	int r = stop_all(target.pid, &target.n_threads);
	if (r == -EPERM || r == -ENOTSUP) {
		printf("cannot trace it: %s\n", strerror(-r));
		return 77;
	}
	if (r == 0)
		r = heap_walk_read(&target, &walk);
	for (size_t i = 0; i < target.n_threads; i++)
		ptrace(PTRACE_DETACH, tids[i], NULL, NULL);
	if (r < 0) {
		printf("cannot walk: %s\n", strerror(-r));
		return 1;
	}
	printf("blocks %zu\nchunks %" PRIu64 "\ncached %" PRIu64 "\nfast %" PRIu64
	       "\nmapped %" PRIu64 "\nmissing %" PRIu64 "\narenas %u\nrefused %u\ncaches %u\n"
	       "ns %" PRIu64 "\nwhy %s\n",
	       walk.n_blocks, walk.n_chunks, walk.n_cached, walk.n_fast, walk.n_mapped,
	       walk.n_mapped_missing, walk.n_arenas, walk.n_arenas_refused, walk.n_caches, walk.ns,
	       walk.why);
	FILE *file = fopen(argv[2], "w");
	if (!file)
		return 1;
	for (size_t i = 0; i < walk.n_blocks; i++)
		fprintf(file, "%" PRIx64 " %" PRIx64 "\n", walk.blocks[i].address,
			walk.blocks[i].size);
	fclose(file);
	heap_walk_finish(&walk);
	return 0;
}
