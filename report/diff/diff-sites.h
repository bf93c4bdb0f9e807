#pragma once
#include <stdbool.h>
/* For diff.c: the sites of both sides by their names, with sums over the runs. One thread. */
#include "common/hash-map.h"
#include "report/diff/diff.h"

/* What one side has of a site, over its runs; value is that of the metric. */
struct diff_sum {
	double sum;
	double sum_sq;
	double current; /* of the run that is being read */
	/*
	 * Time: samples over all runs (of blocks and bytes n_sq is the variance of their sum,
	 * block-weight.h); half of the sites' intervals, of sampling in squares, of
	 * what is not known as it is.
	 */
	double n;
	double n_sq;
	double half_sq;
	double half_unknown;
	bool has_ends; /* intervals are these, and not those of n samples */
	int64_t stack_id; /* one of its call stacks; -1: the side does not have it */
};

/* A function of both sides by its name. */
struct diff_function {
	char *name; /* owned */
	uint64_t name_hash;
	bool has[2]; /* which sides call it */
	uint32_t was; /* of one of the side after: the one before that it was; 0: itself */
	bool is_other_now; /* of one before: it is the `was` of another */
};

struct diff_step {
	uint32_t function; /* index of diff_sites.functions */
	int32_t line, column; /* 0: not known, or a library's */
};

struct diff_site {
	struct diff_sum sides[2];
	const char *was; /* how a function of its path was called before, of diff_sites; NULL */
	/* Until both sides are paired: */
	double n_blocks, bytes; /* that were asked for, in all runs */
	uint64_t path[2]; /* a hash of its functions, as the pass sees them */
	struct diff_step *steps; /* owned: its calls, outermost first */
	size_t n_steps;
	int32_t *lines; /* owned: of the calls that the pass sees, each followed by its column */
	size_t n_lines;
	int side;
	/*
	 * a hash of the files that it leads through; of other builds lines may have moved
	 */
	uint64_t build;
};

struct diff_sites {
	struct diff_function *functions; /* from 1 */
	size_t n_functions;
	size_t n_functions_allocated;
	struct key_map function_numbers; /* of a hash of file and name: index */
	struct key_map numbers; /* of a hash of side, functions, lines and columns: index + 1 */
	struct diff_site *items;
	size_t n;
	size_t n_allocated;
};

/* Read one side of a request. Returns 0, -ENOMEM or -EPROTO. */
int diff_sites_read(struct diff_sites *sites, const struct diff_request *request, int side);

/*
 * Make one site of what both sides have: of the same functions, in the order of lines and with as
 * little between their lines, or columns of one line, as can be. A line that was added above moves
 * all of them and changes none. What is left of other builds is paired by what a refactoring does:
 * functions that moved to another file, or have another name but the same children
 * (diff_renames_find()), and then functions that only one side has between the same others, as a
 * helper that was extracted. Returns 0 or -ENOMEM.
 */
int diff_sites_pair(struct diff_sites *sites);
void diff_sites_finish(struct diff_sites *sites);

/*
 * Of the sites that only one side has (n of them): set `was` of functions after that are the ones
 * before by another name or in another file. A function that only the one side has is one that only
 * the other has, if half of the call sites through either lead on alike: from the same callers, by
 * the same functions to the same sites, or, where it makes the blocks itself, to as many of the
 * same bytes.
 * Returns 0 or -ENOMEM.
 */
int diff_renames_find(struct diff_sites *sites, const struct diff_site *open, size_t n);
