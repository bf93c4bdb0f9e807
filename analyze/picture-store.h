#pragma once
/* What pictures of one database are made from; shared by the files of the engine (picture.h). */
#include "analyze/picture.h"

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
};

struct picture_store {
	sqlite3 *db;
	struct picture_process *processes;
	size_t n_processes;
	size_t n_allocated;
};

/* Times in the order of unsigned numbers, whatever their sign. */
static inline uint64_t picture_time(int64_t time_ns)
{
	return (uint64_t)time_ns ^ (UINT64_C(1) << 63);
}

/* process_id 0: the one with most to draw. Its bands are read. 0, -ENOENT, -ENOMEM, -EPROTO. */
int picture_store_process(struct picture_store *store, int64_t run_id, int64_t process_id,
			  struct picture_process **ret_process);
