#include "analyze/live/mapping-set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"

void mappings_finish(struct mappings *mappings)
{
	array_free(mappings->items, mappings->n, it, free(*it));
	*mappings = (struct mappings){ 0 };
}

/* Room for n_more items. */
static int reserve(struct mappings *mappings, size_t n_more)
{
	return grow_array_by(&mappings->items, mappings->n, n_more, &mappings->n_allocated,
			     sizeof(*mappings->items));
}

static struct mapping *copy_of(const struct mapping *mapping)
{
	struct mapping *copy = malloc(sizeof(*copy));

	if (copy)
		*copy = *mapping;
	return copy;
}

int mappings_fork(struct mappings *child, const struct mappings *parent)
{
	int r = reserve(child, parent->n);
	if (r < 0)
		return r;

	for (; child->n < parent->n; child->n++) {
		struct mapping *copy = copy_of(parent->items[child->n]);
		if (!copy)
			return -ENOMEM;
		copy->is_inherited = true;
		child->items[child->n] = copy;
	}
	return 0;
}

/* The first item that ends behind address. */
static size_t first_behind(const struct mappings *mappings, uint64_t address)
{
	size_t low = 0;
	size_t high = mappings->n;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct mapping *item = mappings->items[middle];
		if (mappings_end_of(item->address, item->size) > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* What goes on of a mapping that ended: [start, end) of it. Returns 0 or -ENOMEM. */
static int piece_of(const struct mapping *whole, uint64_t start, uint64_t end,
		    const struct mappings_change *change, struct mapping **ret_piece)
{
	struct mapping *piece = *ret_piece = copy_of(whole);

	if (!piece)
		return -ENOMEM;
	piece->address = start;
	piece->size = end - start;
	piece->allocated_ns = change->now_ns;
	piece->previous_id = whole->id;
	piece->id = (*change->next_id)++;
	piece->is_inherited = false;
	return 0;
}

/* Put an item where n_old were, which are freed, at index at; NULL: none. There is room. */
static void replace(struct mappings *mappings, size_t at, size_t n_old, struct mapping *item)
{
	size_t n_new = item != NULL;

	for (size_t i = at; i < at + n_old; i++)
		free(mappings->items[i]);
	if (n_new != n_old)
		memmove(mappings->items + at + n_new, mappings->items + at + n_old,
			(mappings->n - at - n_old) * sizeof(*mappings->items));
	if (item)
		mappings->items[at] = item;
	mappings->n = mappings->n + n_new - n_old;
}

int mappings_remove(struct mappings *mappings, uint64_t address, uint64_t size,
		    const struct mappings_change *change)
{
	uint64_t end = mappings_end_of(address, size);
	size_t first = first_behind(mappings, address);
	size_t last = first;
	struct mapping *head = NULL, *tail = NULL; /* only one has a head, and one a tail */

	int r = reserve(mappings, 2);
	for (; r >= 0 && last < mappings->n && mappings->items[last]->address < end; last++) {
		const struct mapping *item = mappings->items[last];
		uint64_t item_end = mappings_end_of(item->address, item->size);

		r = change->end(change->context, item);
		if (r >= 0 && item->address < address)
			r = piece_of(item, item->address, address, change, &head);
		if (r >= 0 && item_end > end)
			r = piece_of(item, end, item_end, change, &tail);
	}
	if (r < 0) {
		free_all(head, tail);
		return r;
	}
	replace(mappings, first, last - first, head);
	if (tail)
		replace(mappings, first + (head != NULL), 0, tail);
	return 0;
}

int mappings_insert(struct mappings *mappings, const struct mapping *mapping,
		    const struct mappings_change *change)
{
	if (mapping->size == 0)
		return 0;

	struct mapping *copy = copy_of(mapping);
	if (!copy)
		return -ENOMEM;
	int r = mappings_remove(mappings, copy->address, copy->size, change)
			?: reserve(mappings, 1);
	if (r < 0)
		return free(copy), r;
	replace(mappings, first_behind(mappings, copy->address), 0, copy);
	return 0;
}

int mappings_append(struct mappings *mappings, const struct mapping *mapping)
{
	int r = reserve(mappings, 1);
	struct mapping *copy = r < 0 ? NULL : copy_of(mapping);

	if (!copy)
		return -ENOMEM;
	mappings->items[mappings->n++] = copy;
	return 0;
}

const struct mapping *mappings_find(const struct mappings *mappings, uint64_t address)
{
	size_t i = first_behind(mappings, address);

	return i < mappings->n && mappings->items[i]->address <= address ? mappings->items[i]
									 : NULL;
}

const struct mapping *mappings_next(const struct mappings *mappings, uint64_t address)
{
	size_t i = first_behind(mappings, address);

	return i < mappings->n ? mappings->items[i] : NULL;
}

void mappings_forget(struct mappings *mappings, uint64_t address, uint64_t size,
		     mappings_test is_to_go, const void *context)
{
	size_t i = first_behind(mappings, address);

	while (i < mappings->n && mappings->items[i]->address < mappings_end_of(address, size)) {
		const struct mapping *item = mappings->items[i];

		if (item->address >= address &&
		    mappings_end_of(item->address, item->size) <= mappings_end_of(address, size) &&
		    is_to_go(context, item))
			replace(mappings, i, 1, NULL);
		else
			i++;
	}
}
