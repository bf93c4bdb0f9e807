#include "runner/sampling/process-read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/cleanup.h"

#define PAGE_BYTES 4096u

/*
 * Bytes read from the start of the range, or a negative errno when not even the first page can be.
 */
static ssize_t read_by_syscall(pid_t pid, uint64_t address, void *bytes, size_t n_bytes)
{
	struct iovec local = { bytes, n_bytes };
	struct iovec remote = { (void *)(uintptr_t)address, n_bytes };
	ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	return n < 0 ? -errno : n;
}

static ssize_t read_by_file(pid_t pid, uint64_t address, void *bytes, size_t n_bytes)
{
	char path[64];
	auto_close int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t n = pread(fd, bytes, n_bytes, (off_t)address);
	return n < 0 ? -errno : n;
}

static bool is_refusal(ssize_t n)
{
	return n == -EPERM || n == -EACCES;
}

/*
 * The file serves where process_vm_readv is forbidden (seccomp), and for code that may be executed
 * but not read. Since it also reads what is protected from the program itself, and a guard page
 * would get a page frame by that, a page that is only wanted is left alone.
 */
size_t process_read(pid_t pid, bool *is_forbidden, uint64_t address, void *bytes, size_t n_bytes,
		    enum process_read_wish wish)
{
	ssize_t n = 0;

	if (!*is_forbidden)
		n = read_by_syscall(pid, address, bytes, n_bytes);
	if (n < 0 && (n != -EFAULT || wish == READ_NEEDED)) {
		bool is_refused = is_refusal(n);

		n = read_by_file(pid, address, bytes, n_bytes);
		*is_forbidden = is_refused && is_refusal(n);
	}
	return n > 0 ? (size_t)n : 0;
}

uint64_t process_read_pages(pid_t pid, bool *is_forbidden, const uint64_t *addresses,
			    unsigned n_pages, void *bytes)
{
	struct iovec local = { bytes, (size_t)n_pages * PAGE_BYTES };
	struct iovec remote[PROCESS_READ_PAGES] = { 0 };
	uint64_t found = 0;
	ssize_t n = 0;

	for (unsigned i = 0; i < n_pages; i++)
		remote[i] = (struct iovec){ (void *)(uintptr_t)addresses[i], PAGE_BYTES };
	if (!*is_forbidden)
		n = process_vm_readv(pid, &local, 1, remote, n_pages, 0);
	if (n < 0 && errno == ESRCH)
		return 0;
	/* It ends at the first page that cannot be read: the others are read one by one. */
	for (unsigned i = 0; i < n_pages; i++) {
		uint8_t *to = (uint8_t *)bytes + (size_t)i * PAGE_BYTES;

		if (n >= (ssize_t)((i + 1) * PAGE_BYTES) ||
		    process_read(pid, is_forbidden, addresses[i], to, PAGE_BYTES, READ_WANTED) ==
			    PAGE_BYTES)
			found |= UINT64_C(1) << i;
	}
	return found;
}

static void open_pages(struct process_pages *pages, pid_t pid)
{
	char path[64];

	process_pages_finish(pages);
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	pages->fd = open(path, O_RDONLY | O_CLOEXEC);
	pages->pid = pid;
}

uint64_t process_has_pages(struct process_pages *pages, pid_t pid, uint64_t address,
			   unsigned n_pages)
{
	const off_t offset = (off_t)(address / PAGE_BYTES * sizeof(uint64_t));
	uint64_t entries[64], found = 0;
	const size_t n_bytes = n_pages * sizeof(entries[0]);
	ssize_t n = 0;

	if (pages->pid != pid)
		open_pages(pages, pid);
	if (pages->fd >= 0)
		n = pread(pages->fd, entries, n_bytes, offset);
	/* Behind an exec the file is of memory that is gone. */
	if (pages->fd >= 0 && n == 0) {
		open_pages(pages, pid);
		n = pages->fd < 0 ? 0 : pread(pages->fd, entries, n_bytes, offset);
	}
	for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(entries[0]); i++)
		found |= (entries[i] >> 63) << i;
	return found;
}

bool process_has_page(struct process_pages *pages, pid_t pid, uint64_t address)
{
	return process_has_pages(pages, pid, address, 1) != 0;
}

void process_pages_finish(struct process_pages *pages)
{
	if (pages->pid && pages->fd >= 0)
		close(pages->fd);
	*pages = (struct process_pages){ 0 };
}
