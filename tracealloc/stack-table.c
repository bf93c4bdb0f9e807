/* Ids of call stacks: a tree of (parent, return address), each node written to the ring once,
 * or again when the table had no room left. */
#include "tracealloc/stack.h"

#include <string.h>
#include <sys/mman.h>

#include "schemas/trace-format.h"
#include "tracealloc/arch.h"
#include "tracealloc/record.h"
#include "tracealloc/state.h"

/* The entry of (parent, pc), or the free one where it belongs. size is a power of 2. */
static struct ta_node *find_slot(struct ta_node *table, uint32_t size, uint32_t parent,
				 uintptr_t pc)
{
	uint64_t hash = (pc + parent * UINT64_C(0xff51afd7ed558ccd)) * UINT64_C(0x9e3779b97f4a7c15);
	uint32_t mask = size - 1;

	for (uint32_t i = (uint32_t)(hash >> 32) & mask;; i = (i + 1) & mask) {
		struct ta_node *node = &table[i];

		if (node->id == 0 || (node->pc == pc && node->parent == parent))
			return node;
	}
}

static void set_table(struct ta_thread *thread, struct ta_node *table, uint32_t size)
{
	struct ta_node *old = thread->table;
	uint32_t old_size = thread->table_size;

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
	thread->table_used = 0;
	thread->traces[0].n = 0;
	thread->traces[1].n = 0;
	thread->traces[0].id = 0;
	thread->traces[1].id = 0;
}

/* Double the table. A signal handler that jumps out in the middle leaks the new one, no more. */
static void grow(struct ta_thread *thread)
{
	uint32_t size = thread->table_size * 2;
	struct ta_node *table;
	long memory;

	if (size > TA_TABLE_MAX)
		return;
	memory = ta_syscall(SYS_mmap, 0, (long)(size * sizeof(*table)), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory < 0)
		return;
	table = (struct ta_node *)memory;
	for (uint32_t i = 0; i < thread->table_size; i++) {
		struct ta_node *node = &thread->table[i];

		if (node->id)
			*find_slot(table, size, node->parent, node->pc) = *node;
	}
	set_table(thread, table, size);
}

static bool has_room(const struct ta_thread *thread)
{
	return thread->table_used < thread->table_size / 4 * 3;
}

/*
 * Make room in a table that is as big as it may be: forget the nodes. Their ids stay good, those
 * in use are only written again under new ones. (Entry by entry, as a signal handler may jump out.)
 */
static void empty(struct ta_thread *thread)
{
	for (uint32_t i = 0; i < thread->table_size; i++)
		*(volatile uint32_t *)&thread->table[i].id = 0;
	thread->table_used = 0;
}

/* Write a node to the ring; 0: the pool is full. */
static uint32_t write_node(struct ta_thread *thread, uint32_t parent, uintptr_t pc)
{
	struct ring_node *record = ta_record_reserve_big(thread, sizeof(*record));
	uint32_t id;

	if (!record)
		return 0;
	id = thread->next_id++;
	record->pc = pc;
	record->parent_id = parent;
	ta_record_commit(&record->head, RING_HEAD(TRACE_OP_NODE, 0, 1, id));
	return id;
}

bool ta_stack_name_frame(struct ta_thread *thread, uint32_t parent, uintptr_t pc, uint32_t *ret_id)
{
	struct ta_node *node = find_slot(thread->table, thread->table_size, parent, pc);

	if (ta_likely(node->id)) {
		*ret_id = node->id;
		return true;
	}
	if (ta_unlikely(!has_room(thread))) {
		grow(thread);
		if (!has_room(thread))
			empty(thread);
		node = find_slot(thread->table, thread->table_size, parent, pc);
	}
	*ret_id = write_node(thread, parent, pc);
	if (!*ret_id)
		return false;
	node->pc = pc;
	node->parent = parent;
	ta_compiler_barrier();
	node->id = *ret_id;
	thread->table_used++;
	return true;
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

bool ta_stack_name(struct ta_thread *thread, struct ta_trace *trace, uint32_t known)
{
	uint32_t parent;

	if (known < trace->n)
		parent = trace->node[known];
	else if (!ta_stack_name_stop(thread, trace->stop, &parent))
		return false;
	for (uint32_t i = known; i-- > 0;) {
		if (!ta_stack_name_frame(thread, parent, trace->frame[i].pc, &trace->node[i]))
			return false;
		parent = trace->node[i];
	}
	trace->id = parent;
	return true;
}
