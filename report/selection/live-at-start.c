#include "report/selection/live-at-start.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/array.h"
#include "report/selection/sum-slices.h"
#include "store/columns/column.h"
#include "store/database.h"
#include "store/heatmap/lookup.h"

#define BIT(column) (1u << (column))
#define WANTED	    (BIT(PICTURE_BLOCK_BIRTH) | BIT(PICTURE_BLOCK_LIFE) | BIT(PICTURE_BLOCK_ID))

/* A row is found by its id in the time that eight take when all are read. */
#define ROWS_OF_FIND 8u

static int add_piece(const struct picture_columns *columns, int64_t from_ns,
		     struct replay_carried *carried)
{
	for (uint32_t i = 0; i < columns->n; i++) {
		int64_t birth_ns = columns->values[PICTURE_BLOCK_BIRTH][i];
		int64_t life_ns = columns->values[PICTURE_BLOCK_LIFE][i];
		int64_t id = columns->values[PICTURE_BLOCK_ID][i];
		int64_t end_ns;

		if (id >= carried->first_id || birth_ns >= from_ns)
			continue;
		if (life_ns != CHUNK_NULL && !__builtin_add_overflow(birth_ns, life_ns, &end_ns) &&
		    end_ns < from_ns)
			continue;
		int r = grow_array(&carried->ids, carried->n, &carried->n_allocated,
				   sizeof(*carried->ids));
		if (r < 0)
			return r;
		carried->ids[carried->n++] = id;
	}
	return 0;
}

static int add_part(struct picture_store *store, const struct picture_part *part, int64_t from_ns,
		    struct replay_carried *carried)
{
	int r = 1;

	/* A small part has the first piece only. */
	for (unsigned piece = 0; piece < PICTURE_PIECES && r > 0; piece++) {
		r = picture_store_fetch(store, part, piece, WANTED);
		if (r > 0) {
			int added = add_piece(&store->columns, from_ns, carried);
			r = added < 0 ? added : r;
		}
	}
	return r < 0 ? r : 0;
}

static int add_process(struct picture_store *store, const struct picture_process *process,
		       int64_t from_ns, struct replay_carried *carried)
{
	int r = 0;

	for (size_t i = 0; i < process->n_parts && r == 0; i++) {
		const struct picture_part *part = &process->parts[i];
		if (part->is_blocks && part->from < picture_time(from_ns))
			r = add_part(store, part, from_ns, carried);
	}
	return r;
}

static int compare(const void *a, const void *b)
{
	int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

	return left < right ? -1 : left > right;
}

static int add_processes(const struct replay *replay, struct replay_carried *carried)
{
	auto_picture_store struct picture_store *store = NULL;
	uint64_t n_blocks = 0;
	int r = picture_store_open(db_handle(replay->db), &store);

	if (r < 0)
		return r;
	for (size_t i = 0; i < store->n_processes && r == 0; i++) {
		const struct picture_process *process = &store->processes[i];
		if (process->run_id != replay->run_id)
			continue;
		n_blocks += process->n_blocks;
		r = add_process(store, process, replay->selection->from_ns, carried);
	}
	if (r == 0 && carried->n > 1)
		qsort(carried->ids, carried->n, sizeof(*carried->ids), compare);
	return r == 0 && carried->n > n_blocks / ROWS_OF_FIND ? -ENODATA : r;
}

int replay_carried_find(const struct replay *replay, struct replay_carried *ret_carried)
{
	const struct selection *selection = replay->selection;
	bool is_timed = selection->from_ns > 0 || selection->to_ns < INT64_MAX;
	struct replay_carried carried = { 0 };
	int r = is_timed ? slice_births(replay, &carried.first_id, &carried.last_id) : -ENODATA;

	if (r == 0 && selection->from_ns > 0)
		r = add_processes(replay, &carried);
	if (r == 0)
		*ret_carried = carried;
	else
		free(carried.ids);
	return r == -EPROTO ? -EBADMSG : r;
}
