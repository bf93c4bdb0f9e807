/*
 * Ten loops whose accesses are known in closed form, each in a process of its own: `kernels NAME
 * MILLISECONDS`. Objects are blocks of functions named after them (make_a ...), so that reports
 * name them. Prints, one a line:
 * 	mix OBJECT read|write N         accesses of one iteration of the kernel's loop (or of one
 * 	  call)
 * 	accesses OBJECT read|write N	accesses of the whole run
 * 	time OBJECT NS			CPU time in the code that works on the object alone
 * 	culprit OBJECT			what the loop waits for
 * 	total NS			CPU time of the kernel; of the phases, that of all of them
 */
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* clang, which only builds them, knows none of these. */
#if defined(__clang__)
#define KERNEL __attribute__((noinline))
#define SCALAR __attribute__((noinline))
#else
#define KERNEL __attribute__((noinline, noclone))
#define SCALAR                                                                                     \
	__attribute__((noinline, noclone,                                                          \
		       optimize("no-tree-vectorize", "no-tree-loop-distribute-patterns",           \
				"no-unroll-loops")))
#endif

#define SMALL_WORDS  1032u /* fits the first cache */
#define MIDDLE_WORDS 65536u
#define LARGE_WORDS  (UINT64_C(4) << 20) /* 32 MiB: no cache of this size is a thread's own */
#define STREAM_WORDS (UINT64_C(4) << 20)
#define GRID	     512u
#define GATHER	     (UINT64_C(1) << 18)
#define STRING_BYTES 65536u

static uint64_t *objects[5];
static uint64_t sink;

static int64_t cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Present from the start: page faults in the loop would be the kernel's time. */
static void *present(void *block, size_t n_bytes)
{
	if (!block)
		abort();
	uintptr_t start = ((uintptr_t)block + 4095) & ~(uintptr_t)4095;
	uintptr_t end = ((uintptr_t)block + n_bytes) & ~(uintptr_t)4095;

	if (end > start)
		madvise((void *)start, end - start, MADV_POPULATE_WRITE);
	return block;
}

#define MAKE(letter, i)                                                                            \
	KERNEL static uint64_t *make_##letter(size_t n_bytes)                                      \
	{                                                                                          \
		objects[i] = present(calloc(1, n_bytes), n_bytes);                                 \
		return objects[i];                                                                 \
	}
MAKE(a, 0)
MAKE(b, 1)
MAKE(c, 2)
MAKE(d, 3)
MAKE(e, 4)

static void say(const char *what, const char *object, const char *access, uint64_t n)
{
	printf("%s make_%s %s %ju\n", what, object, access, (uintmax_t)n);
}

static void say_mix(const char *object, const char *access, uint64_t n, uint64_t n_iterations)
{
	say("mix", object, access, n);
	say("accesses", object, access, n * n_iterations);
}

/* ---- Three arrays in the ratio 6 : 3 : 1, all small or one of them in memory ---- */

KERNEL static uint64_t run_ratio(const volatile uint64_t *a, const volatile uint64_t *b,
				 const volatile uint64_t *c, uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t k = 0; k < n; k++) {
		uint64_t i = k * 8 & 1015;

		sum += a[i];
		sum ^= a[i + 1];
		sum += a[i + 2];
		sum ^= b[i];
		sum += a[i + 3];
		sum ^= b[i + 1];
		sum += a[i + 4];
		sum ^= a[i + 5];
		sum += b[i + 2];
		sum ^= c[i];
	}
	return sum;
}

KERNEL static uint64_t run_far(const volatile uint64_t *a, const volatile uint64_t *b,
			       const volatile uint64_t *c, uint64_t n)
{
	uint64_t sum = 0, x = 12345;

	for (uint64_t k = 0; k < n; k++) {
		uint64_t i = k * 8 & 1015;

		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		uint64_t far = (x >> 30 ^ sum) & (LARGE_WORDS - 1); /* waits for the one before */
		sum += a[i];
		sum ^= a[i + 1];
		sum += a[i + 2];
		sum ^= b[i];
		sum += a[i + 3];
		sum ^= b[i + 1];
		sum += a[i + 4];
		sum ^= a[i + 5];
		sum += b[i + 2];
		sum ^= c[far];
	}
	return sum;
}

/* Steps until the time is over; each kernel says how many iterations a step has. */
struct kernel {
	const char *name;
	void (*prepare)(void);
	void (*step)(void);
	void (*tell)(uint64_t n_steps);
};

static void prepare_ratio(void)
{
	make_a(SMALL_WORDS * 8);
	make_b(SMALL_WORDS * 8);
	make_c(SMALL_WORDS * 8);
}

#define RATIO_N UINT64_C(4000000)

static void step_ratio(void)
{
	sink += run_ratio(objects[0], objects[1], objects[2], RATIO_N);
}

static void tell_ratio(uint64_t n_steps)
{
	say_mix("a", "read", 6, n_steps * RATIO_N);
	say_mix("b", "read", 3, n_steps * RATIO_N);
	say_mix("c", "read", 1, n_steps * RATIO_N);
}

static void prepare_far(void)
{
	make_a(SMALL_WORDS * 8);
	make_b(SMALL_WORDS * 8);
	make_c(LARGE_WORDS * 8);
}

#define FAR_N UINT64_C(300000)

static void step_far(void)
{
	sink += run_far(objects[0], objects[1], objects[2], FAR_N);
}

static void tell_far(uint64_t n_steps)
{
	say_mix("a", "read", 6, n_steps * FAR_N);
	say_mix("b", "read", 3, n_steps * FAR_N);
	say_mix("c", "read", 1, n_steps * FAR_N);
	puts("culprit make_c");
}

/* ---- A chase of pointers that counts ---- */

struct node {
	struct node *next;
	uint64_t rest[7];
};

#define CHASE_NODES (LARGE_WORDS / 8)
#define CHASE_N	    UINT64_C(200000)

static struct node *chase_at;

KERNEL static struct node *run_chase(struct node *node, uint64_t *counter, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		node = node->next;
		counter[i & 1023]++;
	}
	return node;
}

static void link_nodes(struct node *nodes, uint64_t n)
{
	uint64_t seed = 88172645463325252u;

	for (uint64_t i = 0; i < n; i++)
		nodes[i].rest[0] = i;
	for (uint64_t i = n - 1; i > 0; i--) { /* one cycle through all: Sattolo's shuffle */
		uint64_t other = next_random(&seed) % i, kept = nodes[i].rest[0];

		nodes[i].rest[0] = nodes[other].rest[0];
		nodes[other].rest[0] = kept;
	}
	for (uint64_t i = 0; i < n; i++)
		nodes[i].next = &nodes[nodes[i].rest[0]];
}

static void prepare_chase(void)
{
	chase_at = (struct node *)make_a(CHASE_NODES * sizeof(struct node));
	link_nodes(chase_at, CHASE_NODES);
	make_b(SMALL_WORDS * 8);
}

static void step_chase(void)
{
	chase_at = run_chase(chase_at, objects[1], CHASE_N);
}

static void tell_chase(uint64_t n_steps)
{
	say_mix("a", "read", 1, n_steps * CHASE_N);
	say_mix("b", "write", 1, n_steps * CHASE_N);
	puts("culprit make_a");
}

/* ---- Copies ---- */

SCALAR static void run_copy(uint64_t *to, const uint64_t *from, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		to[i] = from[i] + 1;
}

KERNEL __attribute__((target("avx2"))) static void run_copy_avx2(uint64_t *to, const uint64_t *from,
								 uint64_t n)
{
	__m256i one = _mm256_set1_epi64x(1);

	for (uint64_t i = 0; i < n; i += 4)
		_mm256_storeu_si256(
			(void *)(to + i),
			_mm256_add_epi64(one, _mm256_loadu_si256((const void *)(from + i))));
}

static void prepare_copy(void)
{
	make_a(STREAM_WORDS * 8);
	make_b(STREAM_WORDS * 8);
}

static void step_copy(void)
{
	run_copy(objects[1], objects[0], STREAM_WORDS);
}

static void tell_copy(uint64_t n_steps)
{
	say_mix("a", "read", 1, n_steps * STREAM_WORDS);
	say_mix("b", "write", 1, n_steps * STREAM_WORDS);
}

static void step_copy_avx2(void)
{
	run_copy_avx2(objects[1], objects[0], STREAM_WORDS);
}

static void tell_copy_avx2(uint64_t n_steps)
{
	say_mix("a", "read", 1, n_steps * STREAM_WORDS / 4);
	say_mix("b", "write", 1, n_steps * STREAM_WORDS / 4);
}

/* ---- A stencil of five points ---- */

SCALAR static void run_stencil(double *restrict to, const double *restrict from, unsigned size)
{
	for (unsigned y = 1; y < size - 1; y++) {
		for (unsigned x = 1; x < size - 1; x++) {
			size_t i = (size_t)y * size + x;

			to[i] = 0.2 * (from[i] + from[i - 1] + from[i + 1] + from[i - size] +
				       from[i + size]);
		}
	}
}

static void prepare_stencil(void)
{
	make_a(GRID * GRID * 8);
	make_b(GRID * GRID * 8);
}

static void step_stencil(void)
{
	run_stencil((double *)objects[1], (const double *)objects[0], GRID);
}

static void tell_stencil(uint64_t n_steps)
{
	say_mix("a", "read", 5, n_steps * (GRID - 2) * (GRID - 2));
	say_mix("b", "write", 1, n_steps * (GRID - 2) * (GRID - 2));
}

/* ---- A gather: eight elements by eight indices; its base is a block that it never reads ---- */

KERNEL __attribute__((target("avx2"))) static void run_gather(int *to, const int *indices,
							      const int *from, uint64_t n)
{
	for (uint64_t i = 0; i < n; i += 8) {
		__m256i index = _mm256_loadu_si256((const void *)(indices + i));
		__m256i found = _mm256_i32gather_epi32(from, index, 4);

		_mm256_storeu_si256((void *)(to + i), _mm256_add_epi32(found, index));
	}
}

static void prepare_gather(void)
{
	uint64_t seed = 1;
	int *indices = (int *)make_a(GATHER * 4);

	make_b(GATHER * 4);
	make_c(GATHER * 4);
	make_d(GATHER * 4);
	for (uint64_t i = 0; i < GATHER; i++)
		indices[i] = (int)(next_random(&seed) % GATHER) +
			     (int)((const int *)objects[1] - (const int *)objects[3]);
}

static void step_gather(void)
{
	run_gather((int *)objects[2], (const int *)objects[0], (const int *)objects[3], GATHER);
}

static void tell_gather(uint64_t n_steps)
{
	say_mix("a", "read", 1, n_steps * GATHER / 8);
	say_mix("b", "read", 8, n_steps * GATHER / 8);
	say_mix("c", "write", 1, n_steps * GATHER / 8);
}

/* ---- rep movsb ---- */

KERNEL static void run_string(void *to, const void *from, uint64_t n, volatile uint64_t *counter)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	counter[0]++;
}

static void prepare_string(void)
{
	make_a(STRING_BYTES);
	make_b(STRING_BYTES);
	make_c(4096);
}

static void step_string(void)
{
	for (unsigned i = 0; i < 100; i++)
		run_string(objects[1], objects[0], STRING_BYTES, objects[2]);
}

static void tell_string(uint64_t n_steps)
{
	say_mix("a", "read", STRING_BYTES, 100 * n_steps);
	say_mix("b", "write", STRING_BYTES, 100 * n_steps);
}

/* ---- Recursion: the stack ---- */

#define FIB_N 24u

KERNEL static uint64_t run_fib(unsigned n, volatile uint64_t *counter)
{
	counter[n & 63]++;
	return n < 2 ? n : run_fib(n - 1, counter) + run_fib(n - 2, counter);
}

static void prepare_fib(void)
{
	make_a(4096);
}

static void step_fib(void)
{
	sink += run_fib(FIB_N, objects[0]);
}

static void tell_fib(uint64_t n_steps)
{
	uint64_t n_calls = 0;

	for (unsigned i = 0; i < 64; i++)
		n_calls += objects[0][i];
	(void)n_steps;
	say("accesses", "a", "write", n_calls);
}

/* ---- Five phases of known time ---- */

static int64_t phase_ns[5], phases_ns;
static uint64_t phase_n[5], phase_seed = 7;

KERNEL static uint64_t run_small(const volatile uint64_t *words, uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += words[i & 1023];
	return sum;
}

KERNEL static struct node *run_links(struct node *node, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		node = node->next;
	return node;
}

SCALAR static void run_fill(uint64_t *words, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		words[i & (MIDDLE_WORDS - 1)] = i;
}

KERNEL static uint64_t run_scattered(const volatile uint64_t *words, uint64_t n)
{
	uint64_t sum = 0, x = 1;

	for (uint64_t i = 0; i < n; i++) {
		sum += words[x & (MIDDLE_WORDS - 1)];
		x = x * 5 + 12345;
	}
	return sum;
}

KERNEL static uint64_t run_divide(const volatile uint64_t *words, uint64_t n)
{
	uint64_t sum = 1;

	for (uint64_t i = 0; i < n; i++)
		sum = UINT64_C(0xfffffffffffffff) / ((sum + words[i & 1023]) | 1);
	return sum;
}

static void prepare_phases(void)
{
	make_a(SMALL_WORDS * 8);
	chase_at = (struct node *)make_b(CHASE_NODES * sizeof(struct node));

	int64_t start = cpu_ns();
	link_nodes(chase_at, CHASE_NODES); /* time at b, too */
	phase_ns[1] = cpu_ns() - start;
	make_c(MIDDLE_WORDS * 8);
	make_d(MIDDLE_WORDS * 8);
	make_e(SMALL_WORDS * 8);
}

static void run_phase(unsigned phase, uint64_t n)
{
	int64_t start = cpu_ns();

	switch (phase) {
	case 0:
		sink += run_small(objects[0], n);
		break;
	case 1:
		chase_at = run_links(chase_at, n);
		break;
	case 2:
		run_fill(objects[2], n);
		break;
	case 3:
		sink += run_scattered(objects[3], n);
		break;
	default:
		sink += run_divide(objects[4], n);
		break;
	}
	phase_ns[phase] += cpu_ns() - start;
	phase_n[phase] += n;
}

/*
 * Slices of random length, shorter than a period of samples, in random order: which of them a
 * sample meets is then as good as drawn. Long enough for the two calls that measure each to be
 * nothing.
 */
static void step_phases(void)
{
	static const uint64_t lengths[5] = { 200000, 1200, 64000, 160000, 32000 };

	for (unsigned i = 0; i < 20; i++) {
		unsigned phase = (unsigned)(next_random(&phase_seed) % 5);

		run_phase(phase, 1 + next_random(&phase_seed) % (2 * lengths[phase]));
	}
}

static void tell_phases(uint64_t n_steps)
{
	static const char *const letters[5] = { "a", "b", "c", "d", "e" };

	(void)n_steps;
	for (unsigned i = 0; i < 5; i++) {
		phases_ns += phase_ns[i];
		printf("time make_%s %jd\n", letters[i], (intmax_t)phase_ns[i]);
		say("accesses", letters[i], i == 2 ? "write" : "read", phase_n[i]);
	}
}

static const struct kernel kernels[] = {
	{ "ratio", prepare_ratio, step_ratio, tell_ratio },
	{ "far", prepare_far, step_far, tell_far },
	{ "chase", prepare_chase, step_chase, tell_chase },
	{ "copy", prepare_copy, step_copy, tell_copy },
	{ "copy-avx2", prepare_copy, step_copy_avx2, tell_copy_avx2 },
	{ "stencil", prepare_stencil, step_stencil, tell_stencil },
	{ "gather", prepare_gather, step_gather, tell_gather },
	{ "string", prepare_string, step_string, tell_string },
	{ "recursion", prepare_fib, step_fib, tell_fib },
	{ "phases", prepare_phases, step_phases, tell_phases },
};

static int run_kernel(const struct kernel *kernel, int64_t duration_ns)
{
	uint64_t n_steps = 0;

	phase_seed = (uint64_t)cpu_ns() | 1; /* another order in each run */
	kernel->prepare();

	int64_t start = cpu_ns();
	while (cpu_ns() - start < duration_ns) {
		kernel->step();
		n_steps++;
	}
	int64_t total = cpu_ns() - start;
	kernel->tell(n_steps);
	printf("total %jd\n", (intmax_t)(phases_ns ? phases_ns : total));
	fprintf(stderr, "%ju\n", (uintmax_t)sink);
	return 0;
}

int main(int argc, char **argv)
{
	__builtin_cpu_init();
	for (size_t i = 0; argc == 3 && i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		bool needs_avx2 = strcmp(kernels[i].name, "copy-avx2") == 0 ||
				  strcmp(kernels[i].name, "gather") == 0;

		if (strcmp(kernels[i].name, argv[1]) != 0)
			continue;
		if (needs_avx2 && !__builtin_cpu_supports("avx2"))
			return 77;
		return run_kernel(&kernels[i], strtoll(argv[2], NULL, 10) * 1000000);
	}
	fputs("usage: kernels NAME MILLISECONDS\n", stderr);
	return 2;
}
