#pragma once
/*
 * Resources that belong to a scope: `auto_close int fd = open(...)`.
 * steal_fd() and steal_ptr() hand the resource on, so that the scope leaves it alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <errno.h>

#define auto_close  __attribute__((cleanup(cleanup_close)))
#define auto_free   __attribute__((cleanup(cleanup_free)))
#define auto_fclose __attribute__((cleanup(cleanup_fclose)))

/* Close *fd unless it is negative; errno is kept. */
static inline void cleanup_close(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

/* Free what the variable points to; `pointer` is the address of that variable. */
static inline void cleanup_free(void *pointer)
{
	free(*(void **)pointer);
}

/* Free all these pointers, which are worked out before the first one is freed. */
#define free_all(...)                                                                              \
	free_pointers((void *[]){ __VA_ARGS__ }, sizeof((void *[]){ __VA_ARGS__ }) / sizeof(void *))
static inline void free_pointers(void *const *pointers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(pointers[i]);
}

/* Close *file unless it is NULL. */
static inline void cleanup_fclose(FILE **file)
{
	if (*file)
		fclose(*file);
}

/* Return *fd and leave -1, so that a scope does not close it. */
static inline int steal_fd(int *fd)
{
	int stolen = *fd;

	*fd = -1;
	return stolen;
}

/* Return *(void **)pointer and leave NULL, so that a scope does not free it. */
static inline void *steal_ptr(void *pointer)
{
	void *stolen = *(void **)pointer;

	*(void **)pointer = NULL;
	return stolen;
}
