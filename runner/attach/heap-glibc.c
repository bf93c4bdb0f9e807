#include "runner/attach/heap-glibc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"

#define N_BINS		127u
#define MAX_ARENAS	65536u
#define MAX_DATA_BYTES	(4u << 20) /* of libc; what follows may be one mapping with them */
#define HEAP_BYTES_LOG2 26u /* HEAP_MAX_SIZE; others with huge pages */

/*
 * mutex, flags, [have_fastchunks, fastbinsY], top, last_remainder, bins, binmap, next, next_free,
 * attached_threads, system_mem, max_system_mem.
 */
const struct heap_layout heap_layouts[] = {
	{ "2.27 to 2.42", 10, 16, 96, 112, 2160, 2184, 2200 },
	{ "2.43", 0, 0, 8, 24, 2072, 2096, 2112 },
};
const size_t heap_n_layouts = sizeof(heap_layouts) / sizeof(heap_layouts[0]);

/* What is known of a piece of libc's data. */
struct data {
	uint64_t at;
	uint64_t *words;
	size_t n;
};

static bool data_word(const struct data *data, uint64_t address, uint64_t *ret_word)
{
	if (address < data->at || (address - data->at) / 8 >= data->n || address % 8 != 0)
		return false;
	*ret_word = data->words[(address - data->at) / 8];
	return true;
}

/* An empty bin points to itself, as if it were a chunk whose links it is. */
static bool is_empty_bin(const struct data *data, size_t i)
{
	uint64_t self = data->at + i * 8 - HEAP_HEAD_BYTES;

	return i + 1 < data->n && data->words[i] == self && data->words[i + 1] == self;
}

/* Both ends of a bin: empty, or chunks that point back to it. */
static bool is_bin(struct heap_glibc *glibc, const struct data *data, uint64_t at)
{
	uint64_t first, last, back, forth, self = at - HEAP_HEAD_BYTES;

	if (!data_word(data, at, &first) || !data_word(data, at + 8, &last))
		return false;
	if (first == self && last == self)
		return true;
	return first != self && last != self &&
	       heap_memory_word(glibc->memory, first + 24, &back) == 0 && back == self &&
	       heap_memory_word(glibc->memory, last + 16, &forth) == 0 && forth == self;
}

/* Its words; the chunk at its top must be one. */
static int read_arena(struct heap_glibc *glibc, uint64_t at, struct heap_arena *ret_arena)
{
	const struct heap_layout *layout = glibc->layout;
	struct heap_arena arena = { .at = at };
	uint64_t size;

	if (heap_memory_word(glibc->memory, at + layout->top, &arena.top) < 0 ||
	    heap_memory_word(glibc->memory, at + layout->system_bytes, &arena.system_bytes) < 0)
		return -EFAULT;
	/* Before its first block, the top is a bin. */
	if (arena.top == at + layout->bins - HEAP_HEAD_BYTES) {
		arena.top = 0;
	} else {
		if (arena.top % 16 != 0 ||
		    heap_memory_word(glibc->memory, arena.top + 8, &size) < 0)
			return -EBADMSG;
		arena.top_end = arena.top + (size & ~HEAP_FLAGS);
		if (arena.top_end <= arena.top || !(size & HEAP_PREV_IN_USE) ||
		    size & HEAP_MAPPED || arena.top_end % 4096 != 0)
			return -EBADMSG;
	}
	*ret_arena = arena;
	return 0;
}

/* All arenas are a ring. */
static int read_ring(struct heap_glibc *glibc, uint64_t main_arena)
{
	uint64_t at = main_arena;

	glibc->n_arenas = 0;
	do {
		struct heap_arena arena;
		int r = read_arena(glibc, at, &arena);

		if (r < 0)
			return r;
		arena.is_main = at == main_arena;
		if (glibc->n_arenas >= MAX_ARENAS)
			return -EBADMSG;
		if (array_add(glibc->arenas, glibc->n_arenas, glibc->n_arenas_allocated, arena) < 0)
			return -ENOMEM;
		if (heap_memory_word(glibc->memory, at + glibc->layout->next, &at) < 0)
			return -EBADMSG;
	} while (at != main_arena);
	return 0;
}

/* Do the bins of an arena begin here, and is it one? 0, -ENOMEM or another errno: no. */
static int try_bins(struct heap_glibc *glibc, const struct data *data, uint64_t bins)
{
	int r = -EBADMSG;

	for (unsigned i = 0; i < N_BINS; i++)
		if (!is_bin(glibc, data, bins + 16 * i))
			return -EBADMSG;
	for (size_t i = 0; i < heap_n_layouts && r < 0 && r != -ENOMEM; i++) {
		uint64_t at = bins - heap_layouts[i].bins;

		if (at < data->at || at % 8 != 0)
			continue;
		glibc->layout = &heap_layouts[i];
		r = read_ring(glibc, at);
	}
	return r;
}

/*
 * struct malloc_par: n_mmaps, n_mmaps_max, max_n_mmaps, no_dyn_threshold, [from 2.35 4 bytes of
 * padding,] mmapped_mem, max_mmapped_mem, sbrk_base, the number of small caches. What is compared
 * is what any of its values must fulfil; word i is mmapped_mem.
 */
static bool try_numbers(struct heap_glibc *glibc, const struct data *data, size_t i,
			unsigned n_before)
{
	const uint64_t *word = &data->words[i];
	const struct heap_arena *arena = &glibc->arenas[0];
	const struct heap_range *range = heap_memory_range(glibc->memory, word[2]);
	uint32_t numbers[4]; /* now, at most, most until now, is the threshold fixed */

	memcpy(numbers, (const char *)word - 4 * (size_t)n_before, sizeof(numbers));
	if (numbers[0] > numbers[2] || numbers[1] == 0 || numbers[3] > 1 || word[0] > word[1] ||
	    (word[0] | word[1]) % glibc->memory->page_bytes != 0 ||
	    (numbers[0] == 0) != (word[0] == 0) || (numbers[2] == 0) != (word[1] == 0) ||
	    word[3] == 0 || word[3] > 76)
		return false;
	if (arena->top == 0 ? word[2] != 0 : !range || range->kind == HEAP_RANGE_LIBC)
		return false;
	if (range && range->kind == HEAP_RANGE_BRK && word[2] > arena->top)
		return false;
	glibc->has_numbers = true;
	glibc->first_brk = word[2];
	glibc->n_mapped = numbers[0];
	glibc->n_mapped_bytes = word[0];
	return true;
}

static int search(struct heap_glibc *glibc, const struct data *data)
{
	size_t found = 0;

	for (size_t i = 0; i < data->n && !found; i++)
		for (size_t back = 0; is_empty_bin(data, i) && back < N_BINS && 2 * back <= i;
		     back++) {
			int r = try_bins(glibc, data, data->at + (i - 2 * back) * 8);

			if (r == -ENOMEM)
				return r;
			if (r == 0) {
				found = i + 1;
				break;
			}
		}
	if (!found)
		return -ENOENT;
	for (size_t i = 3; i + 4 <= data->n; i++)
		if (try_numbers(glibc, data, i, 4) || try_numbers(glibc, data, i, 5))
			return 0;
	return 0;
}

int heap_glibc_add_region(struct heap_glibc *glibc, struct heap_region region)
{
	return array_add(glibc->regions, glibc->n_regions, glibc->n_regions_allocated, region);
}

bool heap_glibc_has(const struct heap_glibc *glibc, uint64_t address)
{
	return array_find(glibc->regions, glibc->n_regions, it,
			  address >= it->start && address < it->end);
}

/* ar_ptr, prev, size, mprotect_size and, from 2.35, pagesize (struct _heap_info). */
static bool is_heap(struct heap_glibc *glibc, uint64_t at, uint64_t arena)
{
	uint64_t owner;

	return at && heap_memory_word(glibc->memory, at, &owner) == 0 && owner == arena;
}

/* The heap of a chunk: they are aligned to their largest size. 0: none of this arena. */
static uint64_t heap_of(struct heap_glibc *glibc, uint64_t chunk, uint64_t arena)
{
	for (unsigned step = 0; step < 24; step++) {
		/* The usual size first, then smaller and larger ones in turn. */
		unsigned log2 =
			step % 2 ? HEAP_BYTES_LOG2 - (step + 1) / 2 : HEAP_BYTES_LOG2 + step / 2;
		uint64_t at = chunk & ~((UINT64_C(1) << log2) - 1);

		if (heap_memory_range(glibc->memory, at) && is_heap(glibc, at, arena))
			return at;
	}
	return 0;
}

/* The heaps of an arena that is not the main one, from the newest back to that of its head. */
static int add_heaps(struct heap_glibc *glibc, uint32_t i)
{
	const struct heap_arena *arena = &glibc->arenas[i];
	uint64_t head = arena->at & ~(glibc->memory->page_bytes - 1);
	uint64_t at = heap_of(glibc, arena->top, arena->at), prev, n_bytes;
	uint64_t sum = 0;

	for (unsigned n = 0; n < MAX_ARENAS; n++, at = prev) {
		if (!is_heap(glibc, at, arena->at) ||
		    heap_memory_word(glibc->memory, at + 8, &prev) < 0 ||
		    heap_memory_word(glibc->memory, at + 16, &n_bytes) < 0)
			return -EBADMSG;
		if ((n == 0 && at + n_bytes != arena->top_end) || (at == head) != (prev == 0))
			return -EBADMSG;

		uint64_t start =
			at == head ? arena->at + glibc->layout->end : at + arena->at - head;
		struct heap_region region = { (start + 15) & ~UINT64_C(15), at + n_bytes, i };

		if (heap_glibc_add_region(glibc, region) < 0)
			return -ENOMEM;
		sum += n_bytes;
		if (!prev)
			return sum == arena->system_bytes ? 0 : -EBADMSG;
	}
	return -EBADMSG;
}

/* Where brk() gave it memory first, up to the end of what is mapped there. */
static int add_main(struct heap_glibc *glibc)
{
	const struct heap_arena *arena = &glibc->arenas[0];
	uint64_t start = glibc->first_brk;

	if (!arena->top)
		return 0;
	for (size_t i = 0; i < glibc->memory->n_ranges && !start; i++)
		if (glibc->memory->ranges[i].kind == HEAP_RANGE_BRK)
			start = glibc->memory->ranges[i].start;

	const struct heap_range *range = heap_memory_range(glibc->memory, start);
	if (!range)
		return -EBADMSG;

	bool is_top = arena->top >= start && arena->top < range->end;
	struct heap_region region = { (start + 15) & ~UINT64_C(15),
				      is_top ? arena->top_end : range->end, 0 };

	return region.end > range->end ? -EBADMSG : heap_glibc_add_region(glibc, region);
}

/* What cannot be told of an arena leaves it without regions: nobody walks it then. */
static int add_regions(struct heap_glibc *glibc)
{
	for (uint32_t i = 0; i < glibc->n_arenas; i++) {
		size_t n_before = glibc->n_regions;
		int r = 0;

		if (glibc->arenas[i].is_main)
			r = add_main(glibc);
		else if (glibc->arenas[i].top)
			r = add_heaps(glibc, i);
		if (r == -ENOMEM)
			return r;
		if (r < 0)
			glibc->n_regions = n_before;
	}
	return 0;
}

int heap_glibc_find(struct heap_memory *memory, struct heap_glibc *ret_glibc)
{
	int r = -ENOENT;

	*ret_glibc = (struct heap_glibc){ .memory = memory };
	for (size_t first = 0, behind; first < memory->n_ranges && r == -ENOENT; first = behind) {
		struct data data = { .at = memory->ranges[first].start };

		for (behind = first + 1;
		     behind < memory->n_ranges && memory->ranges[behind].kind == HEAP_RANGE_LIBC &&
		     memory->ranges[behind].start == memory->ranges[behind - 1].end;
		     behind++)
			;
		size_t n_bytes = memory->ranges[behind - 1].end - data.at;

		if (memory->ranges[first].kind != HEAP_RANGE_LIBC)
			continue;
		n_bytes = n_bytes < MAX_DATA_BYTES ? n_bytes : MAX_DATA_BYTES;
		auto_free uint64_t *words = malloc(n_bytes);
		if (!words)
			return -ENOMEM;
		r = heap_memory_read(memory, data.at, words, n_bytes);
		if (r < 0)
			return r;
		data.words = words;
		data.n = n_bytes / 8;
		r = search(ret_glibc, &data);
	}
	return r < 0 ? r : add_regions(ret_glibc);
}

void heap_glibc_finish(struct heap_glibc *glibc)
{
	free_all(glibc->arenas, glibc->regions, glibc->dead);
	*glibc = (struct heap_glibc){ 0 };
}
