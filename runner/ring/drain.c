#include "runner/ring/drain.h"

#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "runner/ring/chain.h"
#include "runner/ring/lanes.h"

int drain_init(struct drain *ret_drain, struct pool *pool, struct trace_writer *writer,
	       const struct drain_handler *handler, uint64_t ticks_per_ms)
{
	struct drain drain = {
		.pool = pool,
		.writer = writer,
		.handler = *handler,
		.settle_ticks = ticks_per_ms / 10 + 1,
		.max_ahead_ticks = ticks_per_ms * 1000,
		.fork_ticks = ticks_per_ms * RING_FORK_MS,
		.forking_ticks = UINT64_MAX,
	};

	drain.slots = calloc(pool->n_processes, sizeof(*drain.slots));
	drain.views = calloc(pool->n_chunks, sizeof(*drain.views));
	drain.scratch = malloc(RING_CHUNK_BYTES);
	if (!drain.slots || !drain.views || !drain.scratch)
		return drain_finish(&drain), -ENOMEM;
	*ret_drain = drain;
	return 0;
}

void drain_finish(struct drain *drain)
{
	lanes_destroy(drain->lanes);
	for (uint32_t slot = 0; drain->slots && slot < drain->pool->n_processes; slot++) {
		struct chain *chain = drain->slots[slot].chains;

		while (chain) {
			struct chain *next = chain->next;

			free(chain);
			chain = next;
		}
	}
	free_all(drain->slots, drain->views, drain->scratch);
	*drain = (struct drain){ 0 };
}

void drain_attach(struct drain *drain, uint32_t slot, void *image)
{
	struct drain_slot *mine = &drain->slots[slot];

	mine->is_attached = true;
	mine->is_awaited = false;
	mine->image = image;
	mine->losses = (struct drain_losses){ 0 };
	if (slot >= drain->slots_end)
		drain->slots_end = slot + 1;
}

static void tell_programs(struct drain *drain)
{
	pool_heartbeat(drain->pool, drain->own.n_freed);
	drain->own.n_freed = 0;
}

/* The chains from *link on come first, those before it last. */
static void begin_with(struct drain_slot *slot, struct chain **link)
{
	struct chain *first = *link, **end = link;

	if (!first || link == &slot->chains)
		return;
	while (*end)
		end = &(*end)->next;
	*end = slot->chains;
	*link = NULL;
	slot->chains = first;
}

static int64_t drain_slot_chains(struct drain *drain, uint32_t slot, uint32_t *budget,
				 bool is_final)
{
	struct chain **link = &drain->slots[slot].chains;
	int64_t n_slots = 0;

	while (*link) {
		struct chain *chain = *link;

		if (*budget == 0) { /* no thread is always behind another one */
			begin_with(&drain->slots[slot], link);
			break;
		}
		n_slots += chain_drain(drain, chain, budget, is_final);
		if (chain->has_ended && chain->first_chunk == CHAIN_NO_CHUNK)
			chain_destroy(drain, link);
		else
			link = &chain->next;
	}
	return n_slots;
}

/* The oldest fork whose child may still be on its way to a slot; UINT64_MAX: there is none. */
static uint64_t oldest_fork(const struct drain *drain)
{
	const _Atomic uint64_t *forks = drain->pool->forks;
	uint32_t used = atomic_load(&drain->pool->control->forks_used);
	uint64_t oldest = UINT64_MAX;

	for (uint32_t i = 0; i < used && i < RING_MAX_FORKS; i++) {
		/* Pairs with the child's: where it is 0 again, the slot is READY. */
		uint64_t ticks = atomic_load_explicit(&forks[i], memory_order_acquire);

		if (ticks && ticks < oldest && ticks + drain->fork_ticks > drain->round_ticks)
			oldest = ticks;
	}
	return oldest;
}

void drain_begin(struct drain *drain, uint64_t now_ticks)
{
	drain->round_ticks = now_ticks;
	drain->forking_ticks = oldest_fork(drain);
}

/* What the slowest chain allows, and the slowest child. */
static void advance_safe_ticks(struct drain *drain)
{
	uint64_t safe = drain->candidate_ticks;

	if (drain->forking_ticks < safe)
		safe = drain->forking_ticks;
	for (uint32_t slot = 0; slot < drain->slots_end; slot++) {
		for (struct chain *chain = drain->slots[slot].chains; chain; chain = chain->next) {
			if (chain->clean_ticks < safe)
				safe = chain->clean_ticks;
		}
	}
	if (safe > drain->safe_ticks)
		drain->safe_ticks = safe;
}

int64_t drain_round(struct drain *drain, uint32_t max_chunks)
{
	uint64_t now_ticks = drain->round_ticks;
	uint32_t budget = max_chunks;
	int64_t n_slots = 0;

	if (now_ticks - drain->settling_ticks > drain->settle_ticks) {
		drain->candidate_ticks = drain->settling_ticks;
		drain->settling_ticks = now_ticks;
	}
	bool all_known = chain_find_chunks(drain);
	/* The rest is for what lanes leave: a thread's start and end, modules, chunks in use. */
	n_slots += lanes_round(drain, max_chunks - max_chunks / 4, &budget);
	for (uint32_t n = 0; n < drain->slots_end; n++) {
		if (drain->next_slot >= drain->slots_end)
			drain->next_slot = 0;
		if (drain->slots[drain->next_slot].is_attached)
			n_slots += drain_slot_chains(drain, drain->next_slot, &budget, false);
		if (budget == 0)
			break;
		drain->next_slot++;
	}
	drain->n_round_chunks = max_chunks - budget;
	tell_programs(drain);
	if (all_known)
		advance_safe_ticks(drain);
	return drain->own.error < 0 ? drain->own.error : n_slots;
}

uint64_t drain_safe_ticks(const struct drain *drain)
{
	return drain->safe_ticks;
}

int drain_detach(struct drain *drain, uint32_t slot, struct drain_losses *ret_losses)
{
	struct drain_slot *mine = &drain->slots[slot];
	struct ring_process *process = &drain->pool->processes[slot];
	uint32_t budget = UINT32_MAX;

	chain_find_chunks(drain);
	drain_slot_chains(drain, slot, &budget, true);
	/* A gap in a chain stops it above: now nothing can fill it any more. */
	for (struct chain *chain = mine->chains; chain; chain = chain->next) {
		while (chain->first_chunk != CHAIN_NO_CHUNK)
			chain_drain(drain, chain, &budget, true);
	}
	while (mine->chains)
		chain_destroy(drain, &mine->chains);
	*ret_losses = mine->losses;
	*mine = (struct drain_slot){ .generation = mine->generation + 1 };
	process->generation = mine->generation;
	/* Pairs with the CAS of the program that claims it: it finds the new generation. */
	atomic_store_explicit(&process->state, RING_PROCESS_FREE, memory_order_release);
	tell_programs(drain);
	return drain->own.error;
}

int drain_abandon(struct drain *drain, uint32_t slot, struct drain_losses *ret_losses)
{
	struct drain_slot *mine = &drain->slots[slot];
	uint32_t budget = UINT32_MAX;

	chain_find_chunks(drain);
	drain_slot_chains(drain, slot, &budget, false);
	*ret_losses = mine->losses;
	mine->is_attached = false;
	return drain->own.error;
}
