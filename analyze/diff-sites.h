#pragma once
/* For diff.c: the sites of both sides by their names, with sums over the runs. One thread. */
#include "analyze/diff.h"
#include "analyze/key-map.h"

/* What one side has of a site, over its runs; value is that of the metric. */
struct diff_sum {
	double sum;
	double sum_sq;
	double current; /* of the run that is being read */
	double n; /* time: samples, over all runs ... */
	double n_sq;
	int64_t stack_id; /* one of its call stacks; -1: the side does not have it */
};

struct diff_site {
	struct diff_sum sides[2];
};

struct diff_sites {
	struct key_map numbers; /* of a hash of names: index + 1 */
	struct diff_site *items;
	size_t n;
	size_t n_allocated;
};

/* Read one side of a request. Returns 0, -ENOMEM or -EPROTO. */
int diff_sites_read(struct diff_sites *sites, const struct diff_request *request, int side);
void diff_sites_finish(struct diff_sites *sites);
