#pragma once
/* How far long work is, for whoever shows it to a person. */
#include <stdint.h>

struct progress_step {
	const char *phase; /* for people: "reading", "writing blocks" ...; a constant */
	const char *unit; /* what is counted: "rows"; NULL: bytes */
	uint64_t n_done;
	uint64_t n_all; /* 0: the phase has no measure */
	const char *size_is; /* "database above", "file of some" */
	uint64_t size_bytes; /* that what is made will have; 0: not known */
};

/* Called when a phase begins, and now and then while it lasts. */
typedef void (*progress_show)(void *context, const struct progress_step *step);
