#pragma once
/*
 * Call stacks of allocations. The one way in is ta_stack_capture(); how frames are found is the
 * business of stack.c (frame pointers) and unwind.c (unwind tables), what is done with them that of
 * stack-table.c.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tracealloc/thread.h"

/*
 * The id of the call stack of the hook whose frame this is (its __builtin_frame_address(0): there
 * the caller's rbp is saved, next to it lies the return address). Nodes that are new are written
 * to the ring first. 0: no stack wanted, or no room in the pool. Outermost hooks only.
 */
uint32_t ta_stack_capture(struct ta_thread *thread, const uintptr_t *frame);

/*
 * Give the frames of trace their node ids, from the outermost in; sets trace->id. `known` is the
 * first frame (from the inside) whose node[] is already right; n for none. False: no room in the
 * pool, the trace has no id.
 */
bool ta_stack_name(struct ta_thread *thread, struct ta_trace *trace, uint32_t known);

/*
 * The id of the node (parent, pc), which is written when it is new. False: the pool is full, it
 * cannot be written.
 */
bool ta_stack_name_frame(struct ta_thread *thread, uint32_t parent, uintptr_t pc, uint32_t *ret_id);

/* The node that says why a stack ends; 0 for TRACE_STOP_NONE. False: the pool is full. */
bool ta_stack_name_stop(struct ta_thread *thread, uint32_t stop, uint32_t *ret_id);

/* A module was unloaded: what was known about return addresses may be about other code now. */
void ta_stack_forget_addresses(void);

/* Empty the thread's table. Ids go on counting. */
void ta_stack_forget(struct ta_thread *thread);

/* Give memory back that a table has grown to. */
void ta_stack_release(struct ta_thread *thread);
