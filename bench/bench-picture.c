/*
 * Measures the engine of pictures without a server: bench-picture zoom DB N, N random
 * viewports.
 */
#include <err.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "store/database.h"
#include "store/heatmap/heatmap.h"

static double now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

struct sample {
	double wall;
	double cpu;
	struct picture_request request;
	unsigned stride;
	bool is_grid;
};

static int compare(const void *a, const void *b)
{
	const struct sample *left = a, *right = b;

	return left->wall < right->wall ? -1 : left->wall > right->wall;
}

/* A part of an axis: of a length drawn evenly from its powers of two, anywhere. */
static void pick(uint64_t length, bool is_whole, uint64_t *ret_from, uint64_t *ret_to)
{
	double part = is_whole ? 1 : exp2(-14.0 * drand48());
	uint64_t span = (uint64_t)((double)length * part) + 1;

	if (span > length)
		span = length;
	*ret_from = (uint64_t)(drand48() * (double)(length - span));
	*ret_to = *ret_from + span;
}

static struct picture_request random_request(const struct picture *whole)
{
	struct picture_request request = whole->request;
	unsigned shape = (unsigned)(drand48() * 4); /* both, time, addresses, both alike */
	uint64_t from, to;

	pick((uint64_t)(request.to_ns - request.from_ns), shape == 2, &from, &to);
	request.to_ns = request.from_ns + (int64_t)to;
	request.from_ns += (int64_t)from;
	pick(request.high, shape == 1, &request.low, &request.high);
	request.by = (enum picture_by)(drand48() * PICTURE_BY_COUNT);
	return request;
}

static struct picture *make(struct picture_store *store, const struct picture_request *request,
			    struct sample *ret_sample)
{
	struct picture *picture = NULL;
	double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	int r = picture_make(store, request, &picture);

	if (r < 0)
		errx(1, "picture: %s", strerror(-r));
	*ret_sample = (struct sample){
		.wall = now(CLOCK_MONOTONIC) - wall,
		.cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu,
		.request = picture->request,
		.stride = picture->stride,
		.is_grid = picture->cell_ns || picture->cell_bytes,
	};
	return picture;
}

static void show(const char *name, const struct sample *sample)
{
	const struct picture_request *request = &sample->request;

	printf("%-6s %7.1f ms wall %7.1f ms CPU  by %d  %.2e ns x "
	       "%.2e bytes in %u x %u  stride %u%s\n",
	       name, 1e3 * sample->wall, 1e3 * sample->cpu, (int)request->by,
	       (double)(request->to_ns - request->from_ns), (double)(request->high - request->low),
	       request->width, request->height, sample->stride, sample->is_grid ? " grid" : "");
}

static void zoom(const char *path, size_t n)
{
	auto_db struct db *db = NULL;
	auto_picture_store struct picture_store *store = NULL;
	struct picture_request request = { .run_id = 1, .width = 1000, .height = 600 };
	struct sample first, *samples = calloc(n, sizeof(*samples));
	double begin = now(CLOCK_MONOTONIC);
	int r = db_open(path, &db);

	if (r == 0)
		r = picture_store_open(db_handle(db), &store);
	if (r < 0 || !samples)
		errx(1, "%s: %s", path, strerror(-r));
	struct picture *whole = make(store, &request, &first);
	printf("first picture: %.1f ms wall with opening\n", 1e3 * (now(CLOCK_MONOTONIC) - begin));
	show("whole", &first);
	for (unsigned by = 1; by < PICTURE_BY_COUNT; by++) {
		request.by = (enum picture_by)by;
		picture_free(make(store, &request, &samples[0]));
		show("whole", &samples[0]);
	}
	for (size_t i = 0; i < n; i++) {
		request = random_request(whole);
		picture_free(make(store, &request, &samples[i]));
	}
	qsort(samples, n, sizeof(*samples), compare);
	show("p50", &samples[n / 2]);
	show("p95", &samples[n * 95 / 100]);
	for (size_t i = n < 5 ? 0 : n - 5; i < n; i++)
		show("max", &samples[i]);
	picture_free(whole);
	free(samples);
}

int main(int argc, char **argv)
{
	if (argc < 3 || strcmp(argv[1], "zoom") != 0)
		errx(2, "usage: bench-picture zoom DB [N]");
	zoom(argv[2], argc > 3 ? strtoul(argv[3], NULL, 10) : 300);
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	printf("peak RSS %.0f MiB\n", (double)usage.ru_maxrss / 1024);
	return 0;
}
