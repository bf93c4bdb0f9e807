#pragma once
/*
 * Time x address as cells: what the web view, the terminal and plots draw. A picture is asked for a
 * rectangle of time and of the squeezed address axis (table band: addresses with holes left out)
 * and a number of cells, and is answered from what import stored at several levels of detail, so
 * that the cost follows from the cells and not from the number of blocks and samples.
 *
 * A touch is a row of `touch` with an address, of any role; a block lies on the axis for its
 * lifetime.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum picture_by {
	PICTURE_BY_DIRECTION, /* read, write, unknown, page fault */
	PICTURE_BY_THREAD, /* those with most touches, and all others */
	PICTURE_BY_LEVEL, /* data_source.level */
	PICTURE_BY_LATENCY, /* powers of two of cycles */
	PICTURE_BY_SOURCE,
	PICTURE_BY_COUNT
};

#define PICTURE_MAX_CELLS      2048 /* each way */
#define PICTURE_MAX_CATEGORIES 16
#define PICTURE_MAX_POINTS     5000
#define PICTURE_MAX_BLOCKS     4000

struct picture_request {
	int64_t run_id;
	int64_t process_id; /* process.id; 0: the one with most blocks and touches */
	int64_t source_id; /* 0: all */
	enum picture_by by;
	int64_t from_ns; /* to_ns 0: the whole run */
	int64_t to_ns; /* not included */
	uint64_t low; /* bytes on the squeezed axis; high 0: all of it */
	uint64_t high; /* not included */
	unsigned width; /* cells, 1 to PICTURE_MAX_CELLS */
	unsigned height;
	/* cells of a given size: the part may reach beyond what there is, and is not clipped */
	bool is_whole;
};

struct picture_category {
	int64_t id; /* thread.id, source.id ...; -1: all others */
	char name[64];
	uint64_t n; /* touches in the rectangle */
};

struct picture_block {
	int64_t id; /* allocation.id */
	int64_t from_ns;
	int64_t to_ns; /* INT64_MAX: not freed */
	uint64_t y; /* on the squeezed axis */
	uint64_t size;
	int64_t site; /* stack.id; 0: none */
};

struct picture_point {
	int64_t sample; /* sample.id */
	int64_t time_ns;
	uint64_t y;
	int64_t thread; /* thread.id; 0: not known */
	int64_t site; /* of the heap block that was touched; 0: none */
	uint8_t category;
	int8_t is_write; /* -1: not known */
};

/* A range of addresses that something lay in; the axis is all of them, one after the other. */
struct picture_band {
	uint64_t start; /* address */
	uint64_t end;
	uint64_t y; /* where it begins on the axis */
	char kind[16]; /* heap | mapping | global | stack ... */
	char name[112]; /* file or what else it is called; may be "" */
};

struct picture {
	/* as answered: defaults filled in, clipped to what there is */
	struct picture_request request;
	uint64_t n_touches; /* in the rectangle */
	uint64_t n_blocks;
	/* 1, or only one touch in so many was looked at; counts are not scaled up */
	uint32_t stride;
	/* what numbers were counted in, if coarser than the cells asked for, else 0 */
	int64_t cell_ns;
	uint64_t cell_bytes;
	size_t n_categories;
	struct picture_category categories[PICTURE_MAX_CATEGORIES];
	/* width x height cells, row by row, the lowest addresses first */
	uint32_t *counts; /* touches */
	uint8_t *category; /* the one with most touches of the cell */
	uint8_t *occupancy; /* 255: all of the cell's bytes x time lay in blocks; 0: none */
	size_t n_drawn_blocks; /* at least two cells wide and one high, the largest first */
	struct picture_block *blocks;
	size_t n_points; /* all touches, when there are at most PICTURE_MAX_POINTS; else 0 */
	struct picture_point *points;
};

/*
 * What pictures of one database are made from, read once. One thread at a time; a large picture is
 * made by two, which both read: db must be serialized (SQLite is, unless asked otherwise).
 */
struct picture_store;

/*
 * db stays the caller's and must outlive the store. Returns 0, -ENODATA when no run has anything to
 * draw, -ENOMEM, -EPROTO (sqlite3_errmsg() tells).
 */
int picture_store_open(sqlite3 *db, struct picture_store **ret_store);
struct picture_store *picture_store_close(struct picture_store *store); /* accepts NULL */

static inline void picture_store_cleanup(struct picture_store **store)
{
	*store = picture_store_close(*store);
}
#define auto_picture_store __attribute__((cleanup(picture_store_cleanup)))

/*
 * The bands of a process, lowest first; owned by the store. Returns 0, -ENOENT when there are none,
 * -ENOMEM, -EPROTO.
 */
int picture_bands(struct picture_store *store, int64_t run_id, int64_t process_id,
		  const struct picture_band **ret_bands, size_t *ret_n);

/* An address on the axis and back; false where nothing lies. */
bool picture_place(const struct picture_band *bands, size_t n, uint64_t address, uint64_t *ret_y);
bool picture_address(const struct picture_band *bands, size_t n, uint64_t y, uint64_t *ret_address);

/*
 * Answer a request. *ret_picture is freed with picture_free(). Returns 0, -EINVAL for a request out
 * of range, -ENOENT for a run or process that has nothing to draw, -ENOMEM, -EPROTO.
 */
int picture_make(struct picture_store *store, const struct picture_request *request,
		 struct picture **ret_picture);
struct picture *picture_free(struct picture *picture); /* accepts NULL, returns NULL */

/* What --source pages knows of cells, page by page and exactly. */
enum picture_page_layer {
	PICTURE_PAGES_WRITTEN, /* in each interval there */
	PICTURE_PAGES_TOUCHED, /* of mappings of which all pages were touched in each interval */
	PICTURE_PAGES_UNTOUCHED, /* of mappings of which no resident page was */
	PICTURE_PAGE_LAYERS
};

struct picture_pages {
	/* as occupancy: of the cell's bytes x time; NULL: nothing is known */
	uint8_t *shares[PICTURE_PAGE_LAYERS];
};

/*
 * Read what is known of a picture's part, which the store has made of db. To be finished when 0 is
 * returned; -ENOMEM, -EPROTO.
 */
int picture_pages_read(sqlite3 *db, struct picture_store *store, const struct picture *picture,
		       struct picture_pages *ret_pages);
void picture_pages_finish(struct picture_pages *pages); /* accepts a zeroed one */

/*
 * What pictures of a run are made from, from blocks and touches that are told while they are
 * imported. NULL without memory.
 */
struct db;
struct picture_build;
struct picture_row_block;
struct tally;
struct touch;
struct picture_build *picture_build_open(void);
struct picture_build *picture_build_close(struct picture_build *build); /* accepts NULL */

/*
 * A block is born; it ended (freed_ns INT64_MAX: nobody freed it). In the order of time, and ends
 * before what is born at the same moment with a higher id. stack_id is the number of its site:
 * picture_build_name() makes them stack ids, when all blocks were told. Return 0 or -ENOMEM.
 */
int picture_build_born(void *build, const struct picture_row_block *block);
int picture_build_ended(void *build, const struct picture_row_block *block);
int picture_build_name(struct picture_build *build, const struct tally *tally);

/* A touch, in the order of rows; another thread may tell of blocks meanwhile. 0 or -ENOMEM. */
int picture_build_touched(struct picture_build *build, const struct touch *touch);

/*
 * Store it once, behind the rows of the run and in their transaction. A run with totals only gets
 * none. Blocks are read where not all were told. Returns 0 or a negative errno.
 */
int picture_build_write(struct picture_build *build, struct db *db, int64_t run_id);
