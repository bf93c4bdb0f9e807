#pragma once
/*
 * Call stacks of allocations. The one way in is ta_stack_capture(); how frames are found is the
 * business of stack.c (frame pointers) and unwind.c (unwind tables), what is done with them that of
 * stack-table.c.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tracealloc/stack/stack-hash.h"
#include "tracealloc/thread.h"

/*
 * The id of the call stack of the hook whose frame this is (its TA_FRAME()). Nodes that are new are
 * written to the ring first. 0: no stack wanted, or no room in the pool. Outermost hooks only.
 */
uint32_t ta_stack_capture(struct ta_thread *thread, const uintptr_t *frame);

/*
 * The same if all of the stack was met before: nothing is written or worked out, and the C library
 * is not called. False: ask ta_stack_capture().
 */
bool ta_stack_recall(struct ta_thread *thread, const uintptr_t *frame, uint32_t *ret_id);

/*
 * The id of the stack with this hash, whose innermost return address is pc; 0: not known. The
 * hash is that of stack-hash.h.
 */
uint32_t ta_stack_find(const struct ta_thread *thread, uint64_t hash, uintptr_t pc);

/* Write the node (parent, pc) of the stack with this hash. Its id; 0: the pool is full. */
uint32_t ta_stack_write(struct ta_thread *thread, uint32_t parent, uintptr_t pc, uint64_t hash);

/* The id of that node, which is written when it is not known. 0: the pool is full. */
static inline uint32_t ta_stack_name(struct ta_thread *thread, uint32_t parent, uintptr_t pc,
				     uint64_t hash)
{
	uint32_t id = ta_stack_find(thread, hash, pc);

	return id ? id : ta_stack_write(thread, parent, pc, hash);
}

/* The same for the n frames of a walk, from the outermost in, inside the node id with its hash. */
static inline uint32_t ta_stack_name_fresh(struct ta_thread *thread, uint32_t n, uint32_t id,
					   uint64_t hash)
{
	const struct ta_unwind_fresh *fresh = thread->unwind.fresh;

	while (n-- > 0) {
		hash = ta_hash_inward(hash, fresh[n].pc);
		id = ta_stack_name(thread, id, fresh[n].pc, hash);
		if (!id)
			return 0;
	}
	return id;
}

/* The node that says why a stack ends; 0 for TRACE_STOP_NONE. False: the pool is full. */
bool ta_stack_name_stop(struct ta_thread *thread, uint32_t stop, uint32_t *ret_id);

/* Of stack.c: addresses and their class: pc | class << 56 | low bits of the unload count << 60. */
#define TA_CLASSES_LOG2 12u
extern _Atomic uint64_t ta_stack_classes[1u << TA_CLASSES_LOG2]
	__attribute__((visibility("hidden")));

/* A module was unloaded: what was known about return addresses may be about other code now. */
void ta_stack_forget_addresses(void);

/* Empty the thread's table. Ids go on counting. */
void ta_stack_forget(struct ta_thread *thread);

/*
 * Give back a forked child's copies of what its thread knows of stacks, so that they are zeros like
 * those of a state that has begun no chain (next_id 0). Nothing where the kernel does not; the
 * small table is in use.
 */
void ta_stack_discard(struct ta_thread *thread);

/* Give memory back that a table has grown to. */
void ta_stack_release(struct ta_thread *thread);
