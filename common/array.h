#pragma once
/* Arrays that grow by doubling. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

/*
 * Make room for one more item behind n of them. items is the address of the array's pointer,
 * n_allocated its capacity. Returns 0, or -ENOMEM with the array as it was.
 */
static inline int grow_array(void *items, size_t n, size_t *n_allocated, size_t item_bytes)
{
	void **pointer = items;

	if (n < *n_allocated)
		return 0;

	size_t capacity = *n_allocated ? 2 * *n_allocated : 16;
	void *larger = reallocarray(*pointer, capacity, item_bytes);
	if (!larger)
		return -ENOMEM;
	*pointer = larger;
	*n_allocated = capacity;
	return 0;
}
