#pragma once
/*
 * The kernel's ring of one perf event on one CPU (struct perf_event_mmap_page and 2^n pages behind
 * it). The kernel stores bytes, then data_head; we load data_head (acquire), read the bytes, then
 * store data_tail (release): behind that store the kernel may overwrite them.
 * One thread per ring.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pmu/source.h"

struct perf_event_mmap_page;

struct pmu_ring {
	struct perf_event_mmap_page *page;
	uint8_t *body;
	uint64_t body_bytes; /* a power of two */
	size_t map_bytes; /* 0: the page is not ours to unmap */
	uint64_t tail; /* read up to here; the page's data_tail follows */
	uint64_t throttled_since_ns; /* 0: not throttled now */
	uint8_t *wrapped; /* a record that goes over the end of the body, made whole */
};

/*
 * Map the ring of an open event: 2^pages_log2 pages. Returns 0, or a negative errno: -EPERM is the
 * limit of locked memory.
 */
int pmu_ring_init(struct pmu_ring *ring, int fd, unsigned pages_log2);

/* The same over memory of the caller: page, and body_bytes (a power of two) at body. */
int pmu_ring_init_at(struct pmu_ring *ring, struct perf_event_mmap_page *page, void *body,
		     size_t body_bytes);

/* Unmap. Works on a zeroed ring, and twice. */
void pmu_ring_finish(struct pmu_ring *ring);

/*
 * Give all whole records up to the head of now to the sink, in at most three pieces, and make room.
 * Adds to *losses what the records tell about losses. Returns the bytes given, or the sink's
 * negative result. Bytes in which no record can be told are dropped and counted in n_bad_bytes.
 */
ssize_t pmu_ring_drain(struct pmu_ring *ring, pmu_sink sink, void *context,
		       struct pmu_losses *losses);

/* Bytes waiting to be read. */
uint64_t pmu_ring_pending(const struct pmu_ring *ring);
