#pragma once
/*
 * Whether a thread that stands may be used, or may stand while another one loads a library: it must
 * not be inside malloc, the loader, fork, or anything else of libc that may hold a lock that our
 * calls take. Its call stack is followed by the unwind tables of its files; where they end, words
 * of its stack that point into such functions count as frames. Old words lie there, too: behind
 * code that was made when the program ran (java) they would never go away. What called such code
 * can only be a function that calls back, unless a handler of a signal lies between.
 */
#include <stdint.h>

#include "runner/attach/modules.h"
#include "runner/attach/remote.h"

struct safety; /* of one process, of the files that it had loaded */

/*
 * handler_return is where handlers of signals return to. 0 or a negative errno: -ENOSYS, its libc
 * has not what we need (not glibc).
 */
int safety_create(const struct remote_modules *modules, uintptr_t handler_return,
		  struct safety **ret_safety);
struct safety *safety_destroy(struct safety *safety);

/* Code of ours outside of our library. */
void safety_add_ours(struct safety *safety, struct module_range range);

/* All code of glibc's malloc; start 0: it could not be found. */
struct module_range safety_malloc(const struct safety *safety);

enum safety_verdict {
	SAFETY_GOOD,
	SAFETY_IN_MALLOC, /* or another allocator */
	SAFETY_IN_LOADER,
	SAFETY_IN_LIBC, /* fork, threads that begin or end, exit */
	SAFETY_IN_US, /* a frame of our library */
	SAFETY_IN_SEQUENCE, /* a restartable sequence (rseq) */
	SAFETY_IN_ENTRY, /* between instructions that change */
};

struct safety_place {
	struct module_range range;
	enum safety_verdict verdict;
};

/*
 * Many places that are not as they may stay: where code changes, and code of ours. An address of a
 * place is one that a thread would go on at; a return address is no other. Sorted here, and the
 * caller's until the end. There are none before.
 */
void safety_use_places(struct safety *safety, struct safety_place *places, size_t n);

/*
 * It stands. *ret_exit (may be NULL): where it will come out of the bad place, a return address in
 * good code; 0: not known.
 */
enum safety_verdict safety_judge(struct safety *safety, const struct remote_thread *thread,
				 uintptr_t *ret_exit);

/* "inside malloc" ... */
const char *safety_text(enum safety_verdict verdict);
