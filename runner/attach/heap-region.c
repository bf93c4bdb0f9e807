/* From chunk to chunk, through one piece of memory of an arena. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/array.h"
#include "runner/attach/heap-internal.h"

/* How much is read at once: more where chunks are dense, one head where they are far apart. */
#define MIN_PIECE_BYTES	  64u
#define FIRST_PIECE_BYTES 65536u
#define DENSE_BYTES	  1024u
#define SPARSE_BYTES	  4096u

/* How a piece of memory ends. */
enum end {
	END_TOP,
	END_FENCE, /* two chunks that are none, behind what was the top once */
};

/* A way through one piece. */
struct way {
	struct heap_glibc *glibc;
	struct heap_walk *walk; /* NULL: only see whether it ends well */
	const struct heap_arena *arena;
	uint64_t end; /* of the memory */
	size_t next_dead;
	/* What was read: */
	uint8_t *piece;
	uint64_t piece_at;
	size_t n_piece_bytes;
	size_t n_ask; /* to read next time */
	size_t n_seen; /* chunks of this piece */
	/* Or heads of neighbours: */
	const struct attach_head *heads;
	size_t n_heads;
	size_t next_head;
	uint64_t next_at; /* the chunk whose head that is */
};

void heap_walk_say(struct heap_walk *walk, const char *format, ...)
{
	va_list list;

	if (walk->why[0])
		return; /* the first reason counts */
	va_start(list, format);
	vsnprintf(walk->why, sizeof(walk->why), format, list);
	va_end(list);
}

int heap_walk_add(struct heap_walk *walk, uint64_t address, uint64_t size)
{
	if (grow_one(&walk->blocks, walk->n_blocks, &walk->n_blocks_allocated) < 0)
		return -ENOMEM;
	walk->blocks[walk->n_blocks++] = (struct heap_block){ address, size };
	walk->n_block_bytes += size;
	return 0;
}

/* Read on from a chunk. */
static int refill(struct way *way, uint64_t at)
{
	if (way->n_seen * DENSE_BYTES >= way->n_piece_bytes)
		way->n_ask = way->n_ask * 2 < HEAP_PIECE_BYTES ? way->n_ask * 2 : HEAP_PIECE_BYTES;
	else if (way->n_seen * SPARSE_BYTES < way->n_piece_bytes)
		way->n_ask = way->n_ask / 8 > MIN_PIECE_BYTES ? way->n_ask / 8 : MIN_PIECE_BYTES;

	uint64_t n_bytes = way->end - at < way->n_ask ? way->end - at : way->n_ask;
	int r = heap_memory_read(way->glibc->memory, at, way->piece, n_bytes);

	if (r < 0)
		return r;
	way->piece_at = at;
	way->n_piece_bytes = n_bytes;
	way->n_seen = 0;
	return 0;
}

/* From the reader, when it is asked for one behind the other; NULL: it has none. */
static const struct attach_head *next_head(struct way *way, uint64_t at)
{
	const struct heap_reader *reader = way->glibc->memory->reader;

	if (!reader || !way->walk)
		return NULL;
	if (way->next_head == way->n_heads || way->next_at != at) {
		way->next_head = way->n_heads = 0;
		if (reader->heads(reader->user, at, way->end, &way->heads, &way->n_heads) < 0 ||
		    way->n_heads == 0)
			return NULL;
	}
	const struct attach_head *head = &way->heads[way->next_head++];
	way->next_at = at + (head->size & ~HEAP_FLAGS);
	return head;
}

/* The two words at the begin of a chunk; NULL: it is not within the memory. */
static const struct attach_head *look(struct way *way, uint64_t at, int *reterr)
{
	const struct attach_head *head = next_head(way, at);

	if (head)
		return head;
	if (at < way->piece_at || at - way->piece_at + HEAP_HEAD_BYTES > way->n_piece_bytes) {
		*reterr = at > way->end || way->end - at < HEAP_HEAD_BYTES ? -EBADMSG
									   : refill(way, at);
		if (*reterr < 0)
			return NULL;
	}
	return (const void *)&way->piece[at - way->piece_at];
}

/* A chunk whose next one says that it is in use: a block, unless it lies in a list. */
static int take(struct way *way, uint64_t chunk, uint64_t size)
{
	struct heap_glibc *glibc = way->glibc;
	uint64_t block = chunk + HEAP_HEAD_BYTES;
	uint64_t dead = way->next_dead < glibc->n_dead ? glibc->dead[way->next_dead] : UINT64_MAX;

	if (((size & HEAP_NOT_MAIN) != 0) == way->arena->is_main)
		return -EBADMSG;
	if (dead < block)
		return -EBADMSG; /* it lies in a list, but there is no chunk in use */
	if (dead == block) {
		way->next_dead++;
		return 0;
	}
	return heap_walk_add(way->walk, block, (size & ~HEAP_FLAGS) - 8);
}

/* The chunk before the one at `at`, whose head is known now. */
static int settle(struct way *way, uint64_t before, struct attach_head last,
		  const struct attach_head *now)
{
	if (!before)
		return now->size & HEAP_PREV_IN_USE ? 0 : -EBADMSG;
	if (way->walk)
		way->walk->n_chunks++;
	if (now->size & HEAP_PREV_IN_USE)
		return way->walk ? take(way, before, last.size) : 0;
	return now->before == (last.size & ~HEAP_FLAGS) ? 0 : -EBADMSG;
}

static bool is_chunk(const struct way *way, uint64_t at, uint64_t size)
{
	uint64_t n_bytes = size & ~HEAP_FLAGS;

	return n_bytes >= HEAP_MIN_CHUNK_BYTES && n_bytes % 16 == 0 && n_bytes < way->end - at &&
	       !(size & HEAP_MAPPED);
}

/*
 * The end of a heap that was given up for a newer one: a head of no size behind a chunk of 16 or
 * 32 bytes. In the main arena: two heads of 16 bytes (sysmalloc() in malloc/malloc.c).
 */
static bool is_fence(const struct way *way, uint64_t last, uint64_t size)
{
	last &= ~HEAP_FLAGS;
	size &= ~HEAP_FLAGS;
	if (way->arena->is_main)
		return last == HEAP_HEAD_BYTES && size == HEAP_HEAD_BYTES;
	return (last == HEAP_HEAD_BYTES || last == 2 * HEAP_HEAD_BYTES) && size == 0;
}

/* From chunk to chunk. *ret_at is where it ended, by its top or behind a fence. */
static int go(struct way *way, uint64_t start, enum end *ret_end, uint64_t *ret_at)
{
	struct attach_head last = { 0 };
	uint64_t before = 0, at = start;

	for (;;) {
		int r = 0;
		const struct attach_head *now = look(way, at, &r);

		if (!now)
			return r;
		if (before && is_fence(way, last.size, now->size)) {
			*ret_end = END_FENCE;
			*ret_at = at + HEAP_HEAD_BYTES;
			return 0;
		}
		if (before && (last.size & ~HEAP_FLAGS) < HEAP_MIN_CHUNK_BYTES)
			return -EBADMSG;
		r = settle(way, before, last, now);
		if (r < 0)
			return r;
		if (at == way->arena->top) {
			*ret_end = END_TOP;
			*ret_at = at;
			return 0;
		}
		if (!is_chunk(way, at, now->size) && (now->size & ~HEAP_FLAGS) != HEAP_HEAD_BYTES)
			return -EBADMSG;
		way->n_seen++;
		last = *now;
		before = at;
		at += last.size & ~HEAP_FLAGS;
	}
}

static size_t n_dead_until(const struct heap_glibc *glibc, uint64_t address)
{
	return array_n_while(glibc->dead, glibc->n_dead, it, *it < address);
}

int heap_walk_region(struct heap_glibc *glibc, const struct heap_region *region, uint8_t *piece,
		     struct heap_walk *walk, struct heap_region_end *ret_end)
{
	struct way way = {
		.glibc = glibc,
		.walk = walk,
		.arena = &glibc->arenas[region->arena],
		.end = region->end,
		.next_dead = n_dead_until(glibc, region->start),
		.piece = piece,
		.n_ask = walk ? FIRST_PIECE_BYTES : MIN_PIECE_BYTES,
	};
	enum end end = END_FENCE;
	uint64_t at = 0;
	int r = go(&way, region->start, &end, &at);

	if (r < 0)
		return r;
	if (walk && way.next_dead < glibc->n_dead && glibc->dead[way.next_dead] < at)
		return -EBADMSG;
	*ret_end = (struct heap_region_end){ end == END_TOP, at };
	return 0;
}
