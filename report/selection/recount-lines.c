/*
 * Lines that threads share: who was first depends on the order of accesses, so these are put in
 * order.
 */
#include "report/selection/recount-internal.h"

#include "store/database.h"
#include "store/statement.h"
#include "store/touch.h"

/*
 * By time, then by sample: rows lie in that order but for the samples whose owner was found late.
 * What is left, two touches of one sample, is told apart by what they say, since touches have no id
 * of their own.
 */
#define IN_ORDER                                                                                   \
	" ORDER BY sample.time_ns, sample.id, touch.address, role, owner_kind, owner_id,"          \
	" is_write, touch.size, share"
#define LINE_REST                                                                                  \
	" JOIN main.source ON source.id = source_id WHERE sample.run_id = :run"                    \
	" AND touch.run_id = :run AND touch.address IS NOT NULL AND role IN (0, 1)"

static const struct replay_conditions line_conditions = {
	.head = REPLAY_ACCESS_HEAD
	" FROM main.touch CROSS JOIN main.sample ON sample.id = sample_id" LINE_REST,
	REPLAY_ACCESS_CONDITIONS,
	.tail = IN_ORDER,
};
static const struct replay_conditions timed_line_conditions = {
	.head = REPLAY_ACCESS_HEAD
	" FROM main.sample CROSS JOIN main.touch ON sample.id = sample_id" LINE_REST,
	REPLAY_ACCESS_CONDITIONS,
	.tail = IN_ORDER,
};

int replay_lines(const struct replay *replay)
{
	bool is_timed = !replay->rows && replay_is_short(replay);
	auto_statement sqlite3_stmt *row =
		replay_prepare(replay, is_timed ? &timed_line_conditions : &line_conditions);
	int r = row ? 0 : statement_kept(db_handle(replay->db));

	while (r == 0 && (r = statement_step(row)) == 1) {
		struct touch touch;
		r = replay_read_access(replay, row, &touch);
		if (r == 0)
			r = tally_line(replay->tally, &touch);
	}
	return r;
}
