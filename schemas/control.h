#pragma once
/*
 * What `memsight ctl` and a recording say to each other, on the recording's socket
 * (schemas/recording.h): one request, one reply, each a message of SOCK_SEQPACKET. The recorder
 * obeys its own user and root, as the kernel names who has connected. Same build only.
 */
#include <limits.h>
#include <stdint.h>

#define CONTROL_MAGIC	      UINT32_C(0x4c525443) /* "CTRL" */
#define CONTROL_VERSION	      1u
#define CONTROL_MESSAGE_BYTES 512

enum control_verb {
	CONTROL_STATUS,
	CONTROL_PAUSE,
	CONTROL_RESUME,
	CONTROL_MARK, /* text: its name */
	CONTROL_LOOK, /* at the pages of all processes */
	CONTROL_RESET, /* another window begins */
	CONTROL_SNAPSHOT, /* text: an absolute path; "": beside the trace, numbered */
	CONTROL_STOP,
	CONTROL_SET, /* text: KEY=VALUE; the reply's message says what it was */
	/* a descriptor of the live totals (schemas/live-totals.h) comes with the reply */
	CONTROL_TOTALS,
	CONTROL_VERBS
};

struct control_request {
	uint32_t magic;
	uint32_t version;
	uint32_t verb; /* enum control_verb */
	uint32_t pid; /* STATUS: is this process recorded, or the recorder? */
	uint32_t is_forced; /* SNAPSHOT: overwrite */
	uint32_t reserved;
	char text[PATH_MAX]; /* NUL-terminated */
};

struct control_reply {
	uint32_t magic;
	uint32_t version;
	int32_t error; /* 0 or a negative errno; then message says why */
	uint32_t knows_pid; /* STATUS: request.pid */
	uint32_t recorder_pid;
	uint32_t command_pid;
	uint32_t n_processes; /* that live */
	uint32_t is_paused;
	uint32_t window; /* number of the last window that began; 0: there are none */
	uint32_t has_stopped; /* recording has ended early, the program runs on */
	uint64_t wall_ns; /* since the program was let go */
	uint64_t n_events;
	uint64_t n_samples;
	uint64_t file_bytes;
	char output[PATH_MAX]; /* the trace's name at the end */
	char path[PATH_MAX]; /* SNAPSHOT: what was written */
	char message[CONTROL_MESSAGE_BYTES];
};
