#pragma once
/*
 * Ends of blocks that wait for their time. Buckets of equal time, each a list; that of the time at
 * hand is a heap, which is small, so that what blocks of a short life do stays in the cache.
 */
#include <stddef.h>
#include <stdint.h>

struct block_end {
	int64_t time_ns;
	uint64_t size;
	uint32_t site : 31;
	uint32_t is_freed : 1;
	uint32_t next; /* number, of the list; 0: none */
};
_Static_assert(sizeof(struct block_end) == 24, "many wait");

struct end_queue {
	struct block_end *items; /* of lists, numbered from 1 */
	size_t n;
	size_t n_allocated;
	uint32_t free; /* list of those that are free */
	uint32_t *buckets;
	size_t n_buckets;
	unsigned shift; /* a bucket is 1 << shift ns */
	size_t at; /* bucket at hand; later ones are lists */
	struct block_end *heap;
	size_t n_heap;
	size_t n_heap_allocated;
};

/* Times are from 0 to about end_ns. Returns 0 or -ENOMEM. Finish in any case. */
int end_queue_init(struct end_queue *queue, int64_t end_ns);
void end_queue_finish(struct end_queue *queue);

/* Returns 0 or -ENOMEM. */
int end_queue_push(struct end_queue *queue, const struct block_end *end);

/* Take the first end that is not behind a time. Returns 1, 0: there is none, or -ENOMEM. */
int end_queue_take(struct end_queue *queue, int64_t time_ns, struct block_end *ret_end);
