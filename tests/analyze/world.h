#pragma once
/*
 * Random programs and what a database must say about them. Everything happens one step after the
 * other at growing times; the world writes the trace of it and keeps the expected rows in plain
 * arrays. Blocks, threads and processes are searched from end to end: slow and plainly right.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/analyze/trace-maker.h"

enum world_mode {
	WORLD_CLEAN, /* every event is recorded, in order */
	WORLD_SKEWED, /* frees are stamped up to 5 us late, behind the next birth there */
	WORLD_EARLY, /* frees are stamped up to 5 us early, before the birth of their block */
	WORLD_LOSSY, /* events are missing */
	WORLD_MODE_COUNT
};

#define WORLD_MAX_ROWS	    4000
#define WORLD_MAX_THREADS   24
#define WORLD_MAX_PROCESSES 8
#define WORLD_PAGES	    48

/* An expected row of `allocation`. */
struct world_block {
	uint32_t process;
	uint32_t thread;
	uint64_t address;
	uint64_t size;
	int64_t birth_ns;
	int64_t death_ns; /* -1: NULL */
	uint32_t death_thread; /* 0: NULL */
	uint8_t call;
	uint8_t death;
	int previous; /* index of a row; -1: NULL */
	bool is_temporary;
};

/* An expected row of `mapping`. */
struct world_mapping {
	uint32_t process;
	uint32_t thread; /* 0: NULL */
	uint64_t address;
	uint64_t size;
	int64_t birth_ns;
	int64_t death_ns;
	int previous;
};

struct world {
	struct world_block blocks[WORLD_MAX_ROWS];
	int n_blocks;
	struct world_mapping mappings[WORLD_MAX_ROWS];
	int n_mappings;
	uint64_t n_events;
	uint64_t n_missed;
	uint64_t n_before_trace;
	uint64_t n_inherited_frees;
	uint64_t n_early;
	int64_t end_ns; /* of the last event */
	int64_t process_end_ns[WORLD_MAX_PROCESSES + 1]; /* by number; -1: lives to the end */
};

/* Make the trace of a random world of about n_steps steps in maker, which is closed. */
void world_make(struct world *world, struct maker *maker, uint64_t seed, enum world_mode mode,
		int n_steps);
