#pragma once
/*
 * How a traced program finds its collector: names of environment variables, and the two messages
 * on the socket. Same build only, like ring.h.
 *
 * MEMSIGHT_RECORDING=PATH names a SOCK_SEQPACKET socket: first the file PATH is tried, then the
 * abstract name "\0" PATH (chroot, or the folder is not visible). The program sends a hello, and
 * with it what /proc says of it, so that it need not wait until the collector has asked; the
 * collector checks its peer credentials, answers with a welcome and, when it accepts, the pool's
 * file descriptor in SCM_RIGHTS, and that of a plan where functions are chosen. If that takes too
 * long the program runs untraced: at once when the collector is found stopped (looked at every
 * RECORDING_SLICE_MS), after RECORDING_ATTACH_MS when nothing can be told about it (no /proc,
 * another pid namespace), after RECORDING_PATIENCE_MS when it lives. The collector finds the
 * connection of a program that gave up closed, and says so.
 */
#include <stdint.h>

#define RECORDING_ENV_SOCKET  "MEMSIGHT_RECORDING"
#define RECORDING_ENV_PRELOAD "LD_PRELOAD"
#define RECORDING_LIBRARY     "libtracealloc.so"
#define RECORDING_SLICE_MS    10
#define RECORDING_ATTACH_MS   100
#define RECORDING_PATIENCE_MS 1000
#define RECORDING_STATIC_MS   30000

/*
 * MEMSIGHT_PLACEMENT tells libtracealloc_heap.so, which is preloaded below libtracealloc.so, where
 * blocks go. Words with one blank between them:
 *	KIND SIZE MIN SPILLS MODE NODES DIR
 * KIND as --heap names it; SIZE of the heap of one process and MIN, the smallest block that goes
 * there, in bytes; SPILLS 1: what does not fit goes to libc, 0: it is refused (ENOMEM); MODE a
 * MPOL_* and NODES its nodes ("0,2"), or 0 and "-"; DIR the absolute folder of the heap's file, or
 * nothing.
 */
#define RECORDING_ENV_PLACEMENT "MEMSIGHT_PLACEMENT"
#define RECORDING_HEAP_LIBRARY	"libtracealloc_heap.so"
#define RECORDING_MAX_NODES	1024
#define RECORDING_DIR_BYTES	3072 /* with its NUL */

#define RECORDING_MAGIC UINT32_C(0x4f4c4c48) /* "HLLO" */

struct recording_hello {
	uint32_t magic;
	uint32_t version; /* RING_VERSION */
	uint32_t pid; /* getpid of the program (its own namespace) */
	uint32_t tid;
	uint32_t command_bytes; /* as /proc/PID/cmdline; 0: to be asked for while it waits */
	uint32_t maps_bytes; /* as /proc/PID/maps, all of it; 0: the same */
};

/*
 * RING_FLAG_WRITES: on another connection the program, and each forked child, lends the collector a
 * userfaultfd of its memory in SCM_RIGHTS, and closes its own. Nothing is answered.
 */
#define RECORDING_LENT_MAGIC UINT32_C(0x544e454c) /* "LENT" */

struct recording_lent {
	uint32_t magic;
	uint32_t version; /* RING_VERSION */
};

/*
 * RING_FLAG_STATIC: a program that is about to become a statically linked one, or to spawn one, has
 * the agent put into that. It asks at a socket beside the other, whose last name is this one. The
 * answer is the pid of a process of ours, which it allows to trace it (Yama). It says so by a byte,
 * and is answered with 0 or a negative errno. If its exec fails it says so by another byte. The
 * connection ends with the exec. Each answer takes some ms, and on a machine with much more work
 * than CPUs far longer: who asks a recorder that is alive waits RECORDING_STATIC_MS. Who gives up
 * before ends the connection, which is a loss.
 */
#define RECORDING_STATIC_NAME	   "static" /* as long as that of the other */
#define RECORDING_STATIC_MAGIC	   UINT32_C(0x54415453) /* "STAT" */
#define RECORDING_STATIC_FAILED	   'f'
#define RECORDING_STATIC_IS_TRACED 't'

struct recording_static {
	uint32_t magic;
	uint32_t version; /* RING_VERSION */
	uint32_t pid; /* getpid and gettid of who asks (its own namespace) */
	uint32_t tid;
	uint32_t is_spawn; /* its next child is to have it */
};

#define RECORDING_TEXT_BYTES 16384

/* A hello as one message: only as much of the text as it has. */
struct recording_greeting {
	struct recording_hello hello;
	char text[RECORDING_TEXT_BYTES]; /* the command, then the maps */
};

enum recording_verdict {
	RECORDING_ACCEPTED,
	RECORDING_WRONG_VERSION,
	RECORDING_NO_SLOT, /* too many live processes */
	RECORDING_REFUSED, /* another user's process, or --no-follow */
};

struct recording_welcome {
	uint32_t magic;
	uint32_t verdict; /* enum recording_verdict */
	uint64_t pool_bytes; /* to map of the file descriptor that comes with it */
	uint64_t plan_bytes; /* of a second one: schemas/functions-plan.h; 0: there is none */
	uint32_t slot; /* the process slot that the collector has claimed for this image */
	uint32_t generation;
	uint64_t ticks; /* now ... */
	/*
	 * ... which is this on CLOCK_MONOTONIC_RAW: for a program that may not read the
	 * counter
	 */
	uint64_t raw_ns;
};
