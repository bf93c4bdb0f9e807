#pragma once
/* Which targets' functions a thread's stacks end in: a mask for each stack node, in a key_map. */
#include <stdint.h>

#include "common/hash-map.h"

/* Without memory a node is left out. */
static inline void watch_nodes_add(struct key_map *nodes, uint32_t thread_id, uint32_t node_id,
				   unsigned item)
{
	uint64_t items = key_map_get(nodes, thread_id, node_id);

	(void)key_map_put(nodes, thread_id, node_id, items | UINT64_C(1) << item);
}

/* The mask of a node; 0: none of them. */
static inline uint32_t watch_nodes_find(const struct key_map *nodes, uint32_t thread_id,
					uint32_t node_id)
{
	return (uint32_t)key_map_get(nodes, thread_id, node_id);
}
