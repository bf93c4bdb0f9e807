#pragma once
/*
 * Ends of blocks that are to come, in the order of time. Blocks come in the order of their
 * allocations, so times that are taken hardly go back. An end waits in an array for a stretch of
 * time. When that comes, its ends go to lists for short buckets, and a bucket is sorted when its
 * time comes: all that is looked at lies in the cache. What is added to the bucket at hand waits in
 * a heap, which is small.
 */
#include <stddef.h>
#include <stdint.h>

struct block_end {
	int64_t time_ns;
	uint64_t size;
	uint32_t site : 31;
	uint32_t is_freed : 1;
	uint32_t next; /* number, of the list; 0: none */
	double weight; /* block-weight.h; up to 1: it stands for itself alone */
	uint32_t killer; /* thread.id that freed it; 0: nobody known */
	uint32_t within; /* site of the block that it lies in; 0: none */
};
_Static_assert(sizeof(struct block_end) == 40, "many wait");

#define END_BUCKETS 256u /* of a stretch */

struct end_queue {
	struct end_stretch {
		struct block_end *ends;
		size_t n;
		size_t n_allocated;
	} * stretches;
	size_t n_buckets; /* of all stretches */
	unsigned shift; /* a bucket is 1 << shift ns */
	struct block_end *items; /* of lists, numbered from 1 */
	size_t n;
	size_t n_allocated;
	uint32_t free; /* list of those that are free */
	uint32_t lists[END_BUCKETS]; /* of the stretch at hand */
	size_t at; /* bucket at hand */
	struct end_place {
		int64_t time_ns;
		uint32_t item;
	} * sorted; /* the bucket at hand, the first end last */
	size_t n_sorted;
	size_t n_sorted_allocated;
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
