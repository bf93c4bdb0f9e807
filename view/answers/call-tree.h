#pragma once
/*
 * A call tree: values of call sites added up along their call paths, from main inwards or, inverse,
 * from the sites outwards. What a node has is the sum over the sites below it; the whole is the sum
 * over the roots.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/hash-map.h"
#include "report/callgraph/call-paths.h"
#include "report/callgraph/profile.h"

struct flame_node {
	uint32_t parent; /* index; FLAME_ROOT: none */
	uint32_t function; /* of paths.functions; 0: no call path */
	struct profile_sum all;
	struct profile_sum self; /* of sites whose path ends here */
	double most; /* of one site that ends here: */
	int64_t site; /* stack.id; 0: none, or not recorded */
};
#define FLAME_ROOT UINT32_MAX

/* All zero, with paths and is_inverse set, is empty. */
struct flame {
	const struct paths *paths;
	bool is_inverse;
	struct flame_node *nodes; /* parents before their children */
	size_t n_nodes;
	size_t n_allocated;
	struct key_map node_of; /* (parent, function): index + 1 */
	struct profile_sum total;
	double *line_values; /* by function: the most that one site has at lines[] */
	/* by function: of its call, or allocation, with the greatest value; 0: not known */
	int32_t *lines;
};

/* Add the rows of a metric's statement (profile_row()). Returns 0, -ENOMEM or -EPROTO. */
int flame_add(struct flame *flame, sqlite3_stmt *rows);

/*
 * Leave out the nodes with the least values until there are no more than max_nodes. Those that stay
 * keep their values. Returns how many are left out, or -ENOMEM.
 */
int64_t flame_prune(struct flame *flame, size_t max_nodes);

void flame_finish(struct flame *flame);
#define auto_flame __attribute__((cleanup(flame_finish)))
