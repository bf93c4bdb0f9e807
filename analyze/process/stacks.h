#pragma once
/*
 * Frames and call stacks, one row each over threads, processes and runs: those of an existing
 * database keep their ids, new ones are added at the end. A frame is (object, offset), offset =
 * return address - 1 - bias for callers, ip - bias for samples. A stack is (parent, frame) or
 * (parent, reason why it could not be followed). Times are ns since the run's start. One thread.
 */
#include <stddef.h>
#include <stdint.h>
#include <sqlite3.h>

#include "analyze/process/modules.h"
#include "schemas/trace-format.h"

struct db;
struct stacks;

/*
 * Read the frames and stacks that db has. modules and objects must outlive it; tasks tells the
 * image of a thread. Returns 0 or a negative errno.
 */
int stacks_create(sqlite3 *db, struct tasks *tasks, struct modules *modules,
		  struct objects *objects, struct stacks **ret_stacks);
struct stacks *stacks_destroy(struct stacks *stacks); /* accepts NULL, returns NULL */

/* A NODES frame of a thread, before the first event that uses it. 0 or a negative errno. */
int stacks_nodes(struct stacks *stacks, uint32_t thread, const struct trace_node *nodes, size_t n);

/* A node is asked for soon: have it fetched into the cache. */
void stacks_fetch(const struct stacks *stacks, uint32_t thread, uint32_t node);

/*
 * stack.id of a thread's node at the time of an event. 0: node 0 (not recorded). A node that was
 * never told (its definition is lost) gives the row with the stop "definition lost" and is counted.
 * After the first time a node costs an array access. Negative errno only without memory.
 */
int64_t stacks_row(struct stacks *stacks, uint32_t thread, uint32_t node, int64_t time_ns);

#define STACKS_MAX_PATH 256u

/* A call stack as addresses: the instruction itself, then return addresses outwards. */
struct stacks_path {
	uint32_t process;
	const uint64_t *pcs;
	size_t n; /* at least 1 */
	/* why it goes no further; TRACE_STOP_NONE: it does not say, or is whole */
	enum trace_stop stop;
	int64_t time_ns;
};

/*
 * stack.id of such a path, of the same rows as those of blocks. Negative errno only without memory.
 */
int64_t stacks_path(struct stacks *stacks, const struct stacks_path *path);

/* frame.id of a code address; frames of samples pass the ip itself. > 0 or a negative errno. */
int64_t stacks_frame(struct stacks *stacks, uint32_t process, uint64_t ip, int64_t time_ns);

/* frame.id of an address in the kernel. > 0 or a negative errno. */
int64_t stacks_kernel_frame(struct stacks *stacks, uint64_t ip);

/* How often a node was used whose definition is lost. */
uint64_t stacks_n_lost(const struct stacks *stacks);

/*
 * Resolve the new frames and write the tables frame, frame_line and stack. Returns 0 or a negative
 * errno. Call once, at the end of the import, inside its transaction, before modules_write().
 */
int stacks_write(struct stacks *stacks, struct db *db);

/*
 * Name the frames that the database had anew: symbols may be there that were missing, or are wanted
 * in another way. Before stacks_write(). Returns 0 or a negative errno.
 */
int stacks_rename(struct stacks *stacks, sqlite3 *db);

static inline void stacks_cleanup(struct stacks **stacks)
{
	*stacks = stacks_destroy(*stacks);
}
#define auto_stacks __attribute__((cleanup(stacks_cleanup)))
