/*
 * Loops whose addresses come out of memory: a shuffled list, a sparse matrix, a gather, indices
 * that are written as soon as they are read, a search tree, pointers in global variables; and two
 * that store. Half a second of the one that the argument names (gather needs AVX2). Behind the code
 * lies data that reads as a switch.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <immintrin.h>

#define N_NODES	  50000
#define N_ROWS	  20000
#define PER_ROW	  12
#define N_INDICES (1 << 14)
#define N_TABLE	  (1 << 20)
#define FIRST_KEY 3000000 /* of the gather: its base lies so far before the table */

/* jmp [rax * 8 + 4] again and again, and nothing runs it. */
#define ROW 0xff, 0x24, 0xc5, 4, 0, 0, 0, 0x90
__attribute__((used)) static const unsigned char like_a_switch[] = { ROW, ROW, ROW, ROW, ROW, ROW };

struct node {
	struct node *next;
	long value;
};

static volatile long sink;
static uint64_t state = 88172645463325252u;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* One site for each. */
#define MAKE(name)                                                                                 \
	__attribute__((noinline)) static void *make_##name(size_t n_bytes)                         \
	{                                                                                          \
		void *block = aligned_alloc(64, (n_bytes + 63) & ~(size_t)63);                     \
		if (!block)                                                                        \
			exit(1);                                                                   \
		memset(block, 0, n_bytes);                                                         \
		__asm__ volatile("# " #name : "+r"(block));                                        \
		return block;                                                                      \
	}
MAKE(nodes)
MAKE(columns)
MAKE(values)
MAKE(vector)
MAKE(result)
MAKE(table)
MAKE(indices)
MAKE(output)
MAKE(decoy)

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct node *at;

__attribute__((noinline)) static void walk(void)
{
	struct node *node = at;
	long sum = 0;

	for (long i = 0; i < N_NODES; i++) {
		sum += node->value;
		node = node->next;
	}
	at = node;
	sink = sum;
}

static void prepare_walk(void)
{
	struct node *nodes = make_nodes(N_NODES * sizeof(*nodes));
	uint32_t *order = malloc(N_NODES * sizeof(*order));

	for (uint32_t i = 0; i < N_NODES; i++)
		order[i] = i;
	for (uint32_t i = N_NODES - 1; i > 0; i--) {
		uint32_t other = (uint32_t)(draw() % (i + 1)), kept = order[i];

		order[i] = order[other];
		order[other] = kept;
	}
	for (uint32_t i = 0; i < N_NODES; i++)
		nodes[order[i]] = (struct node){ &nodes[order[(i + 1) % N_NODES]], i };
	free(order);
	at = nodes;
}

static int *columns;
static double *values, *vector, *result;

__attribute__((noinline)) static void multiply(void)
{
	for (long row = 0; row < N_ROWS; row++) {
		double sum = 0;

		for (long i = row * PER_ROW; i < (row + 1) * PER_ROW; i++)
			sum += values[i] * vector[columns[i]];
		result[row] = sum;
	}
}

static void prepare_multiply(void)
{
	columns = make_columns(N_ROWS * PER_ROW * sizeof(*columns));
	values = make_values(N_ROWS * PER_ROW * sizeof(*values));
	vector = make_vector(N_ROWS * sizeof(*vector));
	result = make_result(N_ROWS * sizeof(*result));
	for (long i = 0; i < (long)N_ROWS * PER_ROW; i++)
		columns[i] = (int)(draw() % N_ROWS);
}

static int *table, *indices, *output;

/* The mask's ones are made once, before the loop. */
__attribute__((noinline, target("avx2"))) static void gather(void)
{
	const int *base = (const int *)((uintptr_t)table - FIRST_KEY * sizeof(int));

	for (int i = 0; i < N_INDICES; i += 8) {
		__m256i index = _mm256_load_si256((const __m256i *)(indices + i));

		_mm256_store_si256((__m256i *)(output + i), _mm256_i32gather_epi32(base, index, 4));
	}
}

static void prepare_gather(void)
{
	table = make_table(N_TABLE * sizeof(*table));
	make_decoy((size_t)6 * N_TABLE *
		   sizeof(*table)); /* where a base without its index may lie */
	indices = make_indices(N_INDICES * sizeof(*indices));
	output = make_output(N_INDICES * sizeof(*output));
	for (int i = 0; i < N_INDICES; i++)
		indices[i] = (int)(FIRST_KEY + draw() % N_TABLE);
}

static long *master, *first, *second;
static struct {
	long *table;
	long *decoy;
} once;

/*
 * What a turn reads is gone when anybody else looks: each word is written at once, to lead to the
 * decoy.
 */
__attribute__((noinline)) static void read_once(void)
{
	long away = (long)(once.decoy - once.table), sum = 0;

	for (long i = 0; i < N_INDICES; i++) {
		long index = first[second[i]];

		first[second[i]] = index + away;
		sum += *(volatile long *)&once.table[index];
	}
	sink = sum;
	memcpy(first, master, N_INDICES * sizeof(*first));
}

static void prepare_once(void)
{
	once.table = make_table(N_TABLE * sizeof(long));
	once.decoy = make_decoy(N_TABLE * sizeof(long));
	master = make_values(N_INDICES * sizeof(*master));
	first = make_indices(N_INDICES * sizeof(*first));
	second = make_columns(N_INDICES * sizeof(*second));
	for (long i = 0; i < N_INDICES; i++) {
		master[i] = first[i] = (long)(draw() % N_TABLE);
		second[i] = i;
	}
	for (long i = N_INDICES - 1; i > 0; i--) {
		long other = (long)(draw() % (uint64_t)(i + 1)), kept = second[i];

		second[i] = second[other];
		second[other] = kept;
	}
}

static uint8_t *letters;
static uint16_t *numbers;
static long *small;

/* The word takes the place of its index, which then no register has. */
static inline long look_up(const long *words, long index)
{
	__asm__ volatile("mov (%1,%0,8), %0" : "+r"(index) : "r"(words) : "memory");
	return index;
}

/* What was read is written over at once, but a byte leads nowhere else than into the table. */
__attribute__((noinline)) static void translate(void)
{
	const long *words = small;
	uint8_t *from = letters;
	long sum = 0;

	for (long i = 0; i < 64 * N_INDICES; i++) {
		uint8_t letter = from[i & (N_INDICES - 1)];

		from[i & (N_INDICES - 1)] = (uint8_t)(5 * letter + 1);
		sum += look_up(words, letter);
	}
	sink = sum;
}

static void prepare_translate(void)
{
	small = make_table(256 * sizeof(*small));
	letters = make_values(N_INDICES);
	for (long i = 0; i < N_INDICES; i++)
		letters[i] = (uint8_t)draw();
}

/* A number of 16 bits might lead behind the table, where the decoy is. */
__attribute__((noinline)) static void translate_short(void)
{
	const long *words = small;
	uint16_t *from = numbers;
	long sum = 0;

	for (long i = 0; i < 64 * N_INDICES; i++) {
		uint16_t number = from[i & (N_INDICES - 1)];

		from[i & (N_INDICES - 1)] = (uint16_t)((number + 7u) & 1023);
		sum += look_up(words, number);
	}
	sink = sum;
}

static void prepare_translate_short(void)
{
	small = make_table(1024 * sizeof(*small));
	make_decoy(65536 * sizeof(*small));
	numbers = make_values(N_INDICES * sizeof(*numbers));
	for (long i = 0; i < N_INDICES; i++)
		numbers[i] = (uint16_t)(draw() & 1023);
}

#define FANOUT 16
#define LEVELS 3
#define N_TREE (1 + FANOUT + FANOUT * FANOUT)

struct tree_node {
	uint64_t keys[FANOUT];
	struct tree_node *children[FANOUT];
};

static struct tree_node *root;

/* Each sample goes another way, by keys and children that are loaded. */
__attribute__((noinline)) static void search(void)
{
	uint64_t key = 1, found = 0;

	for (long n = 0; n < N_INDICES; n++) {
		const volatile struct tree_node *node = root;

		for (int level = 0; level < LEVELS; level++) {
			unsigned i = 0;

			while (i < FANOUT - 1 && node->keys[i + 1] <= key)
				i++;
			if (level < LEVELS - 1)
				node = node->children[i];
			found += i;
		}
		key = key * UINT64_C(2862933555777941757) + 3037000493;
	}
	sink = (long)found;
}

static void prepare_search(void)
{
	uint64_t width[LEVELS] = { UINT64_MAX / FANOUT, UINT64_MAX / FANOUT / FANOUT,
				   UINT64_MAX / FANOUT / FANOUT / FANOUT };

	root = make_nodes(N_TREE * sizeof(*root));
	for (long n = 0; n < N_TREE; n++) {
		uint64_t low = n ? root[(n - 1) / FANOUT].keys[(n - 1) % FANOUT] : 0;

		for (long i = 0; i < FANOUT; i++) {
			root[n].keys[i] = low + (uint64_t)i * width[n == 0	  ? 0
								    : n <= FANOUT ? 1
										  : 2];
			if (n <= FANOUT)
				root[n].children[i] = &root[n * FANOUT + 1 + i];
		}
	}
}

static struct {
	long *far;
	long *near;
} stores;

/* Two stores in one loop: what the near one waits for may be room that the far one takes. */
__attribute__((noinline)) static void store_both(void)
{
	uint64_t draws = (uint64_t)(uintptr_t)stores.far;
	long *far = stores.far, *near = stores.near;

	for (long i = 0; i < N_INDICES; i++) {
		draws ^= draws << 13;
		draws ^= draws >> 7;
		draws ^= draws << 17;
		far[draws >> 44] = i;
		near[i & 63] = i;
	}
}

/* The same with one owner of all stores. */
__attribute__((noinline)) static void store_one(void)
{
	uint64_t draws = (uint64_t)(uintptr_t)stores.far;
	long *far = stores.far;

	for (long i = 0; i < N_INDICES; i++) {
		draws ^= draws << 13;
		draws ^= draws >> 7;
		draws ^= draws << 17;
		far[draws >> 44] = i;
		far[i & 63] = i;
	}
}

static void prepare_stores(void)
{
	stores.far = make_table(N_TABLE * sizeof(long));
	stores.near = make_output(64 * sizeof(long));
}

/* A switch near the loops: where else than to its cases it leads, its table tells. */
__attribute__((used, noinline)) static long switched(long which)
{
	switch (which) {
	case 0:
		return sink * 3;
	case 1:
		return sink + 5;
	case 2:
		return sink / 7;
	case 3:
		return sink ^ 11;
	case 4:
		return sink - 13;
	case 5:
		return sink % 17;
	default:
		return sink;
	}
}

/*
 * No table of names and functions, nor __builtin_cpu_supports(): they have tables as of a switch,
 * which is then known.
 */
__attribute__((noinline)) static void run(void (*prepare)(void), void (*loop)(void))
{
	prepare();
	for (double end = seconds() + 0.6; seconds() < end;)
		loop();
}

/* As code without optimisation: the index lies below the stack pointer, the pointers are global. */
#ifdef __clang__
#define PLAIN __attribute__((noinline, optnone))
#else
#define PLAIN __attribute__((noinline, optimize("O0")))
#endif
static long *plain_table, *plain_values;

PLAIN static void add_plain(void)
{
	for (long turn = 0; turn < 100; turn++)
		for (int i = 0; i < 1000; i++)
			plain_table[i] = plain_table[i] * 3 + plain_values[i];
}

static void prepare_plain(void)
{
	plain_table = make_table(1000 * sizeof(long));
	plain_values = make_values(1000 * sizeof(long));
}

int main(int argc, char **argv)
{
	const char *name = argc == 2 ? argv[1] : "";

	if (strcmp(name, "list") == 0)
		run(prepare_walk, walk);
	else if (strcmp(name, "sparse") == 0)
		run(prepare_multiply, multiply);
	else if (strcmp(name, "once") == 0)
		run(prepare_once, read_once);
	else if (strcmp(name, "two-stores") == 0)
		run(prepare_stores, store_both);
	else if (strcmp(name, "byte") == 0)
		run(prepare_translate, translate);
	else if (strcmp(name, "short") == 0)
		run(prepare_translate_short, translate_short);
	else if (strcmp(name, "one-store") == 0)
		run(prepare_stores, store_one);
	else if (strcmp(name, "gather") == 0)
		run(prepare_gather, gather);
	else if (strcmp(name, "plain") == 0)
		run(prepare_plain, add_plain);
	else if (strcmp(name, "tree") == 0)
		run(prepare_search, search);
	else
		return 2;
	return 0;
}
