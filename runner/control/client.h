#pragma once
/* Asks recordings that are under way, from outside: schemas/control.h. */
#include <stdint.h>

#include "schemas/control.h"

#define CONTROL_MAX_RECORDINGS 64

/* A recording of which this user may know. */
struct control_recording {
	char socket[128];
	struct control_reply status;
};

/*
 * All recordings of this network namespace that answer; those of others than the caller answer root
 * only. Returns how many, at most CONTROL_MAX_RECORDINGS, or a negative errno. pid:
 * status.knows_pid is asked about it.
 */
int control_list(uint32_t pid, struct control_recording recordings[CONTROL_MAX_RECORDINGS]);

/*
 * Find one: what names a trace that is being written, or is the number of a recorded process or of
 * its recorder. 0, -ENOENT, or -ENOTUNIQ.
 */
int control_find(const char *what, struct control_recording *ret_recording);

/*
 * Ask for something and wait for the reply; magic and version are filled in. Returns 0 when there
 * is a reply, which may say no; or a negative errno: the recording has ended (-EPIPE).
 */
int control_ask(const struct control_recording *recording, struct control_request *request,
		struct control_reply *ret_reply);

/* The same, for so many seconds at most (0: endless); then -ETIMEDOUT, and it may still be done. */
int control_ask_for(const struct control_recording *recording, struct control_request *request,
		    unsigned seconds, struct control_reply *ret_reply);

/* How it is, as control_ask() with CONTROL_STATUS; -ETIMEDOUT: it does not answer for 2 s. */
int control_status(const struct control_recording *recording, struct control_reply *ret_reply);

/*
 * Ask for the live totals. *ret_fd (the caller's; -1 where the reply is an error) is the memory of
 * schemas/live-totals.h. As control_ask().
 */
int control_totals(const struct control_recording *recording, struct control_reply *ret_reply,
		   int *ret_fd);
