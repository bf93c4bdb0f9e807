#include "runner/attach/heap-walk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/cleanup.h"
#include "runner/attach/heap-internal.h"

/* Every piece of it; exactly one must end at the top, the others where they were given up. */
static int walk_arena(struct heap_glibc *glibc, uint32_t i, uint8_t *piece, struct heap_walk *walk)
{
	unsigned n_tops = 0, n = 0;

	for (size_t k = 0; k < glibc->n_regions; k++) {
		const struct heap_region *region = &glibc->regions[k];
		struct heap_region_end end;

		if (region->arena != i)
			continue;
		int r = heap_walk_region(glibc, region, piece, walk, &end);
		if (r < 0)
			return r;
		n_tops += end.is_top;
		n++;
		/* Behind a fence there is less than a chunk of a heap. */
		if (!end.is_top && !glibc->arenas[i].is_main &&
		    region->end - end.at >= HEAP_MIN_CHUNK_BYTES)
			return -EBADMSG;
	}
	return n > 0 && n_tops == 1 ? 0 : -EBADMSG;
}

/* As it was before, but for the array, which may have moved. */
static struct heap_walk begin_again(const struct heap_walk *walk, const struct heap_walk *before)
{
	struct heap_walk again = *before;

	again.blocks = walk->blocks;
	again.n_blocks_allocated = walk->n_blocks_allocated;
	return again;
}

static int walk_arenas(struct heap_glibc *glibc, uint8_t *piece, struct heap_walk *walk)
{
	for (uint32_t i = 0; i < glibc->n_arenas; i++) {
		struct heap_walk before = *walk;

		if (!glibc->arenas[i].top)
			continue;
		int r = walk_arena(glibc, i, piece, walk);
		if (r == -EBADMSG && i == 0) {
			*walk = begin_again(walk, &before);
			r = heap_main_find_regions(glibc, piece);
			r = r < 0 ? r : walk_arena(glibc, i, piece, walk);
		}
		if (r == -ENOMEM || r == -ESRCH || r == -EPERM)
			return r;
		if (r == 0) {
			walk->n_arenas++;
			continue;
		}
		*walk = begin_again(walk, &before);
		walk->n_arenas_refused++;
	}
	if (walk->n_arenas_refused)
		heap_walk_say(walk, "%" PRIu32 " of %zu arenas of malloc do not end where they say",
			      walk->n_arenas_refused, glibc->n_arenas);
	return 0;
}

static int read_lists(struct heap_glibc *glibc, const struct heap_target *target,
		      struct heap_walk *walk)
{
	int r = heap_glibc_find_caches(glibc, target->thread_pointers, target->n_threads);

	if (r < 0)
		return r;
	walk->n_caches = glibc->n_caches;
	walk->n_cached = glibc->n_cached;
	for (uint32_t i = 0; i < glibc->n_arenas && r == 0; i++) {
		size_t n = 0;

		r = heap_glibc_fast_bins(glibc, &glibc->arenas[i], &n);
		walk->n_fast += n;
	}
	heap_glibc_sort_dead(glibc);
	return r;
}

static int walk_glibc(struct heap_glibc *glibc, const struct heap_target *target,
		      struct heap_walk *walk)
{
	auto_free uint8_t *piece = malloc(HEAP_PIECE_BYTES);

	if (!piece)
		return -ENOMEM;
	int r = heap_glibc_has(glibc, glibc->arenas[0].top) ? 0
							    : heap_main_find_regions(glibc, piece);
	if (r < 0)
		return r;
	r = read_lists(glibc, target, walk);
	if (r == -ENOENT && glibc->n_regions == 0 && glibc->n_mapped == 0)
		return 0; /* it has no block */
	if (r == -ENOENT || r == -EBADMSG) {
		heap_walk_say(walk, "the caches of its threads were not found in malloc");
		return 0;
	}
	r = r ?: walk_arenas(glibc, piece, walk);
	return r < 0 ? r : heap_mapped_find(glibc, walk);
}

int heap_walk_memory(struct heap_memory *memory, const struct heap_target *target,
		     struct heap_walk *ret_walk)
{
	uint64_t begin_ns = clock_raw_ns();
	struct heap_glibc glibc;
	int r = heap_glibc_find(memory, &glibc);

	if (r == 0)
		r = walk_glibc(&glibc, target, ret_walk);
	else if (r == -ENOENT && memory->allocator)
		heap_walk_say(ret_walk, "its malloc is %s's", memory->allocator);
	else if (r == -ENOENT && memory->has_libc)
		heap_walk_say(ret_walk, "its malloc is not glibc's, or was not used yet");
	else if (r == -ENOENT)
		heap_walk_say(ret_walk, "it has no glibc");
	if (r == 0 && memory->allocator)
		heap_walk_say(ret_walk, "those of %s", memory->allocator);
	heap_glibc_finish(&glibc);
	ret_walk->ns = clock_raw_ns() - begin_ns;
	return r == -ENOENT ? 0 : r;
}

int heap_walk_read(const struct heap_target *target, struct heap_walk *ret_walk)
{
	struct heap_memory memory;
	int r = heap_memory_open(target->pid, &memory);

	*ret_walk = (struct heap_walk){ 0 };
	memory.reader = target->reader;
	r = r ?: heap_walk_memory(&memory, target, ret_walk);
	heap_memory_finish(&memory);
	return r;
}

void heap_walk_finish(struct heap_walk *walk)
{
	free(walk->blocks);
	*walk = (struct heap_walk){ 0 };
}
