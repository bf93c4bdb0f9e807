#pragma once
/*
 * Where the code of an allocator lies in a file: the functions of the malloc family and what stands
 * between and around them up to the next foreign global symbol, since the allocator's own static
 * functions have no names in a stripped libc. A library that is nothing but an allocator is one.
 */
#include <stdbool.h>
#include <stdint.h>

#include "analyze/symbols/objects.h"

/* Whether an ELF address of the object lies in it. */
bool allocator_holds(struct object *object, uint64_t address);

/* Whether the object is a library with an allocator, or the executable with one linked in. */
bool allocator_is_in(struct object *object);

/* Whether the object is memsight's own library. */
bool allocator_is_tool(const struct object *object);
