#include "runner/watch/stack-nodes.h"

#include <stdlib.h>

#define FIRST_SLOTS 64u

static uint64_t key_of(uint32_t thread_id, uint32_t node_id)
{
	return (uint64_t)thread_id << 32 | node_id;
}

/* The slot of a key, or the free one where it belongs. n_slots > n. */
static struct watch_node *slot_of(const struct watch_nodes *nodes, uint64_t key)
{
	size_t i = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (nodes->n_slots - 1);

	while (nodes->slots[i].key && nodes->slots[i].key != key)
		i = (i + 1) & (nodes->n_slots - 1);
	return &nodes->slots[i];
}

static void grow(struct watch_nodes *nodes)
{
	struct watch_nodes larger = {
		.n_slots = nodes->n_slots ? 2 * nodes->n_slots : FIRST_SLOTS,
		.n = nodes->n,
	};

	larger.slots = calloc(larger.n_slots, sizeof(*larger.slots));
	if (!larger.slots)
		return;
	for (size_t i = 0; i < nodes->n_slots; i++) {
		if (nodes->slots[i].key)
			*slot_of(&larger, nodes->slots[i].key) = nodes->slots[i];
	}
	free(nodes->slots);
	*nodes = larger;
}

void watch_nodes_add(struct watch_nodes *nodes, uint32_t thread_id, uint32_t node_id, unsigned item)
{
	uint64_t key = key_of(thread_id, node_id);
	struct watch_node *slot;

	if (2 * nodes->n >= nodes->n_slots)
		grow(nodes);
	if (key == 0 || nodes->n + 1 >= nodes->n_slots)
		return;
	slot = slot_of(nodes, key);
	nodes->n += slot->key == 0;
	slot->key = key;
	slot->items |= 1u << item;
}

uint32_t watch_nodes_find(const struct watch_nodes *nodes, uint32_t thread_id, uint32_t node_id)
{
	return nodes->n ? slot_of(nodes, key_of(thread_id, node_id))->items : 0;
}

void watch_nodes_finish(struct watch_nodes *nodes)
{
	free(nodes->slots);
	*nodes = (struct watch_nodes){ 0 };
}
