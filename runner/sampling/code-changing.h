#pragma once
/*
 * Pages of code that may change where they lie (code-maps.h). Each one that samples hit is read
 * again in each round behind them, those around it and some of the others in turn; what differs is
 * handed on, by lines. What two readings in a row saw alike is what ran in between; nothing else is
 * ever decoded. Bounded memory. One thread at a time.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "schemas/trace-format.h"

/* Who takes what was read; may be NULL. A negative result is handed on. */
struct code_changing_sink {
	int (*lines)(void *context, uint32_t process_id, const struct trace_code *head,
		     const void *bytes);
	int (*seen)(void *context, const struct trace_code_seen *record, const uint64_t *pages);
	void *context;
};

struct code_changing_counts {
	uint64_t n_pages; /* read for the first time */
	uint64_t n_changes; /* readings that found a page changed */
	uint64_t n_bytes; /* of lines handed on */
	uint64_t n_unreadable; /* pages of samples, each round */
	uint64_t n_over_limit;
};

struct code_changing;

/* Returns 0 or -ENOMEM. At most max_pages are kept (about 5 KiB each), max_bytes handed on. */
int code_changing_create(const struct code_changing_sink *sink, size_t max_pages,
			 uint64_t max_bytes, struct code_changing **ret_changing);
struct code_changing *code_changing_destroy(struct code_changing *changing); /* accepts NULL */

/*
 * A sample was taken on the page, or next to it (is_needed false): it is read in this round.
 * Returns 0 or -ENOMEM.
 */
int code_changing_want(struct code_changing *changing, uint32_t process_id, pid_t pid,
		       uint64_t page, bool is_needed);

/*
 * Read what is wanted. All samples that are to be told by this reading were taken before. Returns 0
 * or what the sink does.
 */
int code_changing_round(struct code_changing *changing, uint64_t ticks);

/*
 * Copy bytes that were the same in this reading and in as many before it that nobody changes them
 * all the time: certain for samples between the last two rounds. Returns how many from address on.
 */
size_t code_changing_certain(const struct code_changing *changing, uint32_t process_id,
			     uint64_t address, void *bytes, size_t n_bytes);

/* Whether a page was new or changed a short time ago: then rounds ought to come soon. */
bool code_changing_is_moving(const struct code_changing *changing);

void code_changing_forget(struct code_changing *changing, uint32_t process_id);
const struct code_changing_counts *code_changing_counts(const struct code_changing *changing);
