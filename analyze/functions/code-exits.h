#pragma once
/*
 * Where a function is left, for probes there: its returns, and jumps that end it in another
 * function. Of parts that a compiler has put elsewhere (NAME.cold), too, where these have a symbol.
 *
 * A jump by a register or through memory ends a function unless it looks like one by a table. Who
 * is wrong there loses nothing: a probe tells the stack pointer, which amid a function is not where
 * its return address lies. Jumps on a condition are left out, as they may not be taken: then the
 * next call or return on that stack ends the trip.
 */
#include <stddef.h>
#include <stdint.h>

struct code_function;
struct object;

struct code_exits {
	uint64_t *items; /* ELF addresses of instructions, in no order */
	size_t n;
	size_t n_allocated;
};

/* Add those of a function. Returns 0; -ENODATA: bytes of it are no instructions; -ENOMEM. */
int code_exits_find(struct object *object, const struct code_function *function,
		    struct code_exits *exits);
