#include "analyze/live/allocation-sorter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "common/radix-sort.h"
#include "trace/varint.h"

#define MERGE_BYTES (8u << 20) /* for what is read of all runs at a time */
#define MERGE_LEAST 4096u /* of a run */
#define AHEAD	    8u /* rows that are fetched before their turn */

/*
 * The numbers of a row that are stored. Of each those that differ from the row before are written,
 * as the distance from it: some 20 bytes.
 */
#define N_CELLS	  17
#define ROW_BYTES (TRACE_VARINT_MAX_BYTES * (N_CELLS + 1)) /* at most */

/* A sorted run in the file, while it is merged. */
struct run {
	off_t at; /* of what was not read yet */
	size_t n_left; /* bytes there */
	uint64_t n_rows; /* that were not visited, with the one at hand */
	uint8_t *bytes; /* read */
	size_t next;
	size_t n;
	struct block_row row; /* at hand */
};

struct block_spill {
	char *folder;
	int fd; /* -1: all rows fit into memory so far */
	struct block_row *rows; /* BLOCK_ROWS_BATCH, not sorted yet; NULL until one is added */
	uint64_t *order[2]; /* BLOCK_ROWS_BATCH, of ids and places */
	uint8_t *packed; /* BLOCK_ROWS_BATCH rows; NULL until there is a file */
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
	free_all(spill->folder, spill->rows, spill->order[0], spill->order[1], spill->packed,
		 spill->runs, spill);
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

/* ---- Sorting ---- */

#define PLACE_BITS 15
_Static_assert(BLOCK_ROWS_BATCH == 1u << PLACE_BITS, "a place is a part of a key");

/* The places of the rows in the order of their ids, as the low bits of what is returned. */
static const uint64_t *sort_rows(struct block_spill *spill)
{
	for (size_t i = 0; i < spill->n; i++)
		spill->order[0][i] = (uint64_t)spill->rows[i].end.id << PLACE_BITS | i;
	return radix_sort(spill->order[0], spill->order[1], spill->n, PLACE_BITS);
}

static const struct block_row *row_in_order(const struct block_spill *spill, const uint64_t *order,
					    size_t i)
{
	return &spill->rows[order[i] & (BLOCK_ROWS_BATCH - 1)];
}

/* ---- Rows as bytes ---- */

static void to_cells(const struct block_row *row, uint64_t cells[N_CELLS])
{
	const struct block_birth *birth = &row->birth;
	const struct block_end *end = &row->end;
	const uint64_t values[N_CELLS] = {
		end->id,
		birth->address,
		birth->size,
		(uint64_t)birth->time_ns,
		(uint64_t)end->time_ns,
		birth->stack,
		end->previous_id,
		end->call,
		end->end_kind,
		end->free_call,
		birth->process,
		birth->thread,
		end->freed_thread,
		end->kind,
		birth->interval,
		birth->within_id,
		birth->pool,
	};

	memcpy(cells, values, sizeof(values));
}

static void from_cells(const uint64_t cells[N_CELLS], struct block_row *row)
{
	*row = (struct block_row){
		.birth = { .address = cells[1],
			   .size = cells[2],
			   .time_ns = (int64_t)cells[3],
			   .stack = (uint32_t)cells[5],
			   .process = (uint32_t)cells[10],
			   .thread = (uint32_t)cells[11],
			   .interval = (uint8_t)cells[14],
			   .within_id = cells[15],
			   .pool = (uint32_t)cells[16] },
		.end = { .id = cells[0],
			 .time_ns = (int64_t)cells[4],
			 .previous_id = cells[6],
			 .call = (uint8_t)cells[7],
			 .end_kind = cells[8] & 63,
			 .free_call = (uint8_t)cells[9],
			 .freed_thread = (uint32_t)cells[12],
			 .kind = cells[13] & 0xffffff },
	};
}

/* before: the cells of the row before, which become those of this one. */
static uint8_t *pack_row(uint8_t *out, const struct block_row *row, uint64_t before[N_CELLS])
{
	uint64_t cells[N_CELLS];
	unsigned changed = 0;

	to_cells(row, cells);
	for (unsigned i = 0; i < N_CELLS; i++)
		changed |= (unsigned)(cells[i] != before[i]) << i;
	out = trace_varint_put(out, changed);
	for (unsigned left = changed; left; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctz(left);
		out = trace_varint_put(out, trace_zigzag((int64_t)(cells[i] - before[i])));
	}
	memcpy(before, cells, sizeof(cells));
	return out;
}

/* 0, or -EIO: somebody else has written into the file. */
static int unpack_row(struct run *run)
{
	const uint8_t *in = run->bytes + run->next;
	uint64_t cells[N_CELLS], changed = 0, distance = 0;

	to_cells(&run->row, cells);
	in = trace_varint_get(in, &changed);
	for (changed &= (1u << N_CELLS) - 1; in && changed; changed &= changed - 1) {
		in = trace_varint_get(in, &distance);
		cells[__builtin_ctzll(changed)] += (uint64_t)trace_unzigzag(distance);
	}
	if (!in || (size_t)(in - run->bytes) > run->n)
		return -EIO;
	run->next = (size_t)(in - run->bytes);
	from_cells(cells, &run->row);
	return 0;
}

/* ---- Runs ---- */

static int open_file(struct block_spill *spill)
{
	spill->packed = malloc(BLOCK_ROWS_BATCH * ROW_BYTES);
	if (!spill->packed)
		return -ENOMEM;
	spill->fd = io_open_unnamed(spill->folder);
	return spill->fd < 0 ? spill->fd : 0;
}

/* What is in memory becomes a run in the file. */
static int write_run(struct block_spill *spill)
{
	uint64_t before[N_CELLS] = { 0 };
	int r = spill->packed ? 0 : open_file(spill);

	r = r ?: grow_one(&spill->runs, spill->n_runs, &spill->n_allocated);
	if (r < 0)
		return r;
	const uint64_t *order = sort_rows(spill);
	uint8_t *end = spill->packed;
	for (size_t i = 0; i < spill->n; i++) {
		const struct block_row *coming =
			row_in_order(spill, order, i + AHEAD < spill->n ? i + AHEAD : i);
		__builtin_prefetch(coming);
		__builtin_prefetch(&coming->end.freed_thread);
		end = pack_row(end, row_in_order(spill, order, i), before);
	}
	size_t n_bytes = (size_t)(end - spill->packed);
	r = io_write_all(spill->fd, spill->packed, n_bytes);
	if (r < 0)
		return r;
	spill->runs[spill->n_runs++] =
		(struct run){ .at = spill->end, .n_left = n_bytes, .n_rows = spill->n };
	spill->end += (off_t)n_bytes;
	spill->n = 0;
	return 0;
}

static int make_room(struct block_spill *spill)
{
	if (spill->rows)
		return 0;
	spill->order[0] = malloc(BLOCK_ROWS_BATCH * sizeof(uint64_t));
	spill->order[1] = malloc(BLOCK_ROWS_BATCH * sizeof(uint64_t));
	if (spill->order[0] && spill->order[1])
		spill->rows = malloc(BLOCK_ROWS_BATCH * sizeof(*spill->rows));
	return spill->rows ? 0 : -ENOMEM;
}

int block_spill_add(struct block_spill *spill, const struct block_row *row)
{
	int r = make_room(spill);

	if (r == 0 && spill->n == BLOCK_ROWS_BATCH)
		r = write_run(spill);
	if (r < 0)
		return r;
	spill->rows[spill->n++] = *row;
	return 0;
}

/* ---- Merging ---- */

/* Read on in a run, behind what was not visited yet. Returns 0 or a negative errno. */
static int refill(const struct block_spill *spill, struct run *run, size_t n_room)
{
	size_t n_kept = run->n - run->next;
	size_t n = n_room - n_kept < run->n_left ? n_room - n_kept : run->n_left;

	memmove(run->bytes, run->bytes + run->next, n_kept);
	ssize_t n_read = pread(spill->fd, run->bytes + n_kept, n, run->at);
	if (n_read < 0)
		return -errno;
	if ((size_t)n_read != n)
		return -EIO;
	run->at += (off_t)n;
	run->n_left -= n;
	run->next = 0;
	run->n = n_kept + n;
	return 0;
}

/* Take the next row to hand. Returns 0 or a negative errno. */
static int advance(const struct block_spill *spill, struct run *run, size_t n_room)
{
	int r = 0;

	if (run->n_left > 0 && run->n - run->next < ROW_BYTES)
		r = refill(spill, run, n_room);
	return r < 0 ? r : unpack_row(run);
}

/* A heap of runs by the ids at hand: the one at i moves down to its place. */
static void sift_down(struct run **runs, size_t n, size_t i)
{
	struct run *moved = runs[i];

	for (size_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && runs[child + 1]->row.end.id < runs[child]->row.end.id)
			child++;
		if (moved->row.end.id <= runs[child]->row.end.id)
			break;
		runs[i] = runs[child];
	}
	runs[i] = moved;
}

/* n_room: bytes for each run, which are there. */
static int merge(struct block_spill *spill, struct run **runs, size_t n_room,
		 block_spill_visit visit, void *context)
{
	size_t n = spill->n_runs;
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		runs[i] = &spill->runs[i];
		r = advance(spill, runs[i], n_room);
	}
	for (size_t i = n / 2; i-- > 0 && r == 0;)
		sift_down(runs, n, i);
	while (n > 0 && r == 0) {
		r = visit(context, &runs[0]->row);
		if (r == 0 && --runs[0]->n_rows == 0)
			runs[0] = runs[--n];
		else if (r == 0)
			r = advance(spill, runs[0], n_room);
		if (n > 0)
			sift_down(runs, n, 0);
	}
	return r;
}

static int drain_file(struct block_spill *spill, block_spill_visit visit, void *context)
{
	size_t n_room = MERGE_BYTES / spill->n_runs;
	if (n_room < MERGE_LEAST)
		n_room = MERGE_LEAST;

	/* A number may be looked at as if it were longer than it is. */
	auto_free uint8_t *bytes = calloc(spill->n_runs + 1, n_room);
	auto_free struct run **runs = calloc(spill->n_runs, sizeof(*runs));
	if (!bytes || !runs)
		return -ENOMEM;
	for (size_t i = 0; i < spill->n_runs; i++)
		spill->runs[i].bytes = bytes + i * n_room;
	return merge(spill, runs, n_room, visit, context);
}

int block_spill_drain(struct block_spill *spill, block_spill_visit visit, void *context)
{
	int r = 0;

	if (spill->n_runs > 0) {
		r = spill->n > 0 ? write_run(spill) : 0;
		r = r ?: drain_file(spill, visit, context);
	} else if (spill->n > 0) {
		const uint64_t *order = sort_rows(spill);
		for (size_t i = 0; i < spill->n && r == 0; i++)
			r = visit(context, row_in_order(spill, order, i));
	}
	spill->n = 0;
	spill->n_runs = 0;
	return r;
}
