#include "analyze/live/mapping-set.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

void mappings_finish(struct mappings *mappings)
{
	free(mappings->items);
	*mappings = (struct mappings){ 0 };
}

/* Room for n_more items. */
static int reserve(struct mappings *mappings, size_t n_more)
{
	return grow_array_by(&mappings->items, mappings->n, n_more, &mappings->n_allocated,
			     sizeof(*mappings->items));
}

int mappings_fork(struct mappings *child, const struct mappings *parent)
{
	int r = reserve(child, parent->n);
	if (r < 0)
		return r;

	for (size_t i = 0; i < parent->n; i++) {
		child->items[i] = parent->items[i];
		child->items[i].is_inherited = true;
	}
	child->n = parent->n;
	return 0;
}

/* The first item that ends behind address. */
static size_t first_behind(const struct mappings *mappings, uint64_t address)
{
	size_t low = 0;
	size_t high = mappings->n;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct mapping *item = &mappings->items[middle];
		if (mappings_end_of(item->address, item->size) > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* What goes on of a mapping that ended: [start, end) of it. */
static struct mapping piece_of(const struct mapping *whole, uint64_t start, uint64_t end,
			       const struct mappings_change *change)
{
	struct mapping piece = *whole;

	piece.address = start;
	piece.size = end - start;
	piece.allocated_ns = change->now_ns;
	piece.previous_id = whole->id;
	piece.id = (*change->next_id)++;
	piece.is_inherited = false;
	return piece;
}

/* Put n_new items where n_old were, at index at; there is room. */
static void replace(struct mappings *mappings, size_t at, size_t n_old, const struct mapping *items,
		    size_t n_new)
{
	memmove(mappings->items + at + n_new, mappings->items + at + n_old,
		(mappings->n - at - n_old) * sizeof(*items));
	if (n_new > 0)
		memcpy(mappings->items + at, items, n_new * sizeof(*items));
	mappings->n = mappings->n + n_new - n_old;
}

int mappings_remove(struct mappings *mappings, uint64_t address, uint64_t size,
		    const struct mappings_change *change)
{
	uint64_t end = mappings_end_of(address, size);
	size_t first = first_behind(mappings, address);
	size_t last = first;
	struct mapping pieces[2];
	size_t n_pieces = 0;

	int r = reserve(mappings, 1);
	if (r < 0)
		return r;
	for (; last < mappings->n && mappings->items[last].address < end; last++) {
		const struct mapping *item = &mappings->items[last];
		uint64_t item_end = mappings_end_of(item->address, item->size);

		r = change->end(change->context, item);
		if (r < 0)
			return r;
		if (item->address < address)
			pieces[n_pieces++] = piece_of(item, item->address, address, change);
		if (item_end > end)
			pieces[n_pieces++] = piece_of(item, end, item_end, change);
	}
	replace(mappings, first, last - first, pieces, n_pieces);
	return 0;
}

int mappings_insert(struct mappings *mappings, const struct mapping *mapping,
		    const struct mappings_change *change)
{
	if (mapping->size == 0)
		return 0;

	int r = mappings_remove(mappings, mapping->address, mapping->size, change);
	if (r >= 0)
		r = reserve(mappings, 1);
	if (r < 0)
		return r;
	replace(mappings, first_behind(mappings, mapping->address), 0, mapping, 1);
	return 0;
}

int mappings_append(struct mappings *mappings, const struct mapping *mapping)
{
	int r = reserve(mappings, 1);

	if (r == 0)
		mappings->items[mappings->n++] = *mapping;
	return r;
}

const struct mapping *mappings_find(const struct mappings *mappings, uint64_t address)
{
	size_t i = first_behind(mappings, address);

	if (i == mappings->n || mappings->items[i].address > address)
		return NULL;
	return &mappings->items[i];
}

const struct mapping *mappings_next(const struct mappings *mappings, uint64_t address)
{
	size_t i = first_behind(mappings, address);

	return i < mappings->n ? &mappings->items[i] : NULL;
}

void mappings_forget(struct mappings *mappings, uint64_t address, uint64_t size,
		     mappings_test is_to_go, const void *context)
{
	size_t i = first_behind(mappings, address);

	while (i < mappings->n && mappings->items[i].address < mappings_end_of(address, size)) {
		const struct mapping *item = &mappings->items[i];

		if (item->address >= address &&
		    mappings_end_of(item->address, item->size) <= mappings_end_of(address, size) &&
		    is_to_go(context, item))
			replace(mappings, i, 1, NULL, 0);
		else
			i++;
	}
}
