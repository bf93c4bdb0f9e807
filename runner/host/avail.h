#pragma once
/*
 * What can be measured on this machine by this user, each found by trying it. Nothing is recorded;
 * events are opened on the calling process and closed again.
 */
#include <stdbool.h>

#include "runner/run-options.h"

#define AVAIL_TEXT_BYTES 512

/* One thing, there or not. Strings are valid during the call. */
struct avail_item {
	/* "sources", "touched pages", "events", "counters", "heap kinds", "nodes", "privileges" */
	const char *section;
	const char *name; /* as an option takes it */
	bool is_there;
	const char *about; /* what it gives, or why it is not there */
	const char *fix; /* what would give it; "" */
};

/* A negative result stops, and is handed on. */
typedef int (*avail_sink)(void *user, const struct avail_item *item);

/*
 * Give every thing to the sink, section by section. Takes some ms. Returns 0 or the sink's result.
 */
int avail_look(avail_sink sink, void *user);
