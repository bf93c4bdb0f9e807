#include "store/slices/exits.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "store/database.h"
#include "store/statement.h"

/* Blocks of a site of a process. */
struct left {
	int64_t stack_id;
	uint64_t n;
	uint64_t bytes;
	size_t next; /* of the same process; 1 + place, 0: none */
};

struct process {
	int64_t end_ns; /* INT64_MAX: it was there to the end of the trace */
	bool is_told; /* the sweep will tell its end */
	size_t first;
};

struct slice_exits {
	struct key_map number_of; /* of process.id: 1 + place in processes */
	struct process *processes;
	size_t n_processes;
	size_t n_processes_allocated;
	struct key_map left_of; /* of process and stack: 1 + place in lefts */
	struct left *lefts;
	size_t n_lefts;
	size_t n_lefts_allocated;
	struct sweep_end *taken;
	size_t n_taken;
	size_t n_taken_allocated;
};

struct slice_exits *slice_exits_close(struct slice_exits *exits)
{
	if (!exits)
		return NULL;
	key_map_finish(&exits->number_of);
	free(exits->processes);
	key_map_finish(&exits->left_of);
	free(exits->lefts);
	free(exits->taken);
	free(exits);
	return NULL;
}

static int add_process(struct slice_exits *exits, int64_t id, int64_t end_ns)
{
	int r = grow_array(&exits->processes, exits->n_processes, &exits->n_processes_allocated,
			   sizeof(*exits->processes));

	if (r < 0)
		return r;
	exits->processes[exits->n_processes++] = (struct process){ .end_ns = end_ns };
	return key_map_put(&exits->number_of, (uint64_t)id, 0, exits->n_processes);
}

static int read_processes(struct slice_exits *exits, struct db *db, int64_t run_id)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(db_handle(db),
				  "SELECT id, coalesce(end_ns, 9223372036854775807) FROM process"
				  " WHERE run_id = ?",
				  &row);

	if (r < 0)
		return r;
	statement_integer(row, 1, run_id);
	while ((r = statement_step(row)) > 0) {
		r = add_process(exits, sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1));
		if (r < 0)
			return r;
	}
	return r;
}

int slice_exits_open(struct db *db, int64_t run_id, struct slice_exits **ret_exits)
{
	struct slice_exits *exits = calloc(1, sizeof(*exits));

	if (!exits)
		return -ENOMEM;
	int r = read_processes(exits, db, run_id);
	if (r < 0)
		slice_exits_close(exits);
	else
		*ret_exits = exits;
	return r;
}

/* NULL: no end is known of it. */
static struct process *process_of(const struct slice_exits *exits, int64_t id)
{
	uint64_t number = key_map_get(&exits->number_of, (uint64_t)id, 0);
	struct process *process = number ? &exits->processes[number - 1] : NULL;

	return process && process->end_ns < INT64_MAX ? process : NULL;
}

bool slice_exits_may_have(const struct slice_exits *exits, int64_t process_id, int64_t birth_ns)
{
	const struct process *process = process_of(exits, process_id);

	return !process || process->end_ns >= birth_ns;
}

static int find_left(struct slice_exits *exits, struct process *process,
		     const struct picture_row_block *block, struct left **ret_left)
{
	uint64_t a = (uint64_t)block->process_id, b = (uint64_t)block->stack_id;
	uint64_t number = key_map_get(&exits->left_of, a, b);

	if (!number) {
		int r = grow_array(&exits->lefts, exits->n_lefts, &exits->n_lefts_allocated,
				   sizeof(*exits->lefts));
		if (r == 0)
			r = key_map_put(&exits->left_of, a, b, exits->n_lefts + 1);
		if (r < 0)
			return r;
		exits->lefts[exits->n_lefts] =
			(struct left){ .stack_id = block->stack_id, .next = process->first };
		number = process->first = ++exits->n_lefts;
	}
	*ret_left = &exits->lefts[number - 1];
	return 0;
}

int slice_exits_add(struct slice_exits *exits, const struct picture_row_block *block,
		    struct sweep *sweep)
{
	struct process *process = process_of(exits, block->process_id);
	struct left *left;

	if (!process)
		return 0;
	int r = find_left(exits, process, block, &left);
	if (r < 0)
		return r;
	left->n++;
	left->bytes += (uint64_t)block->size;
	if (process->is_told)
		return 0;
	process->is_told = true;
	return sweep_push(sweep, &(struct sweep_end){ .time = sweep_time(sweep, process->end_ns),
						      .id = block->process_id,
						      .thread_id = INT64_MIN });
}

static int take(struct slice_exits *exits, struct left *left, uint64_t time,
		struct slice_blocks *blocks)
{
	const struct sweep_end end = { .time = time,
				       .size = left->bytes,
				       .n = left->n,
				       .stack_id = left->stack_id,
				       .thread_id = INT64_MIN };
	int r = grow_array(&exits->taken, exits->n_taken, &exits->n_taken_allocated,
			   sizeof(*exits->taken));

	if (r < 0)
		return r;
	exits->taken[exits->n_taken++] = end;
	left->n = left->bytes = 0;
	return slice_blocks_end(blocks, &end);
}

int slice_exits_take(struct slice_exits *exits, const struct sweep_end *marker,
		     struct slice_blocks *blocks)
{
	struct process *process = process_of(exits, marker->id);
	int r = 0;

	if (!process)
		return 0;
	process->is_told = false;
	for (size_t i = process->first; i > 0 && r == 0; i = exits->lefts[i - 1].next) {
		if (exits->lefts[i - 1].n > 0)
			r = take(exits, &exits->lefts[i - 1], marker->time, blocks);
	}
	return r;
}

int slice_exits_pack(struct slice_exits *exits, struct slice_blob *blob)
{
	int r = 0;

	for (size_t i = 0; i < exits->n_taken && r == 0; i++) {
		const struct sweep_end *end = &exits->taken[i];
		const int64_t values[] = { (int64_t)end->time, end->stack_id, (int64_t)end->n,
					   (int64_t)end->size };
		r = slice_blob_row(blob, SLICE_EXITS, values, 4);
	}
	exits->n_taken = 0;
	return r;
}
