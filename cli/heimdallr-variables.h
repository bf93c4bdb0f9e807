#pragma once
/*
 * The variables of Heimdallr and its allocation tracer, for workloads and job scripts that set
 * them: each stands for one of our options, which wins when it is given in any way.
 */
#include <stddef.h>

#include "cli/options/option.h"

#define HEIMDALLR_MAX_TEXTS 8

/* Texts that options point to, and what a person is told. All zero is none. */
struct heimdallr {
	char *texts[HEIMDALLR_MAX_TEXTS];
	size_t n;
	char obeyed[256]; /* "TRAC_THRESHOLD, TRAC_STACKLEVELS", or "" */
};

/*
 * Set options of `record` from the environment. Returns 0, -EINVAL with options->message set, or
 * -ENOMEM. The options point into heimdallr, which heimdallr_finish() frees.
 */
int heimdallr_read(struct option_set *options, struct heimdallr *heimdallr);
void heimdallr_finish(struct heimdallr *heimdallr);

#define auto_heimdallr __attribute__((cleanup(heimdallr_finish)))
