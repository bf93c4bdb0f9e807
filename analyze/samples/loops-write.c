/* Which counts of a loop can be told, and its rows. */
#include <math.h>

#include "analyze/samples/loops.h"
#include "common/human-number.h"
#include "store/database.h"
#include "store/statement.h"

#define MIN_PAIRS	  30u /* fewer say nothing */
#define MAX_REFUTED	  0.1 /* of the pairs whose registers could tell */
#define MAX_AMBIGUOUS	  0.05 /* of the replays */
#define MAX_HALF	  0.02 /* of a count: one that is less sure is not told */
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
 * The mean between two samples, for each sample of the loop. Its error has two parts: that of the
 * mean, and that of the number of samples, which is the error of the loop's share of time.
 */
static struct told tell_count(const struct sample_loop *loop, const struct loop_counts *counts,
			      uint64_t n_all)
{
	double n = (double)counts->n, n_samples = (double)loop->n_samples;
	double mean = counts->sum / n;
	double variance = fmax(counts->sum_sq / n - mean * mean, 0);
	double of_mean = 1.96 * sqrt(variance / n) * n_samples;
	double of_samples =
		mean * (double)n_all * format_half_width(n_samples, n_samples, (int64_t)n_all);

	return (struct told){ .n = mean * n_samples, .half = hypot(of_mean, of_samples) };
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
	return owner->replayed / (double)loop->replayed.n * (double)loop->n_samples;
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
