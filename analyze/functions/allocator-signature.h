#pragma once
/*
 * malloc and its kind in a stripped static program: glibc's and musl's, by how they are built.
 *
 * Each function is taken for what it is by several signs: texts that glibc's checks print, who
 * calls whom, which arguments it reads, constants of musl's mallocng. If one of malloc, realloc and
 * free is in doubt, none is found: blocks that begin and never end would be worse than none.
 *
 * What is relied on was read in glibc's malloc/malloc.c and musl's src/malloc/mallocng; the
 * versions that were tried are in docs/functions.md.
 */
#include <stddef.h>
#include <stdint.h>

#include "schemas/allocator-entries.h"

#define SIGNATURE_MOST 8u

struct signature_function {
	uint8_t call; /* enum trace_call */
	const char *name;
	uint64_t start; /* ELF addresses */
	uint64_t end;
};

struct signature {
	uint8_t libc; /* enum entry_libc */
	struct signature_function functions[SIGNATURE_MOST];
	size_t n;
	const char *why; /* nothing was found, or not all; NULL: it is complete */
};

struct object;

/* Look through an object that is open. Returns 0, also where nothing is found, or -ENOMEM. */
int allocator_signature_find(struct object *object, struct signature *ret_signature);
