#pragma once
/*
 * Lines of 64 bytes that several threads touch: candidates for false sharing, the table
 * `shared_line`. Keeps at most SHARED_LINES lines; when there are more, those touched least go and are
 * counted. All zero is empty. One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "analyze/key-map.h"

struct db;
struct sample_touch;

#define SHARED_LINE_BYTES 64u
#define SHARED_LINES	  (1u << 19)

struct shared_line {
	uint64_t address;
	int64_t process; /* rows */
	int64_t thread;
	int64_t other_thread; /* 0: none yet */
	int64_t last_thread;
	uint64_t n_touches;
	uint64_t n_writes;
	uint64_t n_changes;
	double time_ns;
	uint64_t bytes;
	uint64_t other_bytes;
	int64_t owner_kind;
	int64_t owner_id;
	int64_t other_kind;
	int64_t other_id;
	int64_t first_ns;
	int64_t last_ns;
};

struct shared_lines {
	struct key_map numbers; /* of (process, address): index + 1 */
	struct shared_line *items;
	size_t n;
	size_t n_allocated;
	uint64_t least; /* touches of the lines that went last */
	uint64_t n_forgotten; /* touches of lines that went */
};

void shared_lines_finish(struct shared_lines *lines);

/* Add a touch of an address that is known, of a thread and process with rows. 0 or -ENOMEM. */
int shared_lines_add(struct shared_lines *lines, const struct sample_touch *touch);

/* Write lines of several threads with a write. Returns 0 or a negative errno. */
int shared_lines_write(const struct shared_lines *lines, struct db *db, int64_t run_id);
