#pragma once
/* What pictures of one database are made from; shared by the files of the engine (picture.h). */
#include <errno.h>

#include "store/heatmap/heatmap.h"
#include "store/heatmap/parts.h"

struct chunk_decoder;
struct chunk_head;
struct scan;

/* Touches as picture_part tells of them, or a frame of blocks, on the axes of a picture. */
struct picture_part {
	int64_t id; /* of touches */
	const struct chunk_head *chunk; /* of blocks: whose frame they are, and which; else NULL */
	uint32_t frame;
	uint32_t n;
	enum picture_kind kind;
	uint64_t from; /* picture_time() of the first item */
	uint64_t to; /* behind the last one */
	uint64_t low; /* place of the lowest byte */
	uint64_t high; /* behind the last one */
	uint64_t max_size; /* of blocks */
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
	const struct picture_part *stored; /* of touches, with addresses for places */
	size_t n_stored;
	struct picture_part *parts; /* of touches and blocks; read with the bands */
	size_t n_parts;
	struct scan *blocks;
	bool has_grid;
};

struct picture_store {
	sqlite3 *db;
	sqlite3 *rows; /* the database that has the rows */
	struct picture_process *processes;
	size_t n_processes;
	size_t n_processes_allocated;
	struct picture_part *parts; /* of touches, by process */
	size_t n_parts;
	size_t n_parts_allocated;
	size_t filled; /* the process whose parts are being read */
	sqlite3_stmt *fetch;
	struct chunk_decoder *decoder;
	struct picture_columns columns; /* of the piece that was fetched last */
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
	unsigned n; /* pieces that were read: 0 before the first */
	/* Blocks that cannot meet these places may be left out; NULL: none are. */
	const struct picture_request *within;
};

/*
 * Read the next piece of a part into store->columns. Returns 1, 0: there is none any more, -ENOMEM
 * or -EPROTO.
 */
int picture_store_next(struct picture_store *store, const struct picture_process *process,
		       const struct picture_part *part, struct picture_look *look);

/* For how many each item stands. */
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
