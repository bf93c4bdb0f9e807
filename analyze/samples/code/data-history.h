#pragma once
/*
 * Memory that samples' windows load addresses from, as the recorder read it some ms behind them
 * (CODE frames of kind HELD), and whether it may be taken for what was there at the sample. A
 * reading alone does not tell: the program may have read the word and written it at once. Where a
 * reading before the sample had seen the same, it does, unless memory is seen to change that
 * samples in that loop load from; where there was none, only if of the hundred readings around in
 * time none that can tell did. Readings at all samples of a loop count, at whichever instruction.
 *
 * Samples wait until what was read so long behind them is known. One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "analyze/samples/samples.h"

/* A reading later than that behind a sample says nothing of it. */
#define DATA_HISTORY_NS INT64_C(200000000)

/* Of the begin of a run so much is read at once: until then no loop has told enough of itself. */
#define DATA_HISTORY_BEGIN_NS INT64_C(1000000000)

struct data_history;

struct data_history *data_history_create(void); /* NULL: no memory */
struct data_history *data_history_destroy(struct data_history *history); /* accepts NULL */

/*
 * Add the readings of a CODE frame of kind HELD, in the order of the trace; times are converted by
 * the clock. Returns 0 or -ENOMEM.
 */
int data_history_add(struct data_history *history, const struct sample_clock *clock,
		     uint32_t process, const struct trace_code *head, const void *bytes);

/* Something of the trace is lost, which may have shown a change: nothing is known any more. */
void data_history_end(struct data_history *history);

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
