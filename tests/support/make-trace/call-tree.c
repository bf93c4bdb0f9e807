#include "tests/support/make-trace/call-tree.h"

#include <errno.h>
#include <stdlib.h>

/* Code bytes from one return address to the next. */
#define CALL_BYTES 16u

/* Where the code of each depth starts in its module, innermost first. */
static const uint64_t level_start[MAKE_TRACE_MAX_DEPTH] = { 0x1000, 0x1800000, 0x2000, 0x1000 };

/* How many bits of the path number a level does not distinguish; the last one is main. */
static const unsigned level_shift[MAKE_TRACE_MAX_DEPTH] = { 0, 2, 4, 31 };

void call_tree_path(uint32_t path, uint64_t ret_offsets[MAKE_TRACE_MAX_DEPTH])
{
	for (unsigned i = 0; i < MAKE_TRACE_MAX_DEPTH; i++)
		ret_offsets[i] = level_start[i] + (uint64_t)(path >> level_shift[i]) * CALL_BYTES;
}

void call_tree_told_finish(struct call_tree_told *told)
{
	free(told->ids);
	told->ids = NULL;
}

static uint32_t n_nodes_of_level(uint32_t n_paths, unsigned level)
{
	return ((n_paths - 1) >> level_shift[level]) + 1;
}

/*
 * Write the node of one frame unless the thread has told it, and return its id or a negative errno.
 */
static int64_t tell(struct call_tree_told *told, struct trace_writer *writer, uint32_t *id,
		    const struct trace_node *node)
{
	if (*id != 0)
		return *id;

	struct trace_node numbered = *node;
	numbered.id = told->n_told + 1;
	int r = trace_writer_node(writer, told->thread_id, &numbered);
	if (r < 0)
		return r;
	*id = ++told->n_told;
	return *id;
}

static int make_ids(struct call_tree_told *told)
{
	size_t n = 0;

	for (unsigned i = 0; i < MAKE_TRACE_MAX_DEPTH; i++)
		n += n_nodes_of_level(told->n_paths, i);
	told->ids = calloc(n, sizeof(told->ids[0]));
	return told->ids ? 0 : -ENOMEM;
}

int call_tree_id(struct call_tree_told *told, struct trace_writer *writer, uint32_t path,
		 uint32_t *ret_id)
{
	uint64_t offsets[MAKE_TRACE_MAX_DEPTH];
	int64_t id = 0;

	if (!told->ids) {
		int r = make_ids(told);
		if (r < 0)
			return r;
	}
	if (told->ids[path] != 0) {
		*ret_id = told->ids[path];
		return 0;
	}

	/* ids: all nodes of the innermost level, then those of the next. From main inwards. */
	uint32_t *level_ids = told->ids;
	for (unsigned i = 0; i < MAKE_TRACE_MAX_DEPTH; i++)
		level_ids += n_nodes_of_level(told->n_paths, i);
	call_tree_path(path, offsets);
	for (unsigned i = MAKE_TRACE_MAX_DEPTH; i-- > 0;) {
		uint64_t bias = call_tree_in_library(i) ? told->image.library_bias
							: told->image.program_bias;
		struct trace_node node = { .parent_id = (uint32_t)id, .pc = bias + offsets[i] };
		level_ids -= n_nodes_of_level(told->n_paths, i);
		id = tell(told, writer, &level_ids[path >> level_shift[i]], &node);
		if (id < 0)
			return (int)id;
	}
	*ret_id = (uint32_t)id;
	return 0;
}
