/*
 * An allocator of its own that says nothing, with functions of all kinds: how often each hands out
 * a block, and of which size, is known. Prints what the blocks hold, which nobody may change.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__clang__)
#define API static __attribute__((noinline, optnone))
#else
#define API static __attribute__((noinline, noclone, noipa))
#endif

struct pool {
	char *chunk;
	size_t used;
};

static jmp_buf out_of_memory;

API void *pool_take(struct pool *pool, size_t size)
{
	char *block = pool->chunk + pool->used;

	pool->used += (size + 15) & ~(size_t)15;
	memset(block, (int)size, size);
	return block;
}

/* Calls another one of them: one block. */
API void *pool_take_zeros(struct pool *pool, size_t size)
{
	char *block = pool_take(pool, size);

	memset(block, 0, size);
	return block;
}

/* Jumps to another one of them: one block. */
API void *pool_take_more(struct pool *pool, size_t size)
{
	__asm__ volatile("" : "+r"(size));
	return pool_take(pool, size + 16);
}

/* Upper halves of int arguments are anything. */
API void *pool_take_array(int count, int size, struct pool *pool)
{
	return pool_take(pool, (size_t)count * (size_t)size);
}

/* The pool is the seventh argument, the block comes through a pointer. */
API int pool_get(void **ret_block, size_t size, int a, int b, int c, int d, struct pool *pool)
{
	if (a + b + c + d == 0)
		return 12;
	*ret_block = pool_take(pool, size);
	return 0;
}

/* Of 114 bytes; changes no register but the one of its result. */
API void *pool_step(struct pool *pool)
{
	char *block = pool->chunk + pool->used;

	pool->used += 128;
	return block;
}

API void *pool_grow(struct pool *pool, void *old, size_t before, size_t size)
{
	void *block;

	if (size > 100000)
		return NULL;
	block = pool_take(pool, size);
	memcpy(block, old, before);
	return block;
}

API void *pool_or_jump(struct pool *pool, size_t size)
{
	if (size > 100000)
		longjmp(out_of_memory, 1);
	return pool_take(pool, size);
}

API void pool_give(struct pool *pool, void *block)
{
	__asm__ volatile("" : : "r"(pool), "r"(block) : "memory");
}

API void pool_clear(struct pool *pool)
{
	pool->used = 0;
}

/* Blocks are a list: the next one's address is at an offset. */
API void pool_give_list(struct pool *pool, void *first, size_t next)
{
	__asm__ volatile("" : : "r"(pool), "r"(first), "r"(next) : "memory");
}

API struct pool *pool_make(void)
{
	struct pool *pool = malloc(sizeof(*pool));

	*pool = (struct pool){ malloc(1000000), 0 };
	return pool;
}

static unsigned sum;

static void use(const void *block, size_t size)
{
	for (size_t i = 0; block && i < size; i++)
		sum = sum * 31 + ((const unsigned char *)block)[i];
}

/* 100 of each, and 100 that failed. */
static void all_kinds(struct pool *pool)
{
	for (int i = 0; i < 100; i++) {
		void *block = NULL;

		use(pool_take(pool, 101), 101);
		use(pool_take_zeros(pool, 102), 102);
		use(pool_take_more(pool, 103), 119);
		use(pool_take_array(2, 52, pool), 104);
		if (pool_get(&block, 105, 1, 2, 3, 4, pool) == 0)
			use(block, 105);
		pool_get(&block, 106, 0, 0, 0, 0, pool); /* fails */
		block = pool_take(pool, 107);
		block = pool_grow(pool, block, 107, 108);
		pool_grow(pool, block, 108, 200000); /* fails: the old one stays */
		use(block, 108);
		pool_give(pool, block);
	}
}

/* Left by longjmp: the next calls count all the same, also those from further in. */
static __attribute__((noinline)) void deeper(struct pool *pool, int depth)
{
	volatile char frame[500];

	frame[0] = (char)depth;
	if (depth > 0)
		deeper(pool, depth - 1);
	else
		use(pool_take(pool, 109), 109);
	frame[1] = frame[0];
}

static void jumps(struct pool *pool)
{
	for (volatile int i = 0; i < 50; i++) {
		if (setjmp(out_of_memory) == 0)
			pool_or_jump(pool, 200000);
		deeper(pool, 5);
	}
	use(pool_or_jump(pool, 110), 110);
}

/* Values in vector registers stay, whether its stack was met before or not: 4 each of 15. */
static __attribute__((noinline)) unsigned vectors(struct pool *pool, int depth)
{
	uint64_t value = 0x1234567890abcdef + (uint64_t)depth, first, last;
	volatile int way = depth;
	void *block;

	if (way > 0)
		return vectors(pool, depth - 1) + (way > 100);
	__asm__ volatile("sub $128, %%rsp\n movq %[value], %%xmm0\n movq %[value], %%xmm15\n"
			 "call *%[step]\n"
			 "movq %%xmm0, %[first]\n movq %%xmm15, %[last]\n add $128, %%rsp\n"
			 : "=a"(block), [first] "=&r"(first), [last] "=&r"(last), "+D"(pool)
			 : [value] "r"(value), [step] "r"(pool_step)
			 : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "xmm15", "memory",
			   "cc");
	return (first == value) + (last == value) + 2 * (block != NULL);
}

static void lists(struct pool *pool)
{
	for (int i = 0; i < 10; i++) {
		char *first = NULL;

		for (int k = 0; k < 20; k++) {
			char *block = pool_take(pool, 111);

			memcpy(block + 24, &first, sizeof(first));
			first = block;
		}
		pool_give_list(pool, first, 24);
	}
}

static void *in_thread(void *unused)
{
	struct pool *pool = pool_make();

	for (int i = 0; i < 1000; i++)
		use(pool_take(pool, 112), 112);
	pool_clear(pool);
	for (int i = 0; i < 10; i++)
		use(pool_take(pool, 113), 113);
	free(pool->chunk); /* ends 10 */
	free(pool);
	return unused;
}

int main(void)
{
	struct pool *pool = pool_make();
	pthread_t thread;

	all_kinds(pool);
	jumps(pool);
	lists(pool);
	for (int i = 0; i < 15; i++)
		sum += vectors(pool, i % 5);
	pthread_create(&thread, NULL, in_thread, NULL);
	pthread_join(thread, NULL);
	printf("%u\n", sum);
	return 0;
}
