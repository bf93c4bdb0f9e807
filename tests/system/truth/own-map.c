/* A library's own mmap and munmap, which go on by syscall(), as tcmalloc's do. */
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

void *mmap(void *address, size_t size, int prot, int flags, int fd, off_t offset);
int munmap(void *address, size_t size);

void *mmap(void *address, size_t size, int prot, int flags, int fd, off_t offset)
{
	return (void *)syscall(SYS_mmap, address, size, prot, flags, fd, offset);
}

int munmap(void *address, size_t size)
{
	return (int)syscall(SYS_munmap, address, size);
}
