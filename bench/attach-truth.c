/*
 * Preloaded into a program that is attached to later: who made each of its live blocks, in a file
 * (TRUTH_FILE) that is mapped while it runs. A table of TABLE_ITEMS items, by address.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define TABLE_ITEMS (1u << 21)
#define N_FRAMES    14

struct item {
	uint64_t address; /* 0: free */
	uint64_t born_ns; /* CLOCK_MONOTONIC */
	uint64_t frames[N_FRAMES]; /* return addresses, innermost first; 0: no more */
};

static struct item *table;
static atomic_flag lock = ATOMIC_FLAG_INIT;
static __thread bool is_inside;
static char early[65536];
static size_t n_early;

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static void (*real_free)(void *);

static __attribute__((constructor)) void begin(void)
{
	const char *path = getenv("TRUTH_FILE");
	void *frames[4];
	int fd;

	is_inside = true;
	if (!real_malloc) {
		*(void **)&real_calloc = dlsym(RTLD_NEXT, "calloc");
		*(void **)&real_realloc = dlsym(RTLD_NEXT, "realloc");
		*(void **)&real_free = dlsym(RTLD_NEXT, "free");
		*(void **)&real_malloc = dlsym(RTLD_NEXT, "malloc");
	}
	if (path && !table) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd >= 0 && ftruncate(fd, sizeof(*table) * TABLE_ITEMS) == 0)
			table = mmap(NULL, sizeof(*table) * TABLE_ITEMS, PROT_READ | PROT_WRITE,
				     MAP_SHARED, fd, 0);
		close(fd);
		if (table == MAP_FAILED)
			table = NULL;
		unsetenv("TRUTH_FILE");
		backtrace(frames, 4);
	}
	is_inside = false;
}

static uint32_t slot_of(uint64_t address)
{
	return (uint32_t)((address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 43) % TABLE_ITEMS;
}

static void take_lock(void)
{
	while (atomic_flag_test_and_set(&lock))
		;
}

static void note(void *pointer)
{
	void *frames[N_FRAMES + 2];
	struct timespec now;
	uint64_t address = (uintptr_t)pointer;
	uint32_t at;
	int n;

	if (!pointer || !table || is_inside)
		return;
	is_inside = true;
	n = backtrace(frames, N_FRAMES + 2);
	clock_gettime(CLOCK_MONOTONIC, &now);
	take_lock();
	for (at = slot_of(address); table[at].address && table[at].address != address;)
		at = (at + 1) % TABLE_ITEMS;
	memset(&table[at], 0, sizeof(table[at]));
	for (int i = 2; i < n; i++)
		table[at].frames[i - 2] = (uintptr_t)frames[i];
	table[at].born_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	table[at].address = address;
	atomic_flag_clear(&lock);
	is_inside = false;
}

static void forget(void *pointer)
{
	uint64_t address = (uintptr_t)pointer;
	uint32_t at, next;

	if (!pointer || !table)
		return;
	take_lock();
	for (at = slot_of(address); table[at].address && table[at].address != address;)
		at = (at + 1) % TABLE_ITEMS;
	/* What follows moves up, where its own slot is not behind the gap. */
	for (next = at; table[at].address;) {
		next = (next + 1) % TABLE_ITEMS;
		if (!table[next].address) {
			table[at].address = 0;
			break;
		}
		if ((next - slot_of(table[next].address)) % TABLE_ITEMS >=
		    (next - at) % TABLE_ITEMS) {
			table[at] = table[next];
			at = next;
		}
	}
	atomic_flag_clear(&lock);
}

static void *take_early(size_t n)
{
	void *at = early + n_early;

	n_early += (n + 15) & ~(size_t)15;
	return n_early <= sizeof(early) ? at : NULL;
}

static bool is_early(const void *pointer)
{
	return (const char *)pointer >= early && (const char *)pointer < early + sizeof(early);
}

void *malloc(size_t n)
{
	if (!real_malloc && is_inside)
		return take_early(n);
	if (!real_malloc)
		begin();
	void *pointer = real_malloc(n);

	note(pointer);
	return pointer;
}

void *calloc(size_t n, size_t size)
{
	if (!real_malloc && is_inside)
		return take_early(n * size);
	if (!real_malloc)
		begin();
	void *pointer = real_calloc(n, size);

	note(pointer);
	return pointer;
}

void *realloc(void *old, size_t n)
{
	if (!real_malloc)
		begin();
	if (is_early(old)) {
		void *fresh = malloc(n);

		if (fresh)
			memcpy(fresh, old, n);
		return fresh;
	}
	forget(old);
	void *pointer = real_realloc(old, n);

	note(pointer);
	return pointer;
}

void free(void *pointer)
{
	if (is_early(pointer))
		return;
	if (!real_malloc)
		begin();
	forget(pointer);
	real_free(pointer);
}
