/*
 * The kernel copies: pread into one block, pwrite from another, and readv into a third by a list on the stack, of 1 MiB each and for
 * the same CPU time. Prints the address of each block.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define N_BYTES (1 << 20)
#define CPU_NS	400000000

static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static ssize_t copy(int kind, int fd, char *block)
{
	const struct iovec list = { block, N_BYTES };

	if (kind == 0)
		return pread(fd, block, N_BYTES, 0);
	if (kind == 1)
		return pwrite(fd, block, N_BYTES, 0);
	lseek(fd, 0, SEEK_SET);
	return readv(fd, &list, 1);
}

int main(void)
{
	int fd = memfd_create("copies", 0);
	char *blocks[3];

	if (fd < 0 || ftruncate(fd, N_BYTES) < 0)
		return EXIT_FAILURE;
	for (int i = 0; i < 3; i++) {
		blocks[i] = aligned_alloc(64, N_BYTES);
		if (!blocks[i])
			return EXIT_FAILURE;
		memset(blocks[i], i, N_BYTES);
	}
	for (int i = 0; i < 3; i++) {
		int64_t end_ns = cpu_ns() + CPU_NS;
		while (cpu_ns() < end_ns)
			if (copy(i, fd, blocks[i]) != N_BYTES)
				return EXIT_FAILURE;
	}
	printf("%p %p %p\n", (void *)blocks[0], (void *)blocks[1], (void *)blocks[2]);
	close(fd);
	return EXIT_SUCCESS;
}
