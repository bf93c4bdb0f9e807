#pragma once
/* Shares whose operand could not be resolved, by instruction, until their owners are concluded. */
#include <stddef.h>
#include <stdint.h>

#include "analyze/key-map.h"
#include "schemas/trace-format.h"

/* What an owner is given of them. */
struct imputed {
	double n; /* of samples of time */
	double n_stalls; /* of what they waited for */
};

struct unresolved_share {
	int64_t frame;
	enum trace_role role;
	double n;
};

/* All zero is empty. */
struct unresolved_shares {
	struct key_map numbers; /* of (frame, role): index + 1 */
	struct unresolved_share *items;
	size_t n;
	size_t n_allocated;
};

void unresolved_finish(struct unresolved_shares *shares);

/* Add a share of a sample. 0 or -ENOMEM. */
int unresolved_add(struct unresolved_shares *shares, int64_t frame, enum trace_role role, double n);
