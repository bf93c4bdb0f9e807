#pragma once
/* How much memory the control groups of this process allow. */
#include <stdint.h>

/*
 * The smallest limit of the groups that the process is in, in bytes; 0: there is none, or it cannot
 * be told. Version 2 (memory.max) and version 1 (memory.limit_in_bytes), at the usual place of
 * mounting.
 */
uint64_t run_memory_limit(void);
