#pragma once
/* A set of 4 KiB pages of an address space: one bit each, in groups found by hashing. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/hash-map.h"

#define FREED_PAGE_BYTES 4096u

struct page_group;

/* All zero is empty. */
struct freed_pages {
	struct page_group *groups;
	size_t n;
	size_t n_allocated;
	struct key_map places; /* of a group's number: 1 + where it lies in groups */
	uint64_t last; /* number of the group that was added to last ... */
	size_t last_place; /* ... and its place; 0: none yet */
};

void freed_pages_finish(struct freed_pages *set);

/* Add the pages that [address, address + size) lies in. Returns 0 or -ENOMEM. */
int freed_pages_add(struct freed_pages *set, uint64_t address, uint64_t size);

bool freed_pages_has(const struct freed_pages *set, uint64_t address);

/* How many pages of [address, address + size), of which each is counted that has a byte in it. */
uint64_t freed_pages_count(const struct freed_pages *set, uint64_t address, uint64_t size);
