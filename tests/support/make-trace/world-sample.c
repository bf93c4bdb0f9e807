#include "tests/support/make-trace/world.h"

#include <linux/perf_event.h>

/* Numbers of schemas/owner.def. */
enum owner {
#define OWNER(name, number, text) OWNER_##name = (number),
#include "schemas/owner.def"
#undef OWNER
};

/* PERF_RECORD_SAMPLE with the sample_type that world-records.c announces: perf_event_open(2). */
struct fault {
	struct perf_event_header header;
	uint64_t ip;
	uint32_t pid;
	uint32_t tid;
	uint64_t time;
	uint64_t address;
	uint32_t cpu;
	uint32_t reserved;
};
_Static_assert(sizeof(struct fault) == 48, "as the kernel writes it");

/* The same with PERF_SAMPLE_WEIGHT and PERF_SAMPLE_DATA_SRC. */
struct access {
	struct fault fault;
	uint64_t latency;
	uint64_t data_src;
};

/*
 * Time without events on both sides of a sample: far more than the error of the clock, so that it
 * cannot change places with an event.
 */
#define GAP_TICKS 1000u

/* Who faulted, and where. */
struct touch {
	struct world *world;
	const struct world_process *process;
	const struct world_thread *thread;
	uint32_t stack; /* of a heap block */
};

/*
 * Faults are everywhere. Accesses are mostly in one part of the blocks, which moves, and in few of
 * it.
 */
static size_t pick_block(struct touch *touch, const struct space *space)
{
	struct trace_random *random = &touch->world->random;
	uint32_t n = (uint32_t)space->n_blocks;
	uint32_t any = trace_random_below(random, n);

	if (!touch->world->options.are_accesses || any % 4 == 0)
		return any;
	uint64_t part = touch->world->ticks / WORLD_TICKS_PER_SECOND * 5 / 2;
	uint32_t near = trace_random_below(random, 1 + trace_random_below(random, n / 16 + 1));
	return (size_t)((part * (n / 7) + near) % n);
}

/* Each picks an address of its owner, or returns 0 when there is none now. */
static uint64_t in_block(struct touch *touch, const struct space *space)
{
	struct trace_random *random = &touch->world->random;

	if (space->n_blocks == 0)
		return 0;
	const struct space_block *block = &space->blocks[pick_block(touch, space)];
	touch->stack = block->stack;
	return block->address + trace_random_below(random, (uint32_t)block->size);
}

static uint64_t in_heap(struct touch *touch)
{
	return in_block(touch, &touch->process->heap);
}

static uint64_t in_mapping(struct touch *touch)
{
	return in_block(touch, &touch->process->maps);
}

static uint64_t in_global(struct touch *touch)
{
	uint64_t end = touch->process->image.library_bias + WORLD_LIBRARY_BYTES;

	return end - 8 * (1 + trace_random_below(&touch->world->random, WORLD_LIBRARY_BYTES / 64));
}

static uint64_t in_stack(struct touch *touch)
{
	return touch->thread->stack_start +
	       trace_random_below(&touch->world->random, WORLD_STACK_BYTES);
}

static uint64_t in_freed(struct touch *touch)
{
	return space_freed_address(&touch->process->heap, trace_random_bits(&touch->world->random));
}

static uint64_t in_old_map(struct touch *touch)
{
	return WORLD_OLD_MAP_START + trace_random_below(&touch->world->random, WORLD_OLD_MAP_BYTES);
}

static uint64_t in_nothing(struct touch *touch)
{
	return WORLD_UNKNOWN_ADDRESS + trace_random_below(&touch->world->random, 1u << 20);
}

static const struct {
	enum owner owner;
	uint32_t weight; /* of 100 */
	uint64_t (*pick)(struct touch *touch);
} owners[] = {
	{ OWNER_heap, 70, in_heap },	       { OWNER_mapping, 8, in_mapping },
	{ OWNER_global, 8, in_global },	       { OWNER_freed, 3, in_freed },
	{ OWNER_before_trace, 3, in_old_map }, { OWNER_unknown, 2, in_nothing },
	{ OWNER_stack, 6, in_stack }, /* last: it always has an address */
};

#define N_OWNERS (sizeof(owners) / sizeof(owners[0]))

/* Pick an owner by weight; where it has nothing now, the stack is touched instead. */
static uint64_t pick_address(struct touch *touch, enum owner *ret_owner)
{
	uint32_t dice = trace_random_below(&touch->world->random, 100);
	unsigned i = 0;

	while (i + 1 < N_OWNERS && dice >= owners[i].weight)
		dice -= owners[i++].weight;
	uint64_t address = owners[i].pick(touch);
	if (address == 0) {
		i = N_OWNERS - 1;
		address = owners[i].pick(touch);
	}
	*ret_owner = owners[i].owner;
	return address;
}

/* Where the data was, for 16 accesses, and from how many cycles on that takes. */
static const struct {
	uint32_t weight; /* of 16 */
	uint64_t level;
	uint32_t cycles;
} levels[] = {
	{ 10, PERF_MEM_S(LVL, HIT) | PERF_MEM_S(LVL, L1), 4 },
	{ 3, PERF_MEM_S(LVL, HIT) | PERF_MEM_S(LVL, L2), 14 },
	{ 2, PERF_MEM_S(LVL, HIT) | PERF_MEM_S(LVL, L3), 50 },
	{ 1, PERF_MEM_S(LVL, HIT) | PERF_MEM_S(LVL, LOC_RAM), 200 },
};

static int write_access(struct world *world, const struct fault *fault)
{
	struct trace_random *random = &world->random;
	uint32_t dice = trace_random_below(random, 16);
	bool is_store = trace_random_below(random, 4) == 0;
	unsigned i = 0;

	while (dice >= levels[i].weight)
		dice -= levels[i++].weight;
	struct access access = {
		.fault = *fault,
		.latency = levels[i].cycles + trace_random_below(random, 2 * levels[i].cycles),
		.data_src =
			(is_store ? PERF_MEM_S(OP, STORE) : PERF_MEM_S(OP, LOAD)) | levels[i].level,
	};
	access.fault.header.size = sizeof(access);
	return trace_writer_perf(world->writer, WORLD_SOURCE_ID, &access, sizeof(access), 1);
}

int world_sample(struct world *world)
{
	struct trace_random *random = &world->random;
	struct world_process *process =
		&world->processes[trace_random_below(random, world->options.n_processes)];
	struct world_thread *thread =
		&process->threads[trace_random_below(random, world->options.n_threads)];
	struct touch touch = { .world = world, .process = process, .thread = thread };
	enum owner owner;
	uint64_t address = pick_address(&touch, &owner);

	world->ticks += GAP_TICKS;
	struct fault fault = {
		.header = { .type = PERF_RECORD_SAMPLE,
			    .misc = PERF_RECORD_MISC_USER,
			    .size = sizeof(fault) },
		.ip = process->image.library_bias + 0x1000 + trace_random_below(random, 0x1000),
		.pid = process->pid,
		.tid = thread->tid,
		.time = world_raw_ns(world->ticks),
		.address = address,
		.cpu = trace_random_below(random, 2),
	};
	world->ticks += GAP_TICKS;
	world->truth->n_samples++;
	world->truth->n_samples_of_owner[owner]++;
	if (owner == OWNER_heap)
		world->truth->stacks[touch.stack].n_samples++;
	return world->options.are_accesses ? write_access(world, &fault)
					   : trace_writer_perf(world->writer, WORLD_SOURCE_ID,
							       &fault, sizeof(fault), 1);
}
