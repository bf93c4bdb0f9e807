#pragma once
/* What stacks.c and stacks-write.c share. */
#include "analyze/process/stacks.h"
#include "common/hash-map.h"

#define STACKS_STOP_LOST  (TRACE_STOP_TABLE_FULL + 1u) /* the node's definition is lost */
#define STACKS_STOP_COUNT (STACKS_STOP_LOST + 1u)
#define STACKS_MAX_NODES  (UINT32_C(1) << 26) /* of a thread: more is damage */

/* A node of a thread, and what it was resolved to last. */
struct stack_node {
	uint64_t pc;
	int64_t row; /* 0: not yet */
	int64_t valid_until; /* its code is unloaded then */
	uint32_t parent;
	uint32_t generation : 31; /* of modules_n_changes() */
	uint32_t is_told : 1;
};

struct stack_thread {
	struct stack_node *nodes; /* by id */
	size_t n;
	size_t n_allocated;
};

/* New rows. */
struct stack_frame {
	struct object *object;
	uint64_t offset;
};

struct stack_row {
	int64_t parent;
	int64_t frame;
	unsigned stop;
	unsigned depth;
};

struct stacks {
	struct tasks *tasks;
	struct modules *modules;
	struct objects *objects;
	struct object *nowhere; /* of code in no module */
	struct object *kernel;
	const uint64_t *n_changes;
	struct stack_thread *threads; /* by number - 1 */
	size_t n_threads;
	size_t n_threads_allocated;
	struct key_map frame_rows; /* (object, offset) -> row */
	struct key_map stack_rows; /* (parent row, frame row or stop) -> row */
	struct key_map depths; /* of the rows that the database had */
	struct stack_frame *frames; /* row - first_frame */
	size_t n_frames;
	size_t n_frames_allocated;
	int64_t first_frame;
	struct stack_row *stacks; /* row - first_stack */
	size_t n_stacks;
	size_t n_stacks_allocated;
	int64_t first_stack;
	uint64_t n_lost;
};

/* stack.stop of a reason. */
const char *stacks_stop_name(unsigned stop);
