#pragma once
/*
 * The analysis of a trace while it is recorded, by a process beside the recorder that takes only
 * CPU time that nobody wants. The recorder tells it how much of the file is whole, and waits for it
 * at the end. Whatever becomes of it, the recording is as it would be; the database is there when
 * it has succeeded, and else as it was.
 */
#include <stdbool.h>

#include "cli/options/option.h"
#include "runner/launch/side-process.h"
#include "runner/run.h"

struct follow {
	struct side_process process;
	bool has_begun; /* it knows the file */
};
#define FOLLOW_CLOSED ((struct follow){ .process = SIDE_PROCESS_CLOSED })

/* Start the process, before anything else runs in this one. Where it cannot be, there is none. */
void follow_start(const struct option_set *options, struct follow *ret_follow);

/* For run_observer.grown; follower is the struct follow. */
void follow_grown(void *follower, const struct run_growth *growth);

/*
 * The recording is over: wait until the database is made. One that gets no CPU is ended, and one
 * that fails says why in one line. Then whoever opens the trace analyses it. Safe on FOLLOW_CLOSED.
 */
void follow_finish(struct follow *follow);
