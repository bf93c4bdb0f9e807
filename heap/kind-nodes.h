#pragma once
/* The kinds of memory that --heap names, and what memkind finds of them on this host. */
#include <numa.h>
#include <stddef.h>
#include <stdint.h>

struct kind_nodes {
	int mode; /* MPOL_*; 0: no nodes, wherever the process may allocate */
	struct bitmask *nodes; /* NULL with mode 0 */
	uint64_t bytes; /* that they have in all */
};

/*
 * Find the nodes of a kind by allocating from it. Returns 0, -ENOENT: there is no such kind, or
 * -ENODEV: this host has none; why (why_bytes long) says in a sentence what is missing. Not for
 * processes with other tasks: it moves from node to node.
 */
int kind_nodes_find(const char *name, struct kind_nodes *ret_found, char *why, size_t why_bytes);

/* "default, hbw, ..." */
const char *kind_nodes_names(void);
