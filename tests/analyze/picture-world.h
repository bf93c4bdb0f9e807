#pragma once
/*
 * Rows of blocks, samples and touches in a database, and the same in plain arrays: what pictures of
 * them must say. Addresses lie in clusters all over the address space, in the kernel's half too.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/database-internal.h"
#include "tests/common/trace-random.h"

struct row_block {
	int64_t id, process, birth_ns,
		end_ns; /* as it counts: of its process where it was not freed */
	int64_t site;
	uint64_t address, size;
	bool is_freed;
};
struct row_touch {
	int64_t sample, process, thread, source, time_ns, level, latency;
	uint64_t address;
	int is_write;
};
struct shape {
	uint64_t seed;
	size_t n_blocks;
	size_t n_touches;
	int64_t duration_ns;
	int n_processes;
};
struct picture_world {
	struct trace_random random;
	struct shape shape;
	sqlite3 *handle;
	struct db db;
	struct row_block *blocks;
	struct row_touch *touches;
};

/* A number below n. */
static inline uint32_t picture_world_below(struct picture_world *world, uint32_t n)
{
	return trace_random_below(&world->random, n);
}

/* The rows go to a database that has the tables; into one in memory. */
struct picture_world *picture_world_make_in(const struct shape *shape, sqlite3 *handle);
struct picture_world *picture_world_make(const struct shape *shape);

/* Free it; with its database. */
void picture_world_free(struct picture_world *world);
void picture_world_end(struct picture_world *world);

/* Run SQL, or prepare it: failures end the test. */
void picture_world_exec(struct picture_world *world, const char *sql);
sqlite3_stmt *picture_world_prepare(struct picture_world *world, const char *sql);
