#pragma once
/*
 * What was seen of one block, or of all blocks of a call site laid over each other, summed up touch
 * by touch, so that memory does not follow from how many there are. A count n is of sampled
 * accesses (role 0 of touch), page faults (role 3) are counted apart; time is that of CPU time
 * charged (role 1), which is also told by offset, instruction and direction; the heat map has a
 * sample of time at one of its addresses at most, drawn by their shares, and every touch of others.
 */
#include <stddef.h>
#include <stdint.h>

#include "common/hash-map.h"
#include "report/text/json.h"

#define OBJECT_HEAT_WIDTH  96u /* cells of time */
#define OBJECT_HEAT_HEIGHT 48u /* cells of offsets */
#define OBJECT_OFFSETS	   64u
#define OBJECT_MAX_BLOCKS  50u
#define OBJECT_LOG2	   66u /* -2, -1, 0 ... 63 */

struct object_touch {
	int64_t block; /* allocation.id */
	int64_t time_ns;
	int64_t offset; /* in its block; negative: no address */
	int64_t thread; /* 0: not known */
	int64_t frame; /* of the instruction; 0: not known */
	const char *level; /* NULL: not told */
	double time_share_ns; /* of a sample of time; else 0 */
	/* how many touches of the heat map it is, at most 1: of a sample of time its share */
	double part;
	int64_t latency; /* cycles; negative: not told */
	int role;
	int is_write; /* -1: not known */
};

struct object_block {
	int64_t id, address, size, allocated_ns, freed_ns; /* INT64_MAX: not freed */
	uint64_t n; /* touches that count */
};

struct object_thread {
	int64_t id;
	uint64_t n[3]; /* not known, read, written */
	uint64_t n_faults;
	double time_ns[3];
};

struct object_instruction {
	int64_t frame;
	int is_write;
	uint64_t n;
	double time_ns;
};

struct object_level {
	char name[32]; /* "": not told */
	uint64_t n, n_latencies, latency;
};

/* Set from_ns, to_ns and size before the first touch; all else 0. */
struct object_tally {
	int64_t from_ns, to_ns; /* the heat map's axis of time */
	int64_t size; /* bytes of the largest block */
	uint32_t heat[OBJECT_HEAT_WIDTH * OBJECT_HEAT_HEIGHT];
	uint32_t heat_faults[OBJECT_HEAT_WIDTH * OBJECT_HEAT_HEIGHT];
	uint64_t offsets[OBJECT_OFFSETS], written[OBJECT_OFFSETS], faults[OBJECT_OFFSETS];
	double times_ns[OBJECT_OFFSETS];
	uint64_t sizes[OBJECT_LOG2], lives[OBJECT_LOG2];
	struct key_map thread_of, instruction_of, count_of; /* index + 1; block: its count */
	struct object_thread *threads;
	size_t n_threads, n_threads_allocated;
	struct object_instruction *instructions;
	size_t n_instructions, n_instructions_allocated;
	struct object_level levels[16];
	size_t n_levels;
	struct object_block blocks[OBJECT_MAX_BLOCKS]; /* with most touches, then the largest */
	size_t n_blocks;
};

/* Returns 0 or -ENOMEM. Touches come first: blocks are chosen by how many they have. */
int object_tally_touch(struct object_tally *tally, const struct object_touch *touch);
void object_tally_block(struct object_tally *tally, const struct object_block *block);

/* Write heat (json.h), offsets, sizes, lives, levels and blocks as members of the open object. */
void object_tally_write(const struct object_tally *tally, struct json *json, bool is_short);

void object_tally_finish(struct object_tally *tally);
