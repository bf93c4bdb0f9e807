#pragma once
/* The sets of functions that come with memsight: the files of collections/, made by embed.py. */
#include <stddef.h>

struct function_collection {
	const char *name;
	const char *const *lines; /* as those of a list; NULL behind the last */
};

extern const struct function_collection function_collections[];
extern const size_t n_function_collections;

/* Those of allocators/: lines as --alloc-function has them. */
extern const struct function_collection function_allocators[];
extern const size_t n_function_allocators;
