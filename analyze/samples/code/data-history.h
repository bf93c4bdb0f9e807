#pragma once
/*
 * Memory that samples' windows load addresses from, as the recorder read it some ms behind them
 * (CODE frames of kind HELD), and whether it may be taken for what was there at the sample. A
 * reading alone does not tell: the program may have read the word and written it at once. Where a
 * reading before the sample had seen the same, it does, unless memory is seen to change that
 * samples in that loop load from; where there was none, only if of the hundred readings around in
 * time none that can tell did. Readings at all samples of a loop count, at whichever instruction.
 *
 * Read in one go, since readings behind a sample say something of it. One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "analyze/samples/samples.h"

struct data_history;

/* Read all of a trace; times are converted by the clock. 0 or a negative errno. */
int data_history_read(const char *path, const struct sample_clock *clock,
		      struct data_history **ret_history);
struct data_history *data_history_destroy(struct data_history *history); /* accepts NULL */

/* What a sample's window asks for. */
struct data_question {
	uint32_t process;
	uint64_t ip; /* of the sample */
	int64_t time_ns;
	uint64_t address;
};

/*
 * Copy what memory of the image held at that time; returns how many bytes are known from the
 * address on.
 */
size_t data_history_bytes(const struct data_history *history, const struct data_question *question,
			  void *ret_bytes, size_t n_bytes);
