#include "analyze/live/allocation-sorter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/io.h"

#define MERGE_BYTES (8u << 20) /* for what is read of all runs at a time */
#define MERGE_LEAST 16u /* rows of a run */

/* A sorted run in the file, while it is merged. */
struct run {
	off_t at; /* of what was not read yet */
	size_t n_left; /* rows there */
	struct block_row *rows; /* read */
	size_t next;
	size_t n;
};

struct block_spill {
	char *folder;
	int fd; /* -1: all rows fit into memory so far */
	struct block_row *rows; /* BLOCK_ROWS_BATCH, not sorted yet; NULL until one is added */
	size_t n;
	struct run *runs;
	size_t n_runs;
	size_t n_allocated;
	off_t end;
};

struct block_spill *block_spill_close(struct block_spill *spill)
{
	if (!spill)
		return NULL;
	if (spill->fd >= 0)
		close(spill->fd);
	free(spill->folder);
	free(spill->rows);
	free(spill->runs);
	free(spill);
	return NULL;
}

struct block_spill *block_spill_open(const char *path)
{
	const char *slash = strrchr(path, '/');
	struct block_spill *spill = calloc(1, sizeof(*spill));

	if (!spill)
		return NULL;
	spill->fd = -1;
	spill->folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup("./");
	return spill->folder ? spill : block_spill_close(spill);
}

static int compare(const void *a, const void *b)
{
	uint64_t left = ((const struct block_row *)a)->block.id;
	uint64_t right = ((const struct block_row *)b)->block.id;

	return left < right ? -1 : left > right;
}

static int open_file(struct block_spill *spill)
{
	spill->fd = io_open_unnamed(spill->folder);
	return spill->fd < 0 ? spill->fd : 0;
}

/* What is in memory becomes a run in the file. */
static int write_run(struct block_spill *spill)
{
	size_t n_bytes = spill->n * sizeof(*spill->rows);
	int r = spill->fd >= 0 ? 0 : open_file(spill);

	if (r == 0)
		r = grow_array(&spill->runs, spill->n_runs, &spill->n_allocated,
			       sizeof(*spill->runs));
	if (r < 0)
		return r;
	qsort(spill->rows, spill->n, sizeof(*spill->rows), compare);
	r = io_write_all(spill->fd, spill->rows, n_bytes);
	if (r < 0)
		return r;
	spill->runs[spill->n_runs++] = (struct run){ .at = spill->end, .n_left = spill->n };
	spill->end += (off_t)n_bytes;
	spill->n = 0;
	return 0;
}

int block_spill_add(struct block_spill *spill, const struct block_row *row)
{
	if (!spill->rows)
		spill->rows = malloc(BLOCK_ROWS_BATCH * sizeof(*spill->rows));
	if (!spill->rows)
		return -ENOMEM;
	if (spill->n == BLOCK_ROWS_BATCH) {
		int r = write_run(spill);
		if (r < 0)
			return r;
	}
	spill->rows[spill->n++] = *row;
	return 0;
}

/* ---- Merging ---- */

/* Read on in a run. Returns 1, 0 at its end, or a negative errno. */
static int refill(const struct block_spill *spill, struct run *run, size_t n_rows)
{
	size_t n = run->n_left < n_rows ? run->n_left : n_rows;
	size_t n_bytes = n * sizeof(*run->rows);

	if (n == 0)
		return 0;
	ssize_t n_read = pread(spill->fd, run->rows, n_bytes, run->at);
	if (n_read < 0)
		return -errno;
	if ((size_t)n_read != n_bytes)
		return -EIO;
	run->at += (off_t)n_bytes;
	run->n_left -= n;
	run->next = 0;
	run->n = n;
	return 1;
}

static uint64_t id_of(const struct run *run)
{
	return run->rows[run->next].block.id;
}

/* A heap of runs by their next ids: the one at i moves down to its place. */
static void sift_down(struct run *runs, size_t n, size_t i)
{
	for (size_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && id_of(&runs[child + 1]) < id_of(&runs[child]))
			child++;
		if (id_of(&runs[i]) <= id_of(&runs[child]))
			return;
		struct run moved = runs[i];
		runs[i] = runs[child];
		runs[child] = moved;
	}
}

/* n_rows: of a run at a time; their memory is there. */
static int merge(struct block_spill *spill, size_t n_rows, block_spill_visit visit, void *context)
{
	size_t n = spill->n_runs;
	int r = 1;

	for (size_t i = 0; i < n && r > 0; i++)
		r = refill(spill, &spill->runs[i], n_rows);
	for (size_t i = n / 2; i-- > 0 && r > 0;)
		sift_down(spill->runs, n, i);
	while (n > 0 && r >= 0) {
		struct run *first = &spill->runs[0];
		r = visit(context, &first->rows[first->next++]);
		if (r == 0 && first->next == first->n && (r = refill(spill, first, n_rows)) == 0)
			*first = spill->runs[--n];
		sift_down(spill->runs, n, 0);
	}
	return r < 0 ? r : 0;
}

static int drain_file(struct block_spill *spill, block_spill_visit visit, void *context)
{
	size_t n_rows = MERGE_BYTES / sizeof(struct block_row) / spill->n_runs;
	if (n_rows < MERGE_LEAST)
		n_rows = MERGE_LEAST;

	auto_free struct block_row *rows = calloc(spill->n_runs * n_rows, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < spill->n_runs; i++)
		spill->runs[i].rows = rows + i * n_rows;
	return merge(spill, n_rows, visit, context);
}

int block_spill_drain(struct block_spill *spill, block_spill_visit visit, void *context)
{
	int r = 0;

	if (spill->n_runs > 0) {
		r = spill->n > 0 ? write_run(spill) : 0;
		if (r == 0)
			r = drain_file(spill, visit, context);
	} else if (spill->n > 0) {
		qsort(spill->rows, spill->n, sizeof(*spill->rows), compare);
		for (size_t i = 0; i < spill->n && r == 0; i++)
			r = visit(context, &spill->rows[i]);
	}
	spill->n = 0;
	spill->n_runs = 0;
	return r;
}
