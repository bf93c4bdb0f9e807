#include "heap/node-set.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "schemas/recording.h"

/* What libnuma complains of; it would go to standard error. */
static char complaint[256];

/* libnuma asks its users to replace these. */
void numa_warn(int number, char *format, ...)
{
	va_list arguments;

	(void)number;
	va_start(arguments, format);
	vsnprintf(complaint, sizeof(complaint), format, arguments);
	va_end(arguments);
	complaint[strcspn(complaint, "\n")] = '\0';
}

void numa_error(char *where)
{
	snprintf(complaint, sizeof(complaint), "%s failed", where);
}

/* A complaint of a number that is too high, in words that say what there is instead. */
static void translate(const struct bitmask *all)
{
	char what[16], here[NODE_SET_TEXT_BYTES];
	unsigned number;

	if (sscanf(complaint, "%15s argument %u is out of range", what, &number) != 2)
		return;
	node_set_write(all, here);
	snprintf(complaint, sizeof(complaint), "%s %u is not there (here: %.200s)", what, number,
		 here);
}

static struct bitmask *checked(struct bitmask *set, const char *what, char *why, size_t why_bytes)
{
	translate(*what == 'n' ? numa_all_nodes_ptr : numa_all_cpus_ptr);
	if (set && numa_bitmask_weight(set) > 0)
		return set;
	if (set)
		numa_bitmask_free(set);
	snprintf(why, why_bytes, "%s%s%s", complaint[0] ? complaint : "is no list of ",
		 complaint[0] ? "" : what, complaint[0] ? "" : " (such as 0,2-3, !1, +0 or all)");
	return NULL;
}

struct bitmask *node_set_parse(const char *list, char *why, size_t why_bytes)
{
	complaint[0] = '\0';
	return checked(numa_parse_nodestring(list), "nodes", why, why_bytes);
}

struct bitmask *node_set_parse_cpus(const char *list, char *why, size_t why_bytes)
{
	complaint[0] = '\0';
	return checked(numa_parse_cpustring(list), "CPUs", why, why_bytes);
}

struct bitmask *node_set_cpus_of(const struct bitmask *nodes)
{
	struct bitmask *cpus = numa_allocate_cpumask();
	struct bitmask *of_node = numa_allocate_cpumask();

	for (int node = 0; cpus && of_node && node <= numa_max_node(); node++) {
		if (!numa_bitmask_isbitset(nodes, (unsigned)node) ||
		    numa_node_to_cpus(node, of_node) < 0)
			continue;
		for (unsigned cpu = 0; cpu < of_node->size; cpu++) {
			if (numa_bitmask_isbitset(of_node, cpu) &&
			    numa_bitmask_isbitset(numa_all_cpus_ptr, cpu))
				numa_bitmask_setbit(cpus, cpu);
		}
	}
	if (of_node)
		numa_bitmask_free(of_node);
	return cpus;
}

void node_set_write(const struct bitmask *set, char text[NODE_SET_TEXT_BYTES])
{
	size_t n = 0;

	strcpy(text, "-");
	for (unsigned i = 0; i < set->size && n + 16 < NODE_SET_TEXT_BYTES; i++) {
		if (numa_bitmask_isbitset(set, i))
			n += (size_t)snprintf(text + n, NODE_SET_TEXT_BYTES - n, n ? ",%u" : "%u",
					      i);
	}
}
