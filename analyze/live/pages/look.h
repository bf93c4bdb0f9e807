#pragma once
/*
 * What records say of the pages of a process, at a moment (PAGES) or of an interval (TOUCHES,
 * WRITES): all their parts, one behind the other. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/reader.h"

/* All zero is none. */
struct pages_look {
	union { /* of the first part, by its type */
		struct trace_record record;
		struct trace_pages pages;
		struct trace_touches touches;
		struct trace_writes writes;
	} head;
	uint8_t *runs; /* of all parts, and TRACE_VARINT_SLACK zeros more */
	size_t n_run_bytes;
	char *maps; /* likewise; of PAGES */
	size_t n_map_bytes;
	bool is_passed; /* by a later look for a peak: its sums are all that is kept */
};

/*
 * Add a part. Returns 1 when it was the last, 0, -EBADMSG where it is more than any look has, or
 * -ENOMEM.
 */
int pages_look_add(struct pages_look *look, const struct trace_record *record);
void pages_look_finish(struct pages_look *look);

/* The reason of the loss of one that is damaged, by the type of its records. */
const char *pages_look_damage(const struct trace_record *record);

#define PAGES_NODES 64u /* of NUMA; what lies on others counts for none */

struct memory;

/*
 * Bytes on each node as page_part.node_bytes and others have them; interned. NULL: no memory.
 */
const char *pages_node_text(struct memory *memory, const uint64_t bytes[PAGES_NODES]);
