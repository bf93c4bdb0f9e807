#pragma once
/* Lists of nodes and CPUs as numactl takes them, read by libnuma: ranges, "!", "+", "all". */
#include <numa.h>
#include <stddef.h>

#define NODE_SET_TEXT_BYTES 8192

/*
 * Read a list of nodes (or of CPUs). It may only name what is there and allowed for this process
 * (its cpuset). Returns the set, to be freed by numa_bitmask_free(), or NULL: then why (why_bytes
 * long) has a few words. Not thread-safe.
 */
struct bitmask *node_set_parse(const char *list, char *why, size_t why_bytes);
struct bitmask *node_set_parse_cpus(const char *list, char *why, size_t why_bytes);

/* The CPUs of the nodes that this process may use. As above. */
struct bitmask *node_set_cpus_of(const struct bitmask *nodes);

/* "0,2,3", or "-" for none. */
void node_set_write(const struct bitmask *set, char text[NODE_SET_TEXT_BYTES]);
