#pragma once
/*
 * Of each block of a run where it was made, while its touches are read: 4 bytes a block, in a file
 * without a name beside the database, so that many blocks need no memory.
 */
#include <stdint.h>

#include "store/row-scan.h"

struct db;
struct picture_sites;

/* Returns 0 or a negative errno. */
int picture_sites_open(struct db *db, struct picture_sites **ret_sites);
struct picture_sites *picture_sites_close(struct picture_sites *sites); /* accepts NULL */

/* A block, in the order of ids. Returns 0 or a negative errno. */
int picture_sites_add(struct picture_sites *sites, const struct picture_row_block *block);

/* After the last block: make them ready to be asked for. Returns 0 or a negative errno. */
int picture_sites_settle(struct picture_sites *sites);

/*
 * stack.id of the heap block that a touch is of, named ones too; 0: it has none, -1: there is no
 * block.
 */
int64_t picture_sites_of(const struct picture_sites *sites, const struct picture_row_touch *touch);
