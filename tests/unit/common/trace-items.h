#pragma once
/*
 * Helpers for tests of trace files: files with given bytes, and a whole trace as a list of items.
 */
#include <stddef.h>
#include <stdint.h>

#include "trace/reader.h"
#include "trace/writer.h"

/* An item that was read, or that must be read: what it held, by a hash. */
struct trace_kept {
	enum trace_frame_type type;
	uint32_t stream_id;
	size_t n;
	uint64_t hash; /* of all decoded bytes */
};

struct trace_items {
	struct trace_kept *kept;
	size_t n;
	int result; /* of the open or of the last next: 0 at the end */
	struct trace_damage damage;
};

/* A path for a temporary file; at least 256 bytes. Made unique by pid and name. */
void trace_temporary_path(char *path, const char *name);

/* Create an empty file there for a writer; fails the test if that does not work. */
int trace_create(const char *path);

/* A writer on such a file. */
struct trace_writer *trace_create_writer(const char *path);

/* Replace the file's contents. */
void trace_put_file(const char *path, const void *bytes, size_t n_bytes);

/* The whole file in memory of exactly its size; the caller frees. */
uint8_t *trace_get_file(const char *path, size_t *ret_bytes);

/* The decoded bytes of an item. */
const void *trace_item_bytes(const struct trace_item *item, size_t *ret_bytes);

/* Read a trace to its end. trace_items_finish() frees. */
struct trace_items trace_read_items(const char *path);
void trace_items_finish(struct trace_items *items);

/* The same of one that grows: trace_reader_grows(). */
struct trace_items trace_read_growing(const char *path,
				      int64_t (*wait)(void *context, uint64_t n_bytes),
				      void *context);

/* Are these the same items? */
int trace_kept_equal(const struct trace_kept *a, const struct trace_kept *b);

/*
 * Write a small trace with every type of frame and record, in two segments, cleanly ended. The
 * same seed gives the same bytes.
 */
void trace_write_sample(const char *path, uint64_t seed);
