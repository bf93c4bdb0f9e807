#pragma once
/*
 * What samples that have call stacks of their own are taken in: the table `sample_stack`. All zero
 * is empty. One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "common/hash-map.h"
#include "store/source-measures.h"

struct db;

struct stack_total {
	enum source_measures measures;
	int64_t stack_id;
	uint64_t n;
	int64_t weight;
};

struct stack_totals {
	struct key_map numbers; /* of stack, measures: index + 1 */
	struct stack_total *items;
	size_t n;
	size_t n_allocated;
};

void stack_totals_finish(struct stack_totals *totals);

/* A sample was taken in a call stack; stack_id 0: it has none. Returns 0 or -ENOMEM. */
int stack_totals_add(struct stack_totals *totals, enum source_measures measures, int64_t stack_id,
		     int64_t weight);

/* The sums of a stack; valid until the next call. Returns 0 or -ENOMEM. */
int stack_totals_at(struct stack_totals *totals, enum source_measures measures, int64_t stack_id,
		    struct stack_total **ret_item);

/* Write the rows of a run. Returns 0 or a negative errno. */
int stack_totals_write(const struct stack_totals *totals, struct db *db, int64_t run_id);
