#pragma once
/*
 * The touches of one sample while their owners are found. Some owners are open until the next event
 * of the sample's thread (struct owner phase ALLOCATING): then the whole sample waits.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/live/owners.h"
#include "schemas/trace-format.h"

/* A touch to be: what it says, and what its owner depends on. */
struct sample_access {
	enum trace_role role;
	double share;
	uint64_t address; /* without is_resolved: 0 */
	int64_t size; /* < 0: not known */
	int8_t is_write; /* < 0: not known */
	bool is_resolved;
	bool is_open;
	struct owner owner;
	uint64_t ip; /* of the accessing instruction */
	int64_t frame;
	int64_t data_src; /* 0: none */
};

/* Accesses beyond these are merged with those of the same owner at once. */
#define SAMPLE_MAX_ACCESSES 1040u

#define SAMPLE_MAX_ALIKE 4u /* of the time; of other roles 1 */

/* What a sampled access tells beside its touch; all zero: nothing. */
struct sample_detail {
	uint32_t latency; /* cycles; 0: not told, as the others */
	uint32_t latency_2;
	uint32_t latency_3;
	uint64_t physical_address;
	uint64_t page_bytes;
	uint32_t node_number; /* the node + 1 */
};

/* A sample on its way to its rows. */
struct pending_sample {
	int64_t row; /* sample.id; 0: it is not written yet */
	int64_t time_ns;
	int64_t weight;
	int64_t frame; /* of its instruction pointer */
	int64_t stack; /* stack.id of its own call stack; 0: none */
	uint32_t source; /* index of samples.c */
	uint32_t process; /* numbers; 0: not known */
	uint32_t thread;
	uint32_t space; /* of code_store_space() */
	uint32_t loop; /* number of loops.h; 0: in none */
	bool is_kernel; /* it was taken in the kernel */
	bool is_access; /* hardware sampled it: its unit is accesses, not time */
	struct sample_detail detail;
	bool has_freed; /* `freed` is the block that the thread gave back last */
	struct owner_block freed;
	size_t n;
	struct sample_access accesses[]; /* n of them */
};

/*
 * Of one role, owner and direction at most SAMPLE_MAX_ALIKE stay: those of one address and
 * instruction are one, and of more than that some are drawn, the same ones for the same sample,
 * which have the shares of the others too: each address has its share on the average over samples,
 * and sums of owners are what they were. Open ones stay apart, and so do exact operands and what
 * different instructions leave unresolved. time_ns: the sample's. Returns how many are left.
 */
size_t sample_touches_merge(struct sample_access *accesses, size_t n, int64_t time_ns);

/* Whether any is open. */
bool sample_touches_are_open(const struct pending_sample *item);

/*
 * Samples that wait for the next event of their thread to know an owner. Bounded: beyond
 * SAMPLE_MAX_WAITING of a thread, or SAMPLE_MAX_WAITING_ALL (about 50 MiB), they are settled
 * without it. One thread.
 */

#define SAMPLE_MAX_WAITING     65536u
#define SAMPLE_MAX_WAITING_ALL (4 * SAMPLE_MAX_WAITING)

/* Settles a sample whose owners are all decided. 0 or a negative errno. */
typedef int (*sample_settle)(void *user, struct pending_sample *item);

struct sample_list {
	struct pending_sample **items;
	size_t n;
	size_t n_allocated;
};

struct sample_waiting {
	struct owners *owners;
	sample_settle settle;
	void *user;
	struct sample_list *threads; /* by number - 1 */
	size_t n_threads;
	size_t n_threads_allocated;
	size_t n; /* of all */
};

/* Let a copy of an item wait; settles all of its thread first when they are too many. */
int sample_waiting_add(struct sample_waiting *waiting, const struct pending_sample *item);

bool sample_waiting_has(const struct sample_waiting *waiting, uint32_t thread);

/* The thread's next event: block is what it made, or NULL. 0 or a negative errno. */
int sample_waiting_event(struct sample_waiting *waiting, uint32_t thread,
			 const struct owner_block *block, bool is_realloc);

/* Settle all of all threads: there is no next event. */
int sample_waiting_settle(struct sample_waiting *waiting);

/* Free the memory; what waits is lost. */
void sample_waiting_finish(struct sample_waiting *waiting);
