#pragma once
/*
 * The memory of every process image of a run at the moment that the merge has reached: live blocks,
 * live mappings, and what was given back. Rows of `allocation` and `mapping` are written when a
 * block ends. It answers the sample side's questions (owners.h: struct owner_memory).
 * Times are ns since the run's start. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/heap.h"
#include "analyze/mappings.h"
#include "schemas/trace-format.h"

struct owner_memory;
struct memory;
