#include "runner/ring/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "schemas/recording.h"

#define KEPT_CHUNKS 64u
#define BATCH	    16u /* states that are looked at at once */

static int make_sealed_memory(size_t bytes, int *ret_fd)
{
	auto_close int fd = memfd_create("memsight-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		return -errno;
	/* A program that shrank it would kill the collector with SIGBUS. */
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	*ret_fd = steal_fd(&fd);
	return 0;
}

/* All its blocks are there from the start: a full disk is an error here, and no SIGBUS later. */
static int make_file(const char *dir, size_t bytes, int *ret_fd)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s%sXXXXXX", dir, POOL_FILE_NAME);

	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	auto_close int fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	int err = posix_fallocate(fd, 0, (off_t)bytes);
	if (err != 0)
		return -err;
	*ret_fd = steal_fd(&fd);
	return 0;
}

/* Nothing of it is touched yet. */
static int bind_memory(void *base, size_t bytes, const struct pool_config *config)
{
	if (config->mode == 0 || syscall(SYS_mbind, base, bytes, config->mode, config->nodes,
					 RECORDING_MAX_NODES, 0) == 0)
		return 0;
	return -errno;
}

/* Between the states of chunks and the first chunk. */
static size_t trips_bytes(uint32_t n)
{
	return (n * sizeof(uint64_t) + RING_LARGEST_PAGE_BYTES - 1) / RING_LARGEST_PAGE_BYTES *
	       RING_LARGEST_PAGE_BYTES;
}

static void fill_control(const struct pool *pool, const struct pool_config *config,
			 size_t control_bytes)
{
	struct ring_control *control = pool->control;

	control->version = RING_VERSION;
	control->control_bytes = (uint32_t)control_bytes;
	control->n_chunks = pool->n_chunks;
	control->n_shared = pool->n_shared;
	control->n_processes = pool->n_processes;
	control->events = config->events;
	control->flags = config->flags;
	control->stacks = config->stacks;
	control->clock = config->clock;
	control->max_frames = config->max_frames ? config->max_frames : RING_MAX_FRAMES;
	control->page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);
	control->min_bytes = config->min_bytes;
	control->sample_bytes = config->sample_bytes;
	control->ticks_per_ms = config->ticks_per_ms;
	control->n_trips = config->n_trips;
	control->trips_at = control_bytes - trips_bytes(config->n_trips);
	control->magic = RING_MAGIC;
}

int pool_init(struct pool *ret_pool, const struct pool_config *config)
{
	uint64_t n_chunks = (config->buffer_bytes + RING_CHUNK_BYTES - 1) / RING_CHUNK_BYTES;

	if (n_chunks > RING_MAX_CHUNKS)
		return -EINVAL;
	if (n_chunks < POOL_MIN_CHUNKS)
		n_chunks = POOL_MIN_CHUNKS;

	struct pool pool = { .n_processes = RING_MAX_PROCESSES, .n_shared = (uint32_t)n_chunks };

	/* In a file of its own every chunk takes its blocks. */
	pool.n_chunks = pool.n_shared + (config->dir ? 0 : config->extra_chunks);
	if (pool.n_chunks > RING_MAX_CHUNKS)
		pool.n_chunks = RING_MAX_CHUNKS;

	size_t trips_at = ring_control_bytes(pool.n_processes, pool.n_chunks);
	size_t control_bytes = trips_at + trips_bytes(config->n_trips);
	auto_close int fd = -1;
	int err;

	pool.bytes = control_bytes + (size_t)pool.n_chunks * RING_CHUNK_BYTES;
	pool.shared_bytes = control_bytes + (size_t)pool.n_shared * RING_CHUNK_BYTES;
	err = config->is_private ? 0
	      : config->dir	 ? make_file(config->dir, pool.bytes, &fd)
				 : make_sealed_memory(pool.bytes, &fd);
	if (err < 0)
		return err;

	uint8_t *base = mmap(NULL, pool.bytes, PROT_READ | PROT_WRITE,
			     config->is_private ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	err = bind_memory(base, pool.bytes, config);
	if (err < 0)
		return munmap(base, pool.bytes), err;

	pool.control = (struct ring_control *)base;
	pool.processes = ring_processes(pool.control);
	pool.chunks = (struct ring_chunk *)(base + control_bytes);
	fill_control(&pool, config, control_bytes);
	pool.chunk_states = ring_chunk_states(pool.control);
	pool.forks = ring_forks(pool.control);
	pool.trips = (const _Atomic uint64_t *)(base + trips_at);
	pool.n_trips = config->n_trips;
	pool.fd = steal_fd(&fd);
	*ret_pool = pool;
	return 0;
}

void pool_finish(struct pool *pool)
{
	if (pool->control)
		munmap(pool->control, pool->bytes);
	if (pool->fd >= 0)
		close(pool->fd);
	*pool = POOL_CLOSED;
}

enum ring_chunk_state pool_chunk_state(const struct pool *pool, uint32_t i)
{
	/* Pairs with the program's store of FULL: all its records are complete then. */
	uint32_t state = atomic_load_explicit(&pool->chunk_states[i], memory_order_acquire);

	return state <= RING_CHUNK_FULL ? state : RING_CHUNK_FREE;
}

/* Are BATCH states FREE, which is 0? Two are one word. */
static bool are_free(const uint32_t *states)
{
	uint64_t any = 0, pair;

#pragma GCC unroll 8
	for (uint32_t i = 0; i < BATCH; i += 2) {
		__atomic_load((const uint64_t *)(const void *)&states[i], &pair, __ATOMIC_RELAXED);
		any |= pair;
	}
	return any == 0;
}

/*
 * Many at once: this is done for each program that starts and ends, and nearly all of thousands are
 * free.
 */
uint32_t pool_next_used(const struct pool *pool, uint32_t i)
{
	const uint32_t *states = (const uint32_t *)pool->chunk_states;

	for (; i < pool->n_chunks; i++) {
		while (i % BATCH == 0 && i + BATCH <= pool->n_chunks && are_free(&states[i]))
			i += BATCH;
		if (i >= pool->n_chunks || pool_chunk_state(pool, i) != RING_CHUNK_FREE)
			break;
	}
	return i;
}

uint32_t pool_chunk_reserved(const struct pool *pool, uint32_t i)
{
	/* Pairs with the program's first store of it, which says that the header is filled. */
	uint64_t reserved = atomic_load_explicit(&pool->chunks[i].reserved, memory_order_acquire) &
			    ~RING_CHUNK_CALL;

	if (reserved < offsetof(struct ring_chunk, records))
		return 0;
	if (reserved > RING_CHUNK_BYTES)
		return RING_CHUNK_BYTES;
	return (uint32_t)reserved & ~(RING_RECORD_BYTES - 1);
}

void pool_order(struct pool *pool)
{
	atomic_fetch_add(&pool->control->order, 1);
}

static bool is_to_pause(const struct pool *pool, uint32_t n_slots)
{
	uint32_t order = atomic_load(&pool->control->order);

	for (uint32_t i = 0; i < n_slots && order & 1; i++) {
		const struct ring_process *process = &pool->processes[i];

		if (atomic_load(&process->state) == RING_PROCESS_READY &&
		    atomic_load(&process->order) != order)
			return true;
	}
	return false;
}

bool pool_call(struct pool *pool, uint32_t n_slots)
{
	if (!is_to_pause(pool, n_slots))
		return false;
	for (uint32_t i = pool_next_used(pool, 0); i < pool->n_chunks;
	     i = pool_next_used(pool, i + 1)) {
		_Atomic uint64_t *reserved = &pool->chunks[i].reserved;
		uint64_t value = atomic_load(reserved);

		/*
		 * Its owner's add may undo it, and then is called again; never the other way
		 * round.
		 */
		if (pool_chunk_state(pool, i) == RING_CHUNK_OWNED && value &&
		    !(value & RING_CHUNK_CALL))
			atomic_compare_exchange_strong(reserved, &value, value | RING_CHUNK_CALL);
	}
	return true;
}

/*
 * Of the chunks for first ones only the lowest are used again and again: the others give memory
 * back.
 */
static bool take_memory(const struct pool *pool, uint32_t i)
{
	off_t offset = (off_t)((uint8_t *)&pool->chunks[i] - (uint8_t *)pool->control);

	return pool->fd >= 0 && i >= pool->n_shared + KEPT_CHUNKS &&
	       fallocate(pool->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
			 RING_CHUNK_BYTES) == 0;
}

void pool_chunk_free(struct pool *pool, uint32_t i)
{
	uint32_t used = pool_chunk_reserved(pool, i);

	/*
	 * What lies behind the reserved bytes was never written: a short program used but a little.
	 */
	if (!take_memory(pool, i))
		memset(&pool->chunks[i], 0, used ? used : RING_CHUNK_BYTES);
	/* Pairs with the CAS of the program that takes it: it finds zeros. */
	atomic_store_explicit(&pool->chunk_states[i], RING_CHUNK_FREE, memory_order_release);
}

static void wake_waiters(struct pool *pool)
{
	atomic_fetch_add(&pool->control->chunks_freed, 1);
	if (atomic_load(&pool->control->n_waiters) == 0)
		return;
	syscall(SYS_futex, &pool->control->chunks_freed, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void pool_heartbeat(struct pool *pool, uint32_t n_freed)
{
	atomic_fetch_add_explicit(&pool->control->heartbeat, 1, memory_order_relaxed);
	if (n_freed > 0)
		wake_waiters(pool);
}

void pool_end(struct pool *pool, enum ring_ended how)
{
	atomic_store(&pool->control->ended, how);
	wake_waiters(pool);
}
