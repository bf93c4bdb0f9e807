#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "schemas/recording.h"

/*
 * Say hello to the collector at the socket, first as a file, then as an abstract name, and map the
 * pool that it sends. The file descriptor is closed again. *ret_pool is the mapping, of
 * ret_welcome->pool_bytes. 0 or a negative errno, within the
 * times of schemas/recording.h. Raw system calls only.
 */
int ta_attach_socket(const char *path, uint32_t pid, struct recording_welcome *ret_welcome,
		     void **ret_pool);

/*
 * May so much of the program's limit of address space be taken? The pool counts towards it. Where it is
 * tight, the program's own allocations come first: at most a sixteenth is ours. Signal safe.
 */
bool ta_attach_fits_limit(uint64_t pool_bytes);
