#include "tests/support/make-trace/world.h"

#include <sys/mman.h>

/* What the events of a kind are, in parts of 1,000; the rest is malloc and free. */
static const struct {
	uint16_t realloc;
	uint16_t map;
} mix[MAKE_TRACE_KIND_COUNT] = {
	[MAKE_TRACE_HEAP] = { 0, 0 },
	[MAKE_TRACE_MMAP] = { 0, 900 },
	[MAKE_TRACE_REALLOC] = { 333, 0 },
	[MAKE_TRACE_MIXED] = { 60, 20 },
};

/* The thread whose turn it is, and what it is about to do. */
struct turn {
	struct world *world;
	struct world_process *process;
	struct world_thread *thread;
	struct trace_event event;
};

static uint32_t below(struct turn *turn, uint32_t n)
{
	return trace_random_below(&turn->world->random, n);
}

/* Time goes on by what a malloc takes, more or less. */
static uint64_t pass(struct turn *turn)
{
	turn->world->ticks += 60 + below(turn, 141);
	return turn->world->ticks;
}

/* Mostly small, 1 in 64 up to 64 KiB, 1 in 4,096 up to 1 MiB; never 0. */
static uint64_t block_size(struct turn *turn)
{
	uint32_t dice = below(turn, 4096);

	if (dice == 0)
		return 1 + below(turn, 1u << 20);
	if (dice < 64)
		return 1 + below(turn, 1u << 16);
	return 16 + below(turn, 513);
}

static uint64_t map_size(struct turn *turn)
{
	return (uint64_t)4096 << below(turn, 10);
}

/* Paths with low numbers are common, those with high numbers rare. */
static uint32_t pick_path(struct turn *turn)
{
	uint32_t a = below(turn, turn->world->options.n_stacks);
	uint32_t b = below(turn, turn->world->options.n_stacks);

	return a < b ? a : b;
}

/* Half of the blocks die young, the others at any age. */
static size_t pick_block(struct turn *turn, const struct space *space)
{
	uint32_t n = (uint32_t)space->n_blocks;

	if (n > 32 && below(turn, 2) == 0)
		return n - 1 - below(turn, 32);
	return below(turn, n);
}

/* ---- The books ---- */

static void count_allocation(struct turn *turn, struct make_trace_total *total, uint64_t size)
{
	total->n_births++;
	total->born_bytes += size;
	total->live_blocks++;
	total->live_bytes += size;
	if (total->live_bytes > total->peak_bytes) {
		total->peak_bytes = total->live_bytes;
		total->peak_ns = world_run_ns(turn->world->ticks);
	}
}

static void count_free(struct make_trace_total *total, uint64_t size)
{
	total->n_deaths++;
	total->live_blocks--;
	total->live_bytes -= size;
}

static int bear(struct turn *turn, struct space *space, struct space_block *block)
{
	struct make_trace_truth *truth = turn->world->truth;
	bool is_heap = space == &turn->process->heap;
	bool reused;

	block->thread = turn->thread->thread_id;
	int r = space_bear(space, block, &reused);
	if (r < 0)
		return r;
	count_allocation(turn, is_heap ? &truth->heap : &truth->mapping, block->size);
	if (is_heap) {
		count_allocation(turn, &truth->stacks[block->stack].heap, block->size);
		truth->n_reused_addresses += reused;
	}
	return call_tree_id(&turn->thread->told, turn->world->writer, block->stack,
			    &turn->event.stack_id);
}

static int end(struct turn *turn, struct space *space, struct space_block *ret_block)
{
	struct make_trace_truth *truth = turn->world->truth;
	bool is_heap = space == &turn->process->heap;

	int r = space_end(space, pick_block(turn, space), ret_block);
	if (r < 0)
		return r;
	count_free(is_heap ? &truth->heap : &truth->mapping, ret_block->size);
	if (is_heap) {
		count_free(&truth->stacks[ret_block->stack].heap, ret_block->size);
		truth->n_cross_thread_frees += ret_block->thread != turn->thread->thread_id;
	}
	return 0;
}

/* ---- The events; each sets turn->event but for its call's begin and end ---- */

static int make_alloc(struct turn *turn)
{
	static const uint8_t calls[] = { TRACE_CALL_CALLOC, TRACE_CALL_CALLOC,
					 TRACE_CALL_POSIX_MEMALIGN, TRACE_CALL_ALIGNED_ALLOC };
	struct space_block block = { .size = block_size(turn), .stack = pick_path(turn) };
	uint32_t dice = below(turn, 20);

	turn->event.op = TRACE_OP_ALLOC;
	turn->event.call = dice < sizeof(calls) ? calls[dice] : TRACE_CALL_MALLOC;
	turn->event.ticks = turn->event.begin_ticks = pass(turn);
	int r = bear(turn, &turn->process->heap, &block);
	turn->event.address = block.address;
	turn->event.size = block.size;
	return r;
}

static int make_free(struct turn *turn)
{
	struct space_block block;

	turn->event.op = TRACE_OP_FREE;
	turn->event.call = TRACE_CALL_FREE;
	turn->event.ticks = turn->event.begin_ticks = pass(turn);
	int r = end(turn, &turn->process->heap, &block);
	turn->event.address = block.address;
	return r;
}

/* The new size: half of the time within the old block's room, so that it stays in place. */
static uint64_t resize(struct turn *turn, const struct space_block *block)
{
	uint64_t room = space_room(&turn->process->heap, block->size);

	return below(turn, 2) == 0 && room > 16 ? room - below(turn, 16) : block_size(turn);
}

static int make_realloc(struct turn *turn)
{
	struct space *heap = &turn->process->heap;
	struct space_block old = { 0 }, block = { .stack = pick_path(turn) };
	int r = 0;

	turn->event.op = TRACE_OP_REALLOC;
	turn->event.call = below(turn, 10) == 0 ? TRACE_CALL_REALLOCARRAY : TRACE_CALL_REALLOC;
	turn->event.begin_ticks = pass(turn);
	if (heap->n_blocks > 0 && below(turn, 16) > 0) { /* else realloc(NULL, size) */
		r = end(turn, heap, &old);
		turn->world->truth->heap.n_moves++;
		turn->world->truth->stacks[block.stack].heap.n_moves++;
	}
	block.size = resize(turn, &old);
	turn->event.ticks = pass(turn);
	if (r == 0)
		r = bear(turn, heap, &block);
	turn->event.old_address = old.address;
	turn->event.address = block.address;
	turn->event.size = block.size;
	return r;
}

static int make_mmap(struct turn *turn)
{
	struct space_block block = { .size = map_size(turn), .stack = pick_path(turn) };

	turn->event.op = TRACE_OP_MMAP;
	turn->event.call = TRACE_CALL_MMAP;
	turn->event.begin_ticks = pass(turn);
	turn->event.ticks = pass(turn);
	turn->event.detail = (PROT_READ | PROT_WRITE) | (uint64_t)(MAP_PRIVATE | MAP_ANONYMOUS)
								<< 32;
	int r = bear(turn, &turn->process->maps, &block);
	turn->event.address = block.address;
	turn->event.size = block.size;
	return r;
}

static int make_munmap(struct turn *turn)
{
	struct space_block block;

	turn->event.op = TRACE_OP_MUNMAP;
	turn->event.call = TRACE_CALL_MUNMAP;
	turn->event.ticks = turn->event.begin_ticks = pass(turn);
	int r = end(turn, &turn->process->maps, &block);
	turn->event.address = block.address;
	turn->event.size = block.size;
	return r;
}

static int make_mremap(struct turn *turn)
{
	struct space_block old, block = { .size = map_size(turn), .stack = pick_path(turn) };

	turn->event.op = TRACE_OP_MREMAP;
	turn->event.call = TRACE_CALL_MREMAP;
	turn->event.begin_ticks = pass(turn);
	int r = end(turn, &turn->process->maps, &old);
	turn->event.ticks = pass(turn);
	if (r == 0)
		r = bear(turn, &turn->process->maps, &block);
	turn->world->truth->mapping.n_moves++;
	turn->event.old_address = old.address;
	turn->event.old_size = old.size;
	turn->event.address = block.address;
	turn->event.size = block.size;
	return r;
}

/* ---- Choosing ---- */

/* Births outweigh deaths 3:1 below the target and 1:3 above it. */
static bool wants_birth(struct turn *turn, const struct space *space, uint32_t target)
{
	uint32_t dice = below(turn, 4);

	return space->n_blocks == 0 || (space->n_blocks < target ? dice > 0 : dice == 0);
}

static int make_event(struct turn *turn)
{
	const struct make_trace_options *options = &turn->world->options;
	uint32_t n_live = options->n_live / options->n_processes + 1;
	uint32_t dice = below(turn, 1000);
	struct space *maps = &turn->process->maps;

	if (dice < mix[options->kind].realloc)
		return make_realloc(turn);
	if (dice < mix[options->kind].realloc + mix[options->kind].map) {
		if (maps->n_blocks > 0 && below(turn, 8) == 0)
			return make_mremap(turn);
		return wants_birth(turn, maps, n_live / 64 + 1) ? make_mmap(turn)
								: make_munmap(turn);
	}
	return wants_birth(turn, &turn->process->heap, n_live) ? make_alloc(turn) : make_free(turn);
}

int world_step(struct world *world)
{
	struct world_process *process =
		&world->processes[trace_random_below(&world->random, world->options.n_processes)];
	struct world_thread *thread =
		&process->threads[trace_random_below(&world->random, world->options.n_threads)];
	struct turn turn = { .world = world, .process = process, .thread = thread };

	int r = make_event(&turn);
	if (r < 0)
		return r;
	world->truth->n_events++;
	return trace_writer_event(world->writer, thread->thread_id, &turn.event);
}
