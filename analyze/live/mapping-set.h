#pragma once
/*
 * The live mappings of one process image: mmap, munmap of pieces, MAP_FIXED over others, mremap,
 * and what was there before the trace. A sorted array: programs have hundreds of them, not
 * millions. Pieces that remain of a partly unmapped mapping are new mappings with previous_id.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* mapping.seen */
enum mapping_seen {
	MAPPING_CALL, /* the call that made it */
	MAPPING_BEFORE, /* it was there when the trace began */
	MAPPING_KERNEL, /* only the kernel's records tell of it */
};

/* One live mapping; what its row needs, except the end. */
struct mapping {
	uint64_t address;
	uint64_t size;
	int64_t allocated_ns;
	uint64_t id; /* of its row, counted from 1 within the run */
	uint64_t previous_id; /* mremap, or what was left of a partly unmapped one; 0: none */
	uint64_t detail; /* prot | flags << 32 */
	uint64_t segment; /* shmat: the address it gave; else 0 */
	const char *path; /* interned for the import; NULL: none */
	uint32_t thread; /* number of the thread; 0: before the trace */
	int64_t stack_id; /* stack.id; 0: none */
	uint8_t call; /* enum trace_call; TRACE_CALL_UNKNOWN: by none that was hooked */
	uint8_t seen; /* enum mapping_seen */
	bool is_nested; /* made by an allocator inside a traced call */
	bool is_inherited; /* the parent image's, copied by fork: its row is the parent's */
};

/* Anonymous, by no call that was hooked, and no block is known to have been put there. */
static inline bool mapping_is_unclaimed(const struct mapping *mapping)
{
	return mapping->seen == MAPPING_KERNEL && !mapping->is_nested &&
	       (!mapping->path || !mapping->path[0]);
}

/* Behind the last byte; a range that would wrap ends with the address space. */
static inline uint64_t mappings_end_of(uint64_t address, uint64_t size)
{
	uint64_t end = address + size;

	return end < address ? UINT64_MAX : end;
}

/* All zero is an empty set. */
struct mappings {
	struct mapping **items; /* sorted by address, never overlapping; each its own memory */
	size_t n;
	size_t n_allocated;
};

/* A mapping ended: its row can be written. Returns 0 or a negative errno, which the caller of the
 * function that unmapped gets. */
typedef int (*mappings_end)(void *context, const struct mapping *ended);

/* Free the memory; the set is empty and usable afterwards. */
void mappings_finish(struct mappings *mappings);

/* Make child, which must be empty, a copy of parent, all inherited. Returns 0 or -ENOMEM. */
int mappings_fork(struct mappings *child, const struct mappings *parent);

/*
 * Take address .. address + size - 1 out of the set. Every mapping touched ends (a call of end);
 * pieces of it outside of the range go on as new mappings, made at now_ns with ids from *next_id,
 * which moves on. Returns 0 or a negative errno.
 */
struct mappings_change {
	int64_t now_ns;
	uint64_t *next_id;
	mappings_end end;
	void *context;
};
int mappings_remove(struct mappings *mappings, uint64_t address, uint64_t size,
		    const struct mappings_change *change);

/* Add a mapping, which replaces what it covers as MAP_FIXED does. Returns 0 or a negative errno. */
int mappings_insert(struct mappings *mappings, const struct mapping *mapping,
		    const struct mappings_change *change);

/* Add a mapping that lies behind all others. Returns 0 or -ENOMEM. */
int mappings_append(struct mappings *mappings, const struct mapping *mapping);

/* The mapping around an address, or NULL. Valid until the set changes. */
const struct mapping *mappings_find(const struct mappings *mappings, uint64_t address);

/* The first mapping that ends behind address, or NULL. Valid until the set changes. */
const struct mapping *mappings_next(const struct mappings *mappings, uint64_t address);

/*
 * Forget the mappings that lie within address .. address + size - 1 and are to go, without an end:
 * they turn out to be others that come now.
 */
typedef bool (*mappings_test)(const void *context, const struct mapping *mapping);
void mappings_forget(struct mappings *mappings, uint64_t address, uint64_t size,
		     mappings_test is_to_go, const void *context);
