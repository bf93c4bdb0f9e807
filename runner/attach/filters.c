#include "runner/attach/filters.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "common/array.h"
#include "common/call-filter.h"
#include "runner/processes/image-proc.h"

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif

/*
 * What a thread that works for us does, in dlopen of glibc too, and what the kernel makes it do
 * behind our stop. An error would not be lived with.
 */
static const struct call_filter_need entry_needs[] = {
	{ "restart_syscall", SYS_restart_syscall, { 0 } },
	{ "rt_sigreturn", SYS_rt_sigreturn, { 0 } },
	{ "rt_sigaction", SYS_rt_sigaction, { SIGTRAP, 4096, 4096, 8 } },
	{ "mmap", SYS_mmap, { 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1 } },
	{ "mmap of code", SYS_mmap, { 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, 3 } },
	{ "munmap", SYS_munmap, { 4096, 4096 } },
	{ "mprotect", SYS_mprotect, { 4096, 4096, PROT_READ } },
	{ "brk", SYS_brk, { 0 } },
	{ "openat", SYS_openat, { AT_FDCWD, 4096, O_RDONLY | O_CLOEXEC } },
	{ "read", SYS_read, { 3 } },
	{ "pread64", SYS_pread64, { 3 } },
	{ "fstat", SYS_fstat, { 3 } },
	{ "newfstatat", SYS_newfstatat, { 3 } },
	{ "close", SYS_close, { 3 } },
	{ "socket", SYS_socket, { 1, 5 } },
	{ "connect", SYS_connect, { 3 } },
	{ "sendto", SYS_sendto, { 3 } },
	{ "recvmsg", SYS_recvmsg, { 3 } },
};

static int add_filter(struct filters *filters, pid_t tid, unsigned long number, size_t n_codes)
{
	int r = grow_array_by(&filters->words, filters->n_words, n_codes + 1, &filters->n_allocated,
			      sizeof(*filters->words));

	if (r < 0)
		return r;
	uint64_t *to = &filters->words[filters->n_words];
	if (ptrace(PTRACE_SECCOMP_GET_FILTER, tid, (void *)number, to + 1) < 0)
		return -errno;
	*to = n_codes;
	filters->n_words += n_codes + 1;
	filters->n++;
	return 0;
}

int filters_read(const struct remote_thread *thread, struct filters *ret_filters)
{
	int r = 0;

	*ret_filters = (struct filters){ 0 };
	if (image_confinement(thread->tid).mode == 0)
		return 0;
	for (unsigned long i = 0; r == 0; i++) {
		long n = ptrace(PTRACE_SECCOMP_GET_FILTER, thread->tid, (void *)i, NULL);

		if (n < 0 && errno == ENOENT && i > 0)
			return 0;
		r = n < 0 ? -errno : add_filter(ret_filters, thread->tid, i, (size_t)n);
	}
	filters_finish(ret_filters);
	return r;
}

void filters_finish(struct filters *filters)
{
	free(filters->words);
	*filters = (struct filters){ 0 };
}

/* What all of them say. */
static int32_t ask(const struct filters *filters, long number, const long arguments[6])
{
	int32_t severest = (int32_t)SECCOMP_RET_ALLOW;

	for (size_t at = 0; at < filters->n_words; at += filters->words[at] + 1) {
		int32_t action = call_filter_ask((const void *)&filters->words[at + 1],
						 (uint32_t)filters->words[at], number, arguments);

		if (action < severest)
			severest = action;
	}
	return severest;
}

static const char *find_forbidden(const struct filters *filters,
				  const struct call_filter_need *needs, size_t n, bool takes_errors)
{
	for (size_t i = 0; i < n; i++) {
		int32_t action = ask(filters, needs[i].number, needs[i].arguments);

		if (action < (int32_t)SECCOMP_RET_LOG &&
		    !(takes_errors && action == (int32_t)SECCOMP_RET_ERRNO))
			return needs[i].name;
	}
	return NULL;
}

const char *filters_forbidden(const struct filters *filters)
{
	const char *name = find_forbidden(filters, entry_needs, COUNT_OF(entry_needs), false);

	/* Our library lives with errors of its calls. */
	return name ? name : find_forbidden(filters, call_filter_needs, call_filter_n_needs, true);
}

bool filters_allow_restart(const struct filters *filters)
{
	return ask(filters, SYS_restart_syscall, (const long[6]){ 0 }) >= (int32_t)SECCOMP_RET_LOG;
}

bool filters_allow_memory_files(const struct filters *filters)
{
	return ask(filters, SYS_memfd_create, (const long[6]){ 4096, MFD_CLOEXEC }) >=
	       (int32_t)SECCOMP_RET_LOG;
}

bool filters_allow_none(const struct filters *filters)
{
	int32_t action = ask(filters, -1, (const long[6]){ 0 });

	return action >= (int32_t)SECCOMP_RET_LOG || action == (int32_t)SECCOMP_RET_ERRNO;
}
