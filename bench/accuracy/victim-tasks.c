/*
 * Kinds of code whose time is not slices of one thread: frames, threads, processes, generated code,
 * stalls, copies.
 */
#include "bench/accuracy/victim.h"

#include <pthread.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

typedef volatile uint64_t word;

#define WORDS 512u

static uint64_t *first, *second;

KERNEL static void run_words(word *words, uint64_t n)
{
	while (n--)
		for (size_t i = 0; i < 64; i++)
			words[i * 8] = n;
}

KERNEL static void run_first(uint64_t n)
{
	run_words(first, n);
}

KERNEL static void run_second(uint64_t n)
{
	run_words(second, n);
}

static void prepare_two(void)
{
	first = make_a(WORDS * 8);
	second = make_b(WORDS * 8);
}

static struct phase two[2] = {
	{ run_first, { { "make_a", 1 } }, 0, 0 },
	{ run_second, { { "make_b", 1 } }, 0, 0 },
};

static void calibrate_two(void)
{
	for (int i = 0; i < 2; i++)
		two[i].unit_ns = calibrate(&two[i]);
}

static void charge_two(void)
{
	for (int i = 0; i < 2; i++)
		charge_phase(&two[i]);
}

/* Work for ns; from then on the time that it took is the phase's. */
static int64_t work_for(struct phase *phase, double ns)
{
	int64_t start = cpu_ns();

	if (ns >= phase->unit_ns)
		phase->run((uint64_t)(ns / phase->unit_ns));
	return since_ns(start);
}

/*
 * ---- Frames of the same work, a third of each on the first object. No frame makes up for what an
 * interrupt in the one before took: then a sample on one object would shorten the other ----
 */

static void run_frames(double ms, const char *frame_us)
{
	double frame_ns = atof(frame_us) * 1000;

	calibrate_two();
	for (double at = 0; at < ms * 1e6; at += frame_ns) {
		two[0].spent_ns += work_for(&two[0], frame_ns / 3);
		two[1].spent_ns += work_for(&two[1], frame_ns * 2 / 3);
	}
	charge_two();
}

/*
 * ---- Threads and processes, one after the other: half of each on the first object, then half on
 * the second ----
 */

struct half {
	double ns;
	int64_t spent_ns[2];
};

static void *work_halves(void *argument)
{
	struct half *half = argument;

	for (int i = 0; i < 2; i++)
		half->spent_ns[i] += work_for(&two[i], half->ns);
	return NULL;
}

static void run_threads(double ms, const char *thread_us)
{
	struct half half = { .ns = atof(thread_us) * 500 };

	calibrate_two();
	for (double at = 0; at < ms * 1e6; at += 2 * half.ns) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, work_halves, &half) != 0)
			exit(1);
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < 2; i++)
		two[i].spent_ns += half.spent_ns[i];
	charge_two();
}

static void run_processes(double ms, const char *process_us)
{
	struct half *half = mmap(NULL, sizeof(*half), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (half == MAP_FAILED)
		exit(1);
	calibrate_two();
	half->ns = atof(process_us) * 500;
	for (double at = 0; at < ms * 1e6; at += 2 * half->ns) {
		pid_t child = fork();

		if (child == 0) {
			first[0] = second[0] = 1; /* its own copies */
			work_halves(half);
			_exit(0);
		}
		if (child < 0 || waitpid(child, NULL, 0) != child)
			exit(1);
	}
	for (int i = 0; i < 2; i++)
		two[i].spent_ns += half->spent_ns[i];
	charge_two();
}

/* ---- Generated code: rdi has the block, rsi one that is never touched, rdx the rounds ---- */

#if defined(__x86_64__)

/* for (; rdx; rdx--) for (ecx = 512; ecx; ecx--) rax += [block + rcx * 8 - 8]; */
static const uint8_t adds[] = { 0xb9, 0,    2,	  0,	0,    0x48, 0x03, 0x44, 0xcf, 0xf8,
				0xff, 0xc9, 0x75, 0xf7, 0x48, 0xff, 0xca, 0x75, 0xed, 0xc3 };
/* The same with other registers: block in rsi, xor, and the rounds counted with sub. */
static const uint8_t xors[] = { 0xb9, 0,    2,	  0,	0,    0x48, 0x33, 0x44, 0xce, 0xf8, 0xff,
				0xc9, 0x75, 0xf7, 0x48, 0x83, 0xea, 0x01, 0x75, 0xec, 0xc3 };

static uint64_t *untouched;

static void run_code(const uint8_t *code, uint64_t *rdi, uint64_t *rsi, double ns,
		     struct phase *phase)
{
	uint64_t (*function)(uint64_t *, uint64_t *, uint64_t);
	int64_t start = cpu_ns(), spent = 0;

	memcpy(&function, &code, sizeof(function));
	while ((double)spent < ns) {
		function(rdi, rsi, 50);
		spent = cpu_ns() - start;
	}
	phase->spent_ns += since_ns(start);
}

static uint8_t *make_code_page(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		exit(77);
	untouched = make_c(WORDS * 8);
	return page;
}

/* Written to the same place in turn, for 10 to 60 ms each. */
static void run_rewritten(double ms, const char *argument)
{
	uint8_t *page = make_code_page();
	double at = 0;

	(void)argument;
	for (int turn = 0; at < ms * 1e6; turn ^= 1) {
		double ns = 1e7 + (double)random_below(50000000);

		memset(page, 0x90, 64);
		memcpy(page + 16, turn ? xors : adds, turn ? sizeof(xors) : sizeof(adds));
		run_code(page, turn ? untouched : first, turn ? second : untouched, ns, &two[turn]);
		at += ns;
	}
	charge("make_c", 0);
	charge_two();
}

/* One function after the other into a page that runs already. */
static void run_appended(double ms, const char *argument)
{
	uint8_t *page = make_code_page();
	size_t end = 0;

	(void)argument;
	for (double at = 0; at < ms * 1e6 && end + 64 < 4096; end += 64) {
		double ns = 5e6 + (double)random_below(20000000);
		int which = (int)random_below(2);

		memcpy(page + end, which ? xors : adds, which ? sizeof(xors) : sizeof(adds));
		run_code(page + end, which ? untouched : first, which ? second : untouched, ns,
			 &two[which]);
		at += ns;
	}
	charge("make_c", 0);
	charge_two();
}

#else
static void run_rewritten(double ms, const char *argument)
{
	(void)ms;
	(void)argument;
	exit(77);
}
#define run_appended run_rewritten
#endif

/*
 * ---- Stalls: the same loop on a far object and on a small one; what is saved is what was waited
 * for the far one ----
 */

#define FAR_WORDS (UINT64_C(1) << 22)

static uint64_t *far_words, *near_words, *beside;
static uint64_t turn_seed = 12345;

KERNEL static void load_words(word *words, uint64_t mask, uint64_t n)
{
	word *others = beside;
	uint64_t x = turn_seed, sum = 0;

	while (n--) {
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		sum += words[((x ^ sum) >> 33) & mask]; /* waits for the one before */
		sum ^= others[n & 255];
		sum += others[(n + 7) & 255];
	}
	turn_seed = x;
	sink = sum;
}

KERNEL static void store_words(word *words, uint64_t mask, uint64_t n)
{
	word *others = beside;
	uint64_t x = turn_seed;

	while (n--) {
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		words[(x >> 33) & mask] = x;
		others[n & 255] = n;
		others[(n + 5) & 255] = x;
	}
	turn_seed = x;
}

/* Each word says where the next one lies. */
KERNEL static void chase_words(word *words, uint64_t mask, uint64_t n)
{
	word *others = beside;
	uint64_t at = turn_seed, sum = 0;

	while (n--) {
		at = words[at & mask];
		sum ^= others[n & 255];
		sum += others[(n + 7) & 255];
	}
	turn_seed = at;
	sink = sum;
}

static void (*work_on)(word *words, uint64_t mask, uint64_t n);

KERNEL static void run_on_far(uint64_t n)
{
	work_on(far_words, FAR_WORDS - 1, n);
}

KERNEL static void run_on_near(uint64_t n)
{
	work_on(near_words, 511, n);
}

/* Slices of both, so that what else runs on the machine slows both down. */
static void run_stalls(double ms, const char *what)
{
	struct phase on[2] = { { run_on_far, { { "", 0 } }, 0, 0 },
			       { run_on_near, { { "", 0 } }, 0, 0 } };
	uint64_t units[2] = { 0 };
	int64_t least;

	work_on = strcmp(what, "store") == 0   ? store_words
		  : strcmp(what, "chase") == 0 ? chase_words
					       : load_words;
	far_words = make_a(FAR_WORDS * 8);
	beside = make_b(256 * 8);
	near_words = make_c(512 * 8);
	int64_t begin = cpu_ns();
	for (uint64_t i = 0; i < FAR_WORDS; i++) {
		far_words[i] = (i * 0xd1345 + 0x9e377) & (FAR_WORDS - 1);
		near_words[i & 511] = far_words[i];
	}
	charge("others", since_ns(begin));
	for (double at = 0; at < ms * 1e6;) {
		int which = random_below(4) == 0;
		uint64_t n = 1000 * (1 + random_below(20));
		int64_t start = cpu_ns(), spent;

		on[which].run(n);
		spent = since_ns(start);
		units[which] += n;
		on[which].spent_ns += spent;
		at += (double)spent;
	}
	least = on[0].spent_ns -
		(int64_t)((double)on[1].spent_ns / (double)units[1] * (double)units[0]);
	printf("stall make_a %jd %jd\n", (intmax_t)least, (intmax_t)on[0].spent_ns);
	printf("stall make_b 0 %jd\n", (intmax_t)(on[0].spent_ns - least + on[1].spent_ns));
	charge("far", on[0].spent_ns);
	charge("near", on[1].spent_ns);
}

/* ---- Copies of the kernel ---- */

#define COPIED (512 << 10) /* so that entering the kernel is nothing beside it */

static int file;

KERNEL static void run_pread(uint64_t n)
{
	while (n--)
		if (pread(file, first, COPIED, 0) != COPIED)
			exit(1);
}

KERNEL static void run_pwrite(uint64_t n)
{
	while (n--)
		if (pwrite(file, second, COPIED, 0) != COPIED)
			exit(1);
}

KERNEL static void run_preadv(uint64_t n)
{
	const struct iovec list = { beside, COPIED };

	while (n--)
		if (preadv(file, &list, 1, 0) != COPIED)
			exit(1);
}

static void prepare_copies(void)
{
	file = memfd_create("copies", 0);
	first = make_a(COPIED);
	second = make_b(COPIED);
	beside = make_c(COPIED);
	if (file < 0 || pwrite(file, second, COPIED, 0) != COPIED)
		exit(1);
}

/* ---- Threads that share lines, or do not ---- */

static word *shared, *padded, *read_only, *taken;
static pthread_barrier_t barrier;

struct thread {
	int number;
	double ms;
	uint64_t seed;
	int64_t spent_ns[3];
};

/* So long that asking for the time before and after is nothing beside it. */
#define TOUCHES 400000

static void touch_shared(int number, int which)
{
	word *at = which == 0 ? shared + number : padded + 32 * number;

	for (int i = 0; i < TOUCHES; i++) {
		if (which == 2)
			(void)*read_only;
		else
			*at += 1;
	}
}

/* In any order: that of frames, in threads that keep their periods, is another matter. */
static void *work_beside(void *argument)
{
	struct thread *thread = argument;
	int64_t begin = cpu_ns();

	pthread_barrier_wait(&barrier);
	while ((double)(cpu_ns() - begin) < thread->ms * 1e6) {
		int64_t start = cpu_ns();

		thread->seed = thread->seed * UINT64_C(6364136223846793005) + 1;
		int which = (int)((thread->seed >> 33) % 3);
		touch_shared(thread->number, which);
		thread->spent_ns[which] += since_ns(start);
	}
	return NULL;
}

static void *work_after(void *argument)
{
	struct thread *thread = argument;

	while ((double)thread->spent_ns[0] < thread->ms * 1e6 / 4) {
		int64_t start = cpu_ns();

		for (int i = 0; i < TOUCHES; i++)
			taken[thread->number] += 1;
		thread->spent_ns[0] += since_ns(start);
	}
	return NULL;
}

/* Both at once, or one after the other; the time is charged when they have ended. */
static void run_pair(void *(*function)(void *), double ms, const char *const *objects,
		     int n_at_once)
{
	struct thread of[2] = { { .number = 0, .ms = ms / 2 }, { .number = 1, .ms = ms / 2 } };
	pthread_t threads[2];

	for (int i = 0; i < 2; i++) {
		of[i].seed = random_below(UINT64_MAX);
		if (pthread_create(&threads[i], NULL, function, &of[i]) != 0)
			exit(1);
		if (n_at_once == 1)
			pthread_join(threads[i], NULL);
	}
	for (int i = 0; i < 2 && n_at_once == 2; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 3 && objects[i]; i++)
		charge(objects[i], of[0].spent_ns[i] + of[1].spent_ns[i]);
}

static void run_sharing(double ms, const char *argument)
{
	static const char *const beside_of[3] = { "make_a", "make_b", "make_c" };
	static const char *const after_of[3] = { "make_d" };

	(void)argument;
	shared = make_a(64);
	padded = make_b(64 * 8);
	read_only = make_c(64);
	taken = make_d(64);
	pthread_barrier_init(&barrier, NULL, 2);
	run_pair(work_beside, ms, beside_of, 2);
	run_pair(work_after, ms, after_of, 1);
	puts("lines make_a different\nlines make_b none\nlines make_c none\nlines make_d none");
}

const struct kind task_kinds[] = {
	{ .name = "frames", .prepare = prepare_two, .run = run_frames },
	{ .name = "threads", .prepare = prepare_two, .run = run_threads },
	{ .name = "processes", .prepare = prepare_two, .run = run_processes },
	{ .name = "rewritten", .prepare = prepare_two, .run = run_rewritten },
	{ .name = "appended", .prepare = prepare_two, .run = run_appended },
	{ .name = "stalls", .run = run_stalls },
	{ .name = "copies",
	  .prepare = prepare_copies,
	  .phases = { { run_pread, { { "make_a", 1 } }, 0, 0 },
		      { run_pwrite, { { "make_b", 1 } }, 0, 0 },
		      { run_preadv, { { "make_c", 1 } }, 0, 0 } },
	  .least_us = 200,
	  .most_us = 2600 },
	{ .name = "sharing", .run = run_sharing },
	{ 0 },
};
