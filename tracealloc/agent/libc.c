/*
 * What the sources of the library take from a C library, for the agent, which has none. There is no
 * errno to keep, since system calls are made without one: that of the program is never touched.
 */
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>

#include "tracealloc/agent/agent.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/stack/symbol.h"

#undef errno

#ifndef __clang__
/* A loop that is strlen must not become a call of strlen. */
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

static int nobody;

int *__errno_location(void)
{
	return &nobody;
}

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
	void *at = to;

	__asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(n) : : "memory");
	return to;
}

void *memset(void *to, int value, size_t n)
{
	void *at = to;

	__asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(value) : "memory");
	return to;
}

int memcmp(const void *left, const void *right, size_t n)
{
	const uint8_t *a = left, *b = right;

	for (size_t i = 0; i < n; i++)
		if (a[i] != b[i])
			return a[i] - b[i];
	return 0;
}

size_t strlen(const char *text)
{
	size_t n = 0;

	while (text[n])
		n++;
	return n;
}

int strncmp(const char *left, const char *right, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (left[i] != right[i] || !left[i])
			return (uint8_t)left[i] - (uint8_t)right[i];
	return 0;
}

int strcmp(const char *left, const char *right)
{
	return strncmp(left, right, SIZE_MAX);
}

/* Nobody is told when a thread ends: whoever needs a state looks for those that are gone. */
int pthread_key_create(pthread_key_t *ret_key, void (*destructor)(void *))
{
	(void)ret_key, (void)destructor;
	return EAGAIN;
}

int pthread_key_delete(pthread_key_t key)
{
	(void)key;
	return 0;
}

int pthread_setspecific(pthread_key_t key, const void *value)
{
	(void)key, (void)value;
	return EINVAL;
}

/* There is no loader, and so nothing to look up. */
void *dlsym(void *restrict handle, const char *restrict name)
{
	(void)handle, (void)name;
	return NULL;
}

void *ta_symbol_address(const char *name)
{
	(void)name;
	return NULL;
}

void *ta_symbol_next(const char *name)
{
	(void)name;
	return NULL;
}

unsigned long getauxval(unsigned long type)
{
	for (const ElfW(auxv_t) *item = ta_agent_auxv; item && item->a_type != AT_NULL; item++)
		if (item->a_type == type)
			return item->a_un.a_val;
	return 0;
}
