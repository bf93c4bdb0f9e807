#pragma once
/* What MEMSIGHT_PLACEMENT (schemas/recording.h) asks for. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/recording.h"

#define PLACEMENT_NODE_WORDS (RECORDING_MAX_NODES / 64)

struct placement {
	char kind[32]; /* as --heap names it */
	size_t size; /* bytes of the heap of one process */
	size_t min_bytes; /* smaller blocks stay in libc */
	bool spills; /* when full: libc, else ENOMEM */
	int mode; /* MPOL_*, 0: wherever the process may allocate */
	uint64_t nodes[PLACEMENT_NODE_WORDS]; /* one bit for each node */
	const char *dir; /* of the file, in the environment; "": anonymous memory */
};

/* Read the value of the variable. Returns 0 or -EINVAL. Allocates nothing; text must stay. */
int placement_parse(const char *text, struct placement *ret_placement);
