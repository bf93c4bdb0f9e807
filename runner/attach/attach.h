#pragma once
/*
 * Into a process that already runs, and out of it again. All or nothing: on failure the process is
 * as it was, but for our library, which may stay mapped and does nothing.
 *
 * In: one thread that is in no lock of libc's loads our library, while all others run, so that
 * none of them can hold what dlopen waits for. Then all threads stand; those inside malloc or the
 * loader run on and are asked again. Then the library puts its functions into the tables of all
 * modules, and all are let go as they were found.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runner/attach/entries.h"
#include "runner/attach/family.h"
#include "runner/attach/heap-walk.h"
#include "schemas/ring.h"

#define ATTACH_MESSAGE_BYTES 512
#define ATTACH_TIMEOUT_NS    UINT64_C(2000000000)

struct attach_order {
	pid_t pid;
	uint64_t started; /* when, as attach_started(): another one may have its number */
	const char *library; /* libtracealloc.so, as we see it */
	const char *socket; /* of the recording */
	bool wants_blocks; /* those that are there already */
	bool wants_contents; /* what is in those that are there when it is left */
	bool has_plugins; /* to be loaded: --load */
	uint64_t timeout_ns; /* that threads may take to leave malloc and the loader */
};

struct attach_outcome {
	int error; /* 0 or a negative errno */
	char message[ATTACH_MESSAGE_BYTES]; /* one line for a person, when it failed */
	uint64_t stood_ns; /* how long all threads stood */
	uint32_t n_threads;
	uint32_t n_slots; /* places that lead to us now, or did */
	uint32_t n_entries; /* functions of the allocator whose entries lead to us */
	uint32_t n_functions; /* that are chosen, whose calls come to us */
	uint32_t n_functions_lost; /* the same, that could not be written */
	char entries_why[ENTRIES_WHY_BYTES]; /* why those of malloc do not; "": they do */
	struct family family; /* who will have to be left with it */
	bool was_left_behind; /* an earlier recording is still in it, and will not go on */
	/* order.wants_blocks: */
	/*
	 * A file of struct heap_block, for the caller to close; -1: none. Of leaving, where
	 * order.wants_contents: of struct trace_content, of one of each n_th block.
	 */
	int blocks_fd;
	uint32_t n_th;
	uint64_t n_blocks;
	uint64_t walk_ns; /* that looking for them took */
	char blocks_why[HEAP_WHY_BYTES]; /* which are not known, and why; "": none */
};

/* Which processes are meant. */
struct attach_wish {
	/* numbers or names, of the program's file or as the kernel calls it, with ',' between */
	const char *text;
	int64_t rank; /* of its parallel job; < 0: any */
	const char
		*command; /* what it should run, a path or as the shell finds it; NULL: anything */
};

/*
 * Find those that are meant, each once; a name must be that of one process alone. The caller frees
 * *ret_pids. 0 or a negative errno with one line in message.
 */
int attach_find(const struct attach_wish *wish, pid_t **ret_pids, size_t *ret_n,
		char message[ATTACH_MESSAGE_BYTES]);

/*
 * Can it be entered? Asks without touching it. 0 or a negative errno with one line that says what
 * would permit it.
 */
int attach_check(pid_t pid, char message[ATTACH_MESSAGE_BYTES]);

/* Is our library in it, at work or not? */
bool attach_has_library(pid_t pid);

/* When a process was started, in clock ticks since boot; 0: it is gone. */
uint64_t attach_started(pid_t pid);

/* Who we are, for a recording of ours. */
struct ring_recorder attach_recorder(void);

/*
 * Is a recording left behind: it has ended, or its recorder is gone? False where that cannot be
 * known, as from another PID namespace.
 */
bool attach_is_left_behind(const struct ring_recorder *recorder);

/* Why ptrace refuses, and what helps. */
void attach_explain(pid_t pid, int error, char message[ATTACH_MESSAGE_BYTES]);

/* Load the library, let it say hello, and hook. The recorder must answer meanwhile. */
int attach_enter(const struct attach_order *order, struct attach_outcome *ret_outcome);

/* Take everything back. Whoever recorded sees its slot end. Those of its family are kept. */
int attach_leave(const struct attach_order *order, struct attach_outcome *ret_outcome);

/*
 * Leave all that were forked from it while it was attached to, when it has been left or is gone.
 * Returns how many could not be left, *ret_left how many were.
 */
size_t attach_leave_family(const struct family *family, uint64_t timeout_ns, size_t *ret_left);
