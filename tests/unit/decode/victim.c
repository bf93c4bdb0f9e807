#include "tests/unit/decode/victim.h"

#include <immintrin.h>
#include <stdint.h>

#define N    64
#define keep __attribute__((noinline))

/* Keeps the compiler from seeing through memory (and from making a memcpy of a loop). */
#define barrier() __asm__ volatile("" ::: "memory")

static unsigned char source[N], target[N];
static double grid[2][N];
static int64_t numbers[N], sums[4];
static struct node {
	struct node *next;
	int64_t value;
} nodes[N];

static void copy(void)
{
	for (int round = 0; round < 8; round++)
		for (int i = 0; i < N; i++) {
			target[i] = source[i];
			barrier();
		}
}

static void stencil(void)
{
	for (int round = 0; round < 8; round++) {
		double *to = grid[round & 1], *from = grid[~round & 1];

		for (int i = 1; i < N - 1; i++) {
			to[i] = (from[i - 1] + from[i] + from[i + 1]) / 3;
			barrier();
		}
	}
}

static void chase(void)
{
	struct node *node = nodes;

	for (int i = 0; i < N; i++)
		nodes[i].next = &nodes[(i * 7 + 1) % N];
	for (int i = 0; i < 4 * N; i++) {
		node = node->next;
		barrier();
	}
	sums[0] = node->value;
}

static keep int64_t mix(int64_t a, int64_t b, int64_t *out)
{
	int64_t local[3] = { a, b, a ^ b };

	barrier();
	*out += local[0] + local[1] * 3;
	return local[2];
}

static void calls(void)
{
	for (int i = 0; i < 2 * N; i++)
		numbers[i % N] = mix(i, numbers[i % N], &sums[1]);
}

static keep int64_t fibonacci(int n)
{
	barrier();
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static void recursion(void)
{
	sums[2] = fibonacci(9);
}

static keep int64_t choose(int which, int64_t a)
{
	switch (which) {
	case 0:
		return a + numbers[1];
	case 1:
		return a * 3;
	case 2:
		numbers[2] = a;
		return a;
	case 3:
		return a ^ numbers[3];
	case 4:
		return a << 2;
	case 5:
		sums[0]++;
		return -a;
	default:
		return 0;
	}
}

static void switches(void)
{
	for (int i = 0; i < 2 * N; i++)
		sums[3] += choose(i % 7, i);
}

static void sort(void)
{
	for (int i = 0; i < N; i++)
		numbers[i] = i * 37 % N;
	for (int i = 1; i < N; i++) {
		int64_t value = numbers[i];
		int j = i;

		for (; j > 0 && numbers[j - 1] > value; j--) {
			numbers[j] = numbers[j - 1];
			barrier();
		}
		numbers[j] = value;
	}
}

static void gather(void)
{
	for (int i = 0; i < N; i++)
		numbers[i] = i * 5 % N;
	for (int round = 0; round < 4; round++)
		for (int i = 0; i < N; i++) {
			sums[0] += source[numbers[i]];
			barrier();
		}
}

static void strings(void)
{
	for (int i = 0; i < 2 * N; i++) {
		void *to = target, *from = source;
		size_t n = (size_t)i % 16;

		__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
		numbers[i % N] = i;
	}
}

#define AVX2   __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512vl")))

static int cells[4 * N], sums32[4 * N];
static const int places[16] = { 3, 60, 7, 11, 2, 33, 34, 35, 1, 0, 9, 8, 63, 62, 4, 5 };

/* Indices in constant data, computed from a register, and loaded from memory. */
AVX2 static void gather_avx2(void)
{
	const __m256i step = _mm256_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21);
	const int *below = cells;

	/* A base in front of what is accessed. */
	__asm__("sub $64, %0" : "+r"(below));

	for (int i = 0; i < 2 * N; i += 2) {
		__m256i fixed = _mm256_loadu_si256((const __m256i *)(places + (i & 8)));
		__m256i computed = _mm256_add_epi32(_mm256_set1_epi32(i), step);
		__m256i loaded = _mm256_loadu_si256((const __m256i *)(cells + i));

		fixed = _mm256_i32gather_epi32(cells, fixed, 4);
		computed = _mm256_add_epi32(_mm256_slli_epi32(computed, 1), _mm256_set1_epi32(32));
		computed = _mm256_i32gather_epi32(below, computed, 2);
		loaded = _mm256_i32gather_epi32(cells, _mm256_and_si256(loaded, step), 4);
		_mm256_storeu_si256((__m256i *)(sums32 + i),
				    _mm256_add_epi32(fixed, _mm256_xor_si256(computed, loaded)));
		barrier();
	}
}

/* Masks that are computed from a register, and one that depends on memory. */
AVX2 static void masked_avx2(void)
{
	for (int i = 0; i < 3 * N; i++) {
		const int *places_here = places;

		__asm__("" : "+r"(places_here)); /* loaded anew each time */
		__m256i numbers8 = _mm256_loadu_si256((const __m256i *)places_here);
		__m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(i & 63), numbers8);
		__m256i value = _mm256_maskload_epi32(cells + i, mask);

		_mm256_maskstore_epi32(sums32 + i, mask, value);
		mask = _mm256_cmpgt_epi32(_mm256_loadu_si256((const __m256i *)(cells + i)),
					  numbers8);
		value = _mm256_mask_i32gather_epi32(value, sums32, numbers8, mask, 4);
		_mm256_maskstore_epi32(cells + i, mask, value);
		barrier();
	}
}

AVX512 static void scatter_avx512(void)
{
	const __m512i step =
		_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);

	for (int i = 0; i < 2 * N; i++) {
		__m512i index = _mm512_mullo_epi32(_mm512_set1_epi32(i & 7), step);
		__mmask16 mask = _mm512_cmpgt_epi32_mask(_mm512_set1_epi32(i & 15), step);
		__m512i value = _mm512_mask_i32gather_epi32(step, mask, index, cells, 4);

		_mm512_mask_i32scatter_epi32(sums32, mask, index, value, 4);
		_mm512_mask_storeu_epi32(sums32 + i, (__mmask16)~mask, value);
		barrier();
	}
}

/* How far they come depends on memory. */
static void searches(void)
{
	for (int i = 0; i < N; i++)
		source[i] = (unsigned char)(i % 23 + 1);
	for (int i = 0; i < 3 * N; i++) {
		const void *at = source, *other = target;
		size_t n = N;

		__asm__ volatile("repne scasb"
				 : "+D"(at), "+c"(n)
				 : "a"(i % 23 + 1)
				 : "memory", "cc");
		n = (size_t)i % 5;
		at = source;
		__asm__ volatile("repe cmpsb" : "+D"(at), "+S"(other), "+c"(n)::"memory", "cc");
		numbers[i % N] = i;
	}
}

/* Stores that are jumped over now and then, right before where the ways meet. */
static void joins(void)
{
	uint64_t seed = 1;

	for (int i = 0; i < 6 * N; i++) {
		seed = seed * 6364136223846793005u + 1;
		if (seed >> 40 & 1) {
			numbers[seed >> 50 & (N - 1)] = i;
			barrier();
		}
		sums[seed >> 60 & 3] += i;
		barrier();
		if (seed >> 41 & 1)
			sums[1]++;
		else
			numbers[seed >> 33 & (N - 1)]--;
		barrier();
	}
}

/* Chains of a few nodes: loops that are entered as often as they go round. */
static keep struct node *look_up(struct node *node, int64_t value)
{
	for (; node; node = node->next)
		if (node->value == value)
			return node;
	return NULL;
}

static void hash(void)
{
	uint64_t seed = 1;

	for (int i = 0; i < N; i++) {
		nodes[i].value = i;
		nodes[i].next = i >= N / 2 ? &nodes[i - N / 2] : NULL;
	}
	for (int i = 0; i < 6 * N; i++) {
		seed = seed * 6364136223846793005u + 1;
		struct node *node = look_up(&nodes[N / 2 + (seed >> 59)], (int64_t)(seed >> 58));
		if (node)
			sums[0] += node->value;
	}
}

static keep int64_t twice(int64_t a)
{
	return 2 * a;
}

static keep int64_t add_to_sum(int64_t a)
{
	sums[1] += a;
	return a > 5 ? sums[2] : -a;
}

static keep int64_t store(int64_t a)
{
	numbers[a & (N - 1)] = a;
	barrier();
	return numbers[0];
}

/* As virtual functions are called: through a pointer that only data tell. */
static void virtual_calls(void)
{
	static int64_t (*volatile functions[])(int64_t) = { twice, add_to_sum, store };

	for (int i = 0; i < 4 * N; i++)
		sums[3] += functions[(i * 7 + i / 5) % 3](i % 11);
}

/*
 * Vector registers are not sampled: lanes are told from the steps of a turn before which their
 * indices or masks were not computed yet. Of three gathers two have indices that are not loaded,
 * computed and used within half a turn: a third of the lanes. The masks that are not loaded are
 * computed and used in the first half of masked_avx2: a half; the other one picks nothing.
 */
const struct victim victims[] = {
	{ "copy", copy, 1, 0, 0 },
	{ "stencil", stencil, 1, 0, 0 },
	{ "chase", chase, 1, 0, 0 },
	{ "calls", calls, 1, 0, 0 },
	{ "recursion", recursion, 0, 0, 0 },
	{ "switches", switches, 0, 0, 0 },
	{ "sort", sort, 0, 0, 0 },
	{ "gather", gather, 1, 0, 0 },
	{ "strings", strings, 0, 0, 0 },
	{ "searches", searches, 0, 0, 0 },
	{ "joins", joins, 0, 0, 0 },
	{ "hash", hash, 0, 0, 0 },
	{ "virtual", virtual_calls, 0, 0, 0 },
	{ "gather-avx2", gather_avx2, 1, "avx2", 3 },
	{ "masked-avx2", masked_avx2, 1, "avx2", 2 },
	{ "scatter-avx512", scatter_avx512, 1, "avx512", 3 },
};
const size_t n_victims = sizeof(victims) / sizeof(victims[0]);
