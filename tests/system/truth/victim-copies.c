/*
 * The kernel copies from and to blocks, each by a system call of its own, by lists on the stack,
 * and by syscall(2). Prints of each block its address, length, whether it is written to, the name
 * of its call, and the CPU time of it in ns.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define N_BYTES	      (1 << 20)
#define MESSAGE_BYTES (1 << 16)
#define CPU_NS	      200000000

static int file, ends[2];

static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static ssize_t do_pread(char *block)
{
	return pread(file, block, N_BYTES, 0);
}

static ssize_t do_pwrite(char *block)
{
	return pwrite(file, block, N_BYTES, 0);
}

static ssize_t do_readv(char *block)
{
	const struct iovec list = { block, N_BYTES };

	lseek(file, 0, SEEK_SET);
	return readv(file, &list, 1);
}

static ssize_t do_sendto(char *block)
{
	return sendto(ends[0], block, MESSAGE_BYTES, 0, NULL, 0);
}

static ssize_t do_recvfrom(char *block)
{
	return recvfrom(ends[1], block, MESSAGE_BYTES, 0, NULL, NULL);
}

static ssize_t do_sendmsg(char *block)
{
	struct iovec list = { block, MESSAGE_BYTES };
	const struct msghdr message = { .msg_iov = &list, .msg_iovlen = 1 };

	return sendmsg(ends[0], &message, 0);
}

static ssize_t do_recvmsg(char *block)
{
	struct iovec list = { block, MESSAGE_BYTES };
	struct msghdr message = { .msg_iov = &list, .msg_iovlen = 1 };

	return recvmsg(ends[1], &message, 0);
}

static ssize_t do_getrandom(char *block)
{
	return getrandom(block, N_BYTES, 0);
}

static ssize_t do_fstat(char *block)
{
	for (int i = 0; i < 1000; i++)
		if (fstat(file, (struct stat *)(void *)block) < 0)
			return -1;
	return sizeof(struct stat);
}

static ssize_t do_syscall(char *block)
{
	return syscall(SYS_pread64, file, block, N_BYTES, 0);
}

/* Those of a pair take turns. */
static struct {
	const char *name;
	ssize_t (*call)(char *block);
	ssize_t n_bytes;
	int is_write;
	int is_paired; /* with the next one */
	char *block;
	int64_t ns;
} calls[] = {
	{ "pread", do_pread, N_BYTES, 1, 0, NULL, 0 },
	{ "pwrite", do_pwrite, N_BYTES, 0, 0, NULL, 0 },
	{ "readv", do_readv, N_BYTES, 1, 0, NULL, 0 },
	{ "sendto", do_sendto, MESSAGE_BYTES, 0, 1, NULL, 0 },
	{ "recvfrom", do_recvfrom, MESSAGE_BYTES, 1, 0, NULL, 0 },
	{ "sendmsg", do_sendmsg, MESSAGE_BYTES, 0, 1, NULL, 0 },
	{ "recvmsg", do_recvmsg, MESSAGE_BYTES, 1, 0, NULL, 0 },
	{ "getrandom", do_getrandom, N_BYTES, 1, 0, NULL, 0 },
	{ "fstat", do_fstat, sizeof(struct stat), 1, 0, NULL, 0 },
	{ "syscall", do_syscall, N_BYTES, 1, 0, NULL, 0 },
};
#define N_CALLS (sizeof(calls) / sizeof(calls[0]))

static void run(size_t i)
{
	int64_t begin_ns = cpu_ns();

	if (calls[i].call(calls[i].block) != calls[i].n_bytes)
		exit(EXIT_FAILURE);
	calls[i].ns += cpu_ns() - begin_ns;
}

int main(void)
{
	file = memfd_create("copies", 0);
	if (file < 0 || ftruncate(file, N_BYTES) < 0 ||
	    socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) < 0)
		return EXIT_FAILURE;
	for (size_t i = 0; i < N_CALLS; i++) {
		calls[i].block = aligned_alloc(64, N_BYTES);
		if (!calls[i].block)
			return EXIT_FAILURE;
		memset(calls[i].block, (int)i, N_BYTES);
	}
	for (size_t i = 0; i < N_CALLS; i += 1 + (size_t)calls[i].is_paired) {
		while (calls[i].ns < CPU_NS)
			for (size_t k = i; k <= i + (size_t)calls[i].is_paired; k++)
				run(k);
	}
	for (size_t i = 0; i < N_CALLS; i++)
		printf("%p %zd %d %s %lld\n", (void *)calls[i].block, calls[i].n_bytes,
		       calls[i].is_write, calls[i].name, (long long)calls[i].ns);
	return EXIT_SUCCESS;
}
