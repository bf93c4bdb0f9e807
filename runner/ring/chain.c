#include "runner/ring/chain.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "trace/columns.h"

#define WAKE_EVERY_CHUNKS 16

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
	chain->lane = &drain->own;
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

/* Take the first chunk out of the chain and give it back to the programs. */
static void free_first(struct drain *drain, struct chain *chain)
{
	uint32_t i = chain->first_chunk;

	chain->first_chunk = drain->views[i].next;
	drain->views[i] = (struct chunk_view){ 0 };
	pool_chunk_free(drain->pool, i);
	chain->lane->n_freed++;
}

void chain_destroy(struct drain *drain, struct chain **link)
{
	struct chain *chain = *link;

	while (chain->first_chunk != CHAIN_NO_CHUNK)
		free_first(drain, chain);
	*link = chain->next;
	free(chain);
}

/* The header was written by a program: believe it only as far as it fits an attached image. */
static bool bind_chunk(struct drain *drain, uint32_t i)
{
	const volatile struct ring_chunk *chunk = &drain->pool->chunks[i];
	struct chunk_view *view = &drain->views[i];

	if (pool_chunk_reserved(drain->pool, i) == 0)
		return true; /* taken, header not filled: what it will hold is yet to be stamped */
	uint32_t slot = chunk->process_slot;
	uint32_t generation = chunk->process_generation;
	uint32_t serial = chunk->thread_serial;
	if (slot >= drain->pool->n_processes || !drain->slots[slot].is_attached ||
	    drain->slots[slot].generation != generation)
		return ++view->strange_rounds > CHAIN_PATIENCE;
	struct chain *chain = chain_get(drain, slot, serial);
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

/* ---- What is taken from chunks ---- */

/* A record being read: head and n_slots are checked copies. */
struct record {
	const struct ring_record *shared;
	uint64_t head;
	uint32_t n_slots;
};

static struct drain_slot *slot_of(struct drain *drain, const struct chain *chain)
{
	return &drain->slots[chain->slot];
}

/* Of one process, whose threads may be in several lanes. */
static void count_loss(uint64_t *loss, uint64_t n)
{
	__atomic_fetch_add(loss, n, __ATOMIC_RELAXED);
}

/* An error of the writer is kept; what it did not take is counted. */
static void note_result(struct drain *drain, struct chain *chain, int result)
{
	if (result == 0)
		return;
	count_loss(&slot_of(drain, chain)->losses.n_refused, 1);
	if (chain->lane->error == 0)
		chain->lane->error = result;
}

static uint64_t latest_ticks(const struct drain *drain)
{
	return drain->round_ticks + drain->max_ahead_ticks;
}

/* A stamp that COMMIT has passed, or from the far future, would break the order of the trace. */
static uint64_t plausible_ticks(struct drain *drain, struct chain *chain, uint64_t ticks)
{
	uint64_t latest = latest_ticks(drain);

	if (ticks >= drain->safe_ticks && ticks <= latest)
		return ticks;
	count_loss(&slot_of(drain, chain)->losses.n_restamped, 1);
	return ticks > latest ? latest : drain->safe_ticks;
}

static bool begin_chain(struct drain *drain, struct chain *chain,
			const struct ring_thread_start *start)
{
	if (!chain->has_begun) {
		chain->has_begun = true;
		chain->thread_id = drain->handler.thread_start(drain->handler.user,
							       slot_of(drain, chain)->image, start);
	}
	return chain->thread_id != 0;
}

/* A slot's next process is another one. */
static uint64_t process_of(const struct drain *drain, const struct chain *chain)
{
	return (uint64_t)drain->slots[chain->slot].generation << 32 | chain->slot;
}

static void consume_event(struct drain *drain, struct chain *chain, const struct record *record)
{
	const struct ring_record2 *shared = (const struct ring_record2 *)record->shared;
	struct trace_event event = {
		.op = RING_HEAD_OP(record->head),
		.call = RING_HEAD_CALL(record->head) & 0x3f,
		.flags = RING_HEAD_CALL(record->head) >> 6,
		.stack_id = RING_HEAD_STACK_ID(record->head),
		.ticks = plausible_ticks(drain, chain, shared->base.ticks),
		.address = shared->base.address,
		.size = shared->base.size,
	};

	event.begin_ticks = event.ticks;
	if (record->n_slots > 1) {
		uint64_t begin = plausible_ticks(drain, chain, shared->begin_ticks);

		event.begin_ticks = begin < event.ticks ? begin : event.ticks;
		event.old_address = shared->old_address;
		event.old_size = shared->old_size;
		event.detail = shared->detail;
	} else if (event.op == TRACE_OP_NOTE) {
		event.detail = event.size;
		event.size = 0;
		if (event.call == TRACE_CALL_FUNCTION_ENTER ||
		    event.call == TRACE_CALL_FUNCTION_LEAVE) {
			event.begin_ticks -= event.stack_id;
			event.stack_id = 0;
		}
	}
	if (drain->is_muted || !begin_chain(drain, chain, NULL)) {
		count_loss(&slot_of(drain, chain)->losses.n_refused, 1);
		return;
	}
	chain->last_ticks = event.ticks;
	if (chain->lane->trace) {
		note_result(drain, chain,
			    trace_lane_event(chain->lane->trace, chain->events, &event));
		return;
	}
	if (drain->handler.event)
		drain->handler.event(drain->handler.user, slot_of(drain, chain)->image,
				     chain->thread_id, &event);
	if (drain->net)
		net_take(drain->net, process_of(drain, chain), chain->thread_id, &event,
			 drain->safe_ticks);
	else
		note_result(drain, chain,
			    trace_writer_event(drain->writer, chain->thread_id, &event));
}

static void consume_node(struct drain *drain, struct chain *chain, const struct record *record)
{
	const struct ring_node *shared = (const struct ring_node *)record->shared;
	struct trace_node node = {
		.id = RING_HEAD_STACK_ID(record->head),
		.parent_id = shared->parent_id,
		.pc = shared->pc,
	};

	if (drain->is_muted || !begin_chain(drain, chain, NULL))
		return;
	if (chain->lane->trace) {
		struct lane *lane = chain->lane;

		note_result(drain, chain,
			    array_add(lane->nodes, lane->n_nodes, lane->n_allocated,
				      (struct lane_node){ chain->thread_id, node }));
		return;
	}
	if (drain->handler.node)
		drain->handler.node(drain->handler.user, slot_of(drain, chain)->image,
				    chain->thread_id, &node);
	note_result(drain, chain, trace_writer_node(drain->writer, chain->thread_id, &node));
}

/* Copy a record whose lengths will be trusted: the program could change them under our eyes. */
static const void *copy_record(struct drain *drain, const struct record *record)
{
	memcpy(drain->scratch, record->shared, (size_t)record->n_slots * RING_RECORD_BYTES);
	__asm__ volatile("" ::: "memory");
	return drain->scratch;
}

static void consume_thread_start(struct drain *drain, struct chain *chain,
				 const struct record *record)
{
	struct ring_thread_start start;

	memcpy(&start, copy_record(drain, record), sizeof(start));
	start.ticks = plausible_ticks(drain, chain, start.ticks);
	begin_chain(drain, chain, &start);
}

static void consume_thread_end(struct drain *drain, struct chain *chain,
			       const struct record *record)
{
	uint64_t ticks = plausible_ticks(drain, chain, record->shared->ticks);

	if (chain->has_ended || !begin_chain(drain, chain, NULL))
		return;
	chain->has_ended = true;
	drain->handler.thread_end(drain->handler.user, slot_of(drain, chain)->image,
				  chain->thread_id, ticks);
}

static void consume_thread_name(struct drain *drain, struct chain *chain,
				const struct record *record)
{
	const struct ring_thread_name *shared = (const struct ring_thread_name *)record->shared;
	uint64_t ticks = plausible_ticks(drain, chain, shared->ticks);
	char name[sizeof(shared->name) + 1] = { 0 };

	memcpy(name, shared->name, sizeof(shared->name));
	drain->handler.thread_name(drain->handler.user, slot_of(drain, chain)->image, shared->tid,
				   name, ticks);
}

static void consume_module(struct drain *drain, struct chain *chain, const struct record *record)
{
	const struct ring_module *head = copy_record(drain, record);
	struct drain_module module = {
		.head = *head,
		.build_id = head->bytes,
		.path = (const char *)head->bytes + head->build_id_bytes,
		.is_unload = RING_HEAD_OP(record->head) == TRACE_OP_MODULE_UNLOAD,
	};

	if (sizeof(*head) + head->build_id_bytes + head->path_bytes >
	    (size_t)record->n_slots * RING_RECORD_BYTES) {
		count_loss(&slot_of(drain, chain)->losses.n_damaged, record->n_slots);
		return;
	}
	module.head.ticks = plausible_ticks(drain, chain, head->ticks);
	drain->handler.module(drain->handler.user, slot_of(drain, chain)->image, &module);
}

static void consume_exec(struct drain *drain, struct chain *chain, const struct record *record)
{
	const struct ring_exec *exec = copy_record(drain, record);

	if (sizeof(*exec) + exec->path_bytes > (size_t)record->n_slots * RING_RECORD_BYTES) {
		count_loss(&slot_of(drain, chain)->losses.n_damaged, record->n_slots);
		return;
	}
	const struct drain_exec told = {
		.ticks = plausible_ticks(drain, chain, exec->ticks),
		.path = (const char *)exec->bytes,
		.n_bytes = exec->path_bytes,
		.is_spawn = exec->is_spawn != 0,
	};
	drain->handler.exec(drain->handler.user, slot_of(drain, chain)->image, &told);
}

static void consume_heap_range(struct drain *drain, struct chain *chain,
			       const struct record *record)
{
	const struct ring_heap_range *head = copy_record(drain, record);
	struct drain_heap_range range = {
		.ticks = plausible_ticks(drain, chain, head->ticks),
		.start = head->start,
		.size = head->size,
		.kind = (const char *)head->bytes,
		.place = (const char *)head->bytes + head->kind_bytes,
		.kind_bytes = head->kind_bytes,
		.place_bytes = head->place_bytes,
		.is_removed = head->is_removed != 0,
	};

	if (sizeof(*head) + head->kind_bytes + head->place_bytes >
	    (size_t)record->n_slots * RING_RECORD_BYTES) {
		count_loss(&slot_of(drain, chain)->losses.n_damaged, record->n_slots);
		return;
	}
	if (!drain->is_muted)
		drain->handler.heap_range(drain->handler.user, slot_of(drain, chain)->image,
					  &range);
}

static void consume_text(struct drain *drain, struct chain *chain, const struct record *record)
{
	const struct ring_text *text = copy_record(drain, record);

	if (sizeof(*text) + text->text_bytes > (size_t)record->n_slots * RING_RECORD_BYTES) {
		count_loss(&slot_of(drain, chain)->losses.n_damaged, record->n_slots);
		return;
	}
	if (!drain->is_muted)
		drain->handler.text(drain->handler.user, slot_of(drain, chain)->image, text->id,
				    (const char *)text->bytes, text->text_bytes);
}

static void consume_sample(struct drain *drain, struct chain *chain, const struct record *record)
{
	const struct ring_sample *shared = copy_record(drain, record);
	struct ring_sample *sample = drain->scratch;

	if (sizeof(*shared) + shared->below_bytes + shared->stack_bytes >
	    (size_t)record->n_slots * RING_RECORD_BYTES) {
		count_loss(&slot_of(drain, chain)->losses.n_damaged, record->n_slots);
		return;
	}
	sample->ticks = plausible_ticks(drain, chain, shared->ticks);
	if (!drain->is_muted && drain->handler.sample && begin_chain(drain, chain, NULL))
		drain->handler.sample(drain->handler.user, slot_of(drain, chain)->image,
				      chain->thread_id, sample);
}

static void consume_nothing(struct drain *drain, struct chain *chain, const struct record *record)
{
	(void)drain;
	(void)chain;
	(void)record;
}

static const struct {
	uint16_t min_slots; /* 0: there is no such op */
	bool is_local; /* to its chain: any lane may take it */
	void (*consume)(struct drain *drain, struct chain *chain, const struct record *record);
} ops[TRACE_OP_COUNT] = {
	[TRACE_OP_NONE] = { 1, true, consume_nothing },
	[TRACE_OP_ALLOC] = { 1, true, consume_event },
	[TRACE_OP_FREE] = { 1, true, consume_event },
	[TRACE_OP_REALLOC] = { 2, true, consume_event },
	[TRACE_OP_MMAP] = { 2, true, consume_event },
	[TRACE_OP_MUNMAP] = { 1, true, consume_event },
	[TRACE_OP_MREMAP] = { 2, true, consume_event },
	[TRACE_OP_PAUSE] = { 2, true, consume_event },
	[TRACE_OP_RESUME] = { 2, true, consume_event },
	[TRACE_OP_BREAK] = { 2, true, consume_event },
	[TRACE_OP_ADVISE] = { 2, true, consume_event },
	[TRACE_OP_PROTECT] = { 2, true, consume_event },
	[TRACE_OP_LOCK] = { 2, true, consume_event },
	[TRACE_OP_NOTE] = { 1, true, consume_event },
	[TRACE_OP_NODE] = { 1, true, consume_node },
	[TRACE_OP_THREAD_START] = { 3, false, consume_thread_start },
	[TRACE_OP_THREAD_END] = { 1, false, consume_thread_end },
	[TRACE_OP_THREAD_NAME] = { 2, false, consume_thread_name },
	[TRACE_OP_MODULE] = { 2, false, consume_module },
	[TRACE_OP_MODULE_UNLOAD] = { 2, false, consume_module },
	[TRACE_OP_EXEC] = { 1, false, consume_exec },
	[TRACE_OP_TEXT] = { 1, false, consume_text },
	[TRACE_OP_HEAP_RANGE] = { 2, false, consume_heap_range },
	[TRACE_OP_SAMPLE] = { sizeof(struct ring_sample) / RING_RECORD_BYTES, false,
			      consume_sample },
	[TRACE_OP_PAD] = { 1, true, consume_nothing },
};

enum outcome { CONSUMED, NONSENSE /* nothing behind it can be told either */, LEFT };

static enum outcome consume_record(struct drain *drain, struct chain *chain, struct record *record,
				   uint32_t max_slots)
{
	uint8_t op = RING_HEAD_OP(record->head);
	bool makes_sense;

	record->n_slots = RING_HEAD_SLOTS(record->head);
	makes_sense = op < TRACE_OP_COUNT && ops[op].min_slots > 0 &&
		      record->n_slots >= ops[op].min_slots && record->n_slots <= max_slots;
	if (chain->lane->trace && !(makes_sense && ops[op].is_local))
		return LEFT;
	if (!makes_sense)
		return NONSENSE;
	ops[op].consume(drain, chain, record);
	return CONSUMED;
}

/* A hook that finds no room has moved `reserved` over the end and left the rest empty. */
static void note_rest(struct drain *drain, struct chain *chain, uint32_t i, uint32_t from,
		      bool is_final)
{
	struct drain_losses *losses = &slot_of(drain, chain)->losses;
	uint64_t reserved = atomic_load(&drain->pool->chunks[i].reserved) & ~RING_CHUNK_CALL;
	bool overshot = reserved > RING_CHUNK_BYTES;
	uint32_t end = pool_chunk_reserved(drain->pool, i);

	if (from >= end || overshot)
		return;
	if (is_final)
		count_loss(&losses->n_in_flight, 1);
	else
		count_loss(&losses->n_damaged, (end - from) / RING_RECORD_BYTES);
}

/*
 * The plain events among the records of so many bytes, up to the first other one, at once: nothing
 * but their columns is to be told of most. Returns bytes.
 */
static uint32_t consume_plain(struct drain *drain, struct chain *chain,
			      const struct ring_record *first, uint32_t n_bytes)
{
	struct trace_records records = {
		.first = first,
		.n = n_bytes / RING_RECORD_BYTES,
		.least_ticks = drain->safe_ticks,
		.most_ticks = latest_ticks(drain),
		.last_ticks = chain->last_ticks,
	};
	uint32_t n;

	if (drain->is_muted || drain->net || drain->handler.event || chain->thread_id == 0)
		return 0;
	n = chain->lane->trace ? trace_lane_records(chain->lane->trace, chain->events, &records)
			       : trace_writer_records(drain->writer, chain->thread_id, &records);
	chain->last_ticks = records.last_ticks;
	return n * RING_RECORD_BYTES;
}

/*
 * Consume the records of a chunk that are there. Returns the number of 32-byte slots consumed.
 * *ret_is_clean says that nothing is reserved behind them.
 */
static uint32_t consume_chunk(struct drain *drain, struct chain *chain, uint32_t i, bool is_final,
			      bool *ret_is_clean)
{
	struct chunk_view *view = &drain->views[i];
	bool is_full = pool_chunk_state(drain->pool, i) == RING_CHUNK_FULL;
	uint32_t end = pool_chunk_reserved(drain->pool, i);
	uint32_t begin = view->consumed;
	uint32_t at = begin, n_slots;
	struct record record;
	enum outcome outcome = CONSUMED;

	while (at < end && outcome == CONSUMED) {
		record.shared =
			(const struct ring_record *)((uint8_t *)&drain->pool->chunks[i] + at);
		/* Pairs with the program's commit: the rest of the record is complete. */
		record.head = atomic_load_explicit(&((struct ring_record *)record.shared)->head,
						   memory_order_acquire);
		if (record.head == 0)
			break;
		if (trace_is_plain(record.head)) {
			uint32_t n_bytes = consume_plain(drain, chain, record.shared, end - at);

			at += n_bytes;
			if (n_bytes > 0)
				continue;
		}
		outcome = consume_record(drain, chain, &record,
					 (RING_CHUNK_BYTES - at) / RING_RECORD_BYTES);
		if (outcome == CONSUMED)
			at += record.n_slots * RING_RECORD_BYTES;
	}
	n_slots = (at - begin) / RING_RECORD_BYTES;
	if (outcome == NONSENSE) {
		count_loss(&slot_of(drain, chain)->losses.n_damaged,
			   (RING_CHUNK_BYTES - at) / RING_RECORD_BYTES);
		at = RING_CHUNK_BYTES;
	} else if (outcome != LEFT && (is_full || is_final)) {
		note_rest(drain, chain, i, at, is_final);
		at = RING_CHUNK_BYTES;
	}
	view->consumed = at;
	*ret_is_clean = at >= end;
	return n_slots;
}

/*
 * Whether the first chunk at hand is the next one, or the missing one was waited for long enough.
 */
static bool has_next_chunk(struct drain *drain, struct chain *chain)
{
	if (chain->first_chunk == CHAIN_NO_CHUNK)
		return false;
	struct chunk_view *view = &drain->views[chain->first_chunk];
	if (view->sequence > chain->next_sequence &&
	    (chain->lane->trace || ++chain->missing_rounds <= CHAIN_PATIENCE))
		return false;
	chain->missing_rounds = 0;
	chain->next_sequence = view->sequence;
	return true;
}

int64_t chain_drain(struct drain *drain, struct chain *chain, uint32_t *budget, bool is_final)
{
	int64_t n_slots = 0;
	bool is_clean = chain->first_chunk == CHAIN_NO_CHUNK;

	while (*budget > 0 && has_next_chunk(drain, chain)) {
		uint32_t i = chain->first_chunk;

		n_slots += consume_chunk(drain, chain, i, is_final, &is_clean);
		if (drain->views[i].consumed < RING_CHUNK_BYTES)
			break;
		/* Full and consumed; one that is damaged, but still owned, waits for its owner. */
		if (!is_final && pool_chunk_state(drain->pool, i) != RING_CHUNK_FULL)
			break;
		free_first(drain, chain);
		chain->next_sequence++;
		/* No call is under way when a thread changes its chunk: the rest is later. */
		if (chain->last_ticks > chain->clean_ticks)
			chain->clean_ticks = chain->last_ticks;
		is_clean = false;
		(*budget)--;
		if (chain->lane->n_freed >= WAKE_EVERY_CHUNKS) {
			pool_heartbeat(drain->pool, chain->lane->n_freed);
			chain->lane->n_freed = 0;
		}
	}
	if (is_clean)
		chain->clean_ticks = drain->candidate_ticks;
	return n_slots;
}
