#pragma once
/*
 * What is in the live blocks of a process: not the program's data, but to which blocks and files
 * the first words of each point, and what kinds of words the others are (schemas/trace-format.h).
 * Read when it has been left and runs on: a block that is given back meanwhile has other words.
 */
#include <sys/types.h>

#include "runner/attach/attach.h"
#include "runner/attach/heap-walk.h"

#define CONTENTS_MOST 524288u /* blocks that are read: 40 MiB; of more, one of each n */

/*
 * Read them into a file of the outcome (blocks_fd, n_blocks, n_th). Sorts the walk's blocks. What
 * cannot be read is left out; without memory there is no file.
 */
void contents_read(pid_t pid, struct heap_walk *walk, struct attach_outcome *outcome);
