#pragma once
/*
 * Lines of 64 bytes that threads share: the table `shared_line`, a row for each pair of threads.
 * Two share a line while both come back to it after the other: what one did before the other came
 * or after it had left is no sharing, nor is what a thread did through another block that lay there
 * before. Keeps at most SHARED_LINES lines and SHARED_PAIRS pairs; when there are more, those
 * touched least go and are counted. All zero is empty. One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "common/hash-map.h"
#include "store/totals/share-sum.h"
#include "store/touch.h"

struct db;

#define SHARED_LINE_BYTES 64u
#define SHARED_LINES	  (1u << 19)
#define SHARED_PAIRS	  (1u << 18)
#define SHARED_USERS	  32u /* of a line: bits of a mask */
/* From here on a pair is told: one, other, one, other, one. */
#define SHARED_CHANGES 4u

/* A thread that touches a line through one owner. */
struct shared_user {
	int64_t thread; /* row */
	int64_t owner_id;
	int64_t stack_id; /* of its block; 0: it is none */
	int32_t owner_kind;
	uint32_t paired; /* bit i: with user i */
	uint32_t last; /* number of the line's touch */
	uint32_t has_written;
};

/* Bytes of the line that were touched, and those of them that were written: bit i is byte i. */
struct shared_bytes {
	uint64_t touched;
	uint64_t written;
};

/*
 * The two turns of a pair that come last, in lots: what was touched long ago says nothing of now.
 */
struct shared_side {
	struct shared_bytes all;
	struct shared_bytes lots[2]; /* the current one, and the one before */
	unsigned n_turns; /* in the current one */
};

struct shared_turn {
	struct shared_bytes bytes;
	struct share_total share; /* of samples of time */
	uint32_t n_touches;
	uint32_t n_writes;
	double time_ns;
	int64_t first_ns;
	int64_t last_ns;
};

/* Two users of different threads. Sums are of whole turns between turns of the other. */
struct shared_pair {
	uint8_t users[2];
	uint8_t turn_of; /* 0, 1 */
	uint32_t n_changes;
	uint32_t n_same; /* turns that met the other's at the same bytes, one of them written ... */
	uint32_t n_apart; /* ... and those that met it at other bytes only */
	struct shared_side sides[2];
	struct shared_turn turn; /* not yet ended */
	struct shared_turn sum;
};

struct shared_line {
	uint64_t address;
	int64_t process; /* row */
	uint64_t n_touches;
	uint64_t n_hitm; /* of them: found it modified in another cache */
	struct shared_user first;
	struct shared_user *others; /* NULL: the first is alone */
	struct shared_pair *pairs;
	uint32_t n_users;
	uint32_t n_pairs;
};

/* Touches that wait until their line has come into the cache. */
#define SHARED_WAITING 16u
struct shared_waiting {
	struct touch touch;
	int64_t stack_id;
};

struct shared_lines {
	struct shared_waiting waiting[SHARED_WAITING]; /* the one with number n in n % 16 */
	size_t n_came;
	size_t n_added; /* of them */
	struct key_map numbers; /* of (process, address): index + 1 */
	struct shared_line *items;
	size_t n;
	size_t n_allocated;
	size_t n_pairs; /* of all lines */
	uint64_t least; /* touches of the lines that went last */
	uint64_t n_forgotten; /* touches of lines and users that went */
};

void shared_lines_finish(struct shared_lines *lines);

/*
 * Add a touch of an address that is known, of a thread and process with rows; stack_id: where the
 * block was allocated that it lies in, 0: there is none. Some wait for those behind them. 0 or
 * -ENOMEM.
 */
int shared_lines_add(struct shared_lines *lines, const struct touch *touch, int64_t stack_id);

/* Add what waits. Returns 0 or -ENOMEM. */
int shared_lines_settle(struct shared_lines *lines);

/*
 * Add what waits, and write the pairs that share a line to which one of them writes. Returns 0 or a
 * negative errno.
 */
int shared_lines_write(struct shared_lines *lines, struct db *db, int64_t run_id);
