/*
 * What looks like glibc's allocator in a stripped program, in small: the seed of
 * corpus-allocator-entries. It is made, and read, but never run.
 *
 *	gcc -Os -nostdlib -static -fno-builtin -fcf-protection=none -fno-stack-protector
 *		-fno-ipa-ra -Wl,-N,--build-id=none -s look-alike.c
 */
#define APART __attribute__((noinline, noclone, noipa, used))

typedef unsigned long size;

int error_number;
volatile int sink;

APART void print_error(const char *text)
{
	sink = *text;
}

APART void *inner_malloc(void *arena, size bytes)
{
	print_error("malloc(): smallbin double linked list corrupted");
	print_error("malloc(): invalid size (unsorted)");
	print_error("malloc(): corrupted top size");
	return (char *)arena + bytes;
}

APART void inner_free(void *arena, void *chunk, int is_locked)
{
	print_error("double free or corruption (!prev)");
	print_error("double free or corruption (out)");
	print_error("double free or corruption (top)");
	sink = is_locked + (arena == chunk);
}

APART void unmap(void *chunk)
{
	print_error("munmap_chunk(): invalid pointer");
	sink = chunk != 0;
}

APART void *inner_realloc(void *arena, void *chunk, size old, size bytes)
{
	print_error("realloc(): invalid old size");
	print_error("realloc(): invalid next size");
	return (char *)inner_malloc(arena, bytes) + old + (chunk == arena);
}

APART void *my_malloc(size bytes)
{
	if ((long)bytes < 0) {
		error_number = 12;
		return 0;
	}
	return inner_malloc(&error_number, bytes);
}

APART void my_free(void *block)
{
	if (!block)
		return;
	if (((size *)block)[-1] & 2)
		unmap(block);
	else
		inner_free(&error_number, block, 0);
	sink = 1;
}

APART void *my_realloc(void *block, size bytes)
{
	if (!block)
		return my_malloc(bytes);
	if (!bytes) {
		my_free(block);
		return 0;
	}
	print_error("realloc(): invalid pointer");
	return inner_realloc(&error_number, block, 1, bytes);
}

APART void *my_calloc(size n, size bytes)
{
	size all;

	if (__builtin_mul_overflow(n, bytes, &all)) {
		error_number = 12;
		return 0;
	}
	return inner_malloc(&error_number, all);
}

APART void *inner_memalign(void *arena, size alignment, size bytes)
{
	void *block = inner_malloc(arena, bytes + alignment);

	inner_free(arena, block, 1);
	return block;
}

APART void *my_memalign(size alignment, size bytes)
{
	return alignment < 16 ? my_malloc(bytes) : inner_memalign(&error_number, alignment, bytes);
}

/* It is called from many places. */
#define USE(n)                                                                                     \
	APART void use_##n(void *block)                                                            \
	{                                                                                          \
		my_free(my_malloc(n));                                                             \
		my_free(my_realloc(block, n));                                                     \
		my_free(my_calloc(n, 2));                                                          \
		sink = my_malloc(3) == my_memalign(64, n);                                         \
	}
USE(1)
USE(2)
USE(3)
USE(4)

void _start(void)
{
	use_1(0);
	use_2(0);
	use_3(0);
	use_4(0);
	for (;;)
		sink = 0;
}
