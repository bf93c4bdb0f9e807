#pragma once
/*
 * A picture of time x address (picture.h) as a person asks for it: by pid, name of a source, and
 * addresses; with its ticks, and with the notes that say what its cells are. For the terminal and
 * for plots.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/heatmap/heatmap.h"

struct heat_request {
	int64_t run_id;
	int64_t pid; /* 0: the process with most blocks and touches */
	const char *source; /* name of the only one; NULL: all */
	int64_t from_ns; /* since the run's start */
	int64_t to_ns; /* not included; INT64_MAX: the end */
	uint64_t low; /* addresses; high 0: all */
	uint64_t high; /* not included */
	unsigned width; /* cells */
	unsigned height;
	int64_t time_unit_ns; /* the size of a cell instead of their number; 0: not given */
	unsigned block_bits; /* a cell is 2^N bytes high; 0: not given */
};

struct db;

struct heat {
	struct picture_store *store;
	struct picture *picture;
	struct picture_pages pages;
	const struct picture_band *bands; /* of the store */
	size_t n_bands;
	uint32_t most; /* touches of the fullest cell */
	int64_t pid;
	int64_t n_processes; /* images that the run has */
	char program[48]; /* name of its file */
	double cell_ns; /* what a cell is */
	double cell_bytes;
	unsigned wanted_width; /* where heat_make() returned -E2BIG */
	unsigned wanted_height;
};

/*
 * Returns 0; -ENODATA: nothing was stored to draw from; -ENOENT: the run has nothing to draw there;
 * -ESRCH: no process of it has the pid; -ENXIO: no source of it has the name; -EADDRNOTAVAIL:
 * nothing lay at the addresses; -E2BIG: more than PICTURE_MAX_CELLS of that size; -ERANGE: the time
 * begins behind the end of the run; -ENOMEM; -EPROTO. To be finished in each case.
 */
int heat_make(sqlite3 *db, const struct heat_request *request, struct heat *heat);
void heat_finish(struct heat *heat); /* accepts a zeroed one */

/* What pages say of a cell that no sampled touch met: an enum picture_page_layer, or -1. */
int heat_page_layer(const struct heat *heat, size_t cell);

/* Is anything known of pages? */
static inline bool heat_has_pages(const struct heat *heat)
{
	return heat->pages.shares[0] != NULL;
}

#define auto_heat __attribute__((cleanup(heat_finish)))

/* Where something on the axis of addresses is told: a band's begin, or a round distance from it. */
struct heat_tick {
	uint64_t y; /* on the squeezed axis */
	bool is_band;
	char text[32]; /* "7f30c2a01000", or "+4 MiB" */
	char name[40]; /* of a band: "heap", "libc.so.6" */
};

#define HEAT_MAX_TICKS 128

/*
 * Ticks with at least `gap` bytes of the axis between them, the lowest first. Returns how many, or
 * -ENOMEM.
 */
int heat_ticks(const struct heat *heat, uint64_t gap, struct heat_tick ticks[HEAT_MAX_TICKS]);

/*
 * What the picture shows, as lines: unit, source and n; what a cell is; what of it was lost or left
 * out. The last kind is in *ret_losses, too (to be said on standard error); both are to be freed,
 * "" when there is nothing. Returns 0, -ENOMEM or -EPROTO.
 */
int heat_notes(sqlite3 *db, const struct heat *heat, char **ret_notes, char **ret_losses);
