#pragma once
/* How many touches there are of each colour, while they are counted (table picture_category). */
#include <stddef.h>
#include <stdint.h>

#include "common/hash-map.h"
#include "store/heatmap/heatmap.h"

#define PICTURE_LATENCIES 16 /* 0: not known */
#define PICTURE_NO_LEVEL  0 /* number of the level that is not told */

/*
 * The number of a latency in cycles: 1 is below 16, then one for each power of two, to 2^17 and
 * more.
 */
unsigned picture_latency(int64_t cycles);

struct picture_counts {
	struct picture_count {
		int64_t item_id;
		uint64_t n;
	} * items;
	size_t n;
	size_t n_allocated;
	struct key_map numbers; /* of item_id: 1 + place in items */
	uint32_t few[64]; /* likewise, of those below 64; 0: not known yet */
};

struct picture_categories {
	struct picture_counts counts[PICTURE_BY_COUNT];
};

void picture_categories_finish(struct picture_categories *categories);

/* Count a touch of an item of a colour. Returns 0 or -ENOMEM. */
int picture_categories_add(struct picture_categories *categories, enum picture_by by,
			   int64_t item_id);

extern const char *const picture_colours[PICTURE_BY_COUNT];

/*
 * Most first, at most PICTURE_MAX_CATEGORIES with "all others" as the last. level_names: by number.
 */
struct picture_category_rows {
	struct db *db;
	int64_t run_id;
	int64_t process_id;
	char *const *level_names;
};
int picture_categories_write(struct picture_categories *categories,
			     const struct picture_category_rows *rows);
