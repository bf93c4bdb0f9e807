/*
 * For docs/tutorial/leak.md: a server in small, that answers requests out of a cache. Each request
 * is parsed into blocks that are given back, but for one: the copy of its path that `note_slow`
 * makes when an answer took long.
 *
 * usage: leak [REQUESTS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_CACHED    4096
#define PAGE_BYTES  2048
#define PATH_BYTES  512
#define SLOW_ONE_IN 4

struct request {
	char *path;
	unsigned number;
};

struct slow {
	char *path;
	unsigned number;
};

static char *cache[N_CACHED];
static struct slow last_slow;

static struct request *parse(unsigned number)
{
	struct request *request = malloc(sizeof(*request));

	if (!request || !(request->path = malloc(PATH_BYTES)))
		abort();
	request->number = number;
	snprintf(request->path, PATH_BYTES, "/page/%u", number % (3 * N_CACHED));
	return request;
}

static void drop(struct request *request)
{
	free(request->path);
	free(request);
}

/* Only the last one is kept; the copy before it is forgotten, not freed. */
static void note_slow(const struct request *request)
{
	last_slow.path = malloc(PATH_BYTES);
	if (!last_slow.path)
		abort();
	memcpy(last_slow.path, request->path, PATH_BYTES);
	last_slow.number = request->number;
}

static const char *answer(const struct request *request)
{
	char **page = &cache[request->number % N_CACHED];

	if (!*page) {
		*page = malloc(PAGE_BYTES);
		if (!*page)
			abort();
		snprintf(*page, PAGE_BYTES, "<p>%s</p>", request->path);
	}
	if (request->number % SLOW_ONE_IN == 0)
		note_slow(request);
	return *page;
}

int main(int argc, char **argv)
{
	unsigned n_requests = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 100000;
	size_t n_bytes = 0;

	for (unsigned i = 0; i < n_requests; i++) {
		struct request *request = parse(i);
		n_bytes += strlen(answer(request));
		drop(request);
	}
	printf("%u requests, %zu bytes of answers, the last slow one %s\n", n_requests, n_bytes,
	       last_slow.path ? last_slow.path : "none");
	for (size_t i = 0; i < N_CACHED; i++)
		free(cache[i]);
	return EXIT_SUCCESS;
}
