/*
 * Calls of a static program that are no allocations. What it starts: one that is static, too, gets
 * the agent. Others find our library in their environment, as it was given to this one. In a child
 * of posix_spawn this runs on a stack of some kilobytes (musl: 1024 + PATH_MAX), and in the memory
 * of its parent.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tracealloc/attach.h"
#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/sandbox.h"

#define MAX_HEADERS 64u

static size_t read_at(long fd, void *to, size_t n_bytes, uint64_t at)
{
	long n = ta_syscall(SYS_pread64, fd, (long)to, (long)n_bytes, (long)at, 0, 0);

	return n > 0 ? (size_t)n : 0;
}

/* Traced, it would get no rights by its exec. */
static bool gives_rights(long fd)
{
	struct stat status = { .st_mode = S_ISUID };

	ta_syscall(SYS_fstat, fd, (long)&status, 0, 0, 0, 0);
	return status.st_mode & (S_ISUID | S_ISGID) ||
	       ta_syscall(SYS_fgetxattr, fd, (long)"security.capability", 0, 0, 0, 0) > 0;
}

/* A script may have a static interpreter: whether it has one is seen when it is there. */
static bool may_be_static(long fd)
{
	Elf64_Ehdr head;
	Elf64_Phdr header;
	size_t n = read_at(fd, &head, sizeof(head), 0);

	if (n < SELFMAG)
		return false;
	if (head.e_ident[0] == '#' && head.e_ident[1] == '!')
		return true;
	if (n < sizeof(head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_machine != EM_X86_64 || head.e_phnum > MAX_HEADERS)
		return false;
	for (uint64_t i = 0; i < head.e_phnum; i++)
		if (read_at(fd, &header, sizeof(header), head.e_phoff + i * sizeof(header)) <
			    sizeof(header) ||
		    header.p_type == PT_INTERP)
			return false;
	return !gives_rights(fd);
}

static bool is_wanted(const char *path)
{
	if (!ta_image.control || !(ta_image.flags & RING_FLAG_STATIC) ||
	    atomic_load(&ta_state.word) == TA_OFF || !ta_sandbox_may_wait())
		return false;
	long fd = ta_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0,
			     0, 0);
	if (fd < 0)
		return false;
	bool is_it = may_be_static(fd);
	ta_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	return is_it;
}

/* Filters that it gives itself are ours to obey, see hooks/sandbox.c. */
int prctl(int option, ...)
{
	unsigned long arguments[4], known[3];
	va_list list;

	va_start(list, option);
	for (int i = 0; i < 4; i++)
		arguments[i] = va_arg(list, unsigned long);
	va_end(list);
	if (option != PR_SET_SECCOMP && option != PR_SET_TSC)
		return ta_real.prctl(option, arguments[0], arguments[1], arguments[2],
				     arguments[3]);
	known[0] = (unsigned long)option;
	known[1] = arguments[0];
	known[2] = arguments[1];
	struct ta_sandbox_change change = ta_sandbox_begin(SYS_prctl, known);
	int r = ta_real.prctl(option, arguments[0], arguments[1], arguments[2], arguments[3]);
	ta_sandbox_end(&change, r >= 0);
	return r;
}

/* Calls of ours leave errno alone: it is what the program's own function has made it. */
int execve(const char *path, char *const argv[], char *const envp[])
{
	int fd = is_wanted(path) ? ta_static_begin(false) : -1;
	int r = ta_real.execve(path, argv, envp);

	if (fd >= 0)
		ta_static_end(fd, true);
	return r;
}
