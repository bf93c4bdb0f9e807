#pragma once
/*
 * Code that changes where it lies: what was there at which time, from the readings that a trace
 * tells of (CODE frames of kind CHANGING, CODE_SEEN). A line of 64 bytes is known for the time
 * between two readings in a row that saw it alike. A line that was seen to come back to what it had
 * been a short time before is not known at all: between two readings that saw it alike it may have
 * been another. Read in one go, since what is found out late says something of samples before. One
 * thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/samples/samples.h"

struct code_history;

/*
 * Read all of a trace's readings; times are converted by the clock. 0 or a negative errno. Of a
 * trace that is damaged nothing is known: a change may be missing.
 */
int code_history_read(const char *path, const struct sample_clock *clock,
		      struct code_history **ret_history);
struct code_history *code_history_destroy(struct code_history *history); /* accepts NULL */

/* Whether the page around an address was ever read in that image. */
bool code_history_has(const struct code_history *history, uint32_t process, uint64_t address);

/*
 * A number that is another one when other bytes of the page are known: 0 for pages that
 * code_history_has() not.
 */
uint32_t code_history_version(struct code_history *history, uint32_t process, uint64_t address,
			      int64_t time_ns);

/* Which bytes are asked for, and where they are put. */
struct code_question {
	uint64_t address;
	int64_t time_ns;
	void *bytes;
	size_t n_bytes;
};

/* Copy the bytes that were there; returns how many are known from the address on. */
size_t code_history_bytes(const struct code_history *history, uint32_t process,
			  const struct code_question *question);

/* An image, and the one that it was forked of. */
struct code_fork {
	uint32_t process;
	uint32_t parent;
	int64_t time_ns;
};

/*
 * The same for a time before the image's own first reading of a line, at most to the line's end:
 * known where the parent's last reading before the fork saw the same.
 */
size_t code_history_inherited(const struct code_history *history, const struct code_fork *fork,
			      const struct code_question *question);
