#include "heap/kind.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "heap/placement.h"
#include "heap/range.h"
#include "heap/real.h"
#include "schemas/ring.h"

#define EXPORT __attribute__((visibility("default")))

struct kind kind = { .min_bytes = SIZE_MAX };

_Thread_local unsigned kind_depth __attribute__((tls_model("initial-exec")));

/* Of libtracealloc.so, when it is there: the memory of the heap, for the trace. */
extern __attribute__((weak)) void memsight_1_heap_range(uint64_t start, uint64_t size,
							const char *name, const char *place);

static struct {
	char name[32];
	char place[RECORDING_DIR_BYTES]; /* folder or nodes */
	bool is_displaced;
} told;

/* size 0: there is no heap, and place says why. */
static void tell(size_t size, const char *name, const char *place)
{
	if (memsight_1_heap_range)
		memsight_1_heap_range(range.start, size, name, place);
}

static void after_fork_in_child(void)
{
	range_fork_child();
	if (range_is_displaced() && !told.is_displaced) {
		told.is_displaced = true;
		tell(range.size, "dram", "no room for the copy of a forked process");
	}
}

void kind_register(void)
{
	static _Atomic int is_registered;

	if (atomic_load_explicit(&is_registered, memory_order_relaxed) == 0 &&
	    atomic_exchange(&is_registered, 1) == 0)
		pthread_atfork(range_fork_prepare, range_fork_parent, after_fork_in_child);
}

/* ---- In place of libmemkind's own functions; a program's own kinds get those ---- */

static void *next_function(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

/* Takes a step of the file; libmemkind's would map it somewhere, from a descriptor like any other. */
EXPORT void *memkind_pmem_mmap(memkind_t memkind, void *address, size_t size);
void *memkind_pmem_mmap(memkind_t memkind, void *address, size_t size)
{
	void *(*next)(memkind_t, void *, size_t);
	void *memory;

	if (memkind != kind.memkind) {
		next = next_function("memkind_pmem_mmap");
		return next ? next(memkind, address, size) : MAP_FAILED;
	}
	memory = range_grow(size);
	return memory ? memory : MAP_FAILED;
}

/* libmemkind's destructor gives up at the first error: our heap stays, whoever still runs. */
static int destroy_other(memkind_t memkind, const char *name)
{
	int (*next)(memkind_t) = next_function(name);

	return memkind == kind.memkind || !next ? MEMKIND_ERROR_RUNTIME : next(memkind);
}

EXPORT int memkind_pmem_destroy(memkind_t memkind);
int memkind_pmem_destroy(memkind_t memkind)
{
	return destroy_other(memkind, "memkind_pmem_destroy");
}

EXPORT int memkind_fixed_destroy(memkind_t memkind);
int memkind_fixed_destroy(memkind_t memkind)
{
	return destroy_other(memkind, "memkind_fixed_destroy");
}

/*
 * memkind gives pages of a file back by punching holes and unmapping: both would leave addresses in
 * the range without memory, or with somebody else's. It takes a refusal for "keep them, then".
 */
EXPORT int munmap(void *address, size_t size)
{
	if (kind_depth > 0 && range_has(address)) {
		errno = EINVAL;
		return -1;
	}
	return real_functions()->munmap(address, size);
}

EXPORT int madvise(void *address, size_t size, int advice)
{
	if (kind_depth > 0 && range_has(address) && advice == MADV_REMOVE) {
		errno = EINVAL;
		return -1;
	}
	return real_functions()->madvise(address, size, advice);
}

/* ---- Start ---- */

/*
 * memkind's own file, which it names the kind after. It gets ours, under a number out of the way: the
 * lowest free one is the program's, and so are the names made of low numbers.
 */
static int own_fd = -1;

EXPORT int mkstemp(char *name);
int mkstemp(char *name)
{
	int (*next)(char *);

	if (kind_depth > 0 && range_fd() >= 0) {
		own_fd = fcntl(range_fd(), F_DUPFD_CLOEXEC, range_fd());
		return own_fd;
	}
	next = next_function("mkstemp");
	return next ? next(name) : -1;
}

static int create_on_file(const char *dir, memkind_t *ret_memkind)
{
	int err = memkind_create_pmem(dir, range.size, ret_memkind);

	/* It uses it no more, see memkind_pmem_mmap(). */
	if (own_fd >= 0)
		close(own_fd);
	return err;
}

static int create(const struct placement *placement, memkind_t *ret_memkind)
{
	int err = range_is_file()
			  ? create_on_file(placement->dir, ret_memkind)
			  : memkind_create_fixed((void *)range.start, range.size, ret_memkind);

	return err == 0 ? 0 : -ENOTSUP;
}

/* A first block, from where it must come from: another libmemkind might call other functions. */
static int try_out(memkind_t memkind)
{
	void *block = memkind_malloc(memkind, 64);
	bool is_ours = block && range_has(block);

	if (block)
		memkind_free(memkind, block);
	return is_ours ? 0 : -ENOTSUP;
}

static int make(const struct placement *placement)
{
	memkind_t memkind = NULL;
	int err = range_map(placement);

	if (err < 0)
		return err;
	err = create(placement, &memkind);
	kind.memkind = memkind;
	if (err == 0)
		err = try_out(memkind);
	if (err < 0) {
		range_unmap();
		return err;
	}
	kind.spills = placement->spills;
	kind.min_bytes = placement->min_bytes;
	return 0;
}

/* "0,2"; the digits of a node's number are few, and there are at most 1024. */
static void write_nodes(const struct placement *placement, char *text, size_t n_bytes)
{
	size_t n = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < RECORDING_MAX_NODES && n + 8 < n_bytes; i++) {
		if (placement->nodes[i / 64] >> i % 64 & 1)
			n += (size_t)snprintf(text + n, n_bytes - n, n ? ",%u" : "node %u", i);
	}
}

static void start(const char *text)
{
	struct placement placement;
	int err = placement_parse(text, &placement);

	if (err < 0) {
		tell(0, "none", "MEMSIGHT_PLACEMENT cannot be understood");
		return;
	}
	err = make(&placement);
	if (err < 0) {
		snprintf(told.place, sizeof(told.place), "no heap of kind %s: %s", placement.kind,
			 err == -ENOTSUP ? "libmemkind refuses" : strerrordesc_np(-err));
		tell(0, placement.kind, told.place);
		return;
	}
	memcpy(told.name, placement.kind, sizeof(told.name));
	if (placement.dir[0])
		snprintf(told.place, sizeof(told.place), "%s", placement.dir);
	else
		write_nodes(&placement, told.place, sizeof(told.place));
	tell(range.size, told.name, told.place);
}

__attribute__((constructor)) static void begin(void)
{
	const char *text = getenv(RECORDING_ENV_PLACEMENT);
	int saved = errno;

	kind_register();
	kind_depth++;
	if (text)
		start(text);
	kind_depth--;
	errno = saved;
}
