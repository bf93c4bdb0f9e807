#include "store/totals/stretch-blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "store/database.h"
#include "store/row-writer.h"
#include "store/statement.h"
#include "store/touch.h"
#include "store/totals/sums.h"
#include "store/totals/totals.h"

#define SUM_ROWS 32u /* that a stretch has for each of its sums, at least: these are to be few */

/* ---- Borders ---- */

bool stretch_borders_row(struct stretch_borders *borders, int64_t time_ns, size_t n_sums)
{
	uint64_t least = borders->least_rows ? borders->least_rows : STRETCH_ROWS;
	uint64_t n = borders->n_rows++;
	bool is_later = time_ns > borders->last_ns;

	borders->last_ns = is_later ? time_ns : borders->last_ns;
	if (n < least << borders->shift || n < n_sums * SUM_ROWS || !is_later || time_ns <= 0)
		return false;
	if (borders->n == MAX_STRETCHES - 1) {
		borders->n /= 2;
		borders->shift++;
	}
	borders->n++;
	borders->n_rows = 1;
	return true;
}

/* ---- Blocks ---- */

/* Sums of blocks that were born in it; what becomes of them comes later. */
struct stretch {
	struct tally_ends born;
	int64_t from_ns;
};

struct stretch_blocks {
	struct tally tally; /* what lives, and what part at hand has; its stack ids are numbers */
	struct tally_ends *run;
	struct stretch *items[MAX_STRETCHES]; /* by time */
	size_t n;
	struct sums_parts parts; /* what follows the order of events, before the one at hand */
	int64_t from_ns; /* of the part at hand */
	int64_t now_ns; /* nothing may come that was before */
	bool is_one; /* nothing adds up: all is one stretch, and not stored */
	struct sums sums;
};

static void *make(size_t bytes)
{
	void *made = aligned_alloc(_Alignof(struct tally_ends), bytes);

	return made ? memset(made, 0, bytes) : NULL;
}

static int add_stretch(struct stretch_blocks *blocks, int64_t from_ns)
{
	struct stretch *stretch = make(sizeof(*stretch));

	if (!stretch)
		return -ENOMEM;
	stretch->from_ns = from_ns;
	stretch->born.threads.first_row = blocks->run->threads.first_row;
	blocks->items[blocks->n++] = stretch;
	return 0;
}

static void free_stretch(struct stretch *stretch)
{
	tally_ends_finish(&stretch->born);
	free(stretch);
}

struct stretch_blocks *stretch_blocks_close(struct stretch_blocks *blocks)
{
	if (!blocks)
		return NULL;
	for (size_t i = 0; i < blocks->n; i++)
		free_stretch(blocks->items[i]);
	sums_parts_finish(&blocks->parts);
	sums_finish(&blocks->sums);
	tally_finish(&blocks->tally);
	free(blocks);
	return NULL;
}

int stretch_blocks_open(struct tally_ends *run, struct stretch_blocks **ret_blocks)
{
	struct stretch_blocks *blocks = make(sizeof(*blocks));

	if (!blocks)
		return -ENOMEM;
	blocks->run = run;
	blocks->from_ns = blocks->now_ns = INT64_MIN;
	blocks->sums = (struct sums){ .tally = &blocks->tally,
				      .max_stacks = INT64_MAX,
				      .max_threads = INT64_MAX };
	int r = tally_init(&blocks->tally, run->threads.first_row);
	r = r ?: add_stretch(blocks, INT64_MIN);
	if (r < 0)
		stretch_blocks_close(blocks);
	else
		*ret_blocks = blocks;
	return r;
}

/* Neighbours become one. */
static int join(struct stretch_blocks *blocks, size_t to, size_t from)
{
	int r = tally_ends_join(&blocks->items[to]->born, &blocks->items[from]->born, NULL);

	free_stretch(blocks->items[from]);
	return r;
}

static int join_pairs(struct stretch_blocks *blocks)
{
	int r = 0;

	for (size_t i = 0; i < MAX_STRETCHES / 2; i++) {
		r = join(blocks, 2 * i, 2 * i + 1) ?: r;
		blocks->items[i] = blocks->items[2 * i];
	}
	blocks->n = MAX_STRETCHES / 2;
	return r;
}

static int give_up(struct stretch_blocks *blocks)
{
	int r = 0;

	blocks->is_one = true;
	for (; blocks->n > 1; blocks->n--)
		r = join(blocks, 0, blocks->n - 1) ?: r;
	return r;
}

/* The part at hand ends. */
static int close_part(struct stretch_blocks *blocks, int64_t time_ns)
{
	tally_settle_live(&blocks->tally, time_ns);
	int r = sums_keep(&blocks->sums, SUMS_OF_BLOCKS, blocks->from_ns, &blocks->parts);
	blocks->from_ns = blocks->now_ns = time_ns;
	return r;
}

int stretch_blocks_border(struct stretch_blocks *blocks, int64_t time_ns)
{
	struct tally *tally = &blocks->tally;

	if (blocks->is_one)
		return 0;
	int r = close_part(blocks, time_ns);
	r = r ?: tally_ends_join(blocks->run, &tally->ends, tally);
	r = r ?: sums_clear(tally, SUMS_OF_BLOCKS, time_ns);
	if (r == 0 && blocks->n == MAX_STRETCHES)
		r = join_pairs(blocks);
	return r < 0 ? r : add_stretch(blocks, time_ns);
}

/* From numbers of the run's sites to ours. */
static int find_sites(struct stretch_blocks *blocks, struct tally_end *end)
{
	int r = tally_site(&blocks->tally, end->site, &end->site);

	return r < 0 || !end->within ? r : tally_site(&blocks->tally, end->within, &end->within);
}

int stretch_blocks_born(struct stretch_blocks *blocks, struct tally_end *block)
{
	struct tally *tally = &blocks->tally;
	const struct block_weight weight = block_weigh(block->weight, block->size);
	int64_t time_ns = block->allocated_ns;
	int r = weight.is_picked || time_ns < blocks->now_ns ? give_up(blocks) : 0;

	r = r ?: find_sites(blocks, block);
	r = r ?: tally_ends_live(&tally->ends, block->site, weight.bytes, time_ns);
	if (r == 0 && block->within)
		r = tally_ends_live_within(&tally->ends, block->within, weight.bytes, time_ns);
	if (r < 0 || blocks->is_one)
		return r;
	blocks->now_ns = time_ns;
	if (block->within)
		tally_allocation_within(tally, block->site, block->within, &weight, time_ns);
	else
		tally_allocation(tally, block->site, &weight, time_ns);
	return 0;
}

static struct tally_ends *find_stretch(const struct stretch_blocks *blocks, int64_t time_ns)
{
	size_t i = blocks->n - 1;

	while (i > 0 && blocks->items[i]->from_ns > time_ns)
		i--;
	return &blocks->items[i]->born;
}

/* What a block ends, which had begun in these or others. */
static int end_in(struct tally_ends *ends, const struct tally_end *end)
{
	const struct block_weight weight = block_weigh(end->weight, end->size);
	bool is_killed = !end->within && end->freed_thread_row != ROWS_NULL;
	int r = tally_ends_live(ends, end->site, 0, INT64_MAX);

	if (r == 0 && end->within) {
		r = tally_ends_live_within(ends, end->within, 0, 0);
		if (r == 0)
			tally_ends_end_within(ends, end->within, weight.bytes, end->time_ns);
	}
	if (r == 0)
		tally_ends_end(ends, end->site, &weight, end->time_ns,
			       is_killed ? end->freed_thread_row : 0);
	return r;
}

int stretch_blocks_end(struct stretch_blocks *blocks, struct tally_end *end, bool is_left)
{
	struct tally *tally = &blocks->tally;
	const struct block_weight weight = block_weigh(end->weight, end->size);
	int r = !is_left && end->time_ns < blocks->now_ns ? give_up(blocks) : 0;

	if (r == 0 && is_left) /* the last stretch ends later, with the run */
		r = end_in(blocks->run, end);
	r = r ?: find_sites(blocks, end);
	r = r ?: tally_ends_born(find_stretch(blocks, end->allocated_ns), end);
	if (r < 0 || is_left)
		return r;
	if (!blocks->is_one) {
		blocks->now_ns = end->time_ns;
		if (end->within)
			tally_free_within(tally, end->site, end->within, &weight, end->time_ns);
		else
			tally_free(tally, end->site, &weight, end->time_ns, end->is_freed);
	}
	return end_in(&tally->ends, end);
}

bool stretch_blocks_are_ordered(const struct stretch_blocks *blocks)
{
	return !blocks->is_one;
}

int stretch_blocks_settle(struct stretch_blocks *blocks)
{
	struct tally *tally = &blocks->tally;
	int r = tally_ends_join(blocks->run, &tally->ends, tally);

	for (size_t i = 0; i < blocks->n && r == 0; i++)
		r = tally_ends_join(blocks->run, &blocks->items[i]->born, tally);
	return r;
}

/* ---- Touches ---- */

struct stretch_touches {
	struct tally tallies[2]; /* of the part at hand, and of the one before: some come late */
	int64_t from_ns[2]; /* INT64_MAX: there is none */
	unsigned now;
	bool has_none; /* they do not add up, or one came too late */
	struct sums_parts parts;
	struct sums sums;
};

struct stretch_touches *stretch_touches_close(struct stretch_touches *touches)
{
	if (!touches)
		return NULL;
	sums_parts_finish(&touches->parts);
	sums_finish(&touches->sums);
	for (int i = 0; i < 2; i++)
		tally_finish(&touches->tallies[i]);
	free(touches);
	return NULL;
}

int stretch_touches_open(int64_t first_thread, struct stretch_touches **ret_touches)
{
	struct stretch_touches *touches = make(sizeof(*touches));
	int r = touches ? 0 : -ENOMEM;

	for (int i = 0; i < 2 && r == 0; i++) {
		r = tally_init(&touches->tallies[i], first_thread);
		touches->tallies[i].has_no_lines = true;
		touches->from_ns[i] = i ? INT64_MAX : INT64_MIN;
	}
	if (r < 0)
		return stretch_touches_close(touches), r;
	touches->sums = (struct sums){ .max_stacks = INT64_MAX, .max_threads = INT64_MAX };
	*ret_touches = touches;
	return 0;
}

static int keep_touches(struct stretch_touches *touches, unsigned i)
{
	touches->sums.tally = &touches->tallies[i];
	return touches->from_ns[i] == INT64_MAX ? 0
						: sums_keep(&touches->sums, SUMS_OF_TOUCHES,
							    touches->from_ns[i], &touches->parts);
}

int stretch_touches_border(struct stretch_touches *touches, int64_t time_ns)
{
	unsigned next = !touches->now;
	int r = touches->has_none ? 0 : keep_touches(touches, next);

	if (r < 0 || touches->has_none)
		return r;
	touches->from_ns[next] = time_ns;
	touches->now = next;
	return sums_clear(&touches->tallies[next], SUMS_OF_TOUCHES, 0);
}

/* Where a moment counts; NULL: nowhere, and nothing does any more. */
static struct tally *tally_at(struct stretch_touches *touches, int64_t time_ns, bool adds_up)
{
	unsigned i = touches->now;

	if (time_ns < touches->from_ns[i])
		i = !i;
	touches->has_none |= !adds_up || time_ns < touches->from_ns[i];
	return touches->has_none ? NULL : &touches->tallies[i];
}

int stretch_touches_sample(struct stretch_touches *touches, const struct sample_event *taken)
{
	struct tally *tally = tally_at(touches, taken->time_ns, taken->measures != MEASURES_TIME);

	if (!tally)
		return 0;
	tally_sample(tally, taken);
	return stack_totals_add(&tally->stacks, taken->measures, taken->stack, taken->weight);
}

int stretch_touches_add(struct stretch_touches *touches, const struct touch *touch,
			int64_t stack_id)
{
	bool has_share = touch->role == TRACE_ROLE_WINDOW || touch->role == TRACE_ROLE_STALL;
	struct tally *tally = tally_at(touches, touch->time_ns, !has_share);
	struct touch counted = *touch;

	if (!tally)
		return 0;
	counted.owner.site = 0;
	int r = touch->owner.kind == OWNER_heap ? tally_site(tally, stack_id, &counted.owner.site)
						: 0;
	return r ?: tally_any_touch(tally, &counted);
}

/* ---- Writing ---- */

static int begin_touches(struct stretch_touches *touches)
{
	int r = touches->has_none ? 0 : keep_touches(touches, !touches->now);

	r = r ?: touches->has_none ? 0 : keep_touches(touches, touches->now);
	touches->sums.tally = &touches->tallies[0];
	return r;
}

/* All parts of a stretch; NULL where there are none. */
static int bind_touches(struct stretch_touches *touches, int64_t to_ns, size_t *part,
			sqlite3_stmt *insert)
{
	struct sums *sums = &touches->sums;
	int r = touches->has_none ? 0 : sums_clear(sums->tally, SUMS_OF_TOUCHES, 0);

	if (r < 0 || touches->has_none)
		return r;
	r = sums_join(sums, SUMS_OF_TOUCHES, &touches->parts, to_ns, part);
	sqlite3_bind_blob64(insert, 5, sums->bytes, sums->n, SQLITE_STATIC);
	return r;
}

/* All parts of a stretch, with the blocks that were born in it. */
static int write_blocks(struct stretch_blocks *blocks, size_t number, int64_t to_ns, size_t *part)
{
	struct tally_ends *ends = &blocks->tally.ends, before;
	int r = sums_clear(&blocks->tally, SUMS_OF_BLOCKS, 0);

	before = *ends;
	*ends = blocks->items[number]->born;
	r = r ?: sums_join(&blocks->sums, SUMS_OF_BLOCKS, &blocks->parts, to_ns, part);
	blocks->items[number]->born = *ends;
	*ends = before;
	return r;
}

int stretches_write(struct stretch_blocks *blocks, struct stretch_touches *touches, struct db *db,
		    int64_t run_id, const struct tally *run)
{
	auto_statement sqlite3_stmt *insert = NULL;
	struct tally *tally = &blocks->tally;
	size_t part = 0, touch_part = 0;

	if (blocks->is_one || blocks->n == 1)
		return 0;
	int r = close_part(blocks, db_integer_of(db, 0, "SELECT duration_ns FROM run WHERE id = ?1",
						 "i", run_id));
	r = r ?: begin_touches(touches);
	if (r == 0)
		r = statement_prepare(db_handle(db),
				      "INSERT INTO stretch(run_id, from_ns, to_ns, blocks, touches)"
				      " VALUES(?1, ?2, ?3, ?4, ?5)",
				      &insert);
	tally_leave(tally);
	for (size_t i = 1; i < tally->n_sites; i++)
		tally->sites[i].stack_id = run->sites[tally->sites[i].stack_id].stack_id;
	for (size_t i = 0; i < blocks->n && r == 0; i++) {
		int64_t to_ns = i + 1 < blocks->n ? blocks->items[i + 1]->from_ns : INT64_MAX;
		r = write_blocks(blocks, i, to_ns, &part);
		r = r ?: bind_touches(touches, to_ns, &touch_part, insert);
		if (r < 0)
			break;
		statement_integer(insert, 1, run_id);
		statement_integer(insert, 2, i > 0 ? blocks->items[i]->from_ns : 0);
		statement_integer(insert, 3, to_ns);
		sqlite3_bind_blob64(insert, 4, blocks->sums.bytes, blocks->sums.n, SQLITE_STATIC);
		r = statement_run(insert);
	}
	return r;
}
