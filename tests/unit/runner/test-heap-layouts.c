/*
 * The walk over heaps of versions of glibc that this machine does not have: memory made by hand, as
 * malloc/malloc.c and malloc/arena.c of each version lay it out.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runner/attach/heap-internal.h"
#include "tests/support/suite.h"

#define DATA_AT	  UINT64_C(0x7f0000000000)
#define BRK_AT	  UINT64_C(0x555500000000)
#define TLS_AT	  UINT64_C(0x7f0000100000)
#define HEAP_AT	  UINT64_C(0x7e0004000000) /* a multiple of 64 MiB */
#define MAPPED_AT UINT64_C(0x7f0000200000)
#define PIECE	  65536u
#define N_PIECES  5
#define TLS_PLACE 0x200u /* of the cache's address, before the thread pointer */

static const uint64_t begins[N_PIECES] = { DATA_AT, BRK_AT, TLS_AT, HEAP_AT, MAPPED_AT };
static uint8_t pieces[N_PIECES][PIECE];
static bool has_reader; /* of heads, beside that of memory */

/* Versions, and what differs between them. */
static const struct version {
	const char *name;
	unsigned layout; /* row of heap_layouts */
	unsigned cache; /* row of heap_cache_layouts */
	bool is_protected; /* links of lists, from 2.32 */
	unsigned heap_head; /* sizeof(heap_info): 48 from 2.35 */
	unsigned numbers; /* of malloc_par before mmapped_mem: 20 bytes from 2.35 */
	bool has_short_maps; /* sizes of mapped chunks are without the head, from 2.43 */
} versions[] = {
	{ "2.31", 0, 0, false, 32, 16, false }, { "2.34", 0, 0, true, 32, 16, false },
	{ "2.35", 0, 0, true, 48, 20, false },	{ "2.41", 0, 0, true, 48, 20, false },
	{ "2.42", 0, 1, true, 48, 20, false },	{ "2.43", 1, 1, true, 48, 20, true },
};

static uint8_t *at(uint64_t address)
{
	for (size_t i = 0; i < N_PIECES; i++)
		if (address >= begins[i] && address < begins[i] + PIECE)
			return &pieces[i][address - begins[i]];
	return NULL;
}

static void put(uint64_t address, uint64_t word)
{
	memcpy(at(address), &word, sizeof(word));
}

static ssize_t read_pieces(void *context, const struct iovec *from, size_t n_pieces, void *to)
{
	size_t n = 0;

	(void)context;
	for (size_t i = 0; i < n_pieces; i++) {
		uint64_t address = (uint64_t)(uintptr_t)from[i].iov_base;

		if (!at(address) || !at(address + from[i].iov_len - 1))
			return n ? (ssize_t)n : -EFAULT;
		memcpy((char *)to + n, at(address), from[i].iov_len);
		n += from[i].iov_len;
	}
	return (ssize_t)n;
}

/* A chunk; returns the next one. */
static uint64_t chunk(uint64_t address, uint64_t size, uint64_t flags)
{
	put(address + 8, size | flags);
	return address + size;
}

static uint64_t link_of(const struct version *version, uint64_t place, uint64_t to)
{
	return version->is_protected ? place >> 12 ^ to : to;
}

/* An arena whose bins are empty but for one chunk, and whose only fast bin has one. */
static void arena(const struct version *version, uint64_t address, uint64_t top, uint64_t next)
{
	const struct heap_layout *layout = &heap_layouts[version->layout];

	put(address + layout->top, top);
	put(address + layout->next, next);
	for (uint64_t i = 0; i < 254; i++)
		put(address + layout->bins + 8 * i, address + layout->bins + i / 2 * 16 - 16);
}

/* struct tcache_perthread_struct with one block of 32 bytes. */
static void cache(const struct version *version, uint64_t address, uint64_t block)
{
	const struct heap_cache_layout *layout = &heap_cache_layouts[version->cache];
	uint16_t number = layout->is_room ? 7 : 0;

	for (unsigned i = 0; i < layout->n_lists; i++)
		memcpy(at(address + 2 * i), &number, sizeof(number));
	number = layout->is_room ? 6 : 1;
	memcpy(at(address), &number, sizeof(number));
	put(address + 2 * layout->n_lists, block);
	put(block, link_of(version, block, 0));
	put(block + 8, version->is_protected ? 0x1234567 : address);
}

struct made {
	uint64_t live[8];
	size_t n;
};

/* cache, live, cached, live, free (in the last bin), live, fast or live, top. */
static void make_main(const struct version *version, uint64_t main_arena, struct made *made)
{
	const struct heap_layout *layout = &heap_layouts[version->layout];
	uint64_t cached_at = BRK_AT;
	uint64_t c = chunk(BRK_AT, heap_cache_chunk_bytes(&heap_cache_layouts[version->cache]), 1);

	made->live[made->n++] = c + 16;
	c = chunk(c, 64, 1);
	cache(version, cached_at + 16, c + 16);
	c = chunk(c, 32, 1);
	made->live[made->n++] = c + 16;
	c = chunk(c, 4096, 1);

	uint64_t bin = main_arena + layout->bins + 16 * 126 - 16, is_free = c;
	c = chunk(c, 2048, 1);
	put(c, 2048);
	put(is_free + 16, bin);
	put(is_free + 24, bin);
	arena(version, main_arena, c + 80 + 32, HEAP_AT + version->heap_head);
	put(bin + 16, is_free);
	put(bin + 24, is_free);
	made->live[made->n++] = c + 16;
	c = chunk(c, 80, 0);
	if (layout->n_fast_bins) {
		put(main_arena + layout->fast_bins, c);
		put(c + 16, link_of(version, c + 16, 0));
	} else {
		made->live[made->n++] = c + 16;
	}
	c = chunk(c, 32, 1);
	chunk(c, BRK_AT + PIECE - c, 1);
	put(main_arena + layout->system_bytes, PIECE);
}

static void make_heap(const struct version *version, uint64_t main_arena, struct made *made)
{
	const struct heap_layout *layout = &heap_layouts[version->layout];
	uint64_t address = HEAP_AT + version->heap_head;
	uint64_t c = (address + layout->end + 15) & ~UINT64_C(15);

	put(HEAP_AT, address);
	put(HEAP_AT + 16, PIECE);
	put(HEAP_AT + 24, PIECE);
	made->live[made->n++] = c + 16;
	c = chunk(c, 48, 5);
	arena(version, address, c, main_arena);
	chunk(c, HEAP_AT + PIECE - c, 1);
	put(address + layout->system_bytes, PIECE);
}

/* One at a page, one that is aligned to 64 bytes, pages of somebody else's between them. */
static void make_mapped(const struct version *version, struct made *made)
{
	uint64_t less = version->has_short_maps ? 16 : 0;

	put(MAPPED_AT + 8, 8192 - less + 2);
	made->live[made->n++] = MAPPED_AT + 16;
	put(MAPPED_AT + 12288, UINT64_C(0x5a5a5a5a5a5a5a5a));
	if (!version->has_short_maps)
		put(MAPPED_AT + 20480 + 8, 4096 + 2);
	else
		put(MAPPED_AT + 20480 + 8, 4096 - 16 + 2);
	put(MAPPED_AT + 20480 + 48, 48);
	put(MAPPED_AT + 20480 + 56, 4096 - 48 - less + 2);
	made->live[made->n++] = MAPPED_AT + 20480 + 64;
}

static void make_numbers(const struct version *version, uint64_t address)
{
	const uint32_t numbers[4] = { 2, 65536, 2, 0 };

	memcpy(at(address) - version->numbers, numbers, sizeof(numbers));
	put(address, 8192 + 4096);
	put(address + 8, 8192 + 4096);
	put(address + 16, BRK_AT);
	put(address + 24, 64);
}

/* A word that is not as malloc leaves it. */
static const struct damage {
	uint64_t address;
	uint64_t word;
	size_t n_blocks; /* that are known all the same */
	const char *why;
} damages[] = {
	/* A chunk of the main arena is larger than it was: none of its blocks is known. */
	{ BRK_AT + 0x290 + 8, 80 | 1, 3, "1 of 2 arenas of malloc do not end where they say" },
	/* One that is free says so at its end, but not its size. */
	{ BRK_AT + 0x290 + 64 + 32 + 4096 + 2048, 2032, 3, "1 of 2 arenas of malloc" },
	/* A heap is somebody else's. */
	{ HEAP_AT, DATA_AT, 5, "1 of 2 arenas of malloc" },
	/* A list is longer than its number. */
	{ BRK_AT + 16, 0, 0, "caches of its threads" },
	/* glibc counts one more block with pages of its own. */
	{ DATA_AT + 0x100 - 20, UINT64_C(65536) << 32 | 3, 4, "how many blocks have pages" },
};

#define AT_ONCE 3

/* As the library in a process copies heads, a few at a time; every other time it fails. */
static int copy_heads(void *user, uint64_t first, uint64_t end,
		      const struct attach_head **ret_heads, size_t *ret_n)
{
	static struct attach_head heads[AT_ONCE];
	unsigned *n_calls = user;
	uint64_t address = first;
	size_t n = 0;

	if (++*n_calls % 2 == 0)
		return -EFAULT;
	while (n < AT_ONCE && end - address >= sizeof(*heads)) {
		memcpy(&heads[n], at(address), sizeof(*heads));
		uint64_t size = heads[n++].size & ~HEAP_FLAGS;

		if (size == 0 || size > end - address)
			break;
		address += size;
	}
	*ret_heads = heads;
	*ret_n = n;
	return 0;
}

static int walk(const struct version *version, const struct damage *damage, struct made *made,
		struct heap_walk *ret_walk)
{
	unsigned n_calls = 0;
	const struct heap_reader reader = { copy_heads, &n_calls };
	char lines[][64] = { "555500000000-555500010000 rw-p 0 00:00 0 [heap]",
			     "7e0004000000-7e0004010000 rw-p 0 00:00 0 ",
			     "7f0000000000-7f0000010000 rw-p 0 08:01 9 /lib/libc.so.6",
			     "7f0000100000-7f0000110000 rw-p 0 00:00 0 ",
			     "7f0000200000-7f0000210000 rw-p 0 00:00 0 " };
	const uint64_t pointer = TLS_AT + 0x1000;
	const struct heap_target target = { .thread_pointers = &pointer, .n_threads = 1 };
	struct heap_memory memory = {
		.read = read_pieces,
		.reader = has_reader ? &reader : NULL,
		.pagemap_fd = -1,
		.page_bytes = 4096,
		.lines = calloc(HEAP_MEMORY_LINES, sizeof(struct heap_memory_line)),
	};
	uint64_t main_arena = DATA_AT + 0x2040;

	memset(pieces, 0, sizeof(pieces));
	*made = (struct made){ 0 };
	make_main(version, main_arena, made);
	make_heap(version, main_arena, made);
	make_mapped(version, made);
	make_numbers(version, DATA_AT + 0x100);
#if defined(__x86_64__)
	put(pointer - TLS_PLACE, BRK_AT + 16);
#else
	put(pointer + TLS_PLACE, BRK_AT + 16);
#endif
	if (damage)
		put(damage->address, damage->word);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		ck_assert_int_eq(heap_memory_add_map(&memory, lines[i]), 0);
	*ret_walk = (struct heap_walk){ 0 };
	int r = heap_walk_memory(&memory, &target, ret_walk);
	heap_memory_finish(&memory);
	ck_assert(!has_reader || damage || n_calls > 0);
	return r;
}

START_TEST(heaps_of_all_versions_are_walked)
{
	struct heap_walk found;
	struct made made;

	has_reader = _i % 2;
	_i /= 2;
	ck_assert_int_eq(walk(&versions[_i], NULL, &made, &found), 0);
	ck_assert_msg(found.why[0] == '\0', "%s: %s", versions[_i].name, found.why);
	ck_assert_uint_eq(found.n_blocks, made.n);
	for (size_t i = 0; i < made.n; i++)
		ck_assert_uint_eq(found.blocks[i].address, made.live[i]);
	ck_assert_uint_eq(found.n_arenas, 2);
	ck_assert_uint_eq(found.n_cached, 1);
	ck_assert_uint_eq(found.n_fast, heap_layouts[versions[_i].layout].n_fast_bins ? 1 : 0);
	ck_assert_uint_eq(found.n_mapped, 2);
	ck_assert_uint_eq(found.blocks[made.n - 2].size, 8192 - 16);
	ck_assert_uint_eq(found.blocks[made.n - 1].size, 4096 - 64);
	heap_walk_finish(&found);
}
END_TEST

START_TEST(what_is_not_as_malloc_leaves_it_is_not_believed)
{
	struct heap_walk found;
	struct made made;

	has_reader = _i % 2;
	_i /= 2;
	ck_assert_int_eq(walk(&versions[2], &damages[_i], &made, &found), 0);
	ck_assert_msg(strstr(found.why, damages[_i].why) != NULL, "%s", found.why);
	ck_assert_uint_eq(found.n_blocks, damages[_i].n_blocks);
	heap_walk_finish(&found);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("heap layouts");
	TCase *tests = tcase_create("all");

	tcase_add_loop_test(tests, heaps_of_all_versions_are_walked, 0,
			    2 * (int)(sizeof(versions) / sizeof(versions[0])));
	tcase_add_loop_test(tests, what_is_not_as_malloc_leaves_it_is_not_believed, 0,
			    2 * (int)(sizeof(damages) / sizeof(damages[0])));
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
