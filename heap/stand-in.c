#include "heap/stand-in.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "heap/kind.h"
#include "heap/range.h"
#include "tracealloc/arch/arch.h"

/* ---- In place of libc: through the tracer above they would be events of the program ---- */

/* By instructions of our own: syscall() is the tracer's, too. */

void *mmap(void *address, size_t size, int prot, int flags, int fd, off_t offset)
{
	return (void *)ta_with_errno(
		ta_syscall_raw(SYS_mmap, (long)address, (long)size, prot, flags, fd, offset));
}

/*
 * memkind gives pages of a file back by punching holes and unmapping: both would leave addresses in
 * the range without memory, or with somebody else's. It takes a refusal for "keep them, then".
 */
static bool is_kept(const void *address)
{
	if (!range_has(address))
		return false;
	errno = EINVAL;
	return true;
}

int munmap(void *address, size_t size)
{
	if (is_kept(address))
		return -1;
	return (int)ta_with_errno(
		ta_syscall_raw(SYS_munmap, (long)address, (long)size, 0, 0, 0, 0));
}

int madvise(void *address, size_t size, int advice)
{
	if (advice == MADV_REMOVE && is_kept(address))
		return -1;
	return (int)ta_with_errno(
		ta_syscall_raw(SYS_madvise, (long)address, (long)size, advice, 0, 0, 0));
}

/* The program's break stays the program's. */
void *sbrk(intptr_t increment)
{
	(void)increment;
	errno = ENOMEM;
	return (void *)-1;
}

/*
 * memkind's own file, which it names the kind after. It gets ours, under a number out of the way:
 * the lowest free one is the program's, and so are the names made of low numbers.
 */
static int own_fd = -1;

int mkstemp(char *name)
{
	(void)name;
	own_fd = fcntl(range_fd(), F_DUPFD_CLOEXEC, range_fd());
	return own_fd;
}

void stand_in_close(void)
{
	if (own_fd >= 0)
		close(own_fd);
	own_fd = -1;
}

/* ---- In place of libmemkind's own: found first, since the linker keeps the first of two ---- */

/*
 * Takes a step of the file; libmemkind's would map it somewhere, from a descriptor like any other.
 */
void *memkind_pmem_mmap(memkind_t memkind, void *address, size_t size);
void *memkind_pmem_mmap(memkind_t memkind, void *address, size_t size)
{
	void *memory = range_grow(size);

	(void)memkind;
	(void)address;
	return memory ? memory : MAP_FAILED;
}

/* libmemkind's destructor gives up at the first error: our heap stays, whoever still runs. */
int memkind_pmem_destroy(memkind_t memkind);
int memkind_pmem_destroy(memkind_t memkind)
{
	(void)memkind;
	return MEMKIND_ERROR_RUNTIME;
}

int memkind_fixed_destroy(memkind_t memkind);
int memkind_fixed_destroy(memkind_t memkind)
{
	return memkind_pmem_destroy(memkind);
}

/* What it says on standard error with MEMKIND_DEBUG, or before it aborts. */
void log_info(const char *format, ...);
void log_info(const char *format, ...)
{
	(void)format;
}

void log_err(const char *format, ...) __attribute__((alias("log_info")));
void log_fatal(const char *format, ...) __attribute__((alias("log_info")));

/* ---- In place of libnuma, libdaxctl and libhwloc ---- */

/* memkind makes four arenas for each. */
int numa_num_configured_cpus(void);
int numa_num_configured_cpus(void)
{
	return (int)sysconf(_SC_NPROCESSORS_CONF);
}

/*
 * What they say of nodes and of their memory only the kinds ask that the host names; the helper
 * memsight-kinds has asked, and the heap is made of addresses that lie there.
 */
struct bitmask *numa_all_nodes_ptr;

long stand_in_nothing(void);
long stand_in_nothing(void)
{
	return 0;
}

#define NOTHING(name)                                                                              \
	long name(void);                                                                           \
	long name(void) __attribute__((alias("stand_in_nothing")))
NOTHING(copy_bitmask_to_bitmask);
NOTHING(daxctl_dev_get_first);
NOTHING(daxctl_dev_get_memory);
NOTHING(daxctl_dev_get_next);
NOTHING(daxctl_dev_get_target_node);
NOTHING(daxctl_new);
NOTHING(daxctl_region_get_first);
NOTHING(daxctl_region_get_next);
NOTHING(daxctl_unref);
NOTHING(hwloc_bitmap_alloc);
NOTHING(hwloc_bitmap_first);
NOTHING(hwloc_bitmap_free);
NOTHING(hwloc_bitmap_isincluded);
NOTHING(hwloc_bitmap_isset);
NOTHING(hwloc_bitmap_next);
NOTHING(hwloc_bitmap_only);
NOTHING(hwloc_bitmap_or);
NOTHING(hwloc_bitmap_weight);
NOTHING(hwloc_bitmap_zero);
NOTHING(hwloc_get_local_numanode_objs);
NOTHING(hwloc_get_obj_by_depth);
NOTHING(hwloc_get_type_depth);
NOTHING(hwloc_memattr_get_value);
NOTHING(hwloc_topology_destroy);
NOTHING(hwloc_topology_init);
NOTHING(hwloc_topology_load);
NOTHING(mbind);
NOTHING(numa_allocate_cpumask);
NOTHING(numa_allocate_nodemask);
NOTHING(numa_available);
NOTHING(numa_bitmask_alloc);
NOTHING(numa_bitmask_clearall);
NOTHING(numa_bitmask_free);
NOTHING(numa_bitmask_isbitset);
NOTHING(numa_bitmask_setall);
NOTHING(numa_bitmask_setbit);
NOTHING(numa_bitmask_weight);
NOTHING(numa_distance);
NOTHING(numa_max_node);
NOTHING(numa_node_size64);
NOTHING(numa_node_to_cpus);
NOTHING(numa_num_configured_nodes);
NOTHING(numa_parse_nodestring);
