#pragma once
/* Arrays that grow by doubling, and where a value belongs in a sorted one. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/*
 * Make room for n_more items behind n of them. items is the address of the array's pointer,
 * n_allocated its capacity. Returns 0, or -ENOMEM with the array as it was. Bytes are items of 1.
 */
static inline int grow_array_by(void *items, size_t n, size_t n_more, size_t *n_allocated,
				size_t item_bytes)
{
	void **pointer = items;

	if (n_more <= *n_allocated - n)
		return 0;

	size_t capacity = *n_allocated ? 2 * *n_allocated : 16;
	if (capacity < n + n_more)
		capacity = n + n_more;
	void *larger = reallocarray(*pointer, capacity, item_bytes);
	if (!larger)
		return -ENOMEM;
	*pointer = larger;
	*n_allocated = capacity;
	return 0;
}

/* Likewise for one more item. */
static inline int grow_array(void *items, size_t n, size_t *n_allocated, size_t item_bytes)
{
	return n < *n_allocated ? 0 : grow_array_by(items, n, 1, n_allocated, item_bytes);
}

/* The same of an array whose items have the pointer's type: most arrays are. */
#define grow_one(items, n, n_allocated) grow_array(items, n, n_allocated, sizeof(**(items)))

/*
 * Add one item behind n of them: the last argument is its value, worked out when there is room.
 * Returns 0, or -ENOMEM with the array as it was.
 */
#define array_add(items, n, n_allocated, ...)                                                      \
	(grow_one(&(items), n, &(n_allocated)) < 0 ? -ENOMEM : ((items)[(n)++] = __VA_ARGS__, 0))

/*
 * Likewise where nobody keeps the capacity: it is the power of two at or above n. All growth of the
 * array must come from here.
 */
static inline int grow_array_of(void *items, size_t n, size_t n_more, size_t item_bytes)
{
	size_t n_allocated = n > 1 ? (size_t)2 << (63 - __builtin_clzl(n - 1)) : n;
	size_t wanted = n + n_more > 1 ? (size_t)2 << (63 - __builtin_clzl(n + n_more - 1)) : 1;

	if (wanted <= n_allocated)
		return 0;
	return grow_array_by(items, 0, wanted, &n_allocated, item_bytes);
}

/* Make items[at] exist, with all zero in items that are new: all n_allocated are in use. */
static inline int grow_array_to(void *items, size_t at, size_t *n_allocated, size_t item_bytes)
{
	size_t n = *n_allocated;
	void **pointer = items;

	if (at < n)
		return 0;
	if (grow_array_by(items, n, at - n + 1, n_allocated, item_bytes) < 0)
		return -ENOMEM;
	memset((char *)*pointer + n * item_bytes, 0, (*n_allocated - n) * item_bytes);
	return 0;
}

/* What qsort() wants to know of two numbers; of several fields: ORDER(...) ?: ORDER(...). */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/*
 * A function for qsort() and bsearch() over items of a type. The last argument is the order of two
 * of them, a and b; BY() is that of a field: BY(process) ?: BY(time_ns).
 */
#define BY(field) ORDER(a->field, b->field)
#define DEFINE_ORDER(name, type, ...)                                                              \
	static int name(const void *left_, const void *right_)                                     \
	{                                                                                          \
		const typeof(type) *a = left_, *b = right_;                                        \
                                                                                                   \
		return __VA_ARGS__;                                                                \
	}                                                                                          \
	static int name(const void *left_, const void *right_)

/* Items of an array whose size the compiler knows. */
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The first of n items for which a condition holds that calls it `it`; NULL: there is none. */
#define array_find(items, n, it, condition)                                                        \
	({                                                                                         \
		__typeof__(*(items)) *it = (items);                                                \
		size_t left_ = (n);                                                                \
                                                                                                   \
		for (; left_ > 0 && !(condition); left_--)                                         \
			it++;                                                                      \
		left_ > 0 ? it : NULL;                                                             \
	})

/* Do what follows with each of n items, which is called `it` there, and free the array. */
#define array_free(items, n, it, ...)                                                              \
	do {                                                                                       \
		__typeof__(*(items)) *it = (items);                                                \
                                                                                                   \
		for (size_t left_ = (n); left_ > 0; left_--, it++)                                 \
			__VA_ARGS__;                                                               \
		free(items);                                                                       \
	} while (0)

/* For how many of n items, which it calls `it`, a condition holds: for the first ones only. */
#define array_n_while(items, n, it, condition)                                                     \
	({                                                                                         \
		size_t low_ = 0, high_ = (n);                                                      \
                                                                                                   \
		while (low_ < high_) {                                                             \
			size_t middle_ = low_ + (high_ - low_) / 2;                                \
			__typeof__(*(items)) *it = &(items)[middle_];                              \
                                                                                                   \
			if (condition)                                                             \
				low_ = middle_ + 1;                                                \
			else                                                                       \
				high_ = middle_;                                                   \
		}                                                                                  \
		low_;                                                                              \
	})

/* How many of n items, sorted by a field, have at most this value in it. */
#define array_n_until(items, n, field, value) array_n_while(items, n, it_, it_->field <= (value))
