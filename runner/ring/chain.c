#include "runner/ring/chain.h"

#include <stdlib.h>

/* The chain of a thread, made when there is none. NULL: no memory. */
static struct chain *chain_get(struct drain *drain, uint32_t slot, uint32_t serial)
{
	struct chain *chain = drain->slots[slot].chains;

	while (chain && chain->serial != serial)
		chain = chain->next;
	if (chain)
		return chain;
	chain = calloc(1, sizeof(*chain));
	if (!chain)
		return NULL;
	chain->slot = slot;
	chain->serial = serial;
	chain->first_chunk = CHAIN_NO_CHUNK;
	/* It was not there in the round before: its first stamp is later than that round. */
	chain->clean_ticks = drain->safe_ticks;
	chain->next = drain->slots[slot].chains;
	drain->slots[slot].chains = chain;
	return chain;
}

/* Put chunk i into its chain by view.sequence. */
static void chain_insert(struct drain *drain, struct chain *chain, uint32_t i)
{
	uint32_t *link = &chain->first_chunk;

	while (*link != CHAIN_NO_CHUNK && drain->views[*link].sequence < drain->views[i].sequence)
		link = &drain->views[*link].next;
	drain->views[i].next = *link;
	drain->views[i].chain = chain;
	*link = i;
}

void chain_free_first(struct drain *drain, struct chain *chain)
{
	uint32_t i = chain->first_chunk;

	chain->first_chunk = drain->views[i].next;
	drain->views[i] = (struct chunk_view){ 0 };
	pool_chunk_free(drain->pool, i);
	drain->n_freed++;
}

void chain_destroy(struct drain *drain, struct chain **link)
{
	struct chain *chain = *link;

	while (chain->first_chunk != CHAIN_NO_CHUNK)
		chain_free_first(drain, chain);
	*link = chain->next;
	free(chain);
}

/* The header was written by a program: believe it only as far as it fits an attached image. */
static bool bind_chunk(struct drain *drain, uint32_t i)
{
	const volatile struct ring_chunk *chunk = &drain->pool->chunks[i];
	struct chunk_view *view = &drain->views[i];
	uint32_t slot, generation, serial;
	struct chain *chain;

	if (pool_chunk_reserved(drain->pool, i) == 0)
		return true; /* taken, header not filled: what it will hold is yet to be stamped */
	slot = chunk->process_slot;
	generation = chunk->process_generation;
	serial = chunk->thread_serial;
	if (slot >= drain->pool->n_processes || !drain->slots[slot].is_attached ||
	    drain->slots[slot].generation != generation)
		return ++view->strange_rounds > CHAIN_PATIENCE;
	chain = chain_get(drain, slot, serial);
	if (!chain)
		return ++view->strange_rounds > CHAIN_PATIENCE;
	view->sequence = chunk->sequence;
	view->consumed = offsetof(struct ring_chunk, records);
	view->strange_rounds = 0;
	chain_insert(drain, chain, i);
	return true;
}

bool chain_find_chunks(struct drain *drain)
{
	bool all_known = true;

	for (uint32_t i = pool_next_used(drain->pool, 0); i < drain->pool->n_chunks;
	     i = pool_next_used(drain->pool, i + 1)) {
		if (!drain->views[i].chain && !bind_chunk(drain, i))
			all_known = false;
	}
	return all_known;
}
