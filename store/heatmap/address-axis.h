#pragma once
/*
 * The squeezed axis of addresses: pages that something lay in, joined to ranges over small holes,
 * and cut into bands (table band) by what lies in them.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/axis.h"

struct db;

/* What lies in a range, as bits: where no mapping tells what it is, this does. */
enum picture_holding {
	PICTURE_HOLDS_BLOCKS = 1,
	PICTURE_HOLDS_STACK = 2, /* touches of a thread's stack */
	PICTURE_HOLDS_TOOL = 4, /* touches of what is memsight's own */
	PICTURE_HOLDS_REST = 8, /* all other touches */
};

/* Pages from start to before end. */
struct picture_range {
	uint64_t start;
	uint64_t end;
	unsigned holds; /* enum picture_holding */
};

/* All ranges of a process, in order and apart, but for what waits to be sorted in. */
struct picture_ranges {
	struct picture_range *items;
	size_t n;
	size_t last; /* of them, the one that was looked at */
	struct picture_range *waiting;
	size_t n_waiting;
	size_t n_allocated;
	/* pages that were added: most things lie where others did; NULL: few so far */
	struct picture_seen {
		uint64_t mark; /* of 64 pages, with what lies there */
		uint64_t pages; /* a bit for each that is in */
	} * seen;
	uint64_t hole; /* bytes: larger ones are left out of the axis */
};

void picture_ranges_init(struct picture_ranges *ranges);
void picture_ranges_finish(struct picture_ranges *ranges);

/* Something lies in size bytes at address (0 counts as 1). Returns 0 or -ENOMEM. */
int picture_ranges_add(struct picture_ranges *ranges, uint64_t address, uint64_t size,
		       enum picture_holding what);

/* All that lies in another one's lies in these, too. Returns 0 or -ENOMEM. */
int picture_ranges_join(struct picture_ranges *to, const struct picture_ranges *from);

/* Sort in what waits, and join ranges until there are few enough for an axis. 0 or -ENOMEM. */
int picture_ranges_settle(struct picture_ranges *ranges);

/* What a run's processes are known to have at which addresses: files, stacks, mappings. */
struct picture_regions;
int picture_regions_open(struct db *db, int64_t run_id,
			 struct picture_regions **ret_regions); /* 0 or a negative errno */
struct picture_regions *picture_regions_close(struct picture_regions *regions); /* accepts NULL */

/*
 * Write the bands of a process, from ranges that were settled. *ret_height: bytes of all. 0 or an
 * errno.
 */
int picture_bands_write(const struct picture_ranges *ranges, const struct picture_regions *regions,
			int64_t process_id, uint64_t *ret_height);
