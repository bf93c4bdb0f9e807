#include "heap/range.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracealloc/arch/arch.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define HUGE_BYTES (UINT64_C(2) << 20) /* jemalloc asks for its larger pieces aligned to this */
#define MIN_BYTES  (UINT64_C(32) << 20)
#define HIGH_FD	   900 /* out of the way of what a program counts on */

struct range range;

/* The file behind the range; fd may have been closed by the program, or be another file's now. */
static struct {
	char dir[RECORDING_DIR_BYTES];
	_Atomic size_t used;
	int fd;
	dev_t dev;
	ino_t ino;
	int copy_fd; /* of the child to come */
	bool is_file;
	bool is_copy_displaced;
	bool is_displaced;
} file = { .fd = -1, .copy_fd = -1 };

bool range_is_file(void)
{
	return file.is_file;
}

bool range_is_displaced(void)
{
	return file.is_displaced;
}

int range_fd(void)
{
	return file.fd;
}

/* By instructions of our own, so that the tracer above does not take it for the program's. */
static void *map(uintptr_t address, size_t n_bytes, int flags, int fd)
{
	return (void *)ta_with_errno(ta_syscall_raw(SYS_mmap, (long)address, (long)n_bytes,
						    PROT_READ | PROT_WRITE, flags, fd, 0));
}

static void unmap(uintptr_t address, size_t n_bytes)
{
	if (n_bytes)
		ta_syscall_raw(SYS_munmap, (long)address, (long)n_bytes, 0, 0, 0, 0);
}

/* Move a file descriptor up; -1 when there is no room, which is no failure. */
static int move_up(int fd)
{
	struct rlimit limit = { .rlim_cur = HIGH_FD };

	getrlimit(RLIMIT_NOFILE, &limit);
	int high =
		fcntl(fd, F_DUPFD_CLOEXEC, limit.rlim_cur > HIGH_FD ? HIGH_FD : limit.rlim_cur / 2);
	close(fd);
	return high;
}

static int open_unnamed(const char *dir)
{
	char path[RECORDING_DIR_BYTES + 32];
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
		return fd;
	snprintf(path, sizeof(path), "%s/memsight-heap-XXXXXX", dir);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
}

static bool fd_is_ours(void)
{
	struct stat st;

	return file.fd >= 0 && fstat(file.fd, &st) == 0 && st.st_dev == file.dev &&
	       st.st_ino == file.ino;
}

static void take_fd(int fd)
{
	struct stat st;

	file.fd = fd;
	if (fd >= 0 && fstat(fd, &st) == 0) {
		file.dev = st.st_dev;
		file.ino = st.st_ino;
	}
}

/* Map n_bytes at an address that is a multiple of 2 MiB: take more, and give the ends back. */
static int map_aligned(size_t n_bytes, int flags, int fd)
{
	void *wide = map(0, n_bytes + HUGE_BYTES, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);

	if (wide == MAP_FAILED)
		return -errno;
	uintptr_t start = ((uintptr_t)wide + HUGE_BYTES - 1) & -HUGE_BYTES;
	unmap((uintptr_t)wide, start - (uintptr_t)wide);
	unmap(start + n_bytes, (uintptr_t)wide + HUGE_BYTES - start);
	if (fd >= 0 && map(start, n_bytes, flags | MAP_FIXED, fd) == MAP_FAILED) {
		int err = -errno;

		unmap(start, n_bytes);
		return err;
	}
	range.start = start;
	return 0;
}

/* A file that grows beyond it is no error but a signal, SIGXFSZ, that ends the program. */
static rlim_t file_limit(void)
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

	getrlimit(RLIMIT_FSIZE, &limit);
	return limit.rlim_cur;
}

/* As much as a limit of address space lets us have, and no more than half of that. */
static size_t fit(size_t n_bytes, bool is_file)
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

	getrlimit(RLIMIT_AS, &limit);
	if (limit.rlim_cur != RLIM_INFINITY && n_bytes > limit.rlim_cur / 2)
		n_bytes = limit.rlim_cur / 2;
	if (is_file && n_bytes > file_limit())
		n_bytes = file_limit();
	return n_bytes & -HUGE_BYTES;
}

static int map_file(const struct placement *placement, size_t n_bytes)
{
	int fd = open_unnamed(placement->dir);

	if (fd < 0)
		return -errno;
	int err = ftruncate(fd, (off_t)n_bytes) < 0 ? -errno : map_aligned(n_bytes, MAP_SHARED, fd);
	if (err < 0) {
		close(fd);
		return err;
	}
	snprintf(file.dir, sizeof(file.dir), "%s", placement->dir);
	file.is_file = true;
	take_fd(move_up(fd));
	return 0;
}

static int map_nodes(const struct placement *placement, size_t n_bytes)
{
	int err = map_aligned(n_bytes, 0, -1);

	if (err < 0 || placement->mode == 0)
		return err;
	if (syscall(SYS_mbind, range.start, n_bytes, placement->mode, placement->nodes,
		    RECORDING_MAX_NODES, 0) == 0)
		return 0;
	err = -errno;
	unmap(range.start, n_bytes);
	return err;
}

int range_map(const struct placement *placement)
{
	bool is_file = placement->dir[0] != '\0';
	size_t n_bytes = fit(placement->size, is_file);
	int err = -ENOMEM;

	if (strlen(placement->dir) >= RECORDING_DIR_BYTES)
		return -ENAMETOOLONG;
	for (; n_bytes >= MIN_BYTES && err == -ENOMEM; n_bytes = n_bytes / 2 & -HUGE_BYTES) {
		err = is_file ? map_file(placement, n_bytes) : map_nodes(placement, n_bytes);
		if (err == 0) {
			range.size = n_bytes;
			break;
		}
	}
	return err;
}

void range_unmap(void)
{
	size_t n_bytes = range.size;

	range.size = 0;
	unmap(range.start, n_bytes);
	if (fd_is_ours())
		close(file.fd);
	file.fd = -1;
	file.is_file = false;
}

/* Give the bytes their blocks; without the file descriptor by touching them. */
static bool populate(size_t offset, size_t n_bytes)
{
	int err = EBADF;

	if (fd_is_ours())
		err = posix_fallocate(file.fd, (off_t)offset, (off_t)n_bytes);
	if (err == EBADF || err == EFBIG)
		err = (int)syscall(SYS_madvise, range.start + offset, n_bytes, MADV_POPULATE_WRITE);
	return err == 0;
}

void *range_grow(size_t n_bytes)
{
	size_t alignment = n_bytes >= HUGE_BYTES ? HUGE_BYTES : 4096;
	size_t used = atomic_load(&file.used);
	size_t start, end;
	int saved = errno;

	do {
		start = (used + alignment - 1) & -alignment;
		if (start > range.size || n_bytes > range.size - start)
			return NULL;
		end = start + n_bytes;
	} while (!atomic_compare_exchange_weak(&file.used, &used, end));
	bool ok = populate(start, n_bytes);
	if (!ok) /* give it back, unless another thread has gone on behind it */
		atomic_compare_exchange_strong(&file.used, &end, used);
	errno = saved;
	return ok ? (void *)(range.start + start) : NULL;
}

/* ---- Fork ---- */

static bool write_all(int fd, size_t offset, size_t end)
{
	while (offset < end) {
		ssize_t n = pwrite(fd, (const void *)(range.start + offset), end - offset,
				   (off_t)offset);

		if (n <= 0 && errno != EINTR)
			return false;
		offset += n > 0 ? (size_t)n : 0;
	}
	return true;
}

/* Only what was ever written; without the file descriptor everything below `used`. */
static bool copy_used(int fd, size_t used)
{
	bool has_fd = fd_is_ours();
	off_t data = 0, hole = (off_t)used;

	while ((size_t)data < used) {
		if (has_fd) {
			data = lseek(file.fd, data, SEEK_DATA);
			if (data < 0)
				return errno == ENXIO; /* none behind */
			hole = lseek(file.fd, data, SEEK_HOLE);
			if (hole < 0 || (size_t)hole > used)
				hole = (off_t)used;
		}
		if ((size_t)data < used && !write_all(fd, (size_t)data, (size_t)hole))
			return false;
		data = hole;
	}
	return true;
}

static bool fill_copy(int fd, bool reserves)
{
	size_t used = atomic_load(&file.used);

	/* The program may have lowered the limit since. */
	if (fd < 0 || range.size > file_limit() || ftruncate(fd, (off_t)range.size) < 0)
		return false;
	if (reserves && used > 0 && posix_fallocate(fd, 0, (off_t)used) != 0)
		return false;
	return copy_used(fd, used);
}

void range_fork_prepare(void)
{
	int saved = errno;

	if (!file.is_file)
		return;
	int fd = open_unnamed(file.dir);
	file.is_copy_displaced = file.is_displaced;
	if (!fill_copy(fd, true)) {
		/* The program comes first: its child lives in DRAM, and says so. */
		if (fd >= 0)
			close(fd);
		fd = memfd_create("memsight-heap", MFD_CLOEXEC);
		file.is_copy_displaced = true;
		if (!fill_copy(fd, false) && fd >= 0) {
			close(fd);
			fd = -1;
		}
	}
	file.copy_fd = fd;
	errno = saved;
}

void range_fork_parent(void)
{
	if (file.copy_fd >= 0)
		close(file.copy_fd);
	file.copy_fd = -1;
}

void range_fork_child(void)
{
	static const char message[] =
		"memsight: a forked process has no memory for its copy of the heap\n";

	if (!file.is_file)
		return;
	if (file.copy_fd < 0 ||
	    map(range.start, range.size, MAP_SHARED | MAP_FIXED, file.copy_fd) == MAP_FAILED) {
		(void)!write(STDERR_FILENO, message, sizeof(message) - 1);
		_exit(127);
	}
	if (fd_is_ours())
		close(file.fd);
	take_fd(move_up(file.copy_fd));
	file.copy_fd = -1;
	file.is_displaced = file.is_copy_displaced;
}
