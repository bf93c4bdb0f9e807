#pragma once
/*
 * Jumps at the entries of the allocator's functions: calls that go through no table (pointers that
 * were taken before, calls within one file) come to us by them. The first instructions of each
 * function are moved to a page of ours near it. In front of them stands a look at who calls: the
 * allocator's own calls of these functions, as those of glibc for what an ending thread has kept,
 * are none of the program's, and go straight on.
 *
 * A jump has 5 bytes within an aligned word of 8, which ptrace writes at once: whoever is killed
 * between two of them leaves a program that runs. All threads stand then, none in the allocator,
 * so nobody is between the bytes that change. Where it cannot be done for malloc, calloc, realloc
 * and free together, it is done for none: too short, instructions that cannot be moved, a branch
 * into them, no room near.
 */
#include <stddef.h>
#include <stdint.h>

#include "runner/attach/modules.h"
#include "schemas/attach.h"

#define ENTRIES_PAGE_BYTES 4096u
#define ENTRIES_MAX_PAGES  2u
#define ENTRIES_SLOT_BYTES 128u
#define ENTRIES_WHY_BYTES  160u

struct entries_page {
	uintptr_t address; /* where it has to lie */
	uint8_t bytes[ENTRIES_PAGE_BYTES];
	size_t n_used;
};

struct entries {
	struct attach_entry items[ATTACH_MAX_ENTRIES];
	uint32_t n;
	struct entries_page pages[ENTRIES_MAX_PAGES];
	size_t n_pages;
	char why[ENTRIES_WHY_BYTES]; /* not all could be done; "": they could */
};

/*
 * Plan what the items name: fill in moved, before and jump, and the pages, which have to be mapped
 * and written. own is the allocator's code as far as it is known (start 0: it is not). What cannot
 * be done has moved 0. The process may run.
 */
void entries_plan(struct entries *entries, const struct remote_modules *modules,
		  struct module_range own);

/* The pages on which items that are in use lie: entries->pages[], without their bytes. */
void entries_find_pages(struct entries *entries);

/*
 * Move the instructions at `code` (n_bytes of them can be read), which lie at address `from`, to
 * `to`: as many as have 5 bytes together. Writes at most room bytes to ret_moved. Returns how many
 * bytes of the original they were, *ret_n how many they are now; -E2BIG: the function is too short,
 * -EINVAL: they cannot be moved, -ERANGE: what they refer to is too far from there.
 */
struct entries_code {
	const uint8_t *bytes;
	size_t n_bytes;
	uintptr_t from;
	uintptr_t to;
};
int entries_move(const struct entries_code *code, uint8_t *ret_moved, size_t room, size_t *ret_n);
