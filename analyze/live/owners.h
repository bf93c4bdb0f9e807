#pragma once
/*
 * Who an address belongs to at a moment: exactly one owner, in owner.def's order of precedence.
 * Times are ns since the run's start. One thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "analyze/process/globals.h"
#include "analyze/process/modules.h"
#include "store/touch.h"

/* A block of the heap. */
struct owner_block {
	int64_t id; /* allocation.id */
	uint64_t start;
	uint64_t size;
	uint32_t site; /* the import's number of its call site, carried through */
};

struct owner_mapping {
	int64_t id; /* mapping.id */
	bool is_initial; /* there before the trace (call NULL) */
	bool is_nested; /* made by an allocator for itself */
	const char *path; /* NULL or "": anonymous */
};

struct owner_range {
	uint64_t start;
	uint64_t end;
	int64_t id; /* mapping.id */
	bool is_unclaimed; /* anonymous, by no hooked call: libc's for itself, or by the kernel */
};

/*
 * What heap and mappings know, at the moment up to which the events were merged. Given by the
 * import; each answers false when there is none and leaves its result untouched.
 */
struct owner_memory {
	void *user;
	/* The live block of an image (own or inherited) that covers address. */
	bool (*block)(void *user, uint32_t process, uint64_t address, struct owner_block *ret);
	/* Whether address lay in a block of the image that was given back. */
	bool (*was_block)(void *user, uint32_t process, uint64_t address);
	/* The block that a thread's last event gave back; false when its last event was another. */
	bool (*last_freed)(void *user, uint32_t thread, struct owner_block *ret);
	/* The mapping of an image that covers address. */
	bool (*mapping)(void *user, uint32_t process, uint64_t address, struct owner_mapping *ret);
	/* The range of the mapping around address, whoever made it. May be NULL. */
	bool (*mapped)(void *user, uint32_t process, uint64_t address, struct owner_range *ret);
	/* object_name.id of the name that the program gave to address; may be NULL. */
	bool (*named)(void *user, uint32_t process, uint64_t address, int64_t *ret_id);
	/* Why blocks of an image may be there that no event tells of; false: none. May be NULL. */
	bool (*unrecorded)(void *user, uint32_t process, enum owner_kind *ret_kind);
	/* Blocks at these addresses, which may change, are asked for soon. May be NULL. */
	void (*fetch)(void *user, uint32_t process, uint64_t *addresses, size_t n);
};

/* An access, or a place of time, whose owner is asked for. */
struct owner_question {
	uint32_t process; /* number */
	uint32_t thread; /* number; 0: not known */
	uint64_t address;
	uint64_t ip; /* of the accessing instruction; 0: not known */
	int64_t time_ns;
	bool is_not_tool; /* ip is known to lie outside of our library */
};

struct owners;

/* All must outlive it; memory is copied. Returns 0 or -ENOMEM. */
int owners_create(struct tasks *tasks, struct modules *modules, struct globals *globals,
		  const struct owner_memory *memory, struct owners **ret_owners);
struct owners *owners_destroy(struct owners *owners); /* accepts NULL, returns NULL */

/*
 * The owner of an address. Phase FREEING is found here; ALLOCATING is not, since only the thread's
 * next event tells: where *ret_is_open is true, owners_allocating() may find another owner.
 */
struct owner owners_find(struct owners *owners, const struct owner_question *question,
			 bool *ret_is_open);

/*
 * Addresses of an image (NULL: of none) are asked for soon: what that reads is fetched. They are
 * not to be used afterwards.
 */
void owners_fetch(const struct owners *owners, const struct task_process *process,
		  uint64_t *addresses, size_t n);

/*
 * Whether the block that the thread's next event made is the owner after all: the address lies in
 * it while ip lies in a file with an allocator (calloc's memset), or in the allocator's words right
 * before and behind it while ip is the allocator's.
 */
bool owners_allocating(struct owners *owners, const struct owner_question *question,
		       const struct owner_block *block, struct owner *ret_owner);

/*
 * Whether the block that the thread gave back last is the owner after all, because the next event
 * is the allocation of the block that realloc moved it to: the copy reads the old one.
 */
bool owners_moving(struct owners *owners, const struct owner_question *question,
		   const struct owner_block *freed, struct owner *ret_owner);

/* The block that the thread's last event gave back; false when its last event was another. */
bool owners_last_freed(const struct owners *owners, uint32_t thread, struct owner_block *ret_block);

/*
 * A sample's stack pointer. A thread that allocates nothing has no record with the bounds of its
 * stack: they are those of the mapping that it points into.
 */
void owners_saw_stack(struct owners *owners, uint32_t thread, uint64_t stack_pointer);

/* What perf tells of maps that the interposer did not see, since libc made them for itself. */
enum owner_region {
	/* and [heap]: outside of blocks before_trace; untraced: a mapping */
	OWNER_REGION_ANONYMOUS,
	OWNER_REGION_FILE, /* a file's data: a mapping without a row */
	OWNER_REGION_TOOL, /* our pool */
	OWNER_REGION_COUNT,
};

/* An image maps such a region. 0 or -ENOMEM. */
int owners_add_region(struct owners *owners, uint32_t process, enum owner_region kind,
		      uint64_t start, uint64_t size);

/* Whether an instruction pointer or address lies in memsight's own library. */
bool owners_is_tool(struct owners *owners, uint32_t process, uint64_t address, int64_t time_ns);

/* Whether it lies in the allocator: malloc and its family, with what they call in their file. */
bool owners_is_allocator(struct owners *owners, uint32_t process, uint64_t ip, int64_t time_ns);
