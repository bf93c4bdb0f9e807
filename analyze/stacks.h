#pragma once
/*
 * Call stacks: from the ids of a thread's chain to one number per path over the whole import, and
 * to rows of `stack` and `frame`.
 */
#include <stdint.h>

#include "analyze/live.h"
#include "schemas/trace-format.h"

struct import;
struct stacks;

/* 0 or a negative errno. */
int stacks_open(struct import *import, struct stacks **ret_stacks);

/* Accepts NULL, returns NULL. */
struct stacks *stacks_close(struct stacks *stacks);

/* Nodes of a thread as read from the file, before any event that uses them. 0 or -ENOMEM. */
int stacks_add_nodes(struct stacks *stacks, uint32_t thread_number, const struct trace_node *nodes,
		     size_t n);

/*
 * The number of a thread's stack, from 1 and dense over the import; 0 for id 0. The first time a
 * path is seen its return addresses are found in the modules that are loaded now. An id without
 * nodes gives 0 and counts a loss "definition lost". Hot: called for every birth. Does not touch
 * the database. 0 or -ENOMEM.
 */
int stacks_resolve(struct stacks *stacks, struct live_thread *thread, uint32_t id,
		   uint32_t *ret_stack);

/* stack.id in the database of a number given by stacks_resolve(); ROWS_NULL for 0. */
int64_t stacks_row_id(const struct stacks *stacks, uint32_t stack);

/* Numbers given so far: all are <= this. */
uint32_t stacks_count(const struct stacks *stacks);

/* Resolve symbols and write the rows of frame, frame_line, stack, symbol. 0 or a negative errno. */
int stacks_finish(struct stacks *stacks);
