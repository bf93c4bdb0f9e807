#pragma once
/* The ELF file behind an object: opening and closing it. Used by objects.c only. */
#include "analyze/symbols/objects.h"

/* Give up the file; symbols and lines that were read from it are the caller's to free. */
void object_file_close(struct object *object);
