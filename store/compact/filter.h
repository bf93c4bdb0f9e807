#pragma once
/*
 * Which rows a query wants, as far as chunks and decoded columns can tell: bounds of integer
 * columns. SQLite looks at each row again, so that leaving a bound out costs time only.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/compact/chunk-store.h"

#define CHUNK_FILTERS 8u

/* NULL, or a value from low to high. */
struct chunk_filter {
	unsigned column;
	bool wants_null;
	int64_t low;
	int64_t high;
};

struct chunk_filters {
	struct chunk_filter items[CHUNK_FILTERS];
	unsigned n;
	bool is_empty; /* no row can fit */
};

/* An operator of sqlite3_index_info that can be used. */
bool chunk_filter_takes(unsigned char op);

/* Add a bound `column op value`; what is no integer is left out. */
void chunk_filters_add(struct chunk_filters *filters, unsigned column, unsigned char op,
		       sqlite3_value *value);

/* Whether a chunk may have a row that fits. */
bool chunk_filters_meet(const struct chunk_filters *filters, const struct chunk_head *head);

static inline bool chunk_filter_fits(const struct chunk_filter *filter,
				     const struct chunk_column *column, uint32_t row)
{
	int64_t value;

	if (!chunk_column_get(column, row, &value))
		return filter->wants_null;
	return !filter->wants_null && value >= filter->low && value <= filter->high;
}

/* The first of rows [from, to) of an ascending column whose value is at least `value`. */
uint32_t chunk_column_find(const struct chunk_column *column, uint32_t from, uint32_t to,
			   int64_t value);
