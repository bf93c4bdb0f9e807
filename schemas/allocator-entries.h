#pragma once
/*
 * Which functions of a file allocate and free: of static programs, and of musl's loader, which is
 * its C library. analyze/functions/allocator-entries.h finds them; who puts code of ours into such
 * a program obeys. Addresses are those of the file.
 */
#include <stddef.h>
#include <stdint.h>

#include "schemas/functions-plan.h"
#include "schemas/trace-format.h"

enum entry_libc {
	ENTRY_LIBC_NONE, /* none was recognised */
	ENTRY_LIBC_GLIBC,
	ENTRY_LIBC_MUSL,
	ENTRY_LIBC_GO, /* Go without cgo: has no malloc */
};

enum entry_origin {
	ENTRY_BY_SYMBOL,
	ENTRY_BY_SIGNATURE, /* of a stripped file */
};

/* Functions that are no allocator's: the call of such an entry is ENTRY_FIRST_OTHER + this. */
#define ENTRY_FIRST_OTHER TRACE_CALL_LIMIT
enum entry_other {
	ENTRY_EXECVE, /* what it starts is to be followed */
	ENTRY_PRCTL, /* these two confine the program: what of ours would end it then is not done */
	ENTRY_SYSCALL,
	ENTRY_FIND_FDE, /* where libgcc's unwinder asks for rules */
	ENTRY_SIGACTION, /* --source signal: what would take the signal away, or meet it */
	ENTRY_SIGPROCMASK,
	ENTRY_PTHREAD_SIGMASK,
	ENTRY_SIGALTSTACK,
	ENTRY_PTHREAD_CREATE, /* a thread that never allocates is sampled, too */
	ENTRY_OTHERS
};

/*
 * call says what it is, and its arguments are as in C.
 *
 * Some call or jump to others of them: operator new, realloc, and musl's calloc to malloc. What
 * counts is the outermost. One place has one entry.
 */
struct allocator_entry {
	uint8_t call; /* enum trace_call, or behind ENTRY_FIRST_OTHER */
	uint8_t origin; /* enum entry_origin */
	uint8_t can_patch; /* patch is filled in: its code can be moved */
	uint8_t reserved;
	uint32_t n_bytes; /* of the function, 0: not known */
	uint64_t address; /* ELF address of its first instruction (endbr64 included) */
	char name[56]; /* of the symbol, or of what it was recognised as */
	const char *why_not; /* static text; NULL where can_patch */
	struct plan_function patch; /* as of --function-include: before, code, fixes ... */
};

struct allocator_entries {
	struct allocator_entry *items; /* in order of address */
	size_t n;
	uint8_t libc; /* enum entry_libc */
	/* No allocator's, by enum entry_other; address 0: not found. */
	struct allocator_entry others[ENTRY_OTHERS];
	uint8_t is_static; /* it names no loader */
	uint8_t lacks_heap; /* malloc or free was not found, or cannot be led elsewhere */
	uint8_t has_unwinder; /* for exceptions, in it */
	uint64_t thread_start; /* where a new thread begins in C; 0: not known */
	char why[160]; /* "": all was found; else what is not known of it */
};
