#pragma once
/*
 * Where functions begin, as a file's table for unwinding says (.eh_frame_hdr: Linux Standard Base
 * Core 5.0, 10.6.2, "Exception Frame Header"). Stripped files have it as well. Pure functions: any
 * thread; nothing is kept. The bytes are hostile, no field is trusted.
 */
#include <libelf.h>
#include <stddef.h>
#include <stdint.h>

/* Copy n_bytes at an address of the file's memory. Returns how many of them are known. */
typedef size_t (*unwind_read)(void *user, uint64_t address, void *bytes, size_t n_bytes);

/*
 * The last begin of a function at or below an address, where the table lies at `header`
 * (PT_GNU_EH_FRAME), all in addresses that `read` knows. 0: there is none, or the table has another
 * form than linkers give it.
 */
uint64_t unwind_table_begin(uint64_t header, uint64_t address, unwind_read read, void *user);

/* begin: of a function; entry: of its rules in .eh_frame; addresses of the file. 0: go on. */
typedef int (*unwind_visit_fn)(void *user, uint64_t begin, uint64_t entry);

/*
 * Visit all that .eh_frame of a file has and that can be read, in its order. Returns 0, also where
 * there is nothing, or what the visitor did not return 0 with.
 */
int unwind_each_begin(Elf *elf, unwind_visit_fn visit, void *user);
