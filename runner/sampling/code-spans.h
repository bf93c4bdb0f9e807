#pragma once
/*
 * Where code lies that was decoded: most of what a process maps and unmaps is elsewhere, and then
 * nothing that is kept of code has to be looked through. A program maps new arenas between its own
 * code and that of its libraries, so one range from the first to the last would not do. Bounded
 * memory; where it is not enough, code may be anywhere. One thread at a time.
 */
#include <stdbool.h>
#include <stdint.h>

#define CODE_SPANS 128u

/* All zero is right. */
struct code_spans {
	uint32_t n;
	bool is_full; /* some are missing */
	struct {
		uint64_t start, end;
		uint32_t process_id;
	} items[CODE_SPANS];
};

/* Code, or constants, in [start, end) are kept from here on. */
void code_spans_add(struct code_spans *spans, uint32_t process_id, uint64_t start, uint64_t end);

/*
 * Something else is in [start, end). Returns whether anything in it may be kept. Of a whole image,
 * (process_id, 0, UINT64_MAX), nothing is kept behind it.
 */
bool code_spans_forget(struct code_spans *spans, uint32_t process_id, uint64_t start, uint64_t end);
