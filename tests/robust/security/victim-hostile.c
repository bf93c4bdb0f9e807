/*
 * A traced program that turns against its recorder: it writes random bytes, and records that are
 * nearly right, all over the shared pool for some seconds, and floods its socket with connections
 * and hellos that are none. usage: victim-hostile SEED SECONDS
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static uint64_t state;

static uint64_t random_word(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint64_t *find_pool(size_t *ret_n_words)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	uint64_t *pool = NULL;
	char line[1024];

	while (maps && !pool && fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "memfd:memsight-pool") ||
		    sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		pool = (uint64_t *)start;
		*ret_n_words = (end - start) / sizeof(*pool);
	}
	if (maps)
		fclose(maps);
	return pool;
}

/* op, call, number of slots, stack: of a record that may be one. */
static uint64_t make_head(void)
{
	uint64_t word = random_word();

	return (word & 0x1f) | (word & 0xff00) | ((word >> 16 & 3) + 1) << 16 |
	       (word >> 40 & 0xffff) << 32;
}

static uint64_t make_value(void)
{
	static const uint64_t edges[] = {
		0, 1, 2, 63, 64, 65535, 65536, 65537, 1u << 31, UINT64_MAX
	};

	switch (random_word() % 4) {
	case 0:
		return random_word();
	case 1:
		return edges[random_word() % (sizeof(edges) / sizeof(*edges))];
	default:
		return make_head();
	}
}

static void flood(void)
{
	const char *path = getenv("MEMSIGHT_RECORDING");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	uint64_t hello[64];

	if (!path || strlen(path) >= sizeof(address.sun_path))
		return;
	strcpy(address.sun_path, path);
	for (int i = 0; i < 64; i++) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

		for (size_t j = 0; j < 64; j++)
			hello[j] = random_word();
		if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && i % 2)
			(void)!write(fd, hello, random_word() % sizeof(hello) + 1);
		if (i % 8)
			close(fd); /* some stay, and say nothing */
	}
}

int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 2 ? atoi(argv[2]) : 2);
	size_t n_words = 0;
	uint64_t *pool = find_pool(&n_words);

	state = argc > 1 ? strtoull(argv[1], NULL, 0) * 2 + 1 : 1;
	if (!pool)
		return 3;
	flood();
	while (time(NULL) < end) {
		for (int i = 0; i < 4096; i++) /* half of it where all is decided */
			pool[random_word() % (i % 2 ? n_words : 1 << 17)] = make_value();
		usleep(1000);
	}
	_exit(9);
}
