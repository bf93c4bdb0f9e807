#pragma once
/*
 * The call paths of a synthetic program: path k is main < job k/16 < step k/4 < site k; the two
 * outer frames lie in the program, the two inner ones in its library. Which nodes a thread has
 * already told is remembered for each thread, as the interposer does.
 */
#include <stdint.h>

#include "tests/support/make-trace/make-trace.h"
#include "trace/writer.h"

#define CALL_TREE_MAX_PATHS 1000000u

/* Where the two modules of a process lie. */
struct call_tree_image {
	uint64_t program_bias;
	uint64_t library_bias;
};

/* The frames of path k, innermost first: p_vaddr of the return address in its module. */
void call_tree_path(uint32_t path, uint64_t ret_offsets[MAKE_TRACE_MAX_DEPTH]);

/* Does frame i (0 is innermost) lie in the library? Else in the program. */
static inline int call_tree_in_library(unsigned frame)
{
	return frame < 2;
}

/* A thread, and what it has told so far; call_tree_told_finish() frees ids. */
struct call_tree_told {
	struct call_tree_image image;
	uint32_t thread_id;
	uint32_t n_paths; /* of the whole program */
	uint32_t n_told;
	uint32_t *ids; /* by node; 0: not yet. Allocated when first needed */
};

/* Free the memory. */
void call_tree_told_finish(struct call_tree_told *told);

/*
 * The stack id of a path in a thread; writes the nodes that it has not told yet. Returns 0 or a
 * negative errno.
 */
int call_tree_id(struct call_tree_told *told, struct trace_writer *writer, uint32_t path,
		 uint32_t *ret_id);
