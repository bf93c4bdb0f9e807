/*
 * For docs/tutorial/resident.md: a program of which top shows much more memory than its blocks
 * have. Most of it lies in a pool that it maps by itself, some in freed blocks between live ones.
 *
 * usage: resident
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define POOL_BYTES  (96u << 20)
#define N_MESSAGES  (24u * 1024)
#define MESSAGE	    1000
#define KEEP_ONE_IN 32
#define INDEX_BYTES (16u << 20)

static char *messages[N_MESSAGES];

/* A pool that is filled for the worst case, at once. */
static char *make_pool(void)
{
	char *pool =
		mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pool == MAP_FAILED)
		abort();
	memset(pool, 1, POOL_BYTES);
	return pool;
}

static char *receive(void)
{
	char *message = malloc(MESSAGE);

	if (!message)
		abort();
	memset(message, 1, MESSAGE);
	return message;
}

int main(void)
{
	char *pool = make_pool();
	size_t n_kept = 0;

	for (size_t i = 0; i < N_MESSAGES; i++)
		messages[i] = receive();
	/* Every 32nd stays, and keeps the pages around it. */
	for (size_t i = 0; i < N_MESSAGES; i++) {
		if (i % KEEP_ONE_IN == 0) {
			n_kept++;
			continue;
		}
		free(messages[i]);
		messages[i] = NULL;
	}
	char *index = malloc(INDEX_BYTES);
	if (!index)
		abort();
	memset(index, 1, INDEX_BYTES);
	printf("%zu messages kept; pool %d, index %d\n", n_kept, pool[0], index[0]);
	return EXIT_SUCCESS;
}
