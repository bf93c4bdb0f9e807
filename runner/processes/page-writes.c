#include "runner/processes/page-writes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "runner/processes/image-proc.h"
#include "runner/processes/page-budget.h"
#include "runner/processes/page-scan.h"
#include "schemas/trace-format.h"

/* linux/userfaultfd.h of 6.7; Debian 12's is older. */
#define USER_MODE_ONLY 1
#define FEATURES       (UINT64_C(1) << 13 | UINT64_C(1) << 15) /* WP_UNPOPULATED, WP_ASYNC */

/* What is watched merges with no new neighbour until it is watched, too: stay off the limit. */
#define MAX_AREAS    16384u
#define N_PAGES	     2048u /* to measure on */
#define MAX_WRITE_NS UINT64_C(20000) /* more is the machine's load */
#define LINK_NAME    "anon_inode:[userfaultfd]"

/* A look that is under way. */
struct asking {
	struct page_writes *writes;
	struct page_writes_look *look;
	int table; /* /proc/PID/pagemap */
	uint64_t page_bytes;
	uint64_t end; /* page behind the last run that is written */
	struct page_span run; /* that is still growing */
	unsigned bits;
	struct page_span *spans; /* protected by this look */
	size_t n_spans;
	size_t n_spans_allocated;
	size_t old; /* the first span of the last look that does not lie before */
	uint64_t left; /* pages that may be protected anew */
	uint64_t clean; /* not written from there on */
	uint64_t small; /* no huge pages from there on */
	bool is_known; /* the piece that is looked at was protected */
};

/* ---- Runs and spans ---- */

static int write_run(struct asking *asking)
{
	uint64_t first = asking->run.start / asking->page_bytes;
	uint64_t n = asking->run.end / asking->page_bytes - first;
	const uint64_t numbers[] = { first - asking->end, n << TRACE_WRITE_BITS | asking->bits };

	if (n == 0)
		return 0;
	asking->end = first + n;
	return page_runs_put(&asking->look->runs, numbers, 2);
}

static int add_run(struct asking *asking, uint64_t start, uint64_t end, unsigned bits)
{
	struct page_span *run = &asking->run;

	if (start >= end)
		return 0;
	if (!(bits & (TRACE_WRITE_HUGE | TRACE_WRITE_NEW)))
		asking->look->known_bytes += end - start;
	if (bits & TRACE_WRITE_WRITTEN)
		asking->look->written_bytes += end - start;
	if (run->end == start && run->end > run->start && asking->bits == bits) {
		run->end = end;
		return 0;
	}
	int err = write_run(asking);
	*run = (struct page_span){ start, end };
	asking->bits = bits;
	return err;
}

static int keep_span(struct asking *asking, uint64_t start, uint64_t end)
{
	struct page_span *last = asking->n_spans ? &asking->spans[asking->n_spans - 1] : NULL;

	if (start >= end)
		return 0;
	if (last && last->end == start) {
		last->end = end;
		return 0;
	}
	return array_add(asking->spans, asking->n_spans, asking->n_spans_allocated,
			 (struct page_span){ start, end });
}

/* ---- Pages ---- */

/*
 * What has lost its protection, or never had it. A page of zeros was only read. What takes part in
 * the kernel's answer beside `written' keeps it from protecting pages that are not there.
 */
static struct page_scan written_in(uint64_t start, uint64_t end)
{
	return (struct page_scan){
		.flags = PAGE_SCAN_PROTECT | PAGE_SCAN_CHECK,
		.start = start,
		.end = end,
		.category_mask = PAGE_SCAN_WRITTEN | PAGE_SCAN_ZERO | PAGE_SCAN_HUGE,
		.category_inverted = PAGE_SCAN_ZERO | PAGE_SCAN_HUGE,
		.category_anyof_mask = PAGE_SCAN_PRESENT | PAGE_SCAN_SWAPPED,
		.return_mask = PAGE_SCAN_WRITTEN | PAGE_SCAN_PRESENT,
	};
}

static int take_written(void *user, struct page_scan *request,
			const struct page_scan_region *regions, size_t n)
{
	struct asking *asking = user;
	int err = 0;

	(void)request;
	for (size_t i = 0; i < n && err == 0; i++) {
		err = add_run(asking, asking->clean, regions[i].start, 0);
		err = err ?: add_run(asking, regions[i].start, regions[i].end, TRACE_WRITE_WRITTEN);
		asking->clean = regions[i].end;
	}
	return err;
}

/* No more than are left. */
static int take_new(void *user, struct page_scan *request, const struct page_scan_region *regions,
		    size_t n)
{
	struct asking *asking = user;

	for (size_t i = 0; i < n; i++) {
		uint64_t bytes = regions[i].end - regions[i].start;
		uint64_t n_pages = bytes / asking->page_bytes;

		asking->look->new_bytes += bytes;
		if (asking->left != UINT64_MAX)
			asking->left -= n_pages < asking->left ? n_pages : asking->left;
	}
	if (request->max_pages)
		request->max_pages = asking->left;
	return asking->left == 0;
}

/* It was unmapped meanwhile, and something else may be there: nothing is known of the rest. */
static bool has_gone(int err)
{
	return err == -EPERM || err == -EFAULT;
}

static int look_at_known(struct asking *asking, uint64_t start, uint64_t end)
{
	struct page_scan request = written_in(start, end);

	asking->clean = start;
	int err = page_scan_range(asking->table, &request, take_written, asking);
	if (err < 0 && !has_gone(err))
		return err;
	err = add_run(asking, asking->clean, request.walk_end, 0);
	return err < 0 ? err : keep_span(asking, start, request.walk_end);
}

static int look_at_new(struct asking *asking, uint64_t start, uint64_t end)
{
	struct page_scan request = written_in(start, end);

	if (asking->left == 0) {
		asking->look->is_cut = true;
		return 0;
	}
	request.max_pages = asking->left == UINT64_MAX ? 0 : asking->left;
	int err = page_scan_range(asking->table, &request, take_new, asking);
	if (err < 0 && !has_gone(err))
		return err;
	asking->look->is_cut |= err >= 0 && request.walk_end < end;
	err = add_run(asking, start, request.walk_end, TRACE_WRITE_NEW);
	return err < 0 ? err : keep_span(asking, start, request.walk_end);
}

static int look_at_small(struct asking *asking, uint64_t start, uint64_t end)
{
	if (start >= end)
		return 0;
	return asking->is_known ? look_at_known(asking, start, end)
				: look_at_new(asking, start, end);
}

static int take_huge(void *user, struct page_scan *request, const struct page_scan_region *regions,
		     size_t n)
{
	struct asking *asking = user;
	int err = 0;

	(void)request;
	for (size_t i = 0; i < n && err == 0; i++) {
		err = look_at_small(asking, asking->small, regions[i].start);
		err = err ?: add_run(asking, regions[i].start, regions[i].end, TRACE_WRITE_HUGE);
		asking->small = regions[i].end;
	}
	return err;
}

/* A part of a mapping that was protected, or was not. What was huge is not, and is new. */
static int look_at_piece(struct asking *asking, const struct page_area *area,
			 struct page_span piece)
{
	struct page_scan request = {
		.start = piece.start,
		.end = piece.end,
		.category_mask = PAGE_SCAN_HUGE,
		.return_mask = PAGE_SCAN_HUGE,
	};
	int err = 0;

	asking->small = piece.start;
	if (area->has_huge)
		err = page_scan_range(asking->table, &request, take_huge, asking);
	return err < 0 ? err : look_at_small(asking, asking->small, piece.end);
}

/* ---- Mappings ---- */

static int watch(struct page_writes *writes, const struct page_area *area)
{
	struct uffdio_register request = {
		.range = { area->start, area->end - area->start },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};

	if (ioctl(writes->fd, UFFDIO_REGISTER, &request) == 0)
		return 0;
	return errno == ENOMEM ? -ESRCH : -errno; /* as the kernel says of memory that is gone */
}

/*
 * Memory that mremap has moved may have kept marks of protection that nobody goes by (before Linux
 * 6.13): they would say that it is not written.
 */
static int clean(struct page_writes *writes, const struct page_area *area)
{
	struct uffdio_writeprotect request = {
		.range = { area->start, area->end - area->start },
	};

	return ioctl(writes->fd, UFFDIO_WRITEPROTECT, &request) < 0 ? -errno : 0;
}

/* 1: it is ours and was before; 0: it is ours from now on. */
static int take_over(struct asking *asking, const struct page_area *area, bool was_ours)
{
	if (area->is_watched && was_ours)
		return 1;
	int err = watch(asking->writes, area);
	return err < 0 ? err : clean(asking->writes, area);
}

static int look_at_area(struct asking *asking, const struct page_area *area)
{
	const struct page_writes *writes = asking->writes;
	uint64_t at = area->start;
	int ours, err = 0;

	while (asking->old < writes->n_spans && writes->spans[asking->old].end <= area->start)
		asking->old++;
	size_t i = asking->old;
	ours = take_over(asking, area, i < writes->n_spans && writes->spans[i].start < area->end);
	if (ours < 0) /* of this one nothing is known; it may have gone meanwhile */
		return ours == -ESRCH ? ours : 0;
	for (; err == 0 && ours && i < writes->n_spans && writes->spans[i].start < area->end; i++) {
		const struct page_span *span = &writes->spans[i];
		uint64_t start = span->start > at ? span->start : at;
		uint64_t end = span->end < area->end ? span->end : area->end;

		asking->is_known = false;
		err = look_at_piece(asking, area, (struct page_span){ at, start });
		asking->is_known = true;
		if (err == 0)
			err = look_at_piece(asking, area, (struct page_span){ start, end });
		at = end;
	}
	asking->is_known = false;
	return err < 0 ? err : look_at_piece(asking, area, (struct page_span){ at, area->end });
}

static int look_at_all(struct asking *asking, const struct page_touches *touches)
{
	int err = 0;

	for (size_t i = 0; i < touches->n_areas && err == 0; i++)
		err = look_at_area(asking, &touches->areas[i]);
	return err < 0 ? err : write_run(asking);
}

/* Is it a userfaultfd, and not the one that it is just about to lend us? It may close that now. */
static bool is_its_own(const struct page_writes *writes, pid_t pid, int folder, const char *name)
{
	char target[sizeof(LINK_NAME)];
	ssize_t n = readlinkat(folder, name, target, sizeof(target));

	if (n != sizeof(LINK_NAME) - 1 || memcmp(target, LINK_NAME, (size_t)n) != 0)
		return false;
	errno = 0;
	return syscall(SYS_kcmp, pid, getpid(), KCMP_FILE, atoi(name), writes->fd) != 0 &&
	       errno != EBADF;
}

/* Does the program watch memory by itself? */
static bool has_userfaultfd(const struct page_writes *writes, pid_t pid)
{
	char path[64];
	struct dirent *entry;
	bool has = false;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	auto_folder DIR *folder = opendir(path);
	while (folder && !has && (entry = readdir(folder)))
		has = is_its_own(writes, pid, dirfd(folder), entry->d_name);
	return has;
}

int page_writes_look(struct page_writes *writes, pid_t pid, const struct page_touches *touches,
		     uint64_t most_new_pages, struct page_writes_look *ret_look)
{
	struct asking asking = {
		.writes = writes,
		.look = ret_look,
		.page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
		.left = most_new_pages,
	};
	auto_close int table = -1;

	if (touches->n_areas > MAX_AREAS)
		return -E2BIG;
	table = image_open_file(pid, "pagemap", O_RDONLY);
	if (table < 0)
		return table;
	asking.table = table;
	if (has_userfaultfd(writes, pid))
		return -EBUSY;
	int err = look_at_all(&asking, touches);
	if (err < 0)
		return free(asking.spans), err;
	free(writes->spans);
	writes->spans = asking.spans;
	writes->n_spans = asking.n_spans;
	return 0;
}

void page_writes_look_finish(struct page_writes_look *look)
{
	free(look->runs.bytes);
	*look = (struct page_writes_look){ 0 };
}

/* ---- The descriptor ---- */

static int begin_api(int fd)
{
	struct uffdio_api api = { .api = UFFD_API, .features = FEATURES };

	if (ioctl(fd, UFFDIO_API, &api) < 0)
		return errno == EINVAL ? -ENOTSUP : -errno;
	return (api.features & FEATURES) == FEATURES ? 0 : -ENOTSUP;
}

/* Whoever sent it may have sent anything. */
static bool is_userfaultfd(int fd)
{
	char path[64], target[sizeof(LINK_NAME)];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(path, target, sizeof(target));
	return n == sizeof(LINK_NAME) - 1 && memcmp(target, LINK_NAME, (size_t)n) == 0;
}

int page_writes_begin(struct page_writes *writes, int fd)
{
	int err = is_userfaultfd(fd) ? begin_api(fd) : -EINVAL;

	page_writes_finish(writes);
	if (err < 0)
		close(fd);
	else
		writes->fd = fd;
	return err;
}

void page_writes_finish(struct page_writes *writes)
{
	cleanup_close(&writes->fd);
	free(writes->spans);
	*writes = PAGE_WRITES_NONE;
}

/* ---- Cost ---- */

/* 1: what is written is found, and costs so much more; 0: found, no more; < 0: it is not found. */
static int measure(struct page_writes *writes, char *memory, size_t n_bytes, uint64_t *ret_ns)
{
	struct page_area area = { (uintptr_t)memory, (uintptr_t)memory + n_bytes, true, false };
	struct page_touches touches = { .areas = &area, .n_areas = 1 };
	size_t page_bytes = n_bytes / N_PAGES;
	uint64_t warm = page_sweep_ns(memory, N_PAGES, page_bytes, true), cold;

	for (unsigned i = 0; i < 2; i++) {
		struct page_writes_look look = { 0 };
		int err = page_writes_look(writes, getpid(), &touches, UINT64_MAX, &look);
		uint64_t found = i == 0 ? look.new_bytes : look.written_bytes;

		page_writes_look_finish(&look);
		if (err < 0 || found != n_bytes)
			return err < 0 ? err : -ENOTSUP;
		cold = page_sweep_ns(memory, N_PAGES, page_bytes, true);
		if (cold > warm && (cold - warm) / PAGE_SWEEP_PAGES < *ret_ns)
			*ret_ns = (cold - warm) / PAGE_SWEEP_PAGES;
	}
	return 0;
}

int page_writes_probe(uint64_t *ret_write_ns)
{
	size_t n_bytes = N_PAGES * (size_t)sysconf(_SC_PAGESIZE);
	struct page_writes writes = PAGE_WRITES_NONE;
	uint64_t least_ns = UINT64_MAX;
	/* A filter may kill who asks; programs under one do not lend theirs either. */
	bool is_confined = prctl(PR_GET_SECCOMP) != 0;
	int fd = is_confined ? -1 : (int)syscall(SYS_userfaultfd, O_CLOEXEC | USER_MODE_ONLY);
	int err = is_confined ? -EPERM : fd < 0 ? -errno : page_writes_begin(&writes, fd);

	if (err < 0)
		return err == -ENOSYS || err == -EINVAL ? -ENOTSUP : err;
	char *memory =
		mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return page_writes_finish(&writes), -ENOMEM;
	madvise(memory, n_bytes, MADV_NOHUGEPAGE);
	memset(memory, 1, n_bytes);
	err = measure(&writes, memory, n_bytes, &least_ns);
	page_writes_finish(&writes);
	munmap(memory, n_bytes);
	if (err == 0)
		*ret_write_ns = least_ns > MAX_WRITE_NS ? 0 : least_ns;
	return err;
}
