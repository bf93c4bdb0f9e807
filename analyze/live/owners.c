#include "analyze/live/owners.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/symbols/allocator-code.h"
#include "common/address-ranges.h"
#include "common/array.h"
#include "schemas/ring.h"

/* x86-64 with four levels of pages: addresses from here on are the kernel's or none at all. */
#define USER_END     UINT64_C(0x0000800000000000)
#define KERNEL_START UINT64_C(0xffff800000000000)

/*
 * glibc's struct pthread behind the thread pointer, as near to the stack's end as its alignment
 * lets it: 2304 bytes in 2.36, allocate_stack() in nptl/allocatestack.c.
 */
#define TCB_BYTES     UINT64_C(2304)
#define TCB_ALIGNMENT UINT64_C(64)

/*
 * Linux leaves at least this below the top of the stack to it: mmap_base() in arch/x86/mm/mmap.c.
 */
#define STACK_GAP_BYTES (UINT64_C(128) << 20)

/* An allocator's own words beside a block: the header before it, and that of the block behind. */
#define HEADER_BYTES UINT64_C(16)
#define FOOTER_BYTES UINT64_C(32)

#define GONE_NS INT64_C(1000000000) /* nobody asks for what was so long before */

/* What perf told of an image's maps. */
struct image_regions {
	struct ranges kinds[OWNER_REGION_COUNT];
};

struct owners {
	struct tasks *tasks;
	struct modules *modules;
	struct globals *globals;
	struct owner_memory memory;
	struct image_regions *images;
	size_t n_images;
	size_t n_images_allocated;
};

int owners_create(struct tasks *tasks, struct modules *modules, struct globals *globals,
		  const struct owner_memory *memory, struct owners **ret_owners)
{
	struct owners *owners = calloc(1, sizeof(*owners));

	if (!owners)
		return -ENOMEM;
	owners->tasks = tasks;
	owners->modules = modules;
	owners->globals = globals;
	owners->memory = *memory;
	*ret_owners = owners;
	return 0;
}

struct owners *owners_destroy(struct owners *owners)
{
	if (!owners)
		return NULL;
	for (size_t i = 0; i < owners->n_images; i++) {
		for (int kind = 0; kind < OWNER_REGION_COUNT; kind++)
			ranges_finish(&owners->images[i].kinds[kind]);
	}
	free(owners->images);
	free(owners);
	return NULL;
}

int owners_add_region(struct owners *owners, uint32_t number, enum owner_region kind,
		      uint64_t start, uint64_t size)
{
	struct task_process *process = tasks_process(owners->tasks, number);

	if (!process)
		return 0;
	/* By the process, not its number: that changes where perf told of it before its record. */
	if (!process->regions) {
		if (grow_one(&owners->images, owners->n_images, &owners->n_images_allocated) < 0)
			return -ENOMEM;
		owners->images[owners->n_images++] = (struct image_regions){ 0 };
		process->regions = owners->n_images;
	}
	return ranges_add(&owners->images[process->regions - 1].kinds[kind], start, start + size);
}

/* Of the image itself or of those that forked it. */
static bool in_region(struct owners *owners, uint32_t number, enum owner_region kind,
		      uint64_t address)
{
	const struct task_process *process = tasks_process(owners->tasks, number);

	for (; process; process = tasks_process(owners->tasks, process->parent)) {
		if (process->regions &&
		    ranges_have(&owners->images[process->regions - 1].kinds[kind], address))
			return true;
		if (process->birth != RING_BIRTH_FORK)
			return false;
	}
	return false;
}

bool owners_is_tool(struct owners *owners, uint32_t process, uint64_t address, int64_t time_ns)
{
	const struct module *module = modules_find(owners->modules, process, address, time_ns);

	return module && allocator_is_tool(module->object);
}

bool owners_is_allocator(struct owners *owners, uint32_t process, uint64_t ip, int64_t time_ns)
{
	const struct module *module = modules_find(owners->modules, process, ip, time_ns);

	return module && allocator_holds(module->object, ip - module->bias);
}

bool owners_last_freed(const struct owners *owners, uint32_t thread, struct owner_block *ret_block)
{
	return owners->memory.last_freed(owners->memory.user, thread, ret_block);
}

static struct owner plain(enum owner_kind kind)
{
	return (struct owner){ .kind = kind };
}

/* A variable, or for instructions themselves `code`. */
static struct owner owner_in_module(struct owners *owners, const struct module *module,
				    uint64_t address)
{
	if (allocator_is_tool(module->object))
		return plain(OWNER_tool);

	int64_t row = globals_row(owners->globals, module->object, address - module->bias);
	if (row <= 0)
		return plain(OWNER_code);
	return (struct owner){ .kind = OWNER_global, .id = row };
}

/*
 * x86-64: thread-local storage lies below the thread pointer, glibc's struct pthread at and behind
 * it. For threads other than the first both are the upper end of the stack's own mapping.
 */
struct thread_bounds {
	uint64_t stack_start;
	uint64_t stack_end;
	uint64_t tls_start;
	uint64_t tls_end;
};

static struct thread_bounds bounds_of(const struct task_thread *thread, uint64_t tls_bytes)
{
	struct thread_bounds bounds = { thread->stack_start, thread->stack_end };
	uint64_t pointer = thread->fs_base;

	if (!thread->stack_start) /* not known */
		bounds.stack_end = 0;
	if (thread->is_stack_seen)
		pointer = (thread->stack_end - TCB_BYTES) & ~(TCB_ALIGNMENT - 1);
	if (!pointer || pointer < tls_bytes)
		return bounds;
	bounds.tls_start = pointer - tls_bytes;
	bounds.tls_end = pointer + TCB_BYTES;
	if (bounds.stack_start <= pointer && pointer < bounds.stack_end) {
		if (bounds.tls_start < bounds.stack_start)
			bounds.tls_start = bounds.stack_start;
		if (bounds.tls_end > bounds.stack_end)
			bounds.tls_end = bounds.stack_end;
		bounds.stack_end = bounds.tls_start;
	}
	return bounds;
}

void owners_saw_stack(struct owners *owners, uint32_t number, uint64_t stack_pointer)
{
	struct task_thread *thread = tasks_thread(owners->tasks, number);
	const struct owner_memory *ask = &owners->memory;
	struct owner_range range;

	if (!thread || thread->stack_start || !ask->mapped ||
	    !ask->mapped(ask->user, tasks_memory_of(owners->tasks, thread->image), stack_pointer,
			 &range) ||
	    !range.is_unclaimed || range.end - range.start <= TCB_BYTES)
		return;
	thread->stack_start = range.start;
	thread->stack_end = range.end;
	thread->is_stack_seen = true;
}

static bool in_thread(const struct task_thread *thread, uint64_t tls_bytes, uint64_t address,
		      struct owner *ret_owner)
{
	struct thread_bounds bounds = bounds_of(thread, tls_bytes);

	if (bounds.stack_start <= address && address < bounds.stack_end)
		*ret_owner = (struct owner){ .kind = OWNER_stack, .id = thread->row };
	else if (bounds.tls_start <= address && address < bounds.tls_end)
		*ret_owner = (struct owner){ .kind = OWNER_tls, .id = thread->row };
	else
		return false;
	return true;
}

/* A stack's bounds may hold guard pages, which are not in its mapping. */
static bool is_mapping_of_stack(const struct task_thread *thread, const struct owner_range *range)
{
	return range->is_unclaimed && thread->stack_end <= range->end &&
	       range->end - range->start > (thread->stack_end - thread->stack_start) / 2;
}

/*
 * Whether the memory of a thread's stack is another's yet at the time of the question. Before the
 * thread starts, its parent has mapped the stack and writes at its end; what was there before that
 * lies in another mapping.
 */
static bool is_others_yet(const struct owners *owners, const struct task_thread *thread,
			  const struct owner_question *question, uint32_t memory)
{
	const struct owner_memory *ask = &owners->memory;
	struct owner_range range;

	return question->time_ns < thread->start_ns && ask->mapped &&
	       ask->mapped(ask->user, memory, question->address, &range) &&
	       !is_mapping_of_stack(thread, &range);
}

/*
 * A thread of an image that lives at the time of the question. Questions come in the order of time
 * but for what waits for its thread's next event; the first thread is asked for to the end.
 */
static bool in_threads_of(struct owners *owners, uint32_t number,
			  const struct owner_question *question, struct owner *ret_owner)
{
	struct task_process *process = tasks_process(owners->tasks, number);
	uint64_t tls_bytes = modules_static_tls_bytes(owners->modules, number);
	struct task_thread *thread, **at = process ? &process->threads : NULL;

	while (at && (thread = *at)) {
		if (thread->end_ns < question->time_ns - GONE_NS && !thread->is_main) {
			tasks_set_aside(at);
			continue;
		}
		if (thread->end_ns >= question->time_ns &&
		    in_thread(thread, tls_bytes, question->address, ret_owner) &&
		    !is_others_yet(owners, thread, question,
				   tasks_memory_of(owners->tasks, thread->image)))
			return true;
		at = &thread->next;
	}
	return false;
}

/* The stack of the first thread of an image that told no bounds. */
static bool in_first_stack(struct owners *owners, const struct owner_question *question,
			   struct owner *ret_owner)
{
	const struct task_process *process = tasks_process(owners->tasks, question->process);
	const struct task_thread *thread = process ? process->threads : NULL;

	if (!process || !process->stack_top || question->address >= process->stack_top ||
	    process->stack_top - question->address > STACK_GAP_BYTES)
		return false;
	while (thread && !thread->is_main)
		thread = thread->next;
	*ret_owner = (struct owner){ .kind = OWNER_stack, .id = thread ? thread->row : 0 };
	return true;
}

static bool in_any_thread(struct owners *owners, const struct owner_question *question,
			  uint32_t memory, struct owner *ret_owner)
{
	const struct task_thread *own = tasks_thread(owners->tasks, question->thread);
	uint64_t tls_bytes = modules_static_tls_bytes(owners->modules, question->process);

	return (own && in_thread(own, tls_bytes, question->address, ret_owner)) ||
	       in_threads_of(owners, question->process, question, ret_owner) ||
	       (memory != question->process &&
		in_threads_of(owners, memory, question, ret_owner)) ||
	       in_first_stack(owners, question, ret_owner);
}

static bool block_holds(const struct owner_block *block, uint64_t address, uint64_t before,
			uint64_t behind)
{
	return address - (block->start - before) < block->size + before + behind;
}

static bool is_of_allocator(struct owners *owners, const struct owner_question *question)
{
	return question->ip &&
	       owners_is_allocator(owners, question->process, question->ip, question->time_ns);
}

/* The allocator's words in or beside the block that this thread gave back last. */
static bool is_freeing(struct owners *owners, const struct owner_question *question,
		       struct owner *ret_owner)
{
	struct owner_block block;

	if (!question->thread || !is_of_allocator(owners, question) ||
	    !owners->memory.last_freed(owners->memory.user, question->thread, &block) ||
	    !block_holds(&block, question->address, HEADER_BYTES, FOOTER_BYTES))
		return false;
	*ret_owner = (struct owner){ OWNER_heap, OWNER_FREEING, block.id, block.site };
	return true;
}

/* Or beside one that lives: free() looks at the two neighbours, and at the one behind them. */
static bool is_beside_block(struct owners *owners, const struct owner_question *question,
			    uint32_t memory, struct owner *ret_owner)
{
	static const int64_t distances[] = { 8, 16, -8, -16, -24, -32 };
	const struct owner_memory *ask = &owners->memory;
	struct owner_block block;

	if (!is_of_allocator(owners, question))
		return false;
	for (size_t i = 0; i < sizeof(distances) / sizeof(*distances); i++) {
		if (!ask->block(ask->user, memory, question->address + (uint64_t)distances[i],
				&block) ||
		    !block_holds(&block, question->address, HEADER_BYTES, FOOTER_BYTES))
			continue;
		*ret_owner = (struct owner){ OWNER_heap, OWNER_FREEING, block.id, block.site };
		return true;
	}
	return false;
}

/*
 * Where the interposer saw all calls, anonymous memory that none of them made is not the program's.
 */
static const struct {
	enum owner_region kind;
	enum owner_kind traced;
	enum owner_kind untraced;
} region_owners[] = {
	{ OWNER_REGION_TOOL, OWNER_tool, OWNER_tool },
	{ OWNER_REGION_FILE, OWNER_mapping, OWNER_mapping },
	{ OWNER_REGION_ANONYMOUS, OWNER_before_trace, OWNER_mapping },
};

/* [vvar]: the clock's data that the kernel shows to every program. */
static bool is_kernel_data(const struct owner_mapping *mapping)
{
	return mapping->path && strncmp(mapping->path, "[vvar", 5) == 0;
}

/* What the program called by a name, be it in a block of the heap. */
static bool find_named(struct owners *owners, uint32_t memory, uint64_t address,
		       const struct owner_block *block, struct owner *ret_owner)
{
	const struct owner_memory *ask = &owners->memory;
	int64_t id;

	if (!ask->named || !ask->named(ask->user, memory, address, &id))
		return false;
	*ret_owner = (struct owner){ .kind = OWNER_named, .id = id };
	if (block)
		ret_owner->site = block->site;
	return true;
}

/*
 * Memory of the heap in no live block: where blocks are born without an event it is most likely one
 * of theirs, and nobody can say that it was freed.
 */
static bool is_unrecorded(struct owners *owners, const struct owner_question *question,
			  uint32_t memory, const struct owner_mapping *mapping,
			  struct owner *ret_owner)
{
	const struct owner_memory *ask = &owners->memory;
	enum owner_kind kind;

	if (!ask->unrecorded || !ask->unrecorded(ask->user, memory, &kind))
		return false;
	if (mapping ? !(mapping->is_nested || (mapping->path && !strcmp(mapping->path, "[heap]")))
		    : !(ask->was_block(ask->user, memory, question->address) ||
			in_region(owners, question->process, OWNER_REGION_ANONYMOUS,
				  question->address)))
		return false;
	*ret_owner = plain(kind);
	return true;
}

/* Memory that a system call of the program's own has mapped, as those of some runtimes do. */
static bool is_unclaimed(struct owners *owners, const struct owner_question *question,
			 uint32_t memory, struct owner *ret_owner)
{
	const struct owner_memory *ask = &owners->memory;
	struct owner_range range;

	if (!ask->mapped || !ask->mapped(ask->user, memory, question->address, &range) ||
	    !range.is_unclaimed)
		return false;
	*ret_owner = (struct owner){ .kind = OWNER_mapping, .id = range.id };
	return true;
}

/* What is left: nobody's now. All of it may still belong to a block that is being made. */
static struct owner leftover(struct owners *owners, const struct owner_question *question,
			     uint32_t memory, const struct owner_mapping *mapping)
{
	const struct task_process *process = tasks_process(owners->tasks, question->process);
	bool is_traced = !process || process->why_not == TRACE_TRACED;
	struct owner owner;

	if (is_freeing(owners, question, &owner) ||
	    is_unrecorded(owners, question, memory, mapping, &owner))
		return owner;
	if (owners->memory.was_block(owners->memory.user, memory, question->address))
		return plain(OWNER_freed);
	if (is_beside_block(owners, question, memory, &owner) ||
	    is_unclaimed(owners, question, memory, &owner))
		return owner;
	if (mapping && !mapping->is_initial)
		return (struct owner){ .kind = OWNER_mapping, .id = mapping->id };
	if (mapping)
		return plain(is_kernel_data(mapping) ? OWNER_kernel : OWNER_before_trace);
	for (size_t i = 0; i < sizeof(region_owners) / sizeof(*region_owners); i++) {
		if (in_region(owners, question->process, region_owners[i].kind, question->address))
			return plain(is_traced ? region_owners[i].traced
					       : region_owners[i].untraced);
	}
	return plain(OWNER_unknown);
}

/* In owner.def's order; `tool` first, since what our library touches is not the program's. */
struct owner owners_find(struct owners *owners, const struct owner_question *question,
			 bool *ret_is_open)
{
	const struct owner_memory *ask = &owners->memory;
	const struct task_process *process = tasks_process(owners->tasks, question->process);
	uint32_t memory = process ? tasks_memory_of(owners->tasks, process) : question->process;
	struct owner_mapping mapping;
	struct owner_block block;
	struct owner owner;

	*ret_is_open = false;
	if (question->address >= USER_END)
		return plain(question->address >= KERNEL_START ? OWNER_kernel : OWNER_unknown);
	if (question->ip && !question->is_not_tool &&
	    owners_is_tool(owners, question->process, question->ip, question->time_ns))
		return plain(OWNER_tool);
	bool is_block = ask->block(ask->user, memory, question->address, &block);
	if (find_named(owners, memory, question->address, is_block ? &block : NULL, &owner))
		return owner;
	if (is_block)
		return (struct owner){ .kind = OWNER_heap, .id = block.id, .site = block.site };

	bool has_mapping = ask->mapping(ask->user, memory, question->address, &mapping);
	if (has_mapping && !mapping.is_initial && !mapping.is_nested)
		return (struct owner){ .kind = OWNER_mapping, .id = mapping.id };

	const struct module *module = modules_find(owners->modules, question->process,
						   question->address, question->time_ns);
	if (module)
		return owner_in_module(owners, module, question->address);
	if (in_any_thread(owners, question, memory, &owner))
		return owner;
	*ret_is_open = true;
	return leftover(owners, question, memory, has_mapping ? &mapping : NULL);
}

void owners_fetch(const struct owners *owners, const struct task_process *process,
		  uint64_t *addresses, size_t n)
{
	const struct owner_memory *ask = &owners->memory;

	if (process && ask->fetch)
		ask->fetch(ask->user, tasks_memory_of(owners->tasks, process), addresses, n);
}

/*
 * memset and memcpy, which are not the allocator's own, but lie in a file with one: libc. `unknown`
 * is the answer where there is no file that could tell.
 */
static bool is_beside_allocator(struct owners *owners, const struct owner_question *question,
				bool unknown)
{
	const struct module *module =
		modules_find(owners->modules, question->process, question->ip, question->time_ns);

	return module && object_open(module->object) ? allocator_is_in(module->object) : unknown;
}

bool owners_allocating(struct owners *owners, const struct owner_question *question,
		       const struct owner_block *block, struct owner *ret_owner)
{
	/*
	 * What the program itself touches there before is memory that it gave back: no block yet.
	 */
	bool holds = (block_holds(block, question->address, 0, 0) &&
		      is_beside_allocator(owners, question, true)) ||
		     (block_holds(block, question->address, HEADER_BYTES, FOOTER_BYTES) &&
		      is_of_allocator(owners, question));

	if (holds)
		*ret_owner = (struct owner){ OWNER_heap, OWNER_ALLOCATING, block->id, block->site };
	return holds;
}

bool owners_moving(struct owners *owners, const struct owner_question *question,
		   const struct owner_block *freed, struct owner *ret_owner)
{
	if (!block_holds(freed, question->address, 0, 0) ||
	    !is_beside_allocator(owners, question, false))
		return false;
	*ret_owner = (struct owner){ OWNER_heap, OWNER_FREEING, freed->id, freed->site };
	return true;
}
