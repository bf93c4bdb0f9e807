/*
 * Preloaded into memsight, or linked to a test's program (fail-calls.h): makes one call of it fail,
 * an allocation or a write to a file. Programs that memsight starts do not inherit it.
 *
 *	FAIL_KIND	"memory", "write" (also fsync, ftruncate and rename) ...
 *	FAIL_LIST	a file that gets a line for each place that such a call is made from: its
 *			name, and which call of its thread was the first one from there
 *	FAIL_PLACE	the name of the place that fails, the first time it is reached
 *	FAIL_NEAR	it is looked for only near this call of a thread: to find out where each
 *			call comes from takes many times as long as what is tested
 *	FAIL_ERRNO	the error of writes
 *	FAIL_SHOW	a file that gets the frames of that place, for addr2line -e memsight
 *	FAIL_LIVE	a file that gets the number of blocks that were not freed at exit, and
 *			whether the place was reached
 *
 * A place is named by the code that leads to the call: the innermost frames of the program itself,
 * so that a library's own ways are one place for each way into it. Names do not change from run to
 * run.
 */
#include "tests/robust/failures/fail-calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind.h>

#define MAX_FRAMES 6u
#define MAX_PLACES 16384u
#define NEAR	   64u /* calls: what varies from run to run, such as the length of a path */

void *__libc_malloc(size_t n_bytes);
void *__libc_calloc(size_t n, size_t n_bytes);
void *__libc_realloc(void *block, size_t n_bytes);
void *__libc_memalign(size_t alignment, size_t n_bytes);
void __libc_free(void *block);

enum kind { KIND_NONE, KIND_MEMORY, KIND_WRITE };

static struct {
	_Atomic enum kind kind;
	atomic_bool is_listing;
	_Atomic uint64_t place; /* that fails */
	_Atomic uint64_t near; /* the call of a thread that it is expected at; 0: any */
	_Atomic unsigned round; /* calls of threads are counted anew in each */
	int error;
	uintptr_t start; /* of the program */
	uintptr_t end;
	atomic_bool has_failed;
	atomic_long n_live;
	_Atomic uint64_t places[MAX_PLACES];
	_Atomic uint64_t calls[MAX_PLACES]; /* the first of each, as its thread counts */
} state;

static _Thread_local bool is_busy, is_spared;
static _Thread_local unsigned round_of_thread;
static _Thread_local uint64_t n_calls; /* of this thread in this round */

/* ---- Places ---- */

struct walk {
	uint64_t hash;
	uintptr_t frames[MAX_FRAMES]; /* within the program */
	unsigned n;
};

static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context, void *user)
{
	struct walk *walk = user;
	uintptr_t pc = _Unwind_GetIP(context);

	if (pc < state.start || pc >= state.end)
		return _URC_NO_REASON;
	walk->frames[walk->n] = pc - state.start;
	walk->hash = (walk->hash ^ (pc - state.start)) * UINT64_C(0x100000001b3);
	return ++walk->n == MAX_FRAMES ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/* Where a place is, or would be, in the list; NULL: the list is full. */
static _Atomic uint64_t *slot_of(uint64_t place)
{
	for (uint64_t i = place; i < place + MAX_PLACES; i++) {
		uint64_t found = atomic_load(&state.places[i % MAX_PLACES]);

		if (found == place || !found)
			return &state.places[i % MAX_PLACES];
	}
	return NULL;
}

static void note(uint64_t place)
{
	_Atomic uint64_t *slot = slot_of(place);
	uint64_t empty = 0;

	while (slot && atomic_load(slot) != place) {
		if (atomic_compare_exchange_strong(slot, &empty, place))
			atomic_store(&state.calls[slot - state.places], n_calls);
		else
			slot = slot_of(place); /* another thread's place took it */
		empty = 0;
	}
}

/* Count this call. Whether it may be the one that is looked for. */
static bool is_near(void)
{
	unsigned round = atomic_load(&state.round);
	uint64_t near = atomic_load(&state.near);

	n_calls = round_of_thread == round ? n_calls + 1 : 1;
	round_of_thread = round;
	return !near || (n_calls + NEAR >= near && n_calls <= near + NEAR);
}

static void show(const struct walk *walk)
{
	const char *path = getenv("FAIL_SHOW");
	FILE *file = path ? fopen(path, "we") : NULL;

	for (unsigned i = 0; file && i < walk->n; i++)
		fprintf(file, "0x%lx\n", (unsigned long)walk->frames[i] - 1);
	if (file)
		fclose(file);
}

/* Whether this call is to fail. */
static bool fails(enum kind kind)
{
	struct walk walk = { .hash = UINT64_C(0xcbf29ce484222325) };

	if (state.kind != kind || is_busy || is_spared ||
	    (!state.is_listing && atomic_load(&state.has_failed)) || !is_near())
		return false;
	is_busy = true;
	_Unwind_Backtrace(take_frame, &walk);
	walk.hash |= 1;
	if (state.is_listing && walk.n > 0)
		note(walk.hash);
	bool is_it = !state.is_listing && walk.hash == state.place &&
		     !atomic_exchange(&state.has_failed, true);
	if (is_it)
		show(&walk);
	is_busy = false;
	return is_it;
}

/* ---- Calls ---- */

static void *born(void *block)
{
	if (block)
		atomic_fetch_add(&state.n_live, 1);
	return block;
}

static bool has_no_memory(void)
{
	if (!fails(KIND_MEMORY))
		return false;
	errno = ENOMEM;
	return true;
}

void *malloc(size_t n_bytes)
{
	return has_no_memory() ? NULL : born(__libc_malloc(n_bytes));
}

void *calloc(size_t n, size_t n_bytes)
{
	return has_no_memory() ? NULL : born(__libc_calloc(n, n_bytes));
}

void *realloc(void *block, size_t n_bytes)
{
	if (has_no_memory())
		return NULL;
	void *moved = __libc_realloc(block, n_bytes);
	if (!block)
		born(moved);
	else if (n_bytes == 0)
		atomic_fetch_sub(&state.n_live, 1);
	return moved;
}

void *reallocarray(void *block, size_t n, size_t n_bytes)
{
	size_t all;

	if (__builtin_mul_overflow(n, n_bytes, &all)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(block, all);
}

int posix_memalign(void **ret_block, size_t alignment, size_t n_bytes)
{
	void *block = fails(KIND_MEMORY) ? NULL : born(__libc_memalign(alignment, n_bytes));

	if (block)
		*ret_block = block;
	return block ? 0 : ENOMEM;
}

void *aligned_alloc(size_t alignment, size_t n_bytes)
{
	return has_no_memory() ? NULL : born(__libc_memalign(alignment, n_bytes));
}

void free(void *block)
{
	if (block)
		atomic_fetch_sub(&state.n_live, 1);
	__libc_free(block);
}

static bool has_no_room(void)
{
	if (!fails(KIND_WRITE))
		return false;
	errno = state.error;
	return true;
}

#define CALL_OR_FAIL(type, name, parameters, ...)                                                  \
	type name parameters;                                                                      \
	type name parameters                                                                       \
	{                                                                                          \
		type(*real) parameters = (type(*) parameters)dlsym(RTLD_NEXT, #name);              \
		return has_no_room() ? -1 : real(__VA_ARGS__);                                     \
	}

CALL_OR_FAIL(ssize_t, write, (int fd, const void *bytes, size_t n_bytes), fd, bytes, n_bytes)
CALL_OR_FAIL(ssize_t, writev, (int fd, const struct iovec *parts, int n), fd, parts, n)
CALL_OR_FAIL(ssize_t, pwrite64, (int fd, const void *bytes, size_t n_bytes, off64_t at), fd, bytes,
	     n_bytes, at)
CALL_OR_FAIL(int, fsync, (int fd), fd)
CALL_OR_FAIL(int, fdatasync, (int fd), fd)
CALL_OR_FAIL(int, ftruncate64, (int fd, off64_t n_bytes), fd, n_bytes)
CALL_OR_FAIL(int, rename, (const char *from, const char *to), from, to)

/* ---- For a test's program ---- */

void fail_calls_spare(bool is_to_be_spared)
{
	is_spared = is_to_be_spared;
}

void fail_calls_list(void)
{
	for (size_t i = 0; i < MAX_PLACES; i++)
		atomic_store(&state.places[i], 0);
	state.is_listing = true;
	state.near = 0;
	state.round++;
	state.kind = KIND_MEMORY;
}

size_t fail_calls_listed(uint64_t *places, size_t n_most)
{
	size_t n = 0;

	for (size_t i = 0; i < MAX_PLACES && n < n_most; i++) {
		if (state.places[i])
			places[n++] = state.places[i];
	}
	return n;
}

void fail_calls_at(uint64_t place, bool is_near)
{
	const _Atomic uint64_t *slot = is_near ? slot_of(place) : NULL;

	state.is_listing = false;
	state.near = slot && *slot ? state.calls[slot - state.places] : 0;
	state.round++;
	state.place = place;
	atomic_store(&state.has_failed, false);
	state.kind = KIND_MEMORY;
}

bool fail_calls_end(void)
{
	state.kind = KIND_NONE;
	return atomic_load(&state.has_failed);
}

long fail_calls_n_live(void)
{
	return atomic_load(&state.n_live);
}

/* ---- Begin and end ---- */

static void find_program(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4500], exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	exe[n > 0 ? n : 0] = '\0';
	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long start, end;

		if (!strstr(line, exe) || sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		state.start = state.start ? state.start : start;
		state.end = end;
	}
	if (maps)
		fclose(maps);
}

__attribute__((constructor)) static void begin(void)
{
	const char *kind = getenv("FAIL_KIND"), *place = getenv("FAIL_PLACE"),
		   *near = getenv("FAIL_NEAR"), *error = getenv("FAIL_ERRNO");

	unsetenv("LD_PRELOAD");
	find_program();
	atomic_store(&state.n_live, 0);
	if (!kind)
		return;
	state.is_listing = getenv("FAIL_LIST") != NULL;
	state.place = place ? strtoull(place, NULL, 16) : 0;
	state.near = near ? strtoull(near, NULL, 10) : 0;
	state.error = error ? atoi(error) : ENOSPC;
	state.kind = strcmp(kind, "memory") == 0 ? KIND_MEMORY : KIND_WRITE;
}

__attribute__((destructor)) static void end(void)
{
	const char *list = getenv("FAIL_LIST"), *live = getenv("FAIL_LIVE");
	long n_live = atomic_load(&state.n_live);

	state.kind = KIND_NONE;
	FILE *file = list ? fopen(list, "we") : NULL;
	for (unsigned i = 0; file && i < MAX_PLACES; i++)
		if (state.places[i])
			fprintf(file, "%016llx %llu\n", (unsigned long long)state.places[i],
				(unsigned long long)state.calls[i]);
	if (file)
		fclose(file);
	file = live ? fopen(live, "we") : NULL;
	if (file) {
		fprintf(file, "%ld %d\n", n_live, atomic_load(&state.has_failed));
		fclose(file);
	}
}
