#pragma once
/*
 * The aggregates of a run, kept while its rows pass: per call site, in all, and over time. Equal to
 * what SQL says about the rows. Times are ns since the run's start.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/block-weight.h"
#include "store/totals/clock-check.h"
#include "store/totals/ends.h"
#include "store/totals/keyed.h"
#include "store/totals/share-sum.h"
#include "store/totals/shared-lines.h"
#include "store/totals/timeline.h"
#include "store/totals/unresolved.h"

struct db;

/* One call site: all blocks allocated from one stack. */
struct tally_site {
	int64_t stack_id; /* 0: no stack recorded */
	uint64_t live_bytes; /* now */
	double n_live; /* blocks, now; not whole where blocks were picked */
	double live_variance; /* of live_bytes: block-weight.h */
	uint64_t kept_bytes; /* live at the peak number `kept` of the run, ... */
	double kept_blocks;
	double kept_variance;
	uint64_t kept; /* ... unless a later one found it unchanged */
	uint64_t peak_bytes;
	int64_t peak_ns;
	uint64_t n_faults;
	int64_t first_touch_ns; /* INT64_MAX: none */
	int64_t last_touch_ns;
	struct owner_shares shares;
};

/* Sums of the run; names in tally.c become names of the table `total`. */
struct tally_total {
	uint64_t peak_bytes;
	double peak_variance;
	int64_t peak_ns;
	uint64_t reallocations;
	uint64_t missed_frees; /* an allocation on a live block implied its free */
	uint64_t early_frees; /* stamped before the allocation of their block, and put right */
	uint64_t mismatched_frees; /* by another family of functions: new and free */
	uint64_t before_trace_frees; /* of blocks that nobody saw being born */
	uint64_t unrecorded_frees; /* of blocks below --min-size, or born while withheld */
	uint64_t below_min; /* blocks below --min-size: counted, not recorded */
	uint64_t sizeless_names; /* names of memory whose size is not known */
	uint64_t inherited_frees; /* a forked child frees its copy of the parent's block */
	uint64_t events;
	uint64_t samples;
	uint64_t faults;
	uint64_t mappings;
	uint64_t mapped_bytes;
	uint64_t marks;
};

/* Kinds of owners in kind_share; 0: nobody. */
#define TALLY_KINDS 16u

/* The sample whose touches come in, and what each thread's sample before had. */
struct tally_part;
struct tally_neighbour;
struct tally_turn;
struct tally_sample {
	int64_t sample; /* 0: none */
	int64_t thread_row;
	double weight;
	struct tally_part *parts;
	size_t n;
	size_t n_allocated;
	struct key_map threads; /* by row: index + 1 */
	struct tally_neighbour *neighbours;
	size_t n_neighbours;
	size_t n_neighbours_allocated;
	struct tally_turn *turns; /* TALLY_TURNS, the last used first; NULL: none yet */
};

struct tally {
	struct tally_site *sites;
	size_t n_sites;
	size_t n_sites_allocated;
	uint32_t *site_of_stack; /* by stack.id; 0: none yet */
	size_t n_stacks;
	struct tally_total total;
	uint64_t live_bytes; /* now, of all processes */
	double live_variance;
	uint64_t n_peaks; /* how often live_bytes was higher than ever before */
	struct timeline timeline;
	struct tally_ends ends; /* may belong to another thread until the last block has ended */
	struct thread_totals threads; /* what samples say of them */
	struct object_totals objects;
	struct shared_lines lines;
	struct access_totals accesses;
	struct access_totals fault_nodes; /* data_src: the node */
	struct stack_totals stacks; /* of samples: their owner adds to it */
	struct unresolved_shares unresolved;
	struct tally_sample current;
	struct share_design design; /* of all samples of CPU time */
	struct owner_shares kinds[TALLY_KINDS];
	double anybody[SHARE_COUNT]; /* time that evidence gives to nobody */
	double unsampled; /* tally_unsampled(), while it is written */
	struct alignment alignment;
	uint8_t has_no_lines; /* they are counted by themselves */
	uint8_t has_no_timeline; /* none is written */
};

/* first_thread: no thread has a row below it. Returns 0 or -ENOMEM. */
int tally_init(struct tally *tally, int64_t first_thread);
void tally_finish(struct tally *tally);

/* The number of a stack's site, made when it is new. Returns 0 or -ENOMEM. */
int tally_site(struct tally *tally, int64_t stack_id, uint32_t *ret_site);

/*
 * What is live, in order of time: a block was allocated; it is live no more, since it was freed or
 * since its process ended. What else is known of it counts once, by tally_ends_born().
 */
void tally_allocation(struct tally *tally, uint32_t site, const struct block_weight *weight,
		      int64_t time_ns);
void tally_free(struct tally *tally, uint32_t site, const struct block_weight *weight,
		int64_t time_ns, bool is_freed);

/*
 * The same for a block that lies in another one, of the site `within`: the bytes are that one's
 * again when it ends. In all nothing more is live, and nothing less.
 */
void tally_allocation_within(struct tally *tally, uint32_t site, uint32_t within,
			     const struct block_weight *weight, int64_t time_ns);
void tally_free_within(struct tally *tally, uint32_t site, uint32_t within,
		       const struct block_weight *weight, int64_t time_ns);

/*
 * A block lives from before the time that is looked at: it is live from its begin on, and else
 * counts nowhere. Those come first.
 */
void tally_carry(struct tally *tally, uint32_t site, const struct block_weight *weight);

/*
 * All blocks that ended by a time have done so: what is live then has been so until then, for the
 * sums that tally_ends_end() adds up.
 */
void tally_settle_live(struct tally *tally, int64_t time_ns);

/*
 * What is live is so no more: a run ends and others follow, or what comes is known otherwise. Then
 * blocks that are still there return, and make no peak by that.
 */
void tally_leave(struct tally *tally);
void tally_return(struct tally *tally, uint32_t site, const struct block_weight *weight);

/*
 * Who is live at the run's peak, without a look at every site whenever the peak rises: a site that
 * changes keeps what it had at the last peak, one that does not still has it. Before it changes.
 */
void tally_keep_peak(const struct tally *tally, struct tally_site *site);

/*
 * Touches of any owner: each into the sums that it belongs to. Those of one sample must follow each
 * other, and are added when the next one begins. Returns 0 or -ENOMEM.
 */
struct touch;
int tally_any_touch(struct tally *tally, const struct touch *touch);

/*
 * What tally_any_touch() does for lines, unless the tally has_no_lines; in order of time. Returns 0
 * or -ENOMEM.
 */
int tally_line(struct tally *tally, const struct touch *touch);

/*
 * Add the sample whose touches came last, and the turns so far; tally_write() does. Returns 0 or
 * -ENOMEM.
 */
int tally_settle(struct tally *tally);

/* Free what tally_settle() keeps. */
void tally_sample_finish(struct tally_sample *sample);

/* A sample was taken. */
struct sample_event;
void tally_sample(struct tally *tally, const struct sample_event *taken);

/*
 * Conclude whose the shares are that a run left unresolved, by the database's instruction_owner.
 * Before tally_write(), for each run. 0 or a negative errno.
 */
int tally_impute(struct tally *tally, struct db *db, int64_t run_id);

/* The part of the run's CPU time that no sample stands for, 0 to 1. */
double tally_unsampled(struct db *db, int64_t run_id);

/* The shares of an owner as the database names it; NULL: it has none. */
struct owner_shares *tally_shares_of(const struct tally *tally, const struct owner_name *owner);

/* Share, low and high of an owner's time, and of its stalls; NaN for what is not told. */
#define TALLY_ANSWERS 6
void tally_answers(const struct tally *tally, const struct owner_shares *shares,
		   double ret_answers[TALLY_ANSWERS]);

/* Write site, total, timeline and the other aggregates. Returns 0 or a negative errno. */
int tally_write(struct tally *tally, struct db *db, int64_t run_id);
