#pragma once
/*
 * The functions of a static program, or of musl's loader, that allocate and free: by their names,
 * else by how they are built (allocator-signature.h).
 */
#include "schemas/allocator-entries.h"

/*
 * Look into the file, of which nothing runs. Returns 0, also where nothing is found: why says it;
 * -ENOEXEC: no ELF file for x86-64; -ENOMEM.
 */
int allocator_entries_find(const char *path, struct allocator_entries *ret_entries);
void allocator_entries_finish(struct allocator_entries *entries); /* accepts a zeroed one */
#define auto_allocator_entries __attribute__((cleanup(allocator_entries_finish)))

/* What a program's allocator is called, for people: "glibc". */
const char *allocator_libc_text(enum entry_libc libc);
