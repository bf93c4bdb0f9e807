#pragma once
/*
 * Which NUMA node the pages lie on that programs have just faulted in: the kernel's samples of page
 * faults do not tell, move_pages(2) does, for pages of any process that we may read, and moves
 * nothing. Faults are gathered while rings are read, and asked for together, some ms after they
 * happened at most: a page that has gone by then, or whose process has, is told of by nobody. One
 * thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "trace/writer.h"

#define PAGE_NODES_MAX 512 /* that are asked for by one call */

/* All zero: off, everything does nothing. */
struct page_nodes {
	struct trace_writer *writer; /* NULL: off */
	uint32_t pid; /* of those gathered */
	size_t n;
	struct trace_page_node items[PAGE_NODES_MAX];
	uint64_t n_told; /* so far */
	uint64_t n_gone;
};

/*
 * A page fault, as perf tells of it: at time_ns of its clock, at any address of the page. Returns 0
 * or the writer's negative errno.
 */
int page_nodes_add(struct page_nodes *nodes, uint32_t pid, uint64_t time_ns, uint64_t address);

/* Ask for those gathered, and write them: before the commit of their samples. Returns as above. */
int page_nodes_flush(struct page_nodes *nodes);
