#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "runner/attach/remote.h"

int remote_read(pid_t pid, uintptr_t from, void *to, size_t n_bytes)
{
	struct iovec ours = { to, n_bytes }, theirs = { (void *)from, n_bytes };
	ssize_t n = process_vm_readv(pid, &ours, 1, &theirs, 1, 0);

	if (n < 0)
		return -errno;
	return (size_t)n == n_bytes ? 0 : -EFAULT;
}

int remote_write(pid_t pid, uintptr_t to, const void *from, size_t n_bytes)
{
	struct iovec ours = { (void *)from, n_bytes }, theirs = { (void *)to, n_bytes };
	ssize_t n = process_vm_writev(pid, &ours, 1, &theirs, 1, 0);

	if (n < 0)
		return -errno;
	return (size_t)n == n_bytes ? 0 : -EFAULT;
}

int remote_poke(pid_t tid, uintptr_t to, const void *from, size_t n_bytes)
{
	const uint8_t *bytes = from;
	long word;

	for (size_t at = 0; at + sizeof(word) <= n_bytes; at += sizeof(word)) {
		memcpy(&word, bytes + at, sizeof(word));
		if (ptrace(PTRACE_POKEDATA, tid, (void *)(to + at), (void *)word) < 0)
			return -errno;
	}
	return 0;
}
