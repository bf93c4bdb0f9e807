#pragma once
/* How much memory the control groups of a process allow. */
#include <stdint.h>
#include <sys/types.h>

/*
 * The smallest limit of the groups that the process (0: this one) is in, in bytes; 0: there is
 * none, or it is not known. Version 2 (memory.max) and version 1 (memory.limit_in_bytes), at the
 * usual place of mounting.
 */
uint64_t run_memory_limit(pid_t pid);
