#include "store/site-map.h"

#include <stdlib.h>

#include "common/array.h"

/* Ids that room is made for, for each block that was met. */
#define IDS_OF_BLOCK 64u
#define LEAST_BLOCKS 1024u

void site_map_finish(struct site_map *map)
{
	free(map->sites);
	*map = (struct site_map){ 0 };
}

int site_map_put(struct site_map *map, int64_t id, uint32_t site)
{
	if (!map->sites)
		map->first_id = id;
	uint64_t at = (uint64_t)id - (uint64_t)map->first_id;
	uint64_t limit = (++map->n_met + LEAST_BLOCKS) * IDS_OF_BLOCK;
	if (at >= limit)
		return 0;
	int r = grow_array_to(&map->sites, at, &map->n, sizeof(*map->sites));
	if (r == 0)
		map->sites[at] = site;
	return r;
}
