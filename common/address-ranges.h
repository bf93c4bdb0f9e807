#pragma once
/* A set of addresses as sorted ranges that do not touch. All zero is empty. One thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
	uint64_t start;
	uint64_t end;
};

struct ranges {
	struct range *items;
	size_t n;
	size_t n_allocated;
};

/* Add [start, end). Returns 0 or -ENOMEM. */
int ranges_add(struct ranges *ranges, uint64_t start, uint64_t end);

bool ranges_have(const struct ranges *ranges, uint64_t address);

/* Free the memory; the set is empty and usable afterwards. */
void ranges_finish(struct ranges *ranges);
