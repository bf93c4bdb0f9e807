/*
 * Kinds of code that one thread runs in slices. Volatile accesses are exactly those that are
 * written.
 */
#include "bench/accuracy/victim.h"

#include <immintrin.h>

typedef volatile uint64_t word;

/* ---- One object each: arithmetic on a small one, a stream, a chase of pointers ---- */

#define SMALL_WORDS  1024u
#define STREAM_WORDS (UINT64_C(1) << 21)
#define CHASE_WORDS  (UINT64_C(1) << 20)

static uint64_t *small, *stream;
static uint64_t *chase; /* one cycle through all words */

KERNEL static void run_small(uint64_t n)
{
	word *words = small;
	uint64_t sum = 1;

	for (uint64_t i = 0; i < n; i++)
		sum = sum * 3 + words[i % SMALL_WORDS];
	sink = sum;
}

KERNEL static void run_stream(uint64_t n)
{
	static uint64_t at;
	word *words = stream;
	uint64_t i = at, end = i + n;

	for (; i < end; i++)
		words[i * 8 % STREAM_WORDS] = i;
	at = i;
}

KERNEL static void run_chase(uint64_t n)
{
	static uint64_t at;
	word *words = chase;
	uint64_t i = at;

	while (n--)
		i = words[i];
	at = i;
}

static void prepare_three(void)
{
	int64_t start;

	small = make_a(SMALL_WORDS * 8);
	stream = make_b(STREAM_WORDS * 8);
	chase = make_c(CHASE_WORDS * 8);
	start = cpu_ns();
	for (uint64_t i = 0; i < CHASE_WORDS; i++)
		chase[i] = (i * 0xd1345 + 0x9e377) & (CHASE_WORDS - 1);
	charge("make_c", since_ns(start));
}

#define THREE                                                                                      \
	{                                                                                          \
		{ run_small, { { "make_a", 1 } }, 0, 0 },                                          \
			{ run_stream, { { "make_b", 1 } }, 0, 0 },                                 \
		{                                                                                  \
			run_chase, { { "make_c", 1 } }, 0, 0                                       \
		}                                                                                  \
	}

/* ---- Parts of a block ---- */

#define ITEM_WORDS 8u
#define N_ITEMS	   8192u
#define QUARTER	   8192u

static uint64_t *items, *quarters;

KERNEL static void run_move(uint64_t n)
{
	while (n--)
		for (word *item = items; item < items + N_ITEMS * ITEM_WORDS; item += ITEM_WORDS)
			item[1] = item[1] + item[5];
}

KERNEL static void run_look(uint64_t n)
{
	while (n--)
		for (word *item = items; item < items + N_ITEMS * ITEM_WORDS; item += ITEM_WORDS)
			sink = item[2] * item[5] + item[6];
}

static void prepare_fields(void)
{
	items = make_a(N_ITEMS * ITEM_WORDS * 8);
}

KERNEL static void run_quarters(uint64_t n)
{
	word *words = quarters;

	while (n--)
		for (size_t i = 0; i < QUARTER; i++)
			words[i + 3 * QUARTER] =
				words[i] + words[i + QUARTER] + words[i + 2 * QUARTER];
}

KERNEL static void run_half(uint64_t n)
{
	word *words = quarters;

	while (n--)
		for (size_t i = 0; i < QUARTER; i++)
			words[i + QUARTER] = words[i];
}

static void prepare_quarters(void)
{
	quarters = make_a(QUARTER * 4 * 8);
}

/* ---- Through an index that was just loaded ---- */

#define FAR_WORDS  (UINT64_C(1) << 20)
#define NEAR_WORDS 512u
#define N_INDICES  16384u
#define ROW	   16u

static uint64_t *far_words, *near_words;
static uint32_t *far_indices, *near_indices;
static word **pointers;

KERNEL static void run_far(uint64_t n)
{
	const volatile uint32_t *index = far_indices;
	word *words = far_words;
	uint64_t sum = 0;

	while (n--)
		for (size_t i = 0; i < N_INDICES; i++)
			sum += words[index[i]];
	sink = sum;
}

KERNEL static void run_near(uint64_t n)
{
	const volatile uint32_t *index = near_indices;
	word *words = near_words;
	uint64_t sum = 0;

	while (n--)
		for (size_t i = 0; i < N_INDICES; i++)
			sum += words[index[i]];
	sink = sum;
}

static void prepare_indirect(void)
{
	int64_t start;

	far_words = make_a(FAR_WORDS * 8);
	far_indices = make_b(N_INDICES * 4);
	near_words = make_c(NEAR_WORDS * 8);
	near_indices = make_d(N_INDICES * 4);
	start = cpu_ns();
	for (size_t i = 0; i < N_INDICES; i++)
		far_indices[i] = (uint32_t)random_below(FAR_WORDS);
	charge("make_b", since_ns(start));
	start = cpu_ns();
	for (size_t i = 0; i < N_INDICES; i++)
		near_indices[i] = (uint32_t)random_below(NEAR_WORDS);
	charge("make_d", since_ns(start));
}

KERNEL static void run_pointers(uint64_t n)
{
	word *volatile *at = pointers;
	uint64_t sum = 0;

	while (n--)
		for (size_t i = 0; i < N_INDICES; i++)
			sum += *at[i];
	sink = sum;
}

static void prepare_pointers(void)
{
	int64_t start;

	far_words = make_a(FAR_WORDS * 8);
	pointers = make_b(N_INDICES * sizeof(*pointers));
	near_words = make_c(NEAR_WORDS * 8);
	near_indices = make_d(N_INDICES * 4);
	start = cpu_ns();
	for (size_t i = 0; i < N_INDICES; i++)
		pointers[i] = far_words + random_below(FAR_WORDS);
	charge("make_b", since_ns(start));
	start = cpu_ns();
	for (size_t i = 0; i < N_INDICES; i++)
		near_indices[i] = (uint32_t)random_below(NEAR_WORDS);
	charge("make_d", since_ns(start));
}

/* Sparse matrix by vector, rows of 16: values a, columns b, the vector c; the result is e. */
static double *values, *vector, *result;

KERNEL static void run_sparse(uint64_t n)
{
	const volatile uint32_t *column = far_indices;
	volatile double *value = values, *x = vector;

	while (n--)
		for (size_t row = 0; row < N_INDICES / ROW; row++) {
			double sum = 0;

			for (size_t i = row * ROW; i < (row + 1) * ROW; i++)
				sum += value[i] * x[column[i]];
			((volatile double *)result)[row] = sum;
		}
}

KERNEL static void run_axpy(uint64_t n)
{
	volatile double *y = result;

	while (n--)
		for (size_t i = 0; i < N_INDICES / ROW; i++)
			y[i] = y[i] * 0.5;
}

static void prepare_sparse(void)
{
	int64_t start;

	values = make_a(N_INDICES * 8);
	far_indices = make_b(N_INDICES * 4);
	vector = make_c(FAR_WORDS * 8);
	result = make_e(N_INDICES / ROW * 8);
	start = cpu_ns();
	for (size_t i = 0; i < N_INDICES; i++)
		far_indices[i] = (uint32_t)random_below(FAR_WORDS);
	charge("make_b", since_ns(start));
}

/* ---- Lists of nodes, each a block of its own ---- */

#define FAR_NODES  32768u
#define NEAR_NODES 500u

struct node {
	struct node *volatile next;
	volatile uint64_t value;
	uint64_t more[6];
};

static struct node *far_list, *near_list;

static struct node *link_list(void *(*make)(size_t), size_t n)
{
	struct node **nodes = malloc(n * sizeof(*nodes)), *first;

	for (size_t i = 0; i < n; i++)
		nodes[i] = make(sizeof(**nodes));
	for (size_t i = n - 1; i > 0; i--) {
		size_t other = random_below(i + 1);
		struct node *kept = nodes[i];

		nodes[i] = nodes[other];
		nodes[other] = kept;
	}
	for (size_t i = 0; i < n; i++)
		nodes[i]->next = nodes[(i + 1) % n];
	first = nodes[0];
	free(nodes);
	return first;
}

KERNEL static void *new_a(size_t n_bytes)
{
	void *node = malloc(n_bytes);

	__asm__ volatile("" : "+r"(node)); /* no tail call, which would leave no frame */
	return node;
}

KERNEL static void *new_b(size_t n_bytes)
{
	void *node = malloc(n_bytes);

	__asm__ volatile("" : "+r"(node)); /* no tail call, which would leave no frame */
	return node;
}

KERNEL static struct node *walk(struct node *node, uint64_t n)
{
	uint64_t sum = 0;

	while (n--) {
		sum += node->value;
		node = node->next;
	}
	sink = sum;
	return node;
}

KERNEL static void run_far_list(uint64_t n)
{
	far_list = walk(far_list, n * 20);
}

KERNEL static void run_near_list(uint64_t n)
{
	near_list = walk(near_list, n * 20);
}

static void prepare_lists(void)
{
	int64_t start = cpu_ns();

	far_list = link_list(new_a, FAR_NODES);
	near_list = link_list(new_b, NEAR_NODES);
	charge("others", since_ns(start));
}

/*
 * ---- A hash table with open addressing, and a tree of sorted nodes; keys are made in registers
 * ----
 */

#define SLOTS  (1u << 17)
#define FANOUT 16u
#define LEVELS 3

struct tree_node {
	uint64_t keys[FANOUT];
	struct tree_node *children[FANOUT];
};

static uint64_t *slots;
static struct tree_node *root;

static uint64_t mix(uint64_t x)
{
	x ^= x >> 31;
	x *= UINT64_C(0x7fb5d329728ea185);
	return x ^ x >> 29;
}

KERNEL static void run_hash(uint64_t n)
{
	word *table = slots;
	uint64_t key = 1, found = 0;

	while (n--) {
		uint64_t at = mix(key) % SLOTS;

		while (table[at] != 0 && table[at] != key)
			at = (at + 1) % SLOTS;
		found += at;
		key = key * 13 % 99991 + 1; /* half of them are there */
	}
	sink = found;
}

KERNEL static void run_tree(uint64_t n)
{
	uint64_t key = 1, found = 0;

	while (n--) {
		const volatile struct tree_node *node = root;

		for (int level = 0; level < LEVELS; level++) {
			unsigned i = 0;

			while (i < FANOUT - 1 && node->keys[i + 1] <= key)
				i++;
			if (level < LEVELS - 1)
				node = node->children[i];
			else
				found += i;
		}
		key = key * UINT64_C(2862933555777941757) + 3037000493;
	}
	sink = found;
}

/* All nodes are of one site: a loop, from the root down. */
static struct tree_node *grow_tree(void)
{
	struct tree_node *nodes[1 + FANOUT + FANOUT * FANOUT];
	uint64_t low = 0, width = UINT64_MAX;

	for (unsigned n = 0; n < 1 + FANOUT + FANOUT * FANOUT; n++) {
		nodes[n] = make_b(sizeof(**nodes));
		if (n > 0) {
			nodes[(n - 1) / FANOUT]->children[(n - 1) % FANOUT] = nodes[n];
			low = nodes[(n - 1) / FANOUT]->keys[(n - 1) % FANOUT];
			width = UINT64_MAX / FANOUT / (n > FANOUT ? FANOUT : 1);
		}
		for (unsigned i = 0; i < FANOUT; i++)
			nodes[n]->keys[i] = low + i * (width / FANOUT);
	}
	return nodes[0];
}

static void prepare_search(void)
{
	int64_t start;

	slots = make_a(SLOTS * 8);
	start = cpu_ns();
	memset(slots, 0, SLOTS * 8);
	for (uint64_t key = 1; key < 99991; key += 2) {
		uint64_t at = mix(key) % SLOTS;

		while (slots[at])
			at = (at + 1) % SLOTS;
		slots[at] = key;
	}
	charge("make_a", since_ns(start));
	start = cpu_ns();
	root = grow_tree();
	charge("others", since_ns(start));
}

/*
 * ---- Gathers from a table whose keys begin somewhere above 0: the base lies in another block ----
 */

#define TABLE  (1u << 18)
#define OFFSET 3000000u
#define LANES  8u

static int *table, *keys, *out, *plain;

__attribute__((target("avx2"))) KERNEL static void run_gather(uint64_t n)
{
	const int *base = (const int *)((uintptr_t)table - OFFSET * sizeof(int));

	while (n--)
		for (size_t i = 0; i < N_INDICES; i += LANES) {
			__m256i index = _mm256_load_si256((const __m256i *)(keys + i));

			_mm256_store_si256((__m256i *)(out + i),
					   _mm256_i32gather_epi32(base, index, 4));
		}
}

KERNEL static void run_plain(uint64_t n)
{
	volatile int *words = plain;

	while (n--)
		for (size_t i = 0; i < N_INDICES; i++)
			words[i] = (int)i;
}

static void prepare_gather(void)
{
	int64_t start;

	if (!__builtin_cpu_supports("avx2"))
		exit(77);
	make_d(32 << 20); /* touched by nobody from here on */
	table = make_a(TABLE * sizeof(int));
	keys = make_b(N_INDICES * sizeof(int));
	out = make_c(N_INDICES * sizeof(int));
	plain = make_e(N_INDICES * sizeof(int));
	start = cpu_ns();
	for (size_t i = 0; i < N_INDICES; i++)
		keys[i] = (int)(OFFSET + random_below(TABLE));
	charge("make_b", since_ns(start));
	charge("make_d", 0);
}

/* ---- As compilers write it without optimisation: variables live on the stack ---- */

#define O0_WORDS 1000

static uint64_t *summed, *scaled;

/* for (i = 0; i < 1000; i++) sum += summed[i]; of gcc -O0: 6 accesses a turn, one to the block. */
KERNEL static void run_summed(uint64_t n)
{
	uint64_t frame[4];

	while (n--)
		__asm__ volatile("movq %[words], 8(%[frame])\n"
				 "movq $0, 16(%[frame])\n"
				 "movl $0, 24(%[frame])\n"
				 "jmp 2f\n"
				 "1: movq 8(%[frame]), %%rax\n"
				 "movl 24(%[frame]), %%edx\n"
				 "movslq %%edx, %%rdx\n"
				 "salq $3, %%rdx\n"
				 "addq %%rdx, %%rax\n"
				 "movq (%%rax), %%rax\n"
				 "addq %%rax, 16(%[frame])\n"
				 "addl $1, 24(%[frame])\n"
				 "2: cmpl %[last], 24(%[frame])\n"
				 "jle 1b\n"
				 :
				 : [words] "r"(summed), [frame] "r"(frame), [last] "i"(O0_WORDS - 1)
				 : "rax", "rdx", "memory", "cc");
}

/* for (i = 0; i < 1000; i++) scaled[i] = scaled[i] * 3; 10 accesses, two of them to the block. */
KERNEL static void run_scaled(uint64_t n)
{
	uint64_t frame[4];

	while (n--)
		__asm__ volatile("movq %[words], 8(%[frame])\n"
				 "movl $0, 24(%[frame])\n"
				 "jmp 2f\n"
				 "1: movl 24(%[frame]), %%eax\n"
				 "cltq\n"
				 "leaq 0(,%%rax,8), %%rdx\n"
				 "movq 8(%[frame]), %%rax\n"
				 "addq %%rdx, %%rax\n"
				 "movq (%%rax), %%rdx\n"
				 "leaq (%%rdx,%%rdx,2), %%rcx\n"
				 "movq %%rcx, 16(%[frame])\n"
				 "movl 24(%[frame]), %%eax\n"
				 "cltq\n"
				 "leaq 0(,%%rax,8), %%rdx\n"
				 "movq 8(%[frame]), %%rax\n"
				 "addq %%rax, %%rdx\n"
				 "movq 16(%[frame]), %%rax\n"
				 "movq %%rax, (%%rdx)\n"
				 "addl $1, 24(%[frame])\n"
				 "2: cmpl %[last], 24(%[frame])\n"
				 "jle 1b\n"
				 :
				 : [words] "r"(scaled), [frame] "r"(frame), [last] "i"(O0_WORDS - 1)
				 : "rax", "rcx", "rdx", "memory", "cc");
}

static void prepare_o0(void)
{
	summed = make_a(O0_WORDS * 8);
	scaled = make_b(O0_WORDS * 8);
}

#define SHORT_US 200, 2600

const struct kind slice_kinds[] = {
	{ "slices", prepare_three, THREE, SHORT_US, NULL },
	{ "long-slices", prepare_three, THREE, 5000, 20000, NULL },
	{ "mix", prepare_three, THREE, 4, 40, NULL },
	{ "fields",
	  prepare_fields,
	  { { run_move, { { "make_a%64@8", 2 }, { "make_a%64@40", 1 } }, 0, 0 },
	    { run_look,
	      { { "make_a%64@16", 1 },
		{ "make_a%64@40", 1 },
		{ "make_a%64@48", 1 },
		{ "global", 1 } },
	      0,
	      0 } },
	  SHORT_US,
	  NULL },
	{ "arrays",
	  prepare_quarters,
	  { { run_quarters,
	      { { "make_a/4@0", 1 },
		{ "make_a/4@1", 1 },
		{ "make_a/4@2", 1 },
		{ "make_a/4@3", 1 } },
	      0,
	      0 },
	    { run_half, { { "make_a/4@0", 1 }, { "make_a/4@1", 1 } }, 0, 0 } },
	  SHORT_US,
	  NULL },
	{ "indexed",
	  prepare_indirect,
	  { { run_far, { { "make_a", 1 }, { "make_b", 1 } }, 0, 0 },
	    { run_near, { { "make_c", 1 }, { "make_d", 1 } }, 0, 0 } },
	  SHORT_US,
	  NULL },
	{ "pointers",
	  prepare_pointers,
	  { { run_pointers, { { "make_a", 1 }, { "make_b", 1 } }, 0, 0 },
	    { run_near, { { "make_c", 1 }, { "make_d", 1 } }, 0, 0 } },
	  SHORT_US,
	  NULL },
	{ "sparse",
	  prepare_sparse,
	  { { run_sparse,
	      { { "make_a", ROW }, { "make_b", ROW }, { "make_c", ROW }, { "make_e", 1 } },
	      0,
	      0 },
	    { run_axpy, { { "make_e", 1 } }, 0, 0 } },
	  SHORT_US,
	  NULL },
	{ "list",
	  prepare_lists,
	  { { run_far_list, { { "new_a", 1 } }, 0, 0 },
	    { run_near_list, { { "new_b", 1 } }, 0, 0 } },
	  SHORT_US,
	  NULL },
	{ "search",
	  prepare_search,
	  { { run_hash, { { "make_a", 1 } }, 0, 0 }, { run_tree, { { "make_b", 1 } }, 0, 0 } },
	  SHORT_US,
	  NULL },
	{ "gather",
	  prepare_gather,
	  { { run_gather, { { "make_a", LANES }, { "make_b", 1 }, { "make_c", 1 } }, 0, 0 },
	    { run_plain, { { "make_e", 1 } }, 0, 0 } },
	  SHORT_US,
	  NULL },
	{ "o0",
	  prepare_o0,
	  { { run_summed, { { "make_a", 1 }, { "stack", 5 } }, 0, 0 },
	    { run_scaled, { { "make_b", 2 }, { "stack", 8 } }, 0, 0 } },
	  SHORT_US,
	  NULL },
	{ 0 },
};
