#pragma once
/*
 * Call stacks of allocations. The one way in is ta_stack_capture(); how frames are found is the
 * business of stack.c alone (now: frame pointers), what is done with them that of stack-table.c.
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

/* A module was unloaded: what was known about return addresses may be about other code now. */
void ta_stack_forget_addresses(void);

/* Empty the thread's table. Ids go on counting. */
void ta_stack_forget(struct ta_thread *thread);

/* Give memory back that a table has grown to. */
void ta_stack_release(struct ta_thread *thread);
