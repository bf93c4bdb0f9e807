#pragma once
/*
 * The memory of every process image of a run at the moment that the merge has reached: live blocks,
 * live mappings, and what was given back. Rows of `allocation` and `mapping` are written when a
 * block ends, the aggregates follow (tally.h). It answers the sample side's questions (owners.h).
 *
 * Images and threads go by their numbers in the trace. Times are ns since the run's start. An event
 * that does not fit is repaired and counted, never refused: functions fail with a negative errno
 * only for lack of memory, or when the database fails. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/live/block-tree.h"
#include "analyze/live/mapping-set.h"
#include "analyze/live/memory-kinds.h"
#include "analyze/live/owners.h"
#include "analyze/process/processes.h"
#include "schemas/trace-format.h"
#include "store/totals/totals.h"

struct db;
struct memory;

/* allocation.end_kind */
enum memory_end_kind {
	MEMORY_ALIVE,
	MEMORY_FREED,
	MEMORY_REALLOCATED,
	MEMORY_MISSED,
	MEMORY_EXEC, /* its process became another program */
	MEMORY_RESET, /* all blocks of its pool ended */
	MEMORY_CUT, /* the memory that it lay in was given back */
};

static inline bool memory_is_freed(enum memory_end_kind end_kind)
{
	return end_kind != MEMORY_ALIVE && end_kind != MEMORY_EXEC;
}

/* db, tasks and tally must outlive it. Returns 0 or a negative errno. */
int memory_open(struct db *db, int64_t run_id, const struct tasks *tasks, struct tally *tally,
		struct memory **ret_memory);

/* Where names of memory are looked up; must outlive it. Before memory_name(). */
struct texts;
void memory_set_texts(struct memory *memory, const struct texts *texts);

/* Rows that were not flushed are lost. Accepts NULL, returns NULL. */
struct memory *memory_close(struct memory *memory);

/* From now on remember what was given back (owner_memory.was_block): there are samples. */
void memory_keep_freed(struct memory *memory);

/* From now on remember what ends between intervals of --source pages: there may be some. */
void memory_note_ends(struct memory *memory);

/* An image begins. By fork it starts with the memory that its parent has now. */
int memory_fork(struct memory *memory, uint32_t process, uint32_t parent);

/* An image ends: what is left was not freed. */
int memory_end(struct memory *memory, uint32_t process, int64_t time_ns, bool by_exec);

/* A block is allocated, or memory is mapped. */
struct memory_allocation {
	uint32_t thread;
	uint8_t call;
	uint16_t flags; /* TRACE_EVENT_* */
	int64_t time_ns;
	int64_t stack_id;
	uint64_t address;
	uint64_t size;
	uint64_t detail; /* mapping: prot | flags << 32; block: the interval it was picked with */
	uint64_t link; /* realloc, mremap: as given to the end of the old one; 0: none */
	/* a block that is in the way ends unseen; else -EEXIST, and nothing is done */
	bool ends_others;
};

/*
 * Whether a block that is live stands in the way of an allocation at *from, which is
 * allocation->address at first, or behind it; *ret_address is where it starts, and *from moves
 * behind its end.
 */
bool memory_is_taken(struct memory *memory, const struct memory_allocation *allocation,
		     uint64_t *from, uint64_t *ret_address);

/*
 * Whatever is in the way ends as MEMORY_MISSED, if that is wished. *ret_block says what it is now.
 */
int memory_allocated(struct memory *memory, const struct memory_allocation *allocation,
		     struct owner_block *ret_block);

/* A block ended, or is about to be moved. */
struct memory_end_of {
	uint32_t thread;
	uint8_t call; /* enum trace_call; shmdt ends a whole segment */
	int64_t time_ns;
	uint64_t address;
	uint64_t size; /* mapping */
	uint64_t link; /* realloc, mremap: a number that the allocation of the new one repeats */
	bool is_nested; /* TRACE_EVENT_NESTED: no event of the program */
	bool is_early; /* repair: other events of its thread come before it */
};
int memory_freed(struct memory *memory, const struct memory_end_of *end);

/* The same for mappings; the one that was there before the trace has thread 0 and a process. */
int memory_map(struct memory *memory, const struct memory_allocation *allocation);
int memory_unmap(struct memory *memory, const struct memory_end_of *end);
int memory_map_before(struct memory *memory, uint32_t process, const struct mapping *mapping);

/* The program calls memory by a name; text is its number in texts.h, 0 takes names away. */
struct memory_name {
	uint32_t thread;
	int64_t time_ns;
	uint64_t address;
	uint64_t size; /* 0: the block or mapping that address lies in */
	uint32_t text;
};
int memory_name(struct memory *memory, const struct memory_name *name);

/* Whether an address lies in a live block of a thread's image. */
bool memory_knows_block(struct memory *memory, uint32_t thread, uint64_t address);

/* What pools.h could not keep. */
struct pools_losses;
const struct pools_losses *memory_pool_losses(const struct memory *memory);

/*
 * From now on blocks of an image may be allocated without an event: the program withholds
 * recording.
 */
int memory_withhold(struct memory *memory, uint32_t process);

/* The same of all images, also later ones: windows. */
void memory_set_withheld(struct memory *memory);

/* The same of all images: the trace is none of ours. */
void memory_set_unseen(struct memory *memory);

/* Whom to tell of blocks that are live when their image ends; must outlive it. */
struct guesses;
void memory_set_guesses(struct memory *memory, struct guesses *guesses);

/* Only picked blocks have events: --sample-bytes. */
void memory_set_picked(struct memory *memory);

/* What an event's detail says of a block: the interval that it was picked with; 0: none. */
uint64_t memory_interval(const struct memory *memory, uint64_t detail);

/* Blocks smaller than bytes have no events: --min-size. */
void memory_set_minimum(struct memory *memory, uint64_t bytes);
/* The program break moved: to address + size when it grew, to address when it did not. */
int memory_break(struct memory *memory, const struct memory_allocation *allocation, bool has_grown);

/* An event of memory that is mapped: a row of mapping_event. */
int memory_change(struct memory *memory, const struct memory_allocation *change);

/*
 * The kernel's records say that there is a mapping now, at address, of size; it may be more than
 * what was new. Its path is copied. thread 0: not known.
 */
int memory_seen(struct memory *memory, uint32_t process, const struct mapping *mapping);

/* A module was unloaded: what only the kernel told of in its place has ended. */
int memory_unloaded(struct memory *memory, uint32_t process, uint64_t start, uint64_t size,
		    int64_t time_ns);

/* Another event of a thread: what it did last is no longer an allocation or a free. */
void memory_other(struct memory *memory, uint32_t thread);

/* Events of a thread with blocks at these addresses come soon: what they read is fetched. */
void memory_fetch(struct memory *memory, uint32_t thread, const uint64_t *addresses, size_t n);

/* All that a thread's event at this time says was told. */
void memory_passed(struct memory *memory, uint32_t thread, int64_t time_ns);

/* The image of a thread's number, 0 when it is not defined. */
uint32_t memory_process_of(const struct memory *memory, uint32_t thread);

/* What --heap-min and --spill said. */
void memory_set_heap_minimum(struct memory *memory, uint64_t bytes);
void memory_set_spill(struct memory *memory);

/*
 * A process gave its heap of a kind memory; told->process_row is found here. 0 or a negative errno.
 */
int memory_heap_range(struct memory *memory, uint32_t process, const struct kinds_told *told);

/* Write the totals of kinds, behind memory_write_blocks(). Returns 0 or a negative errno. */
int memory_write_kinds(struct memory *memory);

/* The answers for owners.h. */
struct owner_memory memory_answers(struct memory *memory);

/* All images end at end_ns; flush all rows but those of blocks. Returns 0 or a negative errno. */
int memory_finish(struct memory *memory, int64_t end_ns);

/* As block_rows_sampled() and block_rows_touched() have it; time_ns is the import's now. */
struct sample_event;
struct touch;
int memory_sampled(struct memory *memory, int64_t time_ns, const struct sample_event *taken);
int memory_touched(struct memory *memory, const struct touch *touch);

/*
 * Behind memory_finish(): begin to write the rows of blocks, while the caller goes on; and wait
 * until they are written. The tables of other rows have been flushed: they would have to wait.
 * Return 0 or a negative errno.
 */
int memory_write_blocks(struct memory *memory);
int memory_wait(struct memory *memory);

/* As block_rows_listen() and block_rows_have_told() (allocation-writer.h). */
struct block_listener;
void memory_listen(struct memory *memory, const struct block_listener *listener);
bool memory_has_told(const struct memory *memory);

/* Behind the run's row: store the sums of its stretches (stretches.h). 0 or a negative errno. */
int memory_write_sums(struct memory *memory, struct db *db);
