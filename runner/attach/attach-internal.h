#pragma once
/*
 * One way into a process or out of it, attach.c. Below it: a thread that works for us,
 * attach-guest.c, the jumps at entries of malloc, attach-jumps.c, and those of functions that are
 * chosen, attach-functions.c.
 */
#include "runner/attach/attach.h"
#include "runner/attach/crowd.h"
#include "runner/attach/entries.h"
#include "runner/attach/filters.h"
#include "runner/attach/modules.h"
#include "schemas/attach.h"

#define ARENA_BYTES (256u << 10) /* at its start: what calls are given, and give */
#define MAX_TEXT    4096u
#define MOST_HEADS  ((ARENA_BYTES - MAX_TEXT) / sizeof(struct attach_head))

/* Everything that an entry holds. */
struct entry {
	const struct attach_order *order;
	struct attach_outcome *outcome;
	pid_t pid;
	struct remote_modules modules;
	struct remote_place place;
	struct safety *safety;
	struct crowd crowd;
	struct remote_thread guest;
	struct remote_loan loan;
	bool has_loan;
	uintptr_t function; /* the library's entry */
	struct filters filters;
	struct entries entries;
	bool are_used; /* the library calls what lies on their pages, and so may threads be there */
	struct heap_walk walk;
	struct attach_head heads[MOST_HEADS]; /* of its chunks, as they come */
	bool has_failed; /* to read them */
	struct attach_functions functions;
	struct attach_jump *jumps; /* functions.n_jumps */
	struct safety_place *places; /* where nobody may stand for their sake */
};

/* Note why it cannot be done, in one line. Returns the error. */
__attribute__((format(printf, 3, 4))) int entry_fail(struct entry *entry, int error,
						     const char *format, ...);

/*
 * Call a function in the guest, and wait for it. While all others stand it may wait for a lock
 * that one of them has, though none was seen where that could be: then they run on, and the crowd
 * is empty. One that is only slow is waited for. 0 or a negative errno.
 */
int entry_call(struct entry *entry, uintptr_t function, const uint64_t arguments[6],
	       uint64_t *ret_result);

/*
 * Ask the library, through the arena at the start of the guest's stack. 0 or a negative errno; the
 * outcome says why then.
 */
int entry_step(struct entry *entry, struct attach_call *request);

/*
 * While others run: plan the jumps at the entries of the allocator's functions, and map and write
 * the pages of what is moved. What cannot be done is said, and no reason not to record: tables are
 * enough then.
 */
void entry_prepare_jumps(struct entry *entry);

/* All threads stand, and the library knows of them: write the jumps, all of them or none. */
void entry_write_jumps(struct entry *entry);

/*
 * Behind an earlier entry, while others run: which are there. Nobody may stand in what was moved.
 */
int entry_find_jumps(struct entry *entry);

/* All threads stand: put back what stood at the entries. 0 or a negative errno. */
int entry_take_back_jumps(struct entry *entry);

/* No jump is left, and no thread is in what was moved. */
void entry_unmap_pages(struct entry *entry);

/*
 * While others run: ask the library for the jumps of functions that are chosen, of which those that
 * are there already, and let nobody stand where they change. 0 or a negative errno.
 */
int entry_find_functions(struct entry *entry);

/* Going in, while others run: have pages of their own for what is going to be written. */
void entry_own_functions(struct entry *entry);

/* All threads stand, and the library knows of them: write the jumps that still can be. */
void entry_write_functions(struct entry *entry);

/* All threads stand: put back what stood there. 0 or a negative errno. */
int entry_take_back_functions(struct entry *entry);
