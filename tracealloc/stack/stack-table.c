/*
 * Ids of call stacks: a tree of (parent, return address). A thread keeps a table of the nodes that
 * it has written, by the hash of the stack that ends in them (stack-hash.h): one look tells the id
 * of a stack of any depth. A node is written again only after a full table has dropped it.
 */
#include "tracealloc/stack/stack.h"

#include <string.h>
#include <sys/mman.h>

#include "schemas/trace-format.h"
#include "tracealloc/arch/arch.h"
#include "tracealloc/ring/record.h"
#include "tracealloc/stack/stack-hash.h"
#include "tracealloc/stack/thunk.h"
#include "tracealloc/state.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define WINDOW	  16u /* entries, from the hash's own on, among which a node lies */
#define HASH_BASE UINT64_C(0x0f61a3d96c5b8e27)

uint64_t ta_hash_power[RING_MAX_FRAMES + 1];

void ta_hash_begin(void)
{
	ta_hash_power[0] = 1;
	for (uint32_t i = 1; i <= RING_MAX_FRAMES; i++)
		ta_hash_power[i] = ta_hash_reduce((ta_hash_sum)ta_hash_power[i - 1] * HASH_BASE);
}

uint32_t ta_stack_find(const struct ta_thread *thread, uint64_t hash, uintptr_t pc)
{
	uint32_t mask = thread->table_size - 1;

	for (uint32_t i = 0; i < WINDOW; i++) {
		const struct ta_node *node = &thread->table[(hash + i) & mask];

		if (ta_likely(node->hash == hash && node->pc_low == (uint32_t)pc))
			return node->id;
		if (node->id == 0)
			break;
	}
	return 0;
}

static void set_table(struct ta_thread *thread, struct ta_node *table, uint32_t size)
{
	struct ta_node *old = thread->table;
	uint32_t old_size = thread->table_size;

	if (old == table)
		return;
	thread->table = table;
	thread->table_size = size;
	ta_compiler_barrier();
	if (old != thread->small_table)
		ta_syscall(SYS_munmap, (long)old, (long)(old_size * sizeof(*old)), 0, 0, 0, 0);
}

void ta_stack_release(struct ta_thread *thread)
{
	set_table(thread, thread->small_table, TA_TABLE_SMALL);
}

void ta_stack_forget(struct ta_thread *thread)
{
	memset(thread->table, 0, thread->table_size * sizeof(*thread->table));
	memset(thread->stop_node, 0, sizeof(thread->stop_node));
	ta_unwind_forget(&thread->unwind);
	thread->stack_id = 0;
	thread->traces[0].n = 0;
	thread->traces[1].n = 0;
	thread->traces[0].id = 0;
	thread->traces[1].id = 0;
}

void ta_stack_discard(struct ta_thread *thread)
{
	uintptr_t mask = -(uintptr_t)TA_PAGE_BYTES;
	/*
	 * What stands before and behind in the same pages only counts if the heads, which go, say
	 * so.
	 */
	uintptr_t start = ((uintptr_t)thread->unwind.checks + TA_PAGE_BYTES - 1) & mask;
	uintptr_t end = (uintptr_t)&thread->traces[2] & mask;

	if (ta_syscall(SYS_madvise, (long)start, (long)(end - start), MADV_DONTNEED, 0, 0, 0) < 0)
		return;
	memset(thread->stop_node, 0, sizeof(thread->stop_node));
	thread->stack_id = 0;
	thread->next_id = 0;
}

/* A free entry for a hash; NULL: its window is full. size is a power of 2. */
static struct ta_node *find_free(struct ta_node *table, uint32_t size, uint64_t hash)
{
	for (uint32_t i = 0; i < WINDOW; i++) {
		struct ta_node *node = &table[(hash + i) & (size - 1)];

		if (node->id == 0)
			return node;
	}
	return NULL;
}

/* Double the table. A signal handler that jumps out in the middle leaks the new one, no more. */
static bool grow(struct ta_thread *thread)
{
	uint32_t size = thread->table_size * 2;
	struct ta_node *table;

	if (size > TA_TABLE_MAX)
		return false;
	long memory = ta_map_private(size * sizeof(*table));
	if (memory < 0)
		return false;
	table = (struct ta_node *)memory;
	/* A forked child has a chain of its own and drops it: then fork need not copy it either. */
	ta_syscall(SYS_madvise, memory, (long)(size * sizeof(*table)), MADV_WIPEONFORK, 0, 0, 0);
	for (uint32_t i = 0; i < thread->table_size; i++) {
		const struct ta_node *node = &thread->table[i];
		struct ta_node *place = find_free(table, size, node->hash);

		if (node->id && place)
			*place = *node;
	}
	set_table(thread, table, size);
	return true;
}

/*
 * Where a new node goes. In a table that is as big as it may be it takes another one's place,
 * which is written again when it is needed again; its id stays good, and so do those of the nodes
 * further in.
 */
static struct ta_node *make_room(struct ta_thread *thread, uint64_t hash)
{
	struct ta_node *node;

	while (!(node = find_free(thread->table, thread->table_size, hash))) {
		if (grow(thread))
			continue;
		atomic_fetch_add_explicit(&ta_image.process->n_displaced_nodes, 1,
					  memory_order_relaxed);
		return &thread->table[(hash + thread->next_id % WINDOW) & (thread->table_size - 1)];
	}
	return node;
}

/* Write a node to the ring; 0: the pool is full. */
static uint32_t write_node(struct ta_thread *thread, uint32_t parent, uintptr_t pc)
{
	struct ring_node *record = ta_record_reserve_big(thread, sizeof(*record));

	if (!record)
		return 0;
	uint32_t id = thread->next_id++;
	record->pc = ta_thunk_return(pc);
	record->parent_id = parent;
	ta_record_commit(&record->head, RING_HEAD(TRACE_OP_NODE, 0, 1, id));
	return id;
}

uint32_t ta_stack_write(struct ta_thread *thread, uint32_t parent, uintptr_t pc, uint64_t hash)
{
	uint32_t id = write_node(thread, parent, pc);

	if (!id)
		return 0;
	struct ta_node *node = make_room(thread, hash);
	/* A signal handler may jump out between any two of these. */
	node->id = 0;
	ta_compiler_barrier();
	node->hash = hash;
	node->pc_low = (uint32_t)pc;
	ta_compiler_barrier();
	node->id = id;
	return id;
}

bool ta_stack_name_stop(struct ta_thread *thread, uint32_t stop, uint32_t *ret_id)
{
	uint32_t id = thread->stop_node[stop];

	if (!id && stop != TRACE_STOP_NONE) {
		id = write_node(thread, 0, stop);
		if (!id)
			return false;
		thread->stop_node[stop] = id;
	}
	*ret_id = id;
	return true;
}
