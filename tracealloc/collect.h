#pragma once
/* Which classes of events are recorded now: the stack of memsight_collect_push(). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/collect-words.h"

/* The bits of a list of n_bytes; unknown words are read over (analyze counts them). */
static inline uint32_t ta_collect_parse(const char *text, size_t n_bytes)
{
	return collect_parse(text, n_bytes, NULL);
}

/* Let only these classes be recorded, as far as --events wants them. Signal safe. */
void ta_collect_push(uint32_t bits);

/* Take the last push back. False: there is none. Signal safe. */
bool ta_collect_pop(void);
