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
	 * Time: samples over all runs; half of the sites' intervals, of sampling in squares, of
	 * what is not known as it is.
	 */
	double n;
	double n_sq;
	double half_sq;
	double half_unknown;
	bool has_ends; /* intervals are these, and not those of n samples */
	int64_t stack_id; /* one of its call stacks; -1: the side does not have it */
};

struct diff_site {
	struct diff_sum sides[2];
	/* Until both sides are paired: */
	uint64_t path[2]; /* a hash of its functions */
	int32_t *lines; /* owned: of each call, outermost first */
	size_t n_lines;
	int side;
	/*
	 * a hash of the files that it leads through; of other builds lines may have moved
	 */
	uint64_t build;
};

struct diff_sites {
	struct key_map numbers; /* of a hash of side, functions and lines: index + 1 */
	struct diff_site *items;
	size_t n;
	size_t n_allocated;
};

/* Read one side of a request. Returns 0, -ENOMEM or -EPROTO. */
int diff_sites_read(struct diff_sites *sites, const struct diff_request *request, int side);

/*
 * Make one site of what both sides have: of the same functions, in the order of lines and with as
 * little between their lines as can be. A line that was added above moves all of them and changes
 * none. Returns 0 or -ENOMEM.
 */
int diff_sites_pair(struct diff_sites *sites);
void diff_sites_finish(struct diff_sites *sites);
