#pragma once
/* The ELF file behind an object: opening and closing it. Used by objects.c only. */
#include <stddef.h>
#include <stdint.h>

#include "analyze/symbols/objects.h"

/* Lower-case hex of some bytes, allocated; NULL without memory. */
char *object_file_hex(const uint8_t *bytes, size_t n_bytes);

/* Give up the file and everything that was read from it. */
void object_file_close(struct object *object);
