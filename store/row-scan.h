#pragma once
/*
 * All blocks and touches of a run, in the order of their ids, row by row (compact/scan.h).
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct picture_row_block {
	int64_t id;
	int64_t process_id;
	uint64_t address;
	int64_t size;
	int64_t allocated_ns;
	int64_t freed_ns; /* INT64_MAX: not freed */
	int64_t stack_id; /* 0: none */
	int64_t thread_id;
	int64_t killer_id; /* thread that freed it; INT64_MIN: nobody */
	double weight; /* blocks that it stands for: block-weight.h */
};

struct picture_row_sample {
	int64_t id;
	int64_t process_id; /* 0: not known */
	int64_t thread_id; /* 0: not known */
	int64_t source_id;
	int64_t time_ns;
	int64_t weight;
	int64_t stack_id; /* 0: none */
};

struct picture_row_touch {
	struct picture_row_sample sample;
	int64_t data_src; /* 0: the source has none */
	uint64_t address;
	int role;
	int is_write; /* -1: not known */
	int has_address;
	int owner_kind; /* enum owner_kind */
	int64_t owner_id;
	int64_t frame_id; /* 0: not known */
	int64_t size; /* INT64_MIN: not known */
	double share;
	int phase;
	int64_t latency; /* cycles; 0: not known */
	int64_t node; /* of a page fault: that of its page + 1; 0: not known */
	int64_t site_id; /* stack.id of the heap block; 0: none */
	int64_t picture; /* enum picture_direction */
};

typedef int (*picture_visit_block)(void *context, const struct picture_row_block *block);

/* A set of ids: a bit for each from the first one on. */
struct row_ids {
	int64_t first;
	uint64_t *bits;
	size_t n_words;
};

static inline bool row_ids_have(const struct row_ids *ids, int64_t id)
{
	uint64_t at = (uint64_t)id - (uint64_t)ids->first;

	return at / 64 < ids->n_words && ids->bits[at / 64] >> at % 64 & 1;
}

/* Samples in the order of their ids, each before its touches. */
struct picture_touch_visitor {
	/*
	 * Only touches of these; `sample` is NULL then, and the sample's id, stack, phase, size,
	 * node, site and picture are not read. NULL: all. Threads read it, too.
	 */
	const struct row_ids *blocks;
	int (*sample)(void *context, const struct picture_row_sample *sample); /* NULL is fine */
	int (*touch)(void *context, const struct picture_row_touch *touch);
	void *context;
	int64_t from_ns; /* those of other times are left out */
	int64_t to_ns; /* included */
};

/* Returns 0, a negative errno, or what a visitor returned other than 0. */
int picture_scan_blocks(sqlite3 *db, int64_t run_id, picture_visit_block visit, void *context);
int picture_scan_touches(sqlite3 *db, int64_t run_id, const struct picture_touch_visitor *visitor);
