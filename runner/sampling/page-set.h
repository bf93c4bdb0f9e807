#pragma once
/*
 * Which pages of a process image are stored: a hash set of page addresses, 8 bytes a page. From
 * zero; one thread at a time.
 */
#include <stddef.h>
#include <stdint.h>

enum page_state {
	PAGE_UNKNOWN, /* never asked for, or forgotten */
	PAGE_STORED,
	PAGE_UNREADABLE,
};

struct page_set {
	uint64_t *slots; /* page address | state; 0: free */
	size_t n_slots; /* a power of two */
	size_t n; /* slots in use, forgotten pages included */
};

/* The state of a page (a multiple of 4096). */
enum page_state page_set_get(const struct page_set *set, uint64_t page);

/* Set the state of a page. Returns 0 or -ENOMEM. */
int page_set_put(struct page_set *set, uint64_t page, enum page_state state);

/* All pages that touch the range become PAGE_UNKNOWN. */
void page_set_forget_range(struct page_set *set, uint64_t start, uint64_t size);

void page_set_finish(struct page_set *set);
