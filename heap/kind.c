#include "heap/kind.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/single_threaded.h>

#include "heap/placement.h"
#include "heap/range.h"
#include "heap/stand-in.h"
#include "schemas/ring.h"

struct kind kind = { .min_bytes = SIZE_MAX };

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

/* ---- Forks ---- */

/* What libmemkind (its jemalloc) wanted to be called at a fork. */
static struct fork_handlers {
	void (*prepare)(void);
	void (*parent)(void);
	void (*child)(void);
} handlers[4];
static size_t n_handlers;

/* libc's lock of the list of open files: recursive, exported, in no header. */
extern void _IO_list_lock(void);
extern void _IO_list_unlock(void);
extern void _IO_list_resetlock(void);

/*
 * The heap's locks come behind stdio's, as those of libc's own malloc do: a thread that writes into
 * a file allocates under the file's lock, which fflush(NULL) awaits under that of the list. A lone
 * thread needs none, nor may one take them that is inside the heap: a signal's handler forks.
 */
static void before_fork(void)
{
	if (kind_depth == 0 && !__libc_single_threaded) {
		_IO_list_lock();
		for (size_t i = n_handlers; i-- > 0;)
			if (handlers[i].prepare)
				handlers[i].prepare();
		kind_depth = KIND_AT_FORK;
	}
	range_fork_prepare();
}

static void after_fork_in_parent(void)
{
	range_fork_parent();
	if (!(kind_depth & KIND_AT_FORK))
		return;
	for (size_t i = 0; i < n_handlers; i++)
		if (handlers[i].parent)
			handlers[i].parent();
	_IO_list_unlock();
	kind_depth &= ~KIND_AT_FORK;
}

static void after_fork_in_child(void)
{
	range_fork_child();
	for (size_t i = 0; (kind_depth & KIND_AT_FORK) && i < n_handlers; i++)
		if (handlers[i].child)
			handlers[i].child();
	if (kind_depth & KIND_AT_FORK)
		_IO_list_resetlock();
	kind_depth &= ~KIND_AT_FORK;
	if (range_is_displaced() && !told.is_displaced) {
		told.is_displaced = true;
		tell(range.size, "dram", "no room for the copy of a forked process");
	}
}

/* Of libc, in no header: what its pthread_atfork() calls. That name is ours, see below. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
			     void *library);
extern uint8_t __dso_handle __attribute__((visibility("hidden")));

void kind_register(void)
{
	static _Atomic int is_registered;

	if (atomic_load_explicit(&is_registered, memory_order_relaxed) == 0 &&
	    atomic_exchange(&is_registered, 1) == 0)
		__register_atfork(before_fork, after_fork_in_parent, after_fork_in_child,
				  &__dso_handle);
}

/* What libmemkind's allocator calls, in place of libc's. */
int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	if (n_handlers == sizeof(handlers) / sizeof(handlers[0]))
		return ENOMEM;
	handlers[n_handlers++] = (struct fork_handlers){ prepare, parent, child };
	return 0;
}

/* ---- Start ---- */

static int create_on_file(const char *dir, memkind_t *ret_memkind)
{
	int err = memkind_create_pmem(dir, range.size, ret_memkind);

	stand_in_close(); /* it uses its file no more */
	return err;
}

static int create(const struct placement *placement, memkind_t *ret_memkind)
{
	int err = range_is_file()
			  ? create_on_file(placement->dir, ret_memkind)
			  : memkind_create_fixed((void *)range.start, range.size, ret_memkind);

	return err == 0 ? 0 : -ENOTSUP;
}

/* A first block, from where it must come from: another libmemkind may want other functions. */
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
	err = err ?: try_out(memkind);
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
