#pragma once
/*
 * The chunks of one thread in the order of their sequence. Private to runner/drain*.c.
 */
#include <stdbool.h>
#include <stdint.h>

#include "runner/ring/drain.h"

#define CHAIN_NO_CHUNK UINT32_MAX
#define CHAIN_PATIENCE 3 /* rounds that a missing chunk is waited for */

struct chain {
	struct chain *next; /* of the same process slot */
	uint32_t slot;
	uint32_t serial; /* of the thread within its image */
	uint32_t thread_id; /* in the trace; 0: not begun, or refused */
	uint32_t next_sequence; /* of the chunk to be read next */
	uint32_t first_chunk; /* of the chunks at hand, by sequence */
	uint32_t missing_rounds;
	struct lane *lane; /* whose turn it is: the drain's own, but while lanes run */
	struct trace_stream *events; /* of the trace, while lanes run */
	uint64_t clean_ticks; /* all that was stamped before is consumed */
	uint64_t last_ticks; /* of the last event that was consumed */
	bool has_begun;
	bool has_ended;
};

/* What the collector knows about a chunk. */
struct chunk_view {
	struct chain *chain; /* NULL: free, or not known yet */
	uint32_t sequence;
	uint32_t consumed; /* bytes from the chunk's start; the header counts */
	uint32_t next; /* the chain's next chunk at hand */
	uint32_t strange_rounds; /* in use, but whose it is cannot be told */
};

struct lane_node {
	uint32_t thread_id;
	struct trace_node node;
};

/* Give all chunks back and free the chain itself, which *link points to. */
void chain_destroy(struct drain *drain, struct chain **link);

/*
 * Find chunks that programs have taken since the last round and put each into its chain. Returns
 * false when one of them cannot be told yet, so that time must not be committed beyond it.
 */
bool chain_find_chunks(struct drain *drain);

/*
 * Consume the chunks of a chain for its lane. is_final: nothing more will be written to them. A
 * lane with a trace of its own stops at what only the drain's may take. Returns 32-byte slots;
 * takes the chunks that it gives back off *budget.
 */
int64_t chain_drain(struct drain *drain, struct chain *chain, uint32_t *budget, bool is_final);
