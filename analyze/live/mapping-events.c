/* What happens to memory that is mapped: advice, protection, locks, and the program break. */
#include "analyze/live/live-memory.h"

#include <errno.h>

#include "analyze/live/live-memory-internal.h"

#define PAGE_BYTES UINT64_C(4096)

static int write_row(struct memory *memory, const struct memory_thread *thread,
		     const struct memory_allocation *change)
{
	const struct mapping *mapping =
		change->size ? mappings_find(&thread->image->mappings, change->address) : NULL;
	return rows_put(memory->changes, CELL(memory->next_change++), CELL(memory->run_id),
			CELL(thread->image->row), CELL(thread->row), CELL(change->time_ns),
			CELL(change->call), CELL(change->address), CELL(change->size),
			CELL(change->detail),
			CELL(mapping ? memory->first_mapping + (int64_t)mapping->id : ROWS_NULL),
			CELL(change->stack_id ? change->stack_id : ROWS_NULL),
			CELL((change->flags & TRACE_EVENT_NESTED) != 0));
}

int memory_change(struct memory *memory, const struct memory_allocation *change)
{
	struct memory_thread *thread = memory_thread(memory, change->thread);

	if (!thread)
		return -ENOMEM;
	if (!(change->flags & TRACE_EVENT_NESTED))
		memory_other(memory, change->thread);
	return write_row(memory, thread, change);
}

static uint64_t round_up(uint64_t address)
{
	return (address + PAGE_BYTES - 1) & -PAGE_BYTES;
}

int memory_break(struct memory *memory, const struct memory_allocation *allocation, bool has_grown)
{
	struct memory_thread *thread = memory_thread(memory, allocation->thread);
	struct memory_allocation pages = *allocation;

	if (!thread)
		return -ENOMEM;
	/* The kernel maps whole pages: the one that the lower end lies in is there already. */
	pages.address = round_up(allocation->address);
	pages.size = round_up(allocation->address + allocation->size) - pages.address;
	pages.detail = 3 | UINT64_C(0x22) << 32; /* PROT_READ|WRITE, MAP_PRIVATE|ANONYMOUS */
	int r = 0;
	if (pages.size > 0 && has_grown)
		r = memory_map(memory, &pages);
	if (r >= 0)
		r = memory_change(memory, allocation);
	if (r >= 0 && pages.size > 0 && !has_grown)
		r = memory_remove_mappings(memory, thread->image, pages.address, pages.size,
					   allocation->time_ns);
	return r;
}
