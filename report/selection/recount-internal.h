#pragma once
/* For the files of recount.h: their queries, and what they read rows with. */
#include <sqlite3.h>
#include <stdbool.h>

#include "report/selection/recount.h"

struct touch;

/* Conditions: each stands in the query only where the selection has it. */
#define IN_THREAD(row)                                                                             \
	" AND " row ".thread_id IN (SELECT id FROM thread WHERE run_id = :run AND tid = :tid)"
#define IN_PROCESS(row)                                                                            \
	" AND " row ".process_id IN (SELECT id FROM process WHERE run_id = :run AND pid = :pid)"
#define IN_REGION(row, time)                                                                       \
	" AND EXISTS (SELECT 1 FROM temp.span WHERE span.thread_id = " row ".thread_id AND"        \
	" span.start_ns <= " row "." time " AND span.end_ns > " row "." time ")"

/* Rows that are told by their ids are not looked for by the index of time. */
#define TIME_OF_ROWS " AND +sample.time_ns >= :from AND +sample.time_ns < :to"

struct replay_conditions {
	const char *head;
	const char *process, *thread, *region, *addresses, *time;
	const char *rows; /* with their times, in the place of time ... */
	const char *whole; /* ... and what stands there for all time; NULL: nothing */
	const char *tail;
};

/* Touches with what is known of any access: the columns that a query of them begins with. */
#define REPLAY_ACCESS_HEAD                                                                         \
	"SELECT sample.id, sample.time_ns, weight, sample.process_id, sample.thread_id,"           \
	" source.name, role, share, touch.address, touch.size, is_write, owner_kind, owner_id"
enum {
	ACCESS_SAMPLE,
	ACCESS_TIME,
	ACCESS_WEIGHT,
	ACCESS_PROCESS,
	ACCESS_THREAD,
	ACCESS_MEASURES,
	ACCESS_ROLE,
	ACCESS_SHARE,
	ACCESS_ADDRESS,
	ACCESS_SIZE,
	ACCESS_WRITE,
	ACCESS_KIND,
	ACCESS_OWNER,
	REPLAY_ACCESS_COLUMNS,
};
#define REPLAY_ACCESS_CONDITIONS                                                                   \
	.process = IN_PROCESS("sample"), .thread = IN_THREAD("sample"),                            \
	.region = IN_REGION("sample", "time_ns"),                                                  \
	.addresses = " AND touch.address >= :low AND touch.address < :high",                       \
	.time = " AND sample.time_ns >= :from AND sample.time_ns < :to",                           \
	.rows = " AND touch.rowid BETWEEN :first_touch AND :last_touch" TIME_OF_ROWS

/* The query of the selection, its values bound; NULL: statement_kept() tells why. */
sqlite3_stmt *replay_prepare(const struct replay *replay,
			     const struct replay_conditions *conditions);

int64_t replay_run_end(const struct replay *replay);

/* ROWS_NULL where it is NULL. */
int64_t replay_or_null(sqlite3_stmt *row, int column);

/* What one row tells may be anything; distances that no int64_t holds are damage: -EBADMSG. */
int replay_distance(int64_t from, int64_t to, int64_t *ret_distance);
