#pragma once
#include <stddef.h>
#include <stdint.h>

/*
 * Add what one record has of a look at pages to what those before it had: bytes is the address of a
 * pointer to n of them, or NULL; TRACE_VARINT_SLACK zeros follow. Returns 0, -EBADMSG where it is
 * more than any look has, or -ENOMEM. intervals.c
 */
int pages_gather(void *bytes, size_t *n, const char *more, size_t n_more);

#define PAGES_NODES 64u /* of NUMA; what lies on others counts for none */

struct memory;

/*
 * Bytes on each node as page_part.node_bytes and others have them; interned. NULL: no memory.
 */
const char *pages_node_text(struct memory *memory, const uint64_t bytes[PAGES_NODES]);
