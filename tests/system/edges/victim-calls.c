/* What every function of malloc's family promises, and addresses that go from thread to thread. */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "../../unit/tracealloc/victim.h"

static unsigned n_rounds = 1000;

/* A realloc that fails leaves the block as it is, 100 times; its contents are checked. */
static int kept(void)
{
	volatile size_t huge = SIZE_MAX / 2;
	int wrong = 0;

	for (int i = 0; i < 100; i++) {
		char *volatile block = malloc(2301);

		memset(block, 0x5a, 2301);
		errno = 0;
		wrong += realloc(block, huge) != NULL || errno != ENOMEM;
		for (int j = 0; j < 2301; j++)
			wrong += block[j] != 0x5a;
		free(block);
	}
	say("wrong", (uint64_t)wrong);
	return 0;
}

/* No memory, in every way: the result and errno of each. */
static int no_memory(void)
{
	volatile size_t huge = SIZE_MAX / 2;
	void *untouched = &untouched;
	void *volatile block;

	errno = 0;
	block = malloc(huge);
	say("malloc", (uint64_t)(block != NULL) << 16 | (uint64_t)errno);
	errno = 0;
	block = calloc(huge, 4);
	say("calloc", (uint64_t)(block != NULL) << 16 | (uint64_t)errno);
	errno = 0;
	block = reallocarray(NULL, huge, 4);
	say("reallocarray", (uint64_t)(block != NULL) << 16 | (uint64_t)errno);
	errno = 0;
	block = aligned_alloc(4096, huge);
	say("aligned_alloc", (uint64_t)(block != NULL) << 16 | (uint64_t)errno);
	errno = 0;
	block = memalign(4096, huge);
	say("memalign", (uint64_t)(block != NULL) << 16 | (uint64_t)errno);
	errno = 0;
	block = valloc(huge);
	say("valloc", (uint64_t)(block != NULL) << 16 | (uint64_t)errno);
	errno = 0;
	block = pvalloc(huge);
	say("pvalloc", (uint64_t)(block != NULL) << 16 | (uint64_t)errno);
	for (size_t alignment = 0; alignment < 64; alignment += 3)
		say("posix_memalign",
		    (uint64_t)posix_memalign(&untouched, alignment, huge) << 8 | alignment);
	say("untouched", untouched == &untouched);
	return 0;
}

/* Sizes of nothing, and calls that do nothing. */
static int zeros(void)
{
	volatile size_t none = 0;
	void *volatile nothing = NULL;
	void *volatile block = realloc(nothing, 2311);
	void *volatile first = malloc(none);
	void *volatile second = calloc(none, 7);
	void *volatile third = realloc(nothing, none);

	say("blocks", (uint64_t)(first && second && third && block));
	say("distinct", (uint64_t)(first != second && second != third && first != third));
	say("gone", realloc(block, none) == NULL);
	for (int i = 0; i < 10; i++)
		free(nothing);
	free(first);
	free(second);
	free(third);
	return 0;
}

/* Addresses by what they are multiples of: the same as without us. */
static int alignments(void)
{
	uint64_t wrong = 0;

	for (size_t alignment = 16; alignment <= 2 << 20; alignment *= 2) {
		void *blocks[4] = { aligned_alloc(alignment, alignment),
				    memalign(alignment, 2321) };

		if (posix_memalign(&blocks[2], alignment, 2322))
			return 1;
		blocks[3] = valloc(2323);
		for (int i = 0; i < 3; i++)
			wrong += (uintptr_t)blocks[i] % alignment != 0;
		wrong += (uintptr_t)blocks[3] % 4096 != 0;
		for (int i = 0; i < 4; i++)
			free(blocks[i]);
	}
	for (size_t size = 1; size < 300; size++) {
		void *block = malloc(size);

		wrong += (uintptr_t)block % _Alignof(max_align_t) != 0;
		free(block);
	}
	say("wrong", wrong);
	return 0;
}

/* All that malloc_usable_size tells is written, then read: nobody else lives in a block. */
static int usable(void)
{
	uint64_t sum = 0;

	for (size_t size = 0; size < 3000; size += 7) {
		unsigned char *block = malloc(size);
		size_t room = malloc_usable_size(block);

		if (room < size)
			return 1;
		sum = sum * 31 + room;
		memset(block, (int)(size & 0xff), room);
		block = realloc(block, room);
		for (size_t i = 0; i < room; i++)
			if (block[i] != (size & 0xff))
				return 2;
		free(block);
	}
	say("sum", sum);
	return 0;
}

static _Atomic(void *) places[16];
static pthread_barrier_t at_start;

/* So that the threads are mixed also where there are fewer processors than threads. */
static void take_turns(unsigned round)
{
	if (round == 0)
		pthread_barrier_wait(&at_start);
	if (round % 8 == 0)
		sched_yield();
}

/* Exchange blocks with the other threads: each block is freed by whoever finds it. */
static void *exchange(void *seed)
{
	unsigned random = (unsigned)(uintptr_t)seed;

	for (unsigned i = 0; i < n_rounds; i++) {
		take_turns(i);
		random = random * 1103515245 + 12345;
		free(atomic_exchange(&places[random >> 16 & 15], malloc(2331)));
	}
	return NULL;
}

static void *move(void *seed)
{
	unsigned random = (unsigned)(uintptr_t)seed;

	for (unsigned i = 0; i < n_rounds; i++) {
		_Atomic(void *) *place = &places[(random >> 16) & 15];
		void *block = atomic_exchange(place, NULL);
		void *other;

		take_turns(i);
		random = random * 1103515245 + 12345;
		block = realloc(block, 2341 + (random >> 16 & 7) * 700);
		if (!block)
			abort();
		other = atomic_exchange(place, block);
		free(other);
	}
	return NULL;
}

static int in_threads(void *(*work)(void *))
{
	pthread_t threads[4];

	pthread_barrier_init(&at_start, NULL, 4);
	for (uintptr_t i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)(i * 77 + 1)))
			return 1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 16; i++)
		free(atomic_exchange(&places[i], NULL));
	return 0;
}

static int reuse(void)
{
	return in_threads(exchange);
}

/* The threads wait for nothing but the line of one word, by which each block goes to the next. */
static void *hand_over(void *unused)
{
	for (unsigned i = 0; i < n_rounds; i++)
		free(atomic_exchange(&places[0], malloc(2331)));
	return unused;
}

static int handed(void)
{
	return in_threads(hand_over);
}

static int pingpong(void)
{
	return in_threads(move);
}

enum { QUEUE = 64 };
static void *_Atomic queue[QUEUE];

static void *consume(void *unused)
{
	for (unsigned i = 0; i < n_rounds; i++) {
		void *block;

		while (!(block = atomic_exchange(&queue[i % QUEUE], NULL)))
			sched_yield();
		free(block);
	}
	return unused;
}

/* One thread makes all, another gives all back. */
static int producer(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, consume, NULL))
		return 1;
	for (unsigned i = 0; i < n_rounds; i++) {
		void *block = malloc(2351);

		while (atomic_load(&queue[i % QUEUE]))
			sched_yield();
		atomic_store(&queue[i % QUEUE], block);
	}
	return pthread_join(thread, NULL);
}

/*
 * The C library's own function, from its table of symbols: its other names and dlsym lead to who
 * stands before it.
 */
static void *own_function(const char *name)
{
	struct link_map *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	const ElfW(Sym) *symbol = NULL;
	const char *strings = NULL;

	if (!libc)
		return NULL;
	for (const ElfW(Dyn) *entry = libc->l_ld; entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_SYMTAB)
			symbol = (const void *)entry->d_un.d_ptr;
		if (entry->d_tag == DT_STRTAB)
			strings = (const void *)entry->d_un.d_ptr;
	}
	/* The strings lie behind the symbols. */
	for (; (const char *)symbol < strings; symbol++)
		if (symbol->st_shndx != SHN_UNDEF && strcmp(strings + symbol->st_name, name) == 0)
			return (void *)(libc->l_addr + symbol->st_value);
	return NULL;
}

/* 100 blocks that nobody saw are given back, and 100 that were seen are given back unseen. */
static int unknown(void)
{
	void *(*own_malloc)(size_t) = (void *(*)(size_t))own_function("malloc");
	void (*own_free)(void *) = (void (*)(void *))own_function("free");
	void *blocks[100];

	if (!own_malloc || !own_free)
		return 1;
	for (int i = 0; i < 100; i++)
		blocks[i] = own_malloc(2361);
	for (int i = 0; i < 100; i++)
		free(blocks[i]);
	for (int i = 0; i < 100; i++)
		own_free(malloc(2362));
	return 0;
}

/* Five blocks live on; then it is killed, or ends. */
static int alive(void)
{
	for (int i = 0; i < 5; i++)
		if (!malloc(2371))
			return 1;
	return 0;
}

static int killed(void)
{
	alive();
	return kill(getpid(), SIGKILL);
}

/* A map that moves, but stays mapped, to where the program would like it. Older kernels refuse. */
static int wish(void)
{
	char *old = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *room = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *wished = room + 65536;
	char *moved;

	munmap(room, 1 << 20);
	moved = mremap(old, 4096, 4096, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, wished);
	say("moved", moved != MAP_FAILED);
	say("wished", moved == wished);
	return 0;
}

static const struct program programs[] = {
	{ "kept", kept },	  { "no-memory", no_memory },
	{ "zeros", zeros },	  { "alignments", alignments },
	{ "usable", usable },	  { "reuse", reuse },
	{ "pingpong", pingpong }, { "producer", producer },
	{ "unknown", unknown },	  { "alive", alive },
	{ "killed", killed },	  { "wish", wish },
	{ "handed", handed },	  { NULL, NULL },
};

int main(int argc, char **argv)
{
	if (argc > 2)
		n_rounds = (unsigned)atoi(argv[2]);
	return run_program(programs, argc, argv);
}
