#pragma once
/*
 * Blocks that the C library, its loader and the C++ runtime keep until a process ends, by design:
 * no program can free them, and none of them is its leak. They are known by who called into the
 * runtime: the function of the C library that other code called last (setlocale, puts), a
 * constructor of the C++ runtime, or by stacks on which there is nothing but the runtime. What such
 * a function hands to its caller (strdup, fopen, newlocale) is the caller's.
 */
#include <sqlite3.h>
#include <stdint.h>

/*
 * Make the temporary table kept(stack_id, what) of the run's sites that have such blocks which were
 * not freed; what: "stdio buffers", "locale" ... Returns 0, -ENOMEM or -EPROTO.
 */
int kept_table(sqlite3 *db, int64_t run_id);
