#include "tracealloc/hooks/libc-fallback.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "tracealloc/arch/arch.h"

static int call(long number, long a, long b, long c, long d)
{
	return (int)ta_with_errno(ta_syscall_raw(number, a, b, c, d, 0, 0));
}

int ta_early_brk(void *address)
{
	if (ta_syscall_raw(SYS_brk, (long)address, 0, 0, 0, 0, 0) >= (long)address)
		return 0;
	errno = ENOMEM;
	return -1;
}

void *ta_early_sbrk(intptr_t increment)
{
	(void)increment;
	errno = ENOMEM;
	return (void *)-1;
}

void *ta_early_shmat(int shmid, const void *address, int flags)
{
	return (void *)ta_with_errno(
		ta_syscall_raw(SYS_shmat, shmid, (long)address, flags, 0, 0, 0));
}

int ta_early_shmdt(const void *address)
{
	return call(SYS_shmdt, (long)address, 0, 0, 0);
}

int ta_early_madvise(void *address, size_t size, int advice)
{
	return call(SYS_madvise, (long)address, (long)size, advice, 0);
}

int ta_early_mprotect(void *address, size_t size, int prot)
{
	return call(SYS_mprotect, (long)address, (long)size, prot, 0);
}

int ta_early_pkey_mprotect(void *address, size_t size, int prot, int pkey)
{
	return call(SYS_pkey_mprotect, (long)address, (long)size, prot, pkey);
}

int ta_early_mlock(const void *address, size_t size)
{
	return call(SYS_mlock, (long)address, (long)size, 0, 0);
}

int ta_early_mlock2(const void *address, size_t size, unsigned flags)
{
	return call(SYS_mlock2, (long)address, (long)size, (long)flags, 0);
}

int ta_early_munlock(const void *address, size_t size)
{
	return call(SYS_munlock, (long)address, (long)size, 0, 0);
}

int ta_early_mlockall(int flags)
{
	return call(SYS_mlockall, flags, 0, 0, 0);
}

int ta_early_munlockall(void)
{
	return call(SYS_munlockall, 0, 0, 0, 0);
}

int ta_early_prctl(int option, ...)
{
	long arguments[4];
	va_list list;

	va_start(list, option);
	for (int i = 0; i < 4; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	return (int)ta_with_errno(ta_syscall_raw(SYS_prctl, option, arguments[0], arguments[1],
						 arguments[2], arguments[3], 0));
}
