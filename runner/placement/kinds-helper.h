#pragma once
/* Runs the helper memsight-kinds, which says what names of memory, nodes and CPUs mean here. */
#include <stddef.h>

#define KINDS_HELPER_MAX_WORDS	   8
#define KINDS_HELPER_PROBLEM_BYTES 512 /* at least so long is what kinds_helper_run() may write */

/* Its words under way; all zero is none. */
struct kinds_helper {
	char *words[KINDS_HELPER_MAX_WORDS];
	size_t n;
};

/* Ask for name=value. Returns 0 or -ENOMEM. */
int kinds_helper_add(struct kinds_helper *helper, const char *name, const char *value);

/*
 * Run it and call take(user, key, value) for each line. Returns 0 or a negative errno, with a
 * sentence in problem: what the helper says is missing, or that this memsight has no helper.
 */
int kinds_helper_run(const struct kinds_helper *helper,
		     void (*take)(void *user, const char *key, const char *value), void *user,
		     char problem[KINDS_HELPER_PROBLEM_BYTES]);

void kinds_helper_finish(struct kinds_helper *helper);

#define auto_kinds_helper __attribute__((cleanup(kinds_helper_finish)))
