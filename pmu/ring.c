#include "pmu/ring.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perf/record.h"

#define MAX_RECORD_BYTES 65536 /* perf_event_header.size is 16 bits */

int pmu_ring_init_at(struct pmu_ring *ring, struct perf_event_mmap_page *page, void *body,
		     size_t body_bytes)
{
	if (body_bytes < sizeof(uint64_t) || (body_bytes & (body_bytes - 1)))
		return -EINVAL;
	uint8_t *wrapped = aligned_alloc(sizeof(uint64_t), MAX_RECORD_BYTES);
	if (!wrapped)
		return -ENOMEM;
	*ring = (struct pmu_ring){ .page = page,
				   .body = body,
				   .body_bytes = body_bytes,
				   .tail = page->data_tail,
				   .wrapped = wrapped };
	return 0;
}

int pmu_ring_init(struct pmu_ring *ring, int fd, unsigned pages_log2)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	size_t body_bytes = page_bytes << pages_log2;

	uint8_t *map =
		mmap(NULL, page_bytes + body_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	int r = pmu_ring_init_at(ring, (struct perf_event_mmap_page *)(void *)map, map + page_bytes,
				 body_bytes);
	if (r < 0)
		return munmap(map, page_bytes + body_bytes), r;
	ring->map_bytes = page_bytes + body_bytes;
	return 0;
}

void pmu_ring_finish(struct pmu_ring *ring)
{
	if (ring->map_bytes)
		munmap(ring->page, ring->map_bytes);
	free(ring->wrapped);
	*ring = (struct pmu_ring){ 0 };
}

uint64_t pmu_ring_pending(const struct pmu_ring *ring)
{
	/* Pairs with the kernel's store to data_head: bytes below head are complete. */
	return __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE) - ring->tail;
}

/* Whole records that lie one behind the other in memory. */
struct batch {
	const uint8_t *bytes;
	size_t n_bytes;
	uint32_t n_records;
	uint32_t n_samples;
};

static void batch_add(struct batch *batch, const struct perf_event_header *header)
{
	batch->n_bytes += header->size;
	batch->n_records++;
	batch->n_samples += header->type == PERF_RECORD_SAMPLE;
}

/* A record that goes over the end of the body, made whole in ring->wrapped. */
static void unwrap(struct pmu_ring *ring, uint64_t offset, struct batch *ret_batch)
{
	const struct perf_event_header *header = (const void *)(ring->body + offset);
	size_t first = (size_t)(ring->body_bytes - offset);
	size_t size = header->size;

	memcpy(ring->wrapped, ring->body + offset, first);
	memcpy(ring->wrapped + first, ring->body, size - first);
	*ret_batch = (struct batch){ .bytes = ring->wrapped };
	batch_add(ret_batch, (const void *)ring->wrapped);
}

/*
 * The next batch before head: records up to the end of the body, or the one that goes over it.
 * Empty when no record can be told. Records are multiples of 8 bytes, so a header never goes over
 * the end.
 */
static void next_batch(struct pmu_ring *ring, uint64_t head, struct batch *ret_batch)
{
	uint64_t offset = ring->tail & (ring->body_bytes - 1);
	uint64_t pending = head - ring->tail;
	struct batch batch = { .bytes = ring->body + offset };

	while (batch.n_bytes < pending && offset < ring->body_bytes) {
		const struct perf_event_header *header = (const void *)(ring->body + offset);

		if (header->size < sizeof(*header) || header->size % sizeof(uint64_t) ||
		    header->size > pending - batch.n_bytes)
			break;
		if (offset + header->size > ring->body_bytes) {
			if (!batch.n_records)
				unwrap(ring, offset, &batch);
			break;
		}
		batch_add(&batch, header);
		offset += header->size;
	}
	*ret_batch = batch;
}

static void count_throttle(struct pmu_ring *ring, const struct pmu_record *record,
			   struct pmu_losses *losses)
{
	uint64_t now_ns = record->throttle.time_ns;

	if (record->type == PERF_RECORD_THROTTLE) {
		losses->n_throttles++;
		if (!losses->throttled_from_ns || now_ns < losses->throttled_from_ns)
			losses->throttled_from_ns = now_ns;
		ring->throttled_since_ns = now_ns;
	} else if (ring->throttled_since_ns && now_ns > ring->throttled_since_ns) {
		losses->throttled_ns += now_ns - ring->throttled_since_ns;
		ring->throttled_since_ns = 0;
	}
	if (now_ns > losses->throttled_to_ns)
		losses->throttled_to_ns = now_ns;
}

static void count_record(struct pmu_ring *ring, const struct pmu_record *record,
			 struct pmu_losses *losses)
{
	switch (record->type) {
	case PERF_RECORD_LOST:
		losses->n_lost += record->lost.count;
		break;
	case PERF_RECORD_LOST_SAMPLES:
		losses->n_lost_samples += record->lost.count;
		break;
	case PERF_RECORD_AUX:
		losses->n_aux_truncated += !!(record->aux.flags & PERF_AUX_FLAG_TRUNCATED);
		losses->n_aux_partial += !!(record->aux.flags & PERF_AUX_FLAG_PARTIAL);
		losses->n_aux_collisions += !!(record->aux.flags & PERF_AUX_FLAG_COLLISION);
		break;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		count_throttle(ring, record, losses);
		break;
	}
}

/* After the sink has taken a batch: what do its records tell about losses? */
static void account(struct pmu_ring *ring, const struct batch *batch, struct pmu_losses *losses)
{
	const struct pmu_format no_trailer = { 0 }; /* the bodies are all that is needed */
	size_t at = 0;

	losses->n_records += batch->n_records;
	losses->n_taken += batch->n_samples;
	if (batch->n_records == batch->n_samples)
		return;
	while (at < batch->n_bytes) {
		const struct perf_event_header *header = (const void *)(batch->bytes + at);
		struct pmu_record record;

		if (header->type != PERF_RECORD_SAMPLE &&
		    pmu_record_parse(&no_trailer, header, batch->n_bytes - at, &record) > 0)
			count_record(ring, &record, losses);
		at += header->size;
	}
}

static void release(struct pmu_ring *ring, uint64_t tail)
{
	ring->tail = tail;
	/* Pairs with the kernel's load of data_tail: we have read all bytes below it. */
	__atomic_store_n(&ring->page->data_tail, tail, __ATOMIC_RELEASE);
}

ssize_t pmu_ring_drain(struct pmu_ring *ring, pmu_sink sink, void *context,
		       struct pmu_losses *losses)
{
	/* Pairs with the kernel's store to data_head: bytes below head are complete. */
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	ssize_t given = 0;

	losses->n_behind += head - ring->tail > ring->body_bytes / 4 * 3;
	while (ring->tail != head) {
		struct batch batch = { 0 };

		if (head - ring->tail <= ring->body_bytes)
			next_batch(ring, head, &batch);
		if (!batch.n_records) {
			losses->n_bad_bytes += head - ring->tail;
			release(ring, head);
			break;
		}
		int r = sink(context, batch.bytes, batch.n_bytes, batch.n_samples);
		if (r < 0)
			return r;
		account(ring, &batch, losses);
		release(ring, ring->tail + batch.n_bytes);
		given += (ssize_t)batch.n_bytes;
	}
	return given;
}
