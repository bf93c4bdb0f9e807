#pragma once
/*
 * Where blocks were made, by allocation.id: samples ask for the sites of millions of blocks. 4
 * bytes for each id from the first one on; ids that lie too far apart for that are left out. All
 * zero is an empty map.
 */
#include <stddef.h>
#include <stdint.h>

struct site_map {
	int64_t first_id;
	uint32_t *sites; /* 0: not met */
	size_t n;
	uint64_t n_met;
};

void site_map_finish(struct site_map *map);

/* site: not 0. The first block has the least id. Returns 0 or -ENOMEM. */
int site_map_put(struct site_map *map, int64_t id, uint32_t site);

/* The site of a block; 0: it was not met, or left out. */
static inline uint32_t site_map_get(const struct site_map *map, int64_t id)
{
	uint64_t at = (uint64_t)id - (uint64_t)map->first_id;

	return at < map->n ? map->sites[at] : 0;
}
