#pragma once
/*
 * Columns of the rows of one run, in the order of their ids, some ten thousand rows at a time.
 * Chunks are read by their heads: those that cannot have what is asked for are passed over, and
 * the next one is decoded by a thread while the caller looks at the one before.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCAN_COLUMNS 24u /* at most */
#define SCAN_NULL    INT64_MIN

struct scan;

struct scan_query {
	const char *table;
	const char *columns; /* "id, allocated_ns, ..." */
	int64_t run_id;
};

/*
 * Rows that are wanted, as their first columns tell: of a chunk that has none the other columns are
 * not decoded. Also called by the thread that decodes.
 */
struct scan_choice {
	unsigned n_columns; /* of the query's, from its first one on */
	/* Put which of n rows are wanted, ascending, into chosen; returns how many they are. */
	uint32_t (*choose)(const void *context, const int64_t *const *columns, uint32_t n,
			   uint32_t *chosen);
	const void *context; /* must not change while rows are read */
};

/* Chunks that may have rows that fit; others are left out. Rows are for the caller to look at. */
struct scan_bound {
	unsigned column; /* of the query's */
	int64_t low;
	int64_t high;
	bool or_null; /* NULL fits, too */
};

struct scan_rows {
	uint32_t n;
	const int64_t *columns[SCAN_COLUMNS]; /* of REAL columns: the bits; behind the last NULL */
};

/*
 * Scans see a table as it was when they were opened. Returns 0; -EBADMSG: what is stored is
 * damaged; -EINVAL: there is no such column; or another negative errno.
 */
int scan_open(sqlite3 *db, const struct scan_query *query, struct scan **ret_scan);
struct scan *scan_close(struct scan *scan); /* accepts NULL */
#define auto_scan __attribute__((cleanup(scan_cleanup)))
void scan_cleanup(struct scan **scan);

/* Before the first row. The choice is copied. */
void scan_bound(struct scan *scan, const struct scan_bound *bound);
void scan_choose(struct scan *scan, const struct scan_choice *choice);

struct chunk_head;
struct chunk_decoder;

/* Rows of a frame (chunk-store.h), and which of the query's columns. */
struct scan_frame {
	const struct chunk_head *head;
	uint32_t number;
	unsigned wanted; /* bit i: column i */
	const uint32_t *rows; /* only these, ascending; NULL: all */
	uint32_t n_rows; /* of rows */
};

/*
 * Frames instead of rows: the chunks that are left, and values of a frame. The decoder is the
 * caller's. Returns 0, -EBADMSG or another negative errno.
 */
size_t scan_n_chunks(const struct scan *scan);
const struct chunk_head *scan_chunk(const struct scan *scan, size_t i);
int scan_read_frame(struct scan *scan, struct chunk_decoder *decoder,
		    const struct scan_frame *frame, int64_t *const *to);

/* Rows of all that is left, also those that will not be wanted. */
uint64_t scan_n_rows(const struct scan *scan);

/*
 * The next rows, valid until the next call. Returns 1; 0: there are no more; -EBADMSG: they are
 * damaged; or another negative errno.
 */
int scan_next(struct scan *scan, const struct scan_rows **ret_rows);
