#pragma once
/* What pictures of one database are made from; shared by the files of the engine (picture.h). */
#include <errno.h>

#include "common/hash-map.h"
#include "store/heatmap/heatmap.h"
#include "store/touch.h"

struct chunk_decoder;
struct chunk_head;
struct scan;

enum picture_kind { PICTURE_KIND_TOUCHES, PICTURE_KIND_BLOCKS, PICTURE_KINDS };

/* Columns of a frame as they are read for pictures. */
enum picture_touch_column {
	PICTURE_TOUCH_TIME, /* ns */
	PICTURE_TOUCH_ADDRESS,
	PICTURE_TOUCH_DIRECTION, /* enum picture_direction */
	PICTURE_TOUCH_SOURCE, /* source.id */
	PICTURE_TOUCH_THREAD, /* thread.id; 0: not known */
	PICTURE_TOUCH_LEVEL, /* picture_category.item_id */
	PICTURE_TOUCH_LATENCY, /* number of its category */
	PICTURE_TOUCH_SITE, /* stack.id of the heap block that was touched; 0: none */
	PICTURE_TOUCH_SAMPLE, /* sample.id */
	PICTURE_TOUCH_COLUMNS,
};
enum picture_block_column {
	PICTURE_BLOCK_ALLOCATED,
	PICTURE_BLOCK_ADDRESS,
	PICTURE_BLOCK_SIZE, /* at least 1 */
	PICTURE_BLOCK_LIFE, /* ns; CHUNK_NULL: not freed */
	PICTURE_BLOCK_ID, /* allocation.id */
	PICTURE_BLOCK_SITE, /* stack.id; 0: none */
	PICTURE_BLOCK_COLUMNS,
};
#define PICTURE_COLUMNS 10u /* of either, and the process */

/* Those that were asked for. */
struct picture_columns {
	uint32_t n;
	unsigned wanted; /* bit c: column c */
	int64_t *values[PICTURE_COLUMNS]; /* of CHUNK_FRAME_ROWS */
};

/* A frame of blocks or touches (chunk-store.h) on the axes of a picture. */
struct picture_part {
	const struct chunk_head *chunk;
	uint32_t frame;
	uint32_t n;
	enum picture_kind kind;
	uint64_t from; /* picture_time() of the first item */
	uint64_t to; /* behind the last one */
	uint64_t low; /* place of the lowest byte */
	uint64_t high; /* behind the last one */
	uint64_t max_size;
	uint64_t max_life_ns;
};

/* A process that has a picture. */
struct picture_process {
	int64_t run_id;
	int64_t process_id;
	int64_t from_ns;
	int64_t to_ns;
	int64_t end_ns;
	uint64_t height;
	uint64_t n_blocks;
	uint64_t n_touches;
	struct picture_band *bands; /* NULL: not read yet */
	size_t n_bands;
	struct picture_part *parts; /* of touches and blocks; read with the bands */
	size_t n_parts;
	struct scan *scans[PICTURE_KINDS];
	struct key_map levels; /* of words of data_source: 1 + picture_category.item_id */
	bool has_grid;
};

struct picture_store {
	sqlite3 *db;
	struct picture_process *processes;
	size_t n_processes;
	size_t n_processes_allocated;
	struct chunk_decoder *decoder;
	struct picture_columns columns; /* of the part that was read last */
	struct picture_store *second; /* reads for another thread, and has no processes; NULL */
};

/* Times in the order of unsigned numbers, whatever their sign. */
static inline uint64_t picture_time(int64_t time_ns)
{
	return (uint64_t)time_ns ^ (UINT64_C(1) << 63);
}

static inline int64_t picture_ns(uint64_t time)
{
	return (int64_t)(time ^ (UINT64_C(1) << 63));
}

/* What SQLite tells, for those who are told -ENOMEM or -EPROTO. */
static inline int picture_error(int r)
{
	return r >= 0 || r == -ENOMEM ? r : -EPROTO;
}

/* process_id 0: the one with most to draw. Its bands are read. 0, -ENOENT, -ENOMEM, -EPROTO. */
int picture_store_process(struct picture_store *store, int64_t run_id, int64_t process_id,
			  struct picture_process **ret_process);

/* Make the second one, unless it is there. Returns 0, -ENOMEM or -EPROTO. */
int picture_store_second(struct picture_store *store);

/* What is looked at of a part: one in `stride` items, and which columns (bit c: column c). */
struct picture_look {
	unsigned stride; /* 1, 4, 16 */
	unsigned wanted;
	/* What cannot meet these places may be left out; NULL: nothing is. */
	const struct picture_request *within;
};

/* Read a part into store->columns. Returns 1, 0: it has nothing wanted, -ENOMEM or -EPROTO. */
int picture_store_read(struct picture_store *store, const struct picture_process *process,
		       const struct picture_part *part, const struct picture_look *look);

/* For how many each item stands: of small parts all are looked at. */
#define PICTURE_SMALL_PART 2048u
static inline unsigned picture_weight(const struct picture_part *part, unsigned stride)
{
	return part->n <= PICTURE_SMALL_PART ? 1 : stride;
}

/* Whether a part and a rectangle of a request have anything in common. */
bool picture_part_meets(const struct picture_part *part, const struct picture_request *request);

/* The part of a kind behind one (NULL: the first) that meets it; NULL: none does. */
const struct picture_part *picture_part_next(const struct picture_process *process,
					     const struct picture_part *part,
					     enum picture_kind kind,
					     const struct picture_request *request);

/* The place of an address on the axis; neighbours mostly lie in the same band. */
struct picture_placer {
	const struct picture_process *process;
	const struct picture_band *band;
};
static inline uint64_t picture_placer_at(struct picture_placer *placer, uint64_t address)
{
	const struct picture_band *band = placer->band;
	uint64_t y;

	if (address - band->start < band->end - band->start)
		return band->y + (address - band->start);
	if (!picture_place(placer->process->bands, placer->process->n_bands, address, &y))
		return UINT64_MAX;
	while (y < placer->band->y)
		placer->band--;
	while (y - placer->band->y >= placer->band->end - placer->band->start)
		placer->band++;
	return y;
}
static inline struct picture_placer picture_placer_of(const struct picture_process *process)
{
	return (struct picture_placer){ process, process->bands };
}
