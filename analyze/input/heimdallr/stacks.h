#pragma once
/*
 * Heimdallr's call stacks as nodes of a trace. Its frames are (library, offset in the file), while
 * nodes have addresses: each library is given an address that no program has, and the program
 * headers of the file, where it is still there, tell from an offset which ELF address lies in it.
 */
#include <stddef.h>
#include <stdint.h>

#include "analyze/input/heimdallr/folder.h"
#include "common/hash-map.h"
#include "schemas/trace-format.h"

#define HEIMDALLR_LIBRARY_BYTES (UINT64_C(1) << 40) /* of addresses for each */

/* Where the addresses of a library begin that stand for its ELF addresses from 0 on. */
static inline uint64_t heimdallr_library_base(uint32_t number)
{
	return TRACE_MADE_UP_ADDRESS + number * HEIMDALLR_LIBRARY_BYTES;
}

struct heimdallr_segments;

/* The stacks of one thread. All zero is empty. */
struct heimdallr_stacks {
	struct key_map ids; /* (parent's id, pc) -> id */
	uint32_t last_id;
	struct trace_node *nodes; /* new ones, until somebody takes them: n_nodes = 0 */
	size_t n_nodes;
	size_t n_nodes_allocated;
	char *last_text; /* the frames of the line before, and their node */
	size_t n_last_bytes;
	size_t last_capacity;
	uint32_t last_node;
	uint64_t *pcs; /* of one line */
	size_t n_pcs_allocated;
};
void heimdallr_stacks_finish(struct heimdallr_stacks *stacks);

/* Of all libraries; paths are those of the folder. Returns 0 or -ENOMEM. */
int heimdallr_segments_open(const struct heimdallr_folder *folder, const char *program,
			    struct heimdallr_segments **ret_segments);
struct heimdallr_segments *heimdallr_segments_close(struct heimdallr_segments *segments);

/* Where the file of library i of the folder is; valid until close. */
const char *heimdallr_segments_path(const struct heimdallr_segments *segments, size_t i);

/* The node of a line's frames, 0 without any. Returns 0 or a negative errno. */
int heimdallr_stacks_node(struct heimdallr_stacks *stacks, struct heimdallr_segments *segments,
			  const struct heimdallr_line *line, uint32_t *ret_node);
