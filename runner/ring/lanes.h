#pragma once
/*
 * More threads that drain, where one cannot keep up with all that allocate. A round hands each of
 * them whole chains; they take events and nodes, and leave the rest to the thread that drains.
 */
#include <stdint.h>

#include "runner/ring/drain.h"

/* Stop the threads. Accepts NULL. */
void lanes_destroy(struct lanes *lanes);

/*
 * Drain chains that have whole chunks with all lanes, at most max_chunks of them; nothing where one
 * thread is enough. Takes what it gave back off *budget. Returns 32-byte slots. An error of the
 * writer is in drain->own.error, as ever.
 */
int64_t lanes_round(struct drain *drain, uint32_t max_chunks, uint32_t *budget);
