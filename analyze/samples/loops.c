#include "analyze/samples/loops.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/samples/samples-internal.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/human-number.h"
#include "store/database.h"
#include "store/statement.h"

/*
 * Emulating every instruction between two samples takes milliseconds: at most this many in all,
 * some more with each sample, and only one pair in so many is tried.
 */
#define REPLAY_INSTRUCTIONS	 8000000
#define REPLAY_INSTRUCTIONS_EACH 100
#define REPLAY_INSTRUCTIONS_MOST 500000
#define REPLAY_ONE_IN		 4u

void sample_loops_finish(struct sample_loops *loops)
{
	key_map_finish(&loops->numbers);
	key_map_finish(&loops->owner_numbers);
	free_all(loops->items, loops->owners, loops->lasts);
	*loops = (struct sample_loops){ 0 };
}

/* The loop of a frame. Returns its number or -ENOMEM. */
static int64_t find_loop(struct sample_loops *loops, int64_t frame)
{
	uint64_t number = key_map_get(&loops->numbers, (uint64_t)frame, 0);

	if (number)
		return (int64_t)number;
	if (grow_array(&loops->items, loops->n, &loops->n_allocated, sizeof(*loops->items)) < 0 ||
	    key_map_put(&loops->numbers, (uint64_t)frame, 0, loops->n + 1) < 0)
		return -ENOMEM;
	loops->items[loops->n++] = (struct sample_loop){ .frame = frame };
	return (int64_t)loops->n;
}

/* Add accesses of an owner to a loop. 0 or -ENOMEM. */
static int sample_loops_owner(struct sample_loops *loops, uint32_t loop,
			      const struct sample_access *access, struct loop_owner **ret_owner)
{
	const struct owner *owner = &access->owner;
	bool is_heap = owner->kind == OWNER_heap;
	uint64_t id = is_heap ? owner->site : (uint64_t)owner->id;
	uint64_t key = (uint64_t)loop << 8 | (uint64_t)owner->kind << 1 | (access->is_write > 0);
	uint64_t number = key_map_get(&loops->owner_numbers, key, id);

	if (!number) {
		if (grow_array(&loops->owners, loops->n_owners, &loops->n_owners_allocated,
			       sizeof(*loops->owners)) < 0 ||
		    key_map_put(&loops->owner_numbers, key, id, loops->n_owners + 1) < 0)
			return -ENOMEM;
		loops->owners[loops->n_owners++] = (struct loop_owner){
			.loop = loop, .is_write = access->is_write > 0, .owner = *owner
		};
		number = loops->n_owners;
	}
	*ret_owner = &loops->owners[number - 1];
	return 0;
}

int sample_loops_mix(struct sample_loops *loops, const struct pending_sample *item)
{
	struct loop_owner *owner;
	int r = 0;

	for (size_t i = 0; item->loop && r == 0 && i < item->n; i++) {
		if (item->accesses[i].role != TRACE_ROLE_MIX)
			continue;
		r = sample_loops_owner(loops, item->loop, &item->accesses[i], &owner);
		if (r == 0)
			share_total_add(&owner->share, item->row, item->accesses[i].share);
	}
	return r;
}

static struct loop_last *last_of(struct sample_loops *loops, uint32_t thread)
{
	int r = grow_array_to(&loops->lasts, thread, &loops->n_lasts, sizeof(*loops->lasts));

	return r < 0 ? NULL : &loops->lasts[thread];
}

void sample_loops_break(struct sample_loops *loops, uint32_t thread)
{
	if (thread < loops->n_lasts)
		loops->lasts[thread].loop = 0;
}

static void add_count(struct loop_counts *counts, double n, int64_t weight)
{
	double time = (double)weight;

	counts->n++;
	counts->sum += n;
	counts->sum_sq += n * n;
	counts->time += time;
	counts->time_sq += time * time;
	counts->product += n * time;
}

/* Whose the accesses of a replay were, by those that it drew. */
static int add_replayed(struct samples *samples, uint32_t loop, const struct decode_way *way)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < way->n_picked; i++) {
		const struct decode_access *from = &way->picked[i];
		struct sample_access access = {
			.role = TRACE_ROLE_MIX,
			.address = from->address,
			.is_write = from->is_write,
			.is_resolved = decode_state_has_address(from->state),
			.ip = from->ip,
			.owner = { .kind = OWNER_unknown },
		};
		struct loop_owner *owner;

		if (access.is_resolved)
			r = sample_find_owner(samples, samples->item, &access);
		r = r ?: sample_loops_owner(&samples->loops, loop, &access, &owner);
		if (r == 0)
			owner->replayed += (double)way->n_accesses / way->n_picked;
	}
	return r;
}

static int replay(struct samples *samples, const struct loop_last *last,
		  const struct decode_sample *input)
{
	struct sample_loops *loops = &samples->loops;
	struct sample_loop *loop = &loops->items[last->loop - 1];
	struct decode_way way;
	uint64_t draw = last->sample.time * UINT64_C(0x9e3779b97f4a7c15) >> 32;

	if (loops->budget <= 0 || draw % REPLAY_ONE_IN)
		return 0;
	int r = decode_replay(samples->decoder, &last->sample, input, REPLAY_INSTRUCTIONS_MOST,
			      &way);
	loops->budget -= (int64_t)way.n_emulated;
	loop->n_not_replayed += r < 0;
	loop->n_ambiguous += r == -EINVAL;
	if (r < 0)
		return 0;
	add_count(&loop->replayed, (double)way.n_accesses, samples->item->weight);
	return add_replayed(samples, last->loop, &way);
}

/* What the loop of the sample before did until this one. */
static int count(struct samples *samples, const struct loop_last *last,
		 const struct decode_sample *input)
{
	struct sample_loop *loop = &samples->loops.items[last->loop - 1];
	double n;

	switch (decode_iterations(samples->decoder, &last->sample, input, &n)) {
	case DECODE_COUNT_EXACT:
		add_count(&loop->counted, n * last->n_accesses, samples->item->weight);
		return 0;
	case DECODE_COUNT_REFUTED:
		loop->n_refuted++;
		return replay(samples, last, input);
	default:
		return replay(samples, last, input);
	}
}

static double sum_accesses(const struct decode_window *window)
{
	double n = 0;

	for (uint32_t i = 0; i < window->n_accesses; i++)
		n += window->accesses[i].count;
	return n;
}

/* The loop that the window went round; 0: none. */
static int64_t note_loop(struct samples *samples)
{
	const struct decode_window *window = samples->window;
	struct pending_sample *item = samples->item;

	if (window->end != DECODE_END_LOOP)
		return 0;
	const struct sample_code *code = sample_code_at(samples, item, window->head_ip);
	int64_t number = code ? find_loop(&samples->loops, code->frame) : -ENOMEM;
	if (number < 0)
		return number;

	struct sample_loop *loop = &samples->loops.items[number - 1];
	loop->n_samples++;
	loop->weight += item->weight;
	loop->n_instructions += window->n_instructions;
	loop->n_accesses += sum_accesses(window);
	return number;
}

static void keep(struct loop_last *last, const struct decode_sample *input, uint32_t loop,
		 double n_accesses)
{
	last->loop = loop;
	if (!loop)
		return;
	last->n_accesses = n_accesses;
	last->sample = *input;
	if (input->stack)
		memcpy(last->stack, input->stack, input->stack_bytes);
	last->sample.stack = input->stack ? last->stack : NULL;
	last->sample.below = NULL;
}

int sample_loops_enter(struct samples *samples, const struct decode_sample *input)
{
	struct sample_loops *loops = &samples->loops;
	uint32_t thread = samples->item->thread;

	loops->budget += loops->n_samples++ ? REPLAY_INSTRUCTIONS_EACH : REPLAY_INSTRUCTIONS;
	int64_t loop = note_loop(samples);
	if (loop < 0)
		return (int)loop;
	samples->item->loop = (uint32_t)loop;
	if (!thread || thread >= TASKS_UNSEEN)
		return 0;

	struct loop_last *last = last_of(loops, thread);
	int r = last ? 0 : -ENOMEM;
	if (r == 0 && last->loop && last->sample.process == input->process)
		r = count(samples, last, input);
	if (r == 0)
		keep(last, input, (uint32_t)loop, sum_accesses(samples->window));
	return r;
}

/* Which counts of a loop can be told, and its rows. */

#define MIN_PAIRS	  30u /* fewer say nothing */
#define MAX_REFUTED	  0.1 /* of the pairs whose registers could tell */
#define MAX_AMBIGUOUS	  0.05 /* of the replays */
#define MAX_HALF	  0.02 /* of a count: one that is less sure is not told */
#define LEAST_SPREAD	  1e-6 /* of periods: else they are all the same */
#define MIN_PAIRS_COVERED 0.1 /* of a loop's samples, by registers */

/* A count for the whole run. */
struct told {
	const char *method; /* NULL: none can be told */
	double n;
	double half; /* of the 95 % interval */
	bool is_mix; /* parted by the mix of an iteration; else by what was replayed */
};

static bool is_by_registers(const struct sample_loop *loop)
{
	double n = (double)loop->counted.n;

	return loop->counted.n >= MIN_PAIRS &&
	       (double)loop->n_refuted <= MAX_REFUTED * (n + (double)loop->n_refuted) &&
	       n >= MIN_PAIRS_COVERED * (double)loop->n_samples;
}

static bool is_by_replay(const struct sample_loop *loop)
{
	double n = (double)loop->replayed.n;

	return loop->replayed.n >= MIN_PAIRS && n >= (double)loop->n_not_replayed &&
	       (double)loop->n_ambiguous <= MAX_AMBIGUOUS * (n + (double)loop->n_ambiguous);
}

/*
 * What lies between two samples goes by the time that the later one stands for, less what it costs
 * to take it: a line through all pairs. Periods differ, and the short ones fit more often into a
 * run of the loop, so the mean of the pairs is not that of all samples. The error has three parts:
 * that of the line; what it corrects, for the samples that are in no pair; and that of the number
 * of samples, as of the loop's share of time.
 */
static struct told tell_count(const struct sample_loop *loop, const struct loop_counts *counts,
			      uint64_t n_all)
{
	double n = (double)counts->n, n_samples = (double)loop->n_samples;
	double mean = counts->sum / n, mean_time = counts->time / n;
	double spread = fmax(counts->time_sq - mean_time * counts->time, 0);
	double common = counts->product - mean_time * counts->sum;
	double slope = spread > LEAST_SPREAD * counts->time_sq ? common / spread : 0;
	double beside = slope ? (double)loop->weight / n_samples - mean_time : 0;
	double each = mean + slope * beside;
	double squares = fmax(counts->sum_sq - mean * counts->sum - slope * common, 0);
	double of_line =
		1.96 * sqrt(squares / n * (1 / n + (slope ? beside * beside / spread : 0)));
	double of_others = (1 - fmin(n / n_samples, 1)) * fabs(slope * beside);
	double of_samples =
		each * (double)n_all * format_half_width(n_samples, n_samples, (int64_t)n_all);

	return (struct told){ .n = each * n_samples,
			      .half = hypot(hypot(of_line, of_others) * n_samples, of_samples) };
}

static struct told tell(const struct sample_loop *loop, uint64_t n_all)
{
	struct told told = { 0 };

	if (is_by_registers(loop)) {
		told = tell_count(loop, &loop->counted, n_all);
		told.method = "registers";
		told.is_mix = true;
	} else if (is_by_replay(loop)) {
		told = tell_count(loop, &loop->replayed, n_all);
		told.method = "replay";
	}
	if (told.half > MAX_HALF * told.n)
		told.method = NULL;
	return told;
}

static void real_or_null(sqlite3_stmt *statement, int i, double value, bool is_known)
{
	if (is_known)
		statement_real(statement, i, value);
	else
		sqlite3_bind_null(statement, i);
}

static int write_loop(const struct sample_loops *loops, size_t i, sqlite3_stmt *statement)
{
	const struct sample_loop *loop = &loops->items[i];
	struct told told = tell(loop, loops->n_samples);
	double n = (double)loop->n_samples;

	statement_integer(statement, 2, (int64_t)i + 1);
	statement_integer(statement, 3, loop->frame);
	statement_integer(statement, 4, (int64_t)loop->n_samples);
	statement_integer(statement, 5, loop->weight);
	statement_real(statement, 6, loop->n_instructions / n);
	statement_real(statement, 7, loop->n_accesses / n);
	statement_integer(statement, 8, (int64_t)loop->counted.n);
	statement_integer(statement, 9, (int64_t)loop->n_refuted);
	statement_integer(statement, 10, (int64_t)loop->replayed.n);
	statement_integer(statement, 11, (int64_t)loop->n_not_replayed);
	statement_text(statement, 12, told.method);
	real_or_null(statement, 13, told.n, told.method);
	real_or_null(statement, 14, told.half, told.method);
	return statement_run(statement);
}

static int write_loops(const struct sample_loops *loops, sqlite3 *db, int64_t run_id)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_prepare(db,
				  "INSERT INTO loop(run_id, id, frame_id, n_samples, time_ns,"
				  " n_instructions, n_accesses, n_pairs, n_refuted, n_replayed,"
				  " n_not_replayed, method, accesses, accesses_half)"
				  " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,"
				  " ?14)",
				  &statement);

	if (r == 0)
		statement_integer(statement, 1, run_id);
	for (size_t i = 0; r == 0 && i < loops->n; i++)
		r = write_loop(loops, i, statement);
	return r;
}

/* An owner's part: of the mix when registers counted, else of what was replayed. */
static double part_of(const struct loop_owner *owner, const struct sample_loop *loop,
		      const struct told *told)
{
	if (told->is_mix)
		return told->n * owner->share.n / (double)loop->n_samples;
	return told->n * owner->replayed / fmax(loop->replayed.sum, 1);
}

static int write_owner(const struct sample_loops *loops, struct loop_owner *owner,
		       sqlite3_stmt *statement, int64_t stack_id)
{
	const struct sample_loop *loop = &loops->items[owner->loop - 1];
	struct told told = tell(loop, loops->n_samples);

	share_total_settle(&owner->share);
	statement_integer(statement, 2, owner->loop);
	statement_integer(statement, 3, owner->owner.kind);
	statement_integer(statement, 4,
			  owner->owner.kind == OWNER_heap ? stack_id : owner->owner.id);
	statement_integer(statement, 5, owner->is_write);
	statement_real(statement, 6, owner->share.n);
	statement_real(statement, 7, owner->share.n_sq);
	real_or_null(statement, 8, part_of(owner, loop, &told), told.method);
	return statement_run(statement);
}

int sample_loops_write(struct sample_loops *loops, struct db *db, int64_t run_id,
		       instruction_stack_of stack_of, void *user)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = write_loops(loops, db_handle(db), run_id);

	if (r == 0)
		r = statement_prepare(
			db_handle(db),
			"INSERT INTO loop_access(run_id, loop_id, owner_kind, owner_id,"
			" is_write, n_samples, n_samples_sq, accesses)"
			" VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO UPDATE"
			" SET n_samples = n_samples + excluded.n_samples,"
			" n_samples_sq = n_samples_sq + excluded.n_samples_sq,"
			" accesses = accesses + excluded.accesses",
			&statement);
	if (r == 0)
		statement_integer(statement, 1, run_id);
	for (size_t i = 0; r == 0 && i < loops->n_owners; i++)
		r = write_owner(loops, &loops->owners[i], statement,
				stack_of(user, loops->owners[i].owner.site));
	return r;
}
