#pragma once
/* The names that a program tells (TRACE_RECORD_TEXT), by their ids. One thread. */
#include <stddef.h>
#include <stdint.h>

#include "common/hash-map.h"

/* All zero is empty. */
struct texts {
	char **items; /* number - 1 */
	size_t n;
	size_t n_allocated;
	struct key_map by_id; /* -> number */
};

void texts_finish(struct texts *texts);

/* Add the text of an id; one that is known stays as it is. Returns 0 or -ENOMEM. */
int texts_add(struct texts *texts, uint64_t id, const char *text, size_t n_bytes);

/*
 * The number of an id, from 1; an id that nobody told gets the text "(name lost)". Returns the
 * number or -ENOMEM.
 */
int64_t texts_number(struct texts *texts, uint64_t id);

/* By number; valid until texts_finish(). */
const char *texts_get(const struct texts *texts, uint32_t number);
