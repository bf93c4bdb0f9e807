#pragma once
/* A set of stack nodes with a mask for each: which targets' functions the stacks end in. */
#include <stddef.h>
#include <stdint.h>

struct watch_node {
	uint64_t key; /* thread << 32 | node; 0: free */
	uint32_t items; /* mask */
};

/* All zero is empty. */
struct watch_nodes {
	struct watch_node *slots;
	size_t n_slots; /* a power of two, or 0 */
	size_t n;
};

/* Without memory a node is left out. */
void watch_nodes_add(struct watch_nodes *nodes, uint32_t thread_id, uint32_t node_id,
		     unsigned item);

/* The mask of a node; 0: none of them. */
uint32_t watch_nodes_find(const struct watch_nodes *nodes, uint32_t thread_id, uint32_t node_id);

void watch_nodes_finish(struct watch_nodes *nodes);
