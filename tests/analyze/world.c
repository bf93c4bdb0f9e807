#include "tests/analyze/world.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/analyze/check-db.h"

#define SLOTS	   40 /* addresses of blocks: few, so that they are used again and again */
#define SLOT_BYTES 64
#define HEAP_START UINT64_C(0x555500000000)
#define MAP_START  UINT64_C(0x7f0000000000)
#define PAGE_BYTES 4096
#define NO_ROW	   (-1)

/* What the program really has at an address: a row, or a block whose birth was not recorded. */
struct slot {
	bool is_live;
	int row; /* NO_ROW: not recorded */
	uint64_t size;
};

struct process {
	bool is_live;
	struct slot slots[SLOTS]; /* the truth */
	int known[SLOTS]; /* rows that the trace says are live; NO_ROW: none */
	uint64_t freed_ns[SLOTS]; /* the last stamp of an end there */
	int pages[WORLD_PAGES]; /* rows of mappings; NO_ROW: none */
	int n_inherited; /* rows below it are the parent's */
};

struct thread {
	uint32_t process;
	struct trace_event queue[64]; /* not yet in the trace */
	int n_queue;
	int born; /* row of its last event's birth; NO_ROW */
	uint64_t last_ns;
	bool is_moving; /* inside of a realloc */
	struct trace_event move;
	int move_slot; /* that is taken for the new block */
	int move_previous;
};

struct maker_world {
	struct world *out;
	struct maker *maker;
	enum world_mode mode;
	uint64_t random;
	uint64_t now_ns;
	struct process processes[WORLD_MAX_PROCESSES + 1];
	uint32_t n_processes;
	struct thread threads[WORLD_MAX_THREADS + 1];
	uint32_t n_threads;
};

static uint64_t below(struct maker_world *world, uint64_t n)
{
	world->random ^= world->random << 13;
	world->random ^= world->random >> 7;
	world->random ^= world->random << 17;
	return world->random % n;
}

/*
 * Time goes on. Where events are missing it goes in steps larger than MERGE_SKEW_NS, so that a free
 * is never taken for one that is only late.
 */
static uint64_t step(struct maker_world *world)
{
	if (world->mode == WORLD_LOSSY)
		world->now_ns += 20000 + below(world, 20000);
	else
		world->now_ns += 1 + below(world, below(world, 10) == 0 ? 100000 : 300);
	return world->now_ns;
}

/* Whether this event of the program gets into the trace. */
static bool is_recorded(struct maker_world *world)
{
	return world->mode != WORLD_LOSSY || below(world, 12) != 0;
}

/* Events of a thread that are complete go into the trace. */
static void write_queue(struct maker_world *world, uint32_t number)
{
	struct thread *thread = &world->threads[number];

	for (int i = 0; i < thread->n_queue; i++)
		maker_event(world->maker, number, &thread->queue[i]);
	world->out->n_events += (uint64_t)thread->n_queue;
	thread->n_queue = 0;
}

static void push(struct maker_world *world, uint32_t number, const struct trace_event *event)
{
	struct thread *thread = &world->threads[number];

	if (thread->n_queue == 64)
		write_queue(world, number);
	thread->queue[thread->n_queue++] = *event;
	if (event->ticks > thread->last_ns)
		thread->last_ns = event->ticks;
	if ((int64_t)event->ticks > world->out->end_ns)
		world->out->end_ns = (int64_t)event->ticks;
}

static uint64_t address_of(int slot)
{
	return HEAP_START + (uint64_t)slot * SLOT_BYTES;
}

/* ---- Blocks ---- */

/* The trace says that a row ended. */
static void end_row(struct world *out, int row, int64_t time_ns, uint32_t thread, uint8_t death)
{
	out->blocks[row].death_ns = time_ns;
	out->blocks[row].death_thread = thread;
	out->blocks[row].death = death;
}

/* Whatever the trace says is live in the way of a birth must have ended. */
static void end_in_the_way(struct maker_world *world, struct process *process,
			   const struct world_block *born)
{
	for (int i = 0; i < SLOTS; i++) {
		int row = process->known[i];
		if (row == NO_ROW)
			continue;
		const struct world_block *block = &world->out->blocks[row];
		bool hits = block->address == born->address ||
			    (block->address < born->address &&
			     block->address + block->size > born->address) ||
			    (block->address > born->address &&
			     born->address + born->size > block->address);
		if (!hits)
			continue;
		world->out->n_missed++;
		process->known[i] = NO_ROW;
		if (row >= process->n_inherited)
			end_row(world->out, row, born->birth_ns, 0, 3);
		else
			world->out->n_inherited_frees++;
	}
}

static int add_row(struct maker_world *world, uint32_t number, const struct trace_event *event,
		   int previous)
{
	struct world *out = world->out;
	struct thread *thread = &world->threads[number];
	struct process *process = &world->processes[thread->process];
	struct world_block *row = &out->blocks[out->n_blocks];

	ck_assert_int_lt(out->n_blocks, WORLD_MAX_ROWS);
	*row = (struct world_block){
		.process = thread->process,
		.thread = number,
		.address = event->address,
		.size = event->size,
		.birth_ns = (int64_t)event->ticks,
		.death_ns = -1,
		.call = event->call,
		.previous = previous,
	};
	end_in_the_way(world, process, row);
	thread->born = out->n_blocks;
	process->known[(event->address - HEAP_START) / SLOT_BYTES] = out->n_blocks;
	return out->n_blocks++;
}

static int free_slot(struct maker_world *world, const struct process *process)
{
	for (int tries = 0; tries < 20; tries++) {
		int slot = (int)below(world, SLOTS);
		if (!process->slots[slot].is_live)
			return slot;
	}
	return NO_ROW;
}

static int live_slot(struct maker_world *world, const struct process *process)
{
	for (int tries = 0; tries < 20; tries++) {
		int slot = (int)below(world, SLOTS);
		if (process->slots[slot].is_live)
			return slot;
	}
	return NO_ROW;
}

static void do_malloc(struct maker_world *world, uint32_t number)
{
	struct process *process = &world->processes[world->threads[number].process];
	int slot = free_slot(world, process);
	struct trace_event event = {
		.op = TRACE_OP_ALLOC,
		.call = (uint8_t)(TRACE_CALL_MALLOC + below(world, 2)),
		.ticks = step(world),
		.size = below(world, SLOT_BYTES + 1),
	};

	if (slot == NO_ROW)
		return;
	event.address = address_of(slot);
	process->slots[slot] = (struct slot){ true, NO_ROW, event.size };
	if (!is_recorded(world))
		return;
	process->slots[slot].row = add_row(world, number, &event, NO_ROW);
	push(world, number, &event);
}

/* The trace says that a thread freed a slot, or began to move it. */
static int end_known(struct maker_world *world, uint32_t number, int slot, uint8_t death)
{
	struct thread *thread = &world->threads[number];
	struct process *process = &world->processes[thread->process];
	int row = process->known[slot];

	process->known[slot] = NO_ROW;
	process->freed_ns[slot] = world->now_ns;
	if (row == NO_ROW) {
		world->out->n_before_trace++;
	} else if (row < process->n_inherited) {
		world->out->n_inherited_frees++;
	} else {
		end_row(world->out, row, (int64_t)world->now_ns, number, death);
		world->out->blocks[row].is_temporary = death == 1 && thread->born == row;
	}
	thread->born = NO_ROW;
	return row;
}

static void do_free(struct maker_world *world, uint32_t number)
{
	struct process *process = &world->processes[world->threads[number].process];
	int slot = live_slot(world, process);
	struct trace_event event = {
		.op = TRACE_OP_FREE,
		.call = TRACE_CALL_FREE,
		.ticks = step(world),
	};

	if (slot == NO_ROW)
		return;
	event.address = address_of(slot);
	process->slots[slot].is_live = false;
	if (!is_recorded(world))
		return;
	end_known(world, number, slot, 1);
	push(world, number, &event);
}

/* A free whose stamp is taken late, and right behind it a birth there by another thread. */
static void do_late_free(struct maker_world *world, uint32_t number, uint32_t other)
{
	struct process *process = &world->processes[world->threads[number].process];
	int slot = live_slot(world, process);

	if (slot == NO_ROW || other == number || world->threads[other].is_moving ||
	    world->threads[other].process != world->threads[number].process)
		return;
	struct trace_event birth = {
		.op = TRACE_OP_ALLOC,
		.call = TRACE_CALL_MALLOC,
		.ticks = step(world),
		.address = address_of(slot),
		.size = 1 + below(world, SLOT_BYTES),
	};
	struct trace_event end = {
		.op = TRACE_OP_FREE,
		.call = TRACE_CALL_FREE,
		/* A tie is a free before the allocation, as every other one. */
		.ticks = birth.ticks + (below(world, 3) ? below(world, 5000) : 0),
		.address = birth.address,
	};

	end_known(world, number, slot, 1); /* at the stamp of the birth */
	process->slots[slot] = (struct slot){ true, NO_ROW, birth.size };
	process->slots[slot].row = add_row(world, other, &birth, NO_ROW);
	push(world, other, &birth);
	push(world, number, &end);
	world->now_ns = end.ticks;
}

/*
 * A block goes to another thread at once, which frees it with a stamp from before its birth, though
 * none from before its own last event. Somebody may be given the address again right behind it.
 */
static void do_early_free(struct maker_world *world, uint32_t number, uint32_t other)
{
	struct process *process = &world->processes[world->threads[number].process];
	struct thread *thread = &world->threads[number];
	int slot = free_slot(world, process);
	uint64_t early = below(world, 5000);

	if (slot == NO_ROW || other == number || world->threads[other].is_moving ||
	    world->threads[other].process != thread->process)
		return;
	struct trace_event birth = {
		.op = TRACE_OP_ALLOC,
		.call = TRACE_CALL_MALLOC,
		.ticks = step(world),
		.address = address_of(slot),
		.size = 1 + below(world, SLOT_BYTES),
	};
	struct trace_event end = {
		.op = TRACE_OP_FREE,
		.call = TRACE_CALL_FREE,
		.ticks = birth.ticks - early,
		.address = birth.address,
	};

	if (end.ticks <= process->freed_ns[slot])
		end.ticks = process->freed_ns[slot] + 1;
	if (end.ticks <= thread->last_ns)
		end.ticks = thread->last_ns + 1;
	if (end.ticks >= birth.ticks)
		end.ticks = birth.ticks - 1;
	if (end.ticks <= thread->last_ns || end.ticks <= process->freed_ns[slot])
		return;
	int row = add_row(world, other, &birth, NO_ROW);
	push(world, other, &birth);
	end_known(world, number, slot, 1);
	push(world, number, &end);
	world->out->n_early++;
	world->out->blocks[row].is_temporary = false;
}

/* The old block ends now; other threads go on until do_realloc_end(). */
static void do_realloc_begin(struct maker_world *world, uint32_t number)
{
	struct thread *thread = &world->threads[number];
	struct process *process = &world->processes[thread->process];
	int slot = live_slot(world, process);
	bool in_place = below(world, 3) == 0;

	if (slot == NO_ROW)
		return;
	int target = in_place ? slot : free_slot(world, process);
	if (target == NO_ROW)
		return;
	thread->is_moving = true;
	thread->move_slot = target;
	thread->move = (struct trace_event){
		.op = TRACE_OP_REALLOC,
		.call = TRACE_CALL_REALLOC,
		.begin_ticks = step(world),
		.old_address = address_of(slot),
		.address = address_of(target),
		.size = below(world, SLOT_BYTES + 1),
	};
	thread->move_previous = end_known(world, number, slot, 2);
	process->slots[slot].is_live = false;
	process->slots[target].is_live = true; /* nobody else gets it, nor frees it: see below */
	process->slots[target].row = NO_ROW;
}

static void do_realloc_end(struct maker_world *world, uint32_t number)
{
	struct thread *thread = &world->threads[number];
	struct process *process = &world->processes[thread->process];

	thread->move.ticks = step(world);
	thread->is_moving = false;
	process->slots[thread->move_slot].size = thread->move.size;
	process->slots[thread->move_slot].row =
		add_row(world, number, &thread->move, thread->move_previous);
	push(world, number, &thread->move);
}

/* ---- Mappings ---- */

static void add_mapping(struct maker_world *world, uint32_t process, uint32_t thread, int first,
			int n, int previous)
{
	struct world *out = world->out;

	ck_assert_int_lt(out->n_mappings, WORLD_MAX_ROWS);
	out->mappings[out->n_mappings] = (struct world_mapping){
		.process = process,
		.thread = thread,
		.address = MAP_START + (uint64_t)first * PAGE_BYTES,
		.size = (uint64_t)n * PAGE_BYTES,
		.birth_ns = (int64_t)world->now_ns,
		.death_ns = -1,
		.previous = previous,
	};
	for (int i = first; i < first + n; i++)
		world->processes[process].pages[i] = out->n_mappings;
	out->n_mappings++;
}

/* What goes on of a row that ended, on one side of what was taken: its run of pages there. */
static void keep_piece(struct maker_world *world, uint32_t process, int row, int from, int to)
{
	const struct process *image = &world->processes[process];
	int first = from;

	while (first < to && image->pages[first] != row)
		first++;
	int n = 0;
	while (first + n < to && image->pages[first + n] == row)
		n++;
	if (n > 0)
		add_mapping(world, process, world->out->mappings[row].thread, first, n, row);
}

static void unmap(struct maker_world *world, uint32_t process, int first, int n)
{
	struct process *image = &world->processes[process];

	for (int i = first; i < first + n; i++) {
		int row = image->pages[i];
		if (row == NO_ROW)
			continue;
		if (world->out->mappings[row].process == process)
			world->out->mappings[row].death_ns = (int64_t)world->now_ns;
		for (int j = first; j < first + n; j++) {
			if (image->pages[j] == row)
				image->pages[j] = NO_ROW;
		}
		keep_piece(world, process, row, 0, first);
		keep_piece(world, process, row, first + n, WORLD_PAGES);
	}
}

static void do_mmap(struct maker_world *world, uint32_t number)
{
	uint32_t process = world->threads[number].process;
	int n = 1 + (int)below(world, 6);
	int first = (int)below(world, (uint64_t)(WORLD_PAGES - n));
	struct trace_event event = {
		.op = TRACE_OP_MMAP,
		.call = TRACE_CALL_MMAP,
		.ticks = step(world),
		.address = MAP_START + (uint64_t)first * PAGE_BYTES,
		.size = (uint64_t)n * PAGE_BYTES,
		.detail = PROT_READ | (uint64_t)MAP_FIXED << 32,
	};

	unmap(world, process, first, n);
	add_mapping(world, process, number, first, n, NO_ROW);
	world->threads[number].born = NO_ROW;
	push(world, number, &event);
}

static void do_munmap(struct maker_world *world, uint32_t number)
{
	int n = 1 + (int)below(world, 8);
	int first = (int)below(world, (uint64_t)(WORLD_PAGES - n));
	struct trace_event event = {
		.op = TRACE_OP_MUNMAP,
		.call = TRACE_CALL_MUNMAP,
		.ticks = step(world),
		.address = MAP_START + (uint64_t)first * PAGE_BYTES,
		.size = (uint64_t)n * PAGE_BYTES,
	};

	unmap(world, world->threads[number].process, first, n);
	world->threads[number].born = NO_ROW;
	push(world, number, &event);
}

/* Moves a run of pages of one mapping, or a piece of it, to another place and size. */
static void do_mremap(struct maker_world *world, uint32_t number)
{
	uint32_t process = world->threads[number].process;
	struct process *image = &world->processes[process];
	int first = (int)below(world, WORLD_PAGES - 8);
	int row = image->pages[first];
	int n_old = 1;
	int n = 1 + (int)below(world, 6);
	int target = (int)below(world, (uint64_t)(WORLD_PAGES - n));

	if (row == NO_ROW)
		return;
	while (n_old < 4 && image->pages[first + n_old] == row)
		n_old++;
	struct trace_event event = {
		.op = TRACE_OP_MREMAP,
		.call = TRACE_CALL_MREMAP,
		.begin_ticks = step(world),
		.old_address = MAP_START + (uint64_t)first * PAGE_BYTES,
		.old_size = (uint64_t)n_old * PAGE_BYTES,
		.address = MAP_START + (uint64_t)target * PAGE_BYTES,
		.size = (uint64_t)n * PAGE_BYTES,
	};
	unmap(world, process, first, n_old);
	event.ticks = step(world);
	unmap(world, process, target, n);
	add_mapping(world, process, number, target, n, row);
	world->threads[number].born = NO_ROW;
	push(world, number, &event);
}

/* ---- Threads and processes ---- */

static bool is_moving_in(const struct maker_world *world, uint32_t process)
{
	for (uint32_t i = 1; i <= world->n_threads; i++) {
		if (world->threads[i].process == process && world->threads[i].is_moving)
			return true;
	}
	return false;
}

static uint32_t add_thread(struct maker_world *world, uint32_t process)
{
	uint32_t number = ++world->n_threads;

	world->threads[number] = (struct thread){ .process = process, .born = NO_ROW };
	maker_thread(world->maker, number, process, world->now_ns);
	return number;
}

static uint32_t add_process(struct maker_world *world)
{
	uint32_t number = ++world->n_processes;
	struct process *process = &world->processes[number];

	process->is_live = true;
	for (int i = 0; i < SLOTS; i++)
		process->known[i] = NO_ROW;
	for (int i = 0; i < WORLD_PAGES; i++)
		process->pages[i] = NO_ROW;
	world->out->process_end_ns[number] = -1;
	return number;
}

static void do_fork(struct maker_world *world, uint32_t number)
{
	uint32_t parent = world->threads[number].process;

	if (world->n_processes == WORLD_MAX_PROCESSES || world->n_threads == WORLD_MAX_THREADS ||
	    is_moving_in(world, parent))
		return;
	step(world);
	uint32_t child = add_process(world);
	world->processes[child] = world->processes[parent];
	world->processes[child].n_inherited = world->out->n_blocks;
	maker_fork(world->maker, child, parent, world->now_ns);
	step(world);
	add_thread(world, child);
}

/* The last thing that happens in an image; or exec, which opens another one. */
static void do_end(struct maker_world *world, uint32_t number)
{
	uint32_t process = world->threads[number].process;
	bool is_exec = below(world, 2) == 0 && world->n_processes < WORLD_MAX_PROCESSES &&
		       world->n_threads < WORLD_MAX_THREADS;

	if (process == 1 || is_moving_in(world, process))
		return;
	step(world);
	maker_end(world->maker, process, world->now_ns, is_exec ? -2 : 0);
	world->out->process_end_ns[process] = (int64_t)world->now_ns;
	world->out->end_ns = (int64_t)world->now_ns;
	world->processes[process].is_live = false;
	for (int i = 0; is_exec && i < world->out->n_blocks; i++) {
		struct world_block *block = &world->out->blocks[i];
		if (block->process == process && block->death_ns < 0)
			block->death = 4;
	}
	if (!is_exec)
		return;
	uint32_t image = add_process(world);
	maker_process(world->maker, image, process, world->now_ns);
	add_thread(world, image);
}

/* ---- Steps ---- */

/* A thread in the middle of a realloc may only end it; what it moves stays out of reach. */
static bool is_reserved(const struct maker_world *world, uint32_t process)
{
	return is_moving_in(world, process);
}

static void step_thread(struct maker_world *world, uint32_t number)
{
	struct thread *thread = &world->threads[number];
	uint64_t choice = below(world, 100);

	if (thread->is_moving) {
		do_realloc_end(world, number);
	} else if (choice < 35) {
		do_malloc(world, number);
	} else if (choice < 60) {
		if (!is_reserved(world, thread->process))
			do_free(world, number);
	} else if (choice < 72) {
		if (!is_reserved(world, thread->process))
			do_realloc_begin(world, number);
	} else if (choice < 80) {
		if (world->mode == WORLD_SKEWED && !is_reserved(world, thread->process))
			do_late_free(world, number, 1 + (uint32_t)below(world, world->n_threads));
		if (world->mode == WORLD_EARLY && !is_reserved(world, thread->process))
			do_early_free(world, number, 1 + (uint32_t)below(world, world->n_threads));
	} else if (choice < 86) {
		do_mmap(world, number);
	} else if (choice < 92) {
		do_munmap(world, number);
	} else if (choice < 96) {
		do_mremap(world, number);
	} else if (choice == 96) {
		do_fork(world, number);
	} else if (choice == 97) {
		do_end(world, number);
	} else if (world->n_threads < WORLD_MAX_THREADS) {
		step(world);
		add_thread(world, thread->process);
	}
}

/* A segment: what threads have done so far, complete up to a moment that is a little ago. */
static void commit(struct maker_world *world)
{
	uint64_t until_ns = world->now_ns;

	for (uint32_t i = 1; i <= world->n_threads; i++) {
		struct thread *thread = &world->threads[i];
		if (thread->is_moving && thread->move.begin_ticks < until_ns)
			until_ns = thread->move.begin_ticks;
	}
	for (uint32_t i = 1; i <= world->n_threads; i++) {
		struct thread *thread = &world->threads[i];
		bool holds_back = thread->n_queue > 0 && below(world, 4) == 0;
		if (!holds_back)
			write_queue(world, i);
		else if (thread->queue[0].ticks < until_ns)
			until_ns = thread->queue[0].ticks;
		if (holds_back && thread->queue[0].begin_ticks &&
		    thread->queue[0].begin_ticks < until_ns)
			until_ns = thread->queue[0].begin_ticks;
	}
	maker_commit(world->maker, until_ns);
}

void world_make(struct world *out, struct maker *maker, uint64_t seed, enum world_mode mode,
		int n_steps)
{
	struct maker_world *world = calloc(1, sizeof(*world));

	ck_assert_ptr_nonnull(world);
	memset(out, 0, sizeof(*out));
	world->out = out;
	world->maker = maker;
	world->mode = mode;
	world->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	world->now_ns = 1000;
	maker_process(maker, add_process(world), 0, world->now_ns);
	add_thread(world, 1);
	for (int i = 0; i < n_steps; i++) {
		uint32_t number = 1 + (uint32_t)below(world, world->n_threads);
		if (world->processes[world->threads[number].process].is_live)
			step_thread(world, number);
		if (below(world, 40) == 0)
			commit(world);
	}
	for (uint32_t i = 1; i <= world->n_threads; i++) {
		if (world->threads[i].is_moving)
			do_realloc_end(world, i);
		write_queue(world, i);
	}
	maker_close(maker, world->now_ns + 1);
	free(world);
}
