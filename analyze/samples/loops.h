#pragma once
/*
 * Loops in which samples were taken: their accesses by owner and number, and, where two samples of
 * a thread that follow each other tell it, how often they ran. The tables `loop` and `loop_access`.
 * One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "analyze/samples/instruction-owners.h"
#include "analyze/samples/sample-accesses.h"
#include "common/hash-map.h"
#include "decode/decode.h"
#include "store/totals/share-sum.h"

struct samples;
struct db;

/* Numbers of accesses between two samples, and the time that the later one stands for. */
struct loop_counts {
	uint64_t n; /* pairs of samples */
	double sum;
	double sum_sq;
	double time;
	double time_sq;
	double product; /* of both */
};

struct sample_loop {
	int64_t frame; /* of its lowest instruction */
	uint64_t n_samples;
	int64_t weight;
	double n_instructions; /* sums over samples, of one iteration */
	double n_accesses;
	struct loop_counts counted; /* by registers */
	uint64_t n_refuted;
	struct loop_counts replayed;
	uint64_t n_not_replayed;
	uint64_t n_ambiguous; /* of them, since it could not be told when the replay was there */
};

struct loop_owner {
	uint32_t loop; /* its number */
	uint8_t is_write;
	struct owner owner;
	struct share_total share;
	double replayed; /* accesses */
};

/* The last sample of a thread. */
struct loop_last {
	uint32_t loop; /* number; 0: none */
	double n_accesses; /* of one iteration */
	struct decode_sample sample;
	uint8_t stack[DECODE_STACK_BYTES];
};

/* All zero is empty. */
struct sample_loops {
	struct key_map numbers; /* of frames */
	struct sample_loop *items; /* number - 1 */
	size_t n;
	size_t n_allocated;
	struct key_map owner_numbers; /* of (loop, kind, direction; id or site) */
	struct loop_owner *owners;
	size_t n_owners;
	size_t n_owners_allocated;
	struct loop_last *lasts; /* by number of the thread */
	size_t n_lasts;
	uint64_t n_samples; /* in user code */
	int64_t budget; /* instructions that may still be emulated from sample to sample */
};

void sample_loops_finish(struct sample_loops *loops);

/*
 * The sample at hand (samples->item and ->window): in which loop it is, for item->loop, and what
 * lies between it and the one of its thread before. 0 or a negative errno.
 */
int sample_loops_enter(struct samples *samples, const struct decode_sample *input);

/* What follows of a thread does not follow what was before: samples between were left out. */
void sample_loops_break(struct sample_loops *loops, uint32_t thread);

/* The item's owners are known: add its mix to its loop. 0 or -ENOMEM. */
int sample_loops_mix(struct sample_loops *loops, const struct pending_sample *item);

/* Write the rows. 0 or a negative errno. */
int sample_loops_write(struct sample_loops *loops, struct db *db, int64_t run_id,
		       instruction_stack_of stack_of, void *user);
