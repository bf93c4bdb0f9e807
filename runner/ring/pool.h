#pragma once
/*
 * The shared memory of a recording as the collector sees it (layout and protocol: schemas/ring.h).
 * Everything in it can be overwritten at any time by a traced program: sizes and places are kept
 * in private copies here, and each word read from it is read once and checked.
 *
 * Not thread-safe: the collector is one thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/ring.h"

#define POOL_MIN_CHUNKS	  16u
#define POOL_MAP_PATH	  "/memfd:memsight-pool" /* in /proc/PID/maps of who has it mapped */
#define POOL_FILE_NAME	  "/memsight-pool-" /* the same with --buffers pmem:DIR: behind DIR */
#define POOL_EXTRA_CHUNKS 8192u /* 512 MiB of addresses; memory only where it was written */

/* What the control area tells the programs; the units are those of struct ring_control. */
struct pool_config {
	uint64_t buffer_bytes; /* of chunks; rounded up to whole ones, at least POOL_MIN_CHUNKS */
	uint32_t extra_chunks; /* more, for the first one of each thread */
	uint32_t events; /* RING_EVENTS_* */
	uint32_t flags; /* RING_FLAG_* */
	uint32_t stacks; /* enum ring_stacks */
	uint32_t clock; /* enum ring_clock */
	uint64_t min_bytes;
	uint64_t sample_bytes;
	uint32_t max_frames; /* of a call stack; 0: RING_MAX_FRAMES */
	uint64_t ticks_per_ms;
	const char *dir; /* of a file for it, on persistent memory; NULL: a memfd */
	int mode; /* mbind's, with its nodes: RECORDING_MAX_NODES bits; 0: any memory */
	const uint64_t *nodes;
	uint32_t n_trips; /* functions whose calls are only counted */
	bool is_private; /* for a recording without programs that attach: no file descriptor */
};

struct pool {
	int fd; /* memfd, sealed: its size can never change; -1: private */
	struct ring_control *control;
	struct ring_process *processes;
	_Atomic uint32_t *chunk_states;
	_Atomic uint64_t *forks; /* RING_MAX_FORKS */
	const _Atomic uint64_t *trips; /* of n_trips functions of the plan */
	uint32_t n_trips; /* programs can write to those of ring_control */
	struct ring_chunk *chunks;
	size_t bytes; /* of the mapping */
	uint32_t n_processes;
	uint32_t n_chunks;
	uint32_t n_shared; /* of them: those for all */
	size_t shared_bytes; /* of the mapping up to their end: what programs map at first */
};

#define POOL_CLOSED ((struct pool){ .fd = -1 })

/*
 * Make, seal and map a pool; a file cannot be sealed. Returns 0 or a negative errno: -ENOMEM,
 * -EFBIG (a file size limit), -EINVAL (more than RING_MAX_CHUNKS, or mbind refuses), -ENOSPC. The
 * caller ends it with pool_finish().
 */
int pool_init(struct pool *ret_pool, const struct pool_config *config);

/* Unmap and close. Programs keep their own mapping. Safe on POOL_CLOSED and twice. */
void pool_finish(struct pool *pool);

/* The first chunk from i on that is not free; n_chunks, or more, when there is none. */
uint32_t pool_next_used(const struct pool *pool, uint32_t i);

/* State of chunk i < n_chunks; a value that is none of enum ring_chunk_state reads as FREE. */
enum ring_chunk_state pool_chunk_state(const struct pool *pool, uint32_t i);

/*
 * Bytes of chunk i that are reserved: 0 (header not filled yet), or within the chunk and aligned.
 */
uint32_t pool_chunk_reserved(const struct pool *pool, uint32_t i);

/*
 * Let all programs pause, or resume where they are paused already. They look at it by themselves in
 * a pause; those that record do at the latest when pool_call() has reached them.
 */
void pool_order(struct pool *pool);

/*
 * Have the owners of chunks look at the order, if one of the images in the slots below n_slots does
 * not follow it yet and is to pause. Whether there is one: then it is to be called again.
 */
bool pool_call(struct pool *pool, uint32_t n_slots);

/* Zero chunk i, or take its memory away, and give it back to the programs. */
void pool_chunk_free(struct pool *pool, uint32_t i);

/* Tell the programs that somebody drains; n_freed > 0 also wakes those that wait for a chunk. */
void pool_heartbeat(struct pool *pool, uint32_t n_freed);

/*
 * Tell the programs that the recording is over, or has stopped and they only count; wake those that
 * wait.
 */
void pool_end(struct pool *pool, enum ring_ended how);
