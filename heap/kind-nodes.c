#include "heap/kind-nodes.h"

#include <errno.h>
#include <memkind.h>
#include <numaif.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "schemas/recording.h"

#define TRY_BYTES (UINT64_C(4) << 20) /* more than memkind keeps ready: it maps and binds it anew */

#ifndef MPOL_PREFERRED_MANY
#define MPOL_PREFERRED_MANY 5 /* Linux 5.15 */
#endif

static const struct {
	const char *name;
	memkind_t *memkind; /* NULL: no nodes */
	bool is_preferred;
	const char *missing;
} kinds[] = {
	{ "default", NULL, false, NULL },
	{ "hbw", &MEMKIND_HBW_ALL, false,
	  "no node of high-bandwidth memory: memkind finds none "
	  "(the firmware's HMAT names no faster "
	  "node; MEMKIND_HBW_NODES may)" },
	{ "hbw-preferred", &MEMKIND_HBW_ALL, true,
	  "no node of high-bandwidth memory: memkind finds none "
	  "(the firmware's HMAT names no faster "
	  "node; MEMKIND_HBW_NODES may)" },
	{ "kmem", &MEMKIND_DAX_KMEM_ALL, false,
	  "no node of persistent or CXL memory: memkind finds none (daxctl reconfigure-device "
	  "--mode=system-ram makes one; MEMKIND_DAX_KMEM_NODES may name one)" },
	{ "highest-capacity", &MEMKIND_HIGHEST_CAPACITY, false,
	  "no node of highest capacity: memkind cannot compare the nodes" },
	{ "lowest-latency", &MEMKIND_LOWEST_LATENCY_LOCAL, false,
	  "no node of lowest latency: memkind cannot compare the "
	  "nodes (the firmware's HMAT has no "
	  "latencies)" },
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

const char *kind_nodes_names(void)
{
	return "default, hbw, hbw-preferred, kmem, highest-capacity, lowest-latency, pmem:DIR,SIZE";
}

/* Add the nodes to which memkind binds what it maps on this CPU. */
static bool add_nodes(memkind_t memkind, struct kind_nodes *found)
{
	uint64_t mask[RECORDING_MAX_NODES / 64] = { 0 };
	char *block = memkind_malloc(memkind, TRY_BYTES);
	int mode = 0;

	if (!block)
		return false;
	bool ok = get_mempolicy(&mode, (unsigned long *)mask, RECORDING_MAX_NODES, block,
				MPOL_F_ADDR) == 0;
	for (unsigned i = 0; ok && i < RECORDING_MAX_NODES && i < found->nodes->size; i++) {
		if (mask[i / 64] >> i % 64 & 1)
			numa_bitmask_setbit(found->nodes, i);
	}
	found->mode = mode;
	memkind_free(memkind, block);
	return ok;
}

/* Some kinds depend on the CPU: ask on each node that has some. */
static bool add_all_nodes(memkind_t memkind, struct kind_nodes *found)
{
	bool any = false;

	for (int node = 0; node <= numa_max_node(); node++) {
		if (numa_run_on_node(node) == 0)
			any |= add_nodes(memkind, found);
	}
	numa_run_on_node(-1);
	return any && found->mode != MPOL_DEFAULT && numa_bitmask_weight(found->nodes) > 0;
}

static uint64_t bytes_of(const struct bitmask *nodes)
{
	uint64_t sum = 0;

	for (int node = 0; node <= numa_max_node(); node++) {
		long long bytes = numa_node_size64(node, NULL);

		if (bytes > 0 && (!nodes || numa_bitmask_isbitset(nodes, (unsigned)node)))
			sum += (uint64_t)bytes;
	}
	return sum;
}

int kind_nodes_find(const char *name, struct kind_nodes *ret_found, char *why, size_t why_bytes)
{
	struct kind_nodes found = { 0 };
	size_t i = 0;

	while (i < N_KINDS && strcmp(kinds[i].name, name) != 0)
		i++;
	if (i == N_KINDS) {
		snprintf(why, why_bytes, "'%s' is no kind of memory; there are %s", name,
			 kind_nodes_names());
		return -ENOENT;
	}
	if (kinds[i].memkind) {
		found.nodes = numa_allocate_nodemask();
		if (memkind_check_available(*kinds[i].memkind) != 0 || !found.nodes ||
		    !add_all_nodes(*kinds[i].memkind, &found)) {
			snprintf(why, why_bytes, "%s", kinds[i].missing);
			return -ENODEV;
		}
		if (kinds[i].is_preferred)
			found.mode = numa_bitmask_weight(found.nodes) > 1 ? MPOL_PREFERRED_MANY
									  : MPOL_PREFERRED;
	}
	found.bytes = bytes_of(found.nodes);
	*ret_found = found;
	return 0;
}
