#include "runner/sampling/page-nodes.h"

#include <sys/syscall.h>
#include <unistd.h>

/* ret_nodes gets the node of each item, < 0 where there is none. */
static void ask(const struct page_nodes *nodes, int *ret_nodes)
{
	void *pages[PAGE_NODES_MAX];

	for (size_t i = 0; i < nodes->n; i++) {
		pages[i] = (void *)(uintptr_t)nodes->items[i].address;
		ret_nodes[i] = -1;
	}
	/*
	 * Without nodes to move to it only tells. What it refuses leaves the answers as they are.
	 */
	(void)!syscall(SYS_move_pages, (long)nodes->pid, nodes->n, pages, NULL, ret_nodes, 0);
}

static int write_told(struct page_nodes *nodes, size_t n_told)
{
	struct trace_page_nodes record = {
		.head.type = TRACE_RECORD_PAGE_NODES,
		.pid = nodes->pid,
	};
	struct trace_string items = trace_bytes(nodes->items, n_told * sizeof(nodes->items[0]));

	return n_told ? trace_writer_add(nodes->writer, &record, items) : 0;
}

int page_nodes_flush(struct page_nodes *nodes)
{
	int found[PAGE_NODES_MAX];
	size_t n_told = 0;

	if (nodes->n == 0)
		return 0;
	ask(nodes, found);
	for (size_t i = 0; i < nodes->n; i++) {
		if (found[i] < 0)
			continue;
		nodes->items[n_told] = nodes->items[i];
		nodes->items[n_told++].node = (uint32_t)found[i];
	}
	nodes->n_told += n_told;
	nodes->n_gone += nodes->n - n_told;
	nodes->n = 0;
	return write_told(nodes, n_told);
}

int page_nodes_add(struct page_nodes *nodes, uint32_t pid, uint64_t time_ns, uint64_t address)
{
	int err = 0;

	if (!nodes->writer)
		return 0;
	if (nodes->n == PAGE_NODES_MAX || (nodes->n > 0 && nodes->pid != pid))
		err = page_nodes_flush(nodes);
	nodes->pid = pid;
	nodes->items[nodes->n++] =
		(struct trace_page_node){ .time_ns = time_ns, .address = address };
	return err;
}
