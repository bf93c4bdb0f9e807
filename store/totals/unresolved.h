#pragma once
/*
 * Whose the samples' time is: what was resolved, and what may be concluded about the rest. Shares
 * whose operand could not be resolved are kept by their instruction and by what else their samples
 * accessed, until their owners are concluded (imputation.c).
 */
#include <stddef.h>
#include <stdint.h>

#include "common/hash-map.h"
#include "schemas/trace-format.h"
#include "store/totals/share-sum.h"

/* Of what a share is: of time, or of what was waited for. */
enum share_of { SHARE_TIME, SHARE_STALL, SHARE_COUNT };

/* What an owner is given of shares that were not resolved; weighted as struct share_sum. */
struct imputed {
	double n; /* samples */
	double time; /* the same, weighted: the best guess */
	double least; /* at least, ... */
	double most; /* ... at most, as far as evidence names this owner */
	double time_sq; /* for the interval: what share_sum.time_sq lacks */
};

struct owner_shares {
	struct share_sum of[SHARE_COUNT];
	struct imputed imputed[SHARE_COUNT];
};

/*
 * An owner as the database names it: of the heap the stack.id of its site, else owner_id; kind 0:
 * none.
 */
struct owner_name {
	int64_t kind;
	int64_t id;
};

#define UNRESOLVED_BESIDE 3u

struct unresolved_share {
	int64_t frame; /* 0: not known */
	enum share_of of;
	struct owner_name beside[UNRESOLVED_BESIDE]; /* that the samples access too; else 0 */
	uint64_t n_samples;
	double n; /* sum of shares */
	double time;
	double time_sq; /* with all that is unresolved in the sample */
	double cross[UNRESOLVED_BESIDE]; /* of w^2 x times the share of beside[i] */
};

/* All zero is empty. */
struct unresolved_shares {
	struct key_map numbers; /* of hashes of what names an item: index + 1 */
	struct unresolved_share *items;
	size_t n;
	size_t n_allocated;
};

void unresolved_finish(struct unresolved_shares *shares);

/* Add to the item with the same frame, role and beside. 0 or -ENOMEM. */
int unresolved_add(struct unresolved_shares *shares, const struct unresolved_share *share);

/* An end-to-end answer: low <= high, 0 to 1; share < 0: not identified, anywhere between. */
struct share_answer {
	double share;
	double low;
	double high;
};

/* What may be an owner's beside what is resolved and imputed. */
struct share_doubt {
	double anybody; /* time that evidence gives to nobody */
	const struct share_sum *unknown; /* all that is not resolved, a part of which it may have */
	double unsampled; /* part (0 to 1) of the program's time that no sample stands for */
};

/* The answer for an owner. */
struct share_answer share_answer_of(const struct share_design *design,
				    const struct owner_shares *shares, enum share_of of,
				    const struct share_doubt *doubt);
