#include "pmu/page-marks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"

#define N_PAGES	   8u
#define LINE_BYTES 512

#define USER_MODE_ONLY 1 /* linux/userfaultfd.h of 5.11 */

static const char how_to_clear[] =
	"mount /proc read-write, and Linux with CONFIG_PROC_PAGE_MONITOR";

static bool clear_marks(void)
{
	auto_close int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	/* The second one flushes the translations that processors keep: see docs/pages.md. */
	return fd >= 0 && write(fd, "1", 1) == 1 && write(fd, "4", 1) == 1;
}

/* KiB of the mapping at an address that are marked; < 0: the kernel does not tell. */
static long marked_kib(const void *memory)
{
	char line[LINE_BYTES];
	bool is_there = false;
	long kib = -1;
	FILE *file = fopen("/proc/self/smaps", "re");

	while (file && kib < 0 && fgets(line, sizeof(line), file)) {
		unsigned long start, end;

		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			is_there = start <= (uintptr_t)memory && (uintptr_t)memory < end;
		else if (is_there && sscanf(line, "Referenced: %ld kB", &kib) != 1)
			kib = -1;
	}
	if (file)
		fclose(file);
	return kib;
}

/* Do marks come and go? Between two closed pages, so that it merges with no other mapping. */
static bool marks_work(size_t page_bytes)
{
	char *closed = mmap(NULL, (N_PAGES + 2) * page_bytes, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile char *memory = closed + page_bytes;
	bool works;

	if (closed == MAP_FAILED)
		return false;
	works = mprotect(closed + page_bytes, N_PAGES * page_bytes, PROT_READ | PROT_WRITE) == 0;
	for (size_t i = 0; works && i < N_PAGES; i++)
		memory[i * page_bytes] = 1;
	works = works && clear_marks() && marked_kib(closed + page_bytes) == 0;
	if (works)
		(void)memory[page_bytes];
	works = works && marked_kib(closed + page_bytes) == (long)(page_bytes / 1024);
	munmap(closed, (N_PAGES + 2) * page_bytes);
	return works;
}

int pages_userfaultfd_has(uint64_t feature)
{
	struct uffdio_api api = { .api = UFFD_API };
	auto_close int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | USER_MODE_ONLY);

	if (fd < 0)
		return -errno;
	/* Asked for nothing it answers with all that there is. */
	if (ioctl(fd, UFFDIO_API, &api) < 0)
		return -errno;
	return api.features & feature ? 0 : -ENOTSUP;
}

int pages_probe_marks(struct pmu_refusal *ret_refusal)
{
	auto_close int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && marks_work((size_t)sysconf(_SC_PAGESIZE)))
		return 0;
	return pmu_refuse(ret_refusal, fd < 0 ? -ENOENT : -ENOTSUP, "%s\n%s",
			  fd < 0 ? "/proc/PID/clear_refs cannot be written"
				 : "the kernel does not mark pages that are touched",
			  how_to_clear);
}
