/*
 * Attaches to its recording and then writes random bytes all over the shared memory: chunks, their
 * states, slots, control. Before, with an odd seed, it claims slots of others. argv: SEED
 * MILLISECONDS.
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "schemas/recording.h"
#include "schemas/ring.h"

static int connect_to_recording(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	const char *path = getenv(RECORDING_ENV_SOCKET);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	if (!path || strlen(path) >= sizeof(name.sun_path))
		exit(90);
	strcpy(name.sun_path, path);
	if (connect(fd, (struct sockaddr *)&name, sizeof(name)) < 0)
		exit(91);
	return fd;
}

static int attach(struct recording_welcome *welcome)
{
	struct recording_hello hello = { RECORDING_MAGIC, RING_VERSION, (uint32_t)getpid(),
					 (uint32_t)getpid() };
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { welcome, sizeof(*welcome) };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	int fd = connect_to_recording(), pool_fd;

	/* Before the true one: a message of the wrong length, from another connection. */
	if (send(connect_to_recording(), &hello, 5, 0) != 5)
		exit(92);
	if (send(fd, &hello, sizeof(hello), 0) != (ssize_t)sizeof(hello))
		exit(92);
	if (recvmsg(fd, &message, 0) != (ssize_t)sizeof(*welcome) || !CMSG_FIRSTHDR(&message))
		exit(93);
	memcpy(&pool_fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(pool_fd));
	return pool_fd;
}

static long elapsed_ms(const struct timespec *since)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - since->tv_sec) * 1000 + (now.tv_nsec - since->tv_nsec) / 1000000;
}

/* All of them are this process, each the child of the one before. */
static void claim_slots(struct ring_control *control)
{
	struct ring_process *slots = ring_processes(control);

	for (uint32_t i = 1; i < 8; i++) {
		slots[i].pid = (uint32_t)getpid();
		slots[i].parent_slot = i - 1;
		slots[i].birth = RING_BIRTH_FORK;
		slots[i].start_ticks = UINT64_MAX / 2;
		atomic_store(&slots[i].state, RING_PROCESS_READY);
		atomic_store(&control->processes_used, i + 1);
		poll(NULL, 0, 20);
	}
}

int main(int argc, char **argv)
{
	struct recording_welcome welcome = { 0 };
	unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	long ms = argc > 2 ? atol(argv[2]) : 300;
	int fd = attach(&welcome);
	uint32_t *words = mmap(NULL, welcome.pool_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	size_t n_words = welcome.pool_bytes / sizeof(*words);
	struct timespec start;

	if (words == MAP_FAILED)
		return 94;
	if (ftruncate(fd, 0) == 0)
		return 95; /* this would kill the collector */
	if (seed % 2)
		claim_slots((struct ring_control *)words);
	clock_gettime(CLOCK_MONOTONIC, &start);
	while (elapsed_ms(&start) < ms) {
		for (int i = 0; i < 1000; i++) {
			/* Half of it into the control area, slots and first chunks. */
			size_t at = (size_t)rand_r(&seed) % (i % 2 ? n_words : n_words / 64);

			words[at] = (uint32_t)rand_r(&seed) >> (rand_r(&seed) % 32);
		}
	}
	_exit(7); /* our own memory may be as wild as the pool */
}
