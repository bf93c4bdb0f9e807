#include "analyze/shared-lines.h"

#include <stdlib.h>

#include "analyze/db.h"
#include "analyze/grow.h"
#include "analyze/samples.h"

void shared_lines_finish(struct shared_lines *lines)
{
	key_map_finish(&lines->numbers);
	free(lines->items);
	lines->items = NULL;
}

static int put_number(struct shared_lines *lines, size_t i)
{
	const struct shared_line *line = &lines->items[i];

	return key_map_put(&lines->numbers, (uint64_t)line->process, line->address, i + 1);
}

/* Those that two threads touch are what is looked for: they stay until nothing else can go. */
static int is_dispensable(const struct shared_lines *lines, const struct shared_line *line)
{
	return line->n_touches <= lines->least &&
	       (line->other_thread == 0 || lines->least > UINT32_MAX);
}

/* Drop the lines that were touched least, until half of the room is free. */
static int forget(struct shared_lines *lines)
{
	while (lines->n > SHARED_LINES / 2) {
		size_t n = 0;

		lines->least = lines->least ? 2 * lines->least : 1;
		for (size_t i = 0; i < lines->n; i++) {
			if (is_dispensable(lines, &lines->items[i]))
				lines->n_forgotten += lines->items[i].n_touches;
			else
				lines->items[n++] = lines->items[i];
		}
		lines->n = n;
	}
	lines->least = 0;
	key_map_finish(&lines->numbers);

	int r = 0;
	for (size_t i = 0; i < lines->n && r == 0; i++)
		r = put_number(lines, i);
	return r;
}

static int add_line(struct shared_lines *lines, const struct shared_line *line, size_t *ret_i)
{
	int r = lines->n == SHARED_LINES ? forget(lines) : 0;

	if (r == 0)
		r = grow_array(&lines->items, lines->n, &lines->n_allocated, sizeof(*line));
	if (r < 0)
		return r;
	lines->items[lines->n] = *line;
	*ret_i = lines->n++;
	return put_number(lines, *ret_i);
}

/* The bytes of the line that an access covers; what reaches beyond it is cut. */
static uint64_t bytes_of(const struct sample_touch *touch)
{
	unsigned first = (unsigned)(touch->address % SHARED_LINE_BYTES);
	uint64_t size = touch->size > 0 ? (uint64_t)touch->size : 1;

	if (size > SHARED_LINE_BYTES - first)
		size = SHARED_LINE_BYTES - first;
	return (size == 64 ? UINT64_MAX : (UINT64_C(1) << size) - 1) << first;
}

static void count(struct shared_line *line, const struct sample_touch *touch)
{
	line->n_touches++;
	line->n_writes += touch->is_write > 0;
	line->n_changes += line->last_thread != touch->thread_row;
	line->last_thread = touch->thread_row;
	if (touch->role == TRACE_ROLE_WINDOW)
		line->time_ns += touch->share * (double)touch->weight;
	if (touch->time_ns > line->last_ns)
		line->last_ns = touch->time_ns;
	if (touch->thread_row == line->thread) {
		line->bytes |= bytes_of(touch);
		return;
	}
	line->other_bytes |= bytes_of(touch);
	if (line->other_thread)
		return;
	line->other_thread = touch->thread_row;
	line->other_kind = touch->owner.kind;
	line->other_id = touch->owner.id;
}

int shared_lines_add(struct shared_lines *lines, const struct sample_touch *touch)
{
	struct shared_line line = {
		.address = touch->address & ~(uint64_t)(SHARED_LINE_BYTES - 1),
		.process = touch->process_row,
		.thread = touch->thread_row,
		.last_thread = touch->thread_row,
		.owner_kind = touch->owner.kind,
		.owner_id = touch->owner.id,
		.first_ns = touch->time_ns,
		.last_ns = touch->time_ns,
	};
	uint64_t number = key_map_get(&lines->numbers, (uint64_t)line.process, line.address);
	size_t i = number - 1;
	int r = number ? 0 : add_line(lines, &line, &i);

	if (r == 0)
		count(&lines->items[i], touch);
	return r;
}

static int write_line(const struct shared_line *line, struct db *db, int64_t run_id)
{
	return db_run(db,
		      "INSERT INTO shared_line(run_id, process_id, address, n_touches, n_writes,"
		      " n_changes, time_ns, thread_id, other_thread_id, bytes, other_bytes,"
		      " owner_kind, owner_id, other_owner_kind, other_owner_id, first_ns, last_ns)"
		      " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,"
		      " ?16, ?17)",
		      "nnnnnnrnnnnnininn", run_id, line->process, (int64_t)line->address,
		      (int64_t)line->n_touches, (int64_t)line->n_writes, (int64_t)line->n_changes,
		      line->time_ns, line->thread, line->other_thread, (int64_t)line->bytes,
		      (int64_t)line->other_bytes, line->owner_kind,
		      line->owner_id ? line->owner_id : INT64_MIN, line->other_kind,
		      line->other_id ? line->other_id : INT64_MIN, line->first_ns, line->last_ns);
}

int shared_lines_write(const struct shared_lines *lines, struct db *db, int64_t run_id)
{
	int r = 0;

	for (size_t i = 0; i < lines->n && r == 0; i++)
		if (lines->items[i].other_thread && lines->items[i].n_writes)
			r = write_line(&lines->items[i], db, run_id);
	return r;
}
