#pragma once
/*
 * Parts of a picture: up to PICTURE_PART_ITEMS touches of a process that lie near each other in
 * time and address, as compressed columns (picture_part and picture_data). Blocks are read from the
 * frames of their rows (store/compact/chunk-store.h), as columns of their own. A large part
 * lies in three pieces, so that one in 16 or one in 4 of its items can be looked at alone; of a
 * small one all lie in the first. The bytes of a piece: of each column a uint32_t with its size,
 * and a column of store/columns/column.h.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PICTURE_PART_ITEMS   16384u
#define PICTURE_SMALL_PART   2048u /* up to so many items: one piece */
#define PICTURE_PIECES	     3u
#define PICTURE_ROWS_OF_PART 4 /* picture_data.id = part * 4 + piece */

enum picture_kind {
	PICTURE_KIND_TOUCHES,
	PICTURE_KIND_BLOCKS,
};

enum picture_touch_column {
	PICTURE_TOUCH_TIME, /* ns */
	PICTURE_TOUCH_ADDRESS,
	/* 0 read, 1 write, 2 not known, 3 page fault, 4 does not count: another touch of it does */
	PICTURE_TOUCH_DIRECTION,
	PICTURE_TOUCH_SOURCE, /* source.id */
	PICTURE_TOUCH_THREAD, /* thread.id; 0: not known */
	PICTURE_TOUCH_LEVEL, /* picture_category.item_id */
	PICTURE_TOUCH_LATENCY, /* number of its category */
	PICTURE_TOUCH_SITE, /* stack.id of the heap block that was touched; 0: none */
	PICTURE_TOUCH_SAMPLE, /* sample.id */
	PICTURE_TOUCH_COLUMNS,
};
#define PICTURE_TOUCH_UNKNOWN  2
#define PICTURE_TOUCH_FAULT    3
#define PICTURE_TOUCH_NO_COUNT 4
enum picture_block_column {
	PICTURE_BLOCK_ALLOCATED,
	PICTURE_BLOCK_ADDRESS,
	PICTURE_BLOCK_SIZE, /* at least 1 */
	PICTURE_BLOCK_LIFE, /* ns; CHUNK_NULL: not freed */
	PICTURE_BLOCK_ID, /* allocation.id */
	PICTURE_BLOCK_SITE, /* stack.id; 0: none */
	PICTURE_BLOCK_COLUMNS,
};
#define PICTURE_COLUMNS 9u

struct picture_item {
	int64_t values[PICTURE_COLUMNS];
};

/*
 * Which piece the item at a place of its part lies in: by chance (the place's bits, mixed), so that
 * no pattern of a program's accesses meets a pattern of ours.
 */
static inline unsigned picture_piece_of(uint32_t place, uint32_t n_items)
{
	uint64_t bits = (place + 1) * UINT64_C(0x9e3779b97f4a7c15);

	bits = (bits ^ bits >> 32) * UINT64_C(0xd6e8feb86659fd93);
	bits = (bits ^ bits >> 32) % 16;
	return n_items <= PICTURE_SMALL_PART || bits == 0 ? 0 : bits < 4 ? 1 : 2;
}

/* Compresses pieces; one thread. */
struct picture_packer;
struct picture_packer *picture_packer_open(void); /* NULL without memory */
struct picture_packer *picture_packer_close(struct picture_packer *packer); /* accepts NULL */

/* A piece as it is stored. */
struct picture_bytes {
	const uint8_t *data;
	size_t n;
};

/*
 * Bytes of n touches, in order of time, by their columns; they are the packer's until its next
 * call. 0 or a negative errno.
 */
int picture_pack(struct picture_packer *packer, const int64_t *const *columns, uint32_t n,
		 struct picture_bytes *ret_bytes);

/* Columns of a piece as numbers, those that were asked for. */
struct picture_columns {
	uint32_t n;
	unsigned wanted; /* bit c: column c */
	int64_t *values[PICTURE_COLUMNS]; /* of PICTURE_PART_ITEMS */
};
int picture_columns_init(struct picture_columns *columns); /* 0 or -ENOMEM */
void picture_columns_finish(struct picture_columns *columns);

struct chunk_decoder;

/* Read a column of at most n_max values (CHUNK_NULL: NULL). Returns 0, -EBADMSG or -ENOMEM. */
int picture_unpack_column(struct chunk_decoder *decoder, const struct picture_bytes *bytes,
			  int64_t *to, uint32_t n_max, uint32_t *ret_n);

/* Read the columns that are wanted. Returns 0, -EBADMSG or -ENOMEM. */
int picture_unpack(struct chunk_decoder *decoder, const struct picture_bytes *bytes,
		   struct picture_columns *columns);

/*
 * Touches of a run on their way into parts. They come in order of time, and wait in slabs: one for
 * each process. A full slab is a stretch of time; it is cut by address into parts.
 */
struct db;
struct picture_slabs;

/* Parts go to the tables of db. Returns 0 or a negative errno. */
int picture_slabs_open(struct db *db, int64_t run_id, struct picture_slabs **ret_slabs);
struct picture_slabs *picture_slabs_close(struct picture_slabs *slabs); /* accepts NULL */

/* Add a touch. Returns 0 or a negative errno. */
int picture_slabs_touch(struct picture_slabs *slabs, int64_t process_id,
			const struct picture_item *item);

/* Write all that waits. Returns 0 or a negative errno. */
int picture_slabs_flush(struct picture_slabs *slabs);
