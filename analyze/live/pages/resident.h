#pragma once
/*
 * Whose the pages of a process are, at a moment at which the recorder looked at them: each resident
 * byte has exactly one owner, so that the parts add up to what was resident.
 *
 * A byte that lies in a live block is its call site's. What is left of a page with live blocks is
 * kept resident by them (`beside`): it is divided among them by their bytes in the page. Pages
 * without a live block are the allocator's (free), a mapping's that the program made, a stack's, a
 * file's, or another mapping's of the process. One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "analyze/live/live-memory.h"
#include "analyze/live/pages/look.h"

/*
 * Rows of page_snapshot and page_part. All zero is none; owned by the memory.
 */
struct residents;
int residents_open(struct db *db, int64_t run_id, struct residents **ret_residents);
struct residents *residents_close(struct residents *residents); /* accepts NULL */

/* An image has ended: write the peak that is kept of it. 0 or a negative errno, as the next one. */
int residents_end(struct memory *memory, uint32_t process);
int residents_flush(struct residents *residents);

/*
 * Divide what was looked at by who lives now, which is at time_ns; look is written over. Of looks
 * for peaks only the last one of an image keeps its parts: it is the highest. Returns 0, -EBADMSG
 * when it is damaged, or another negative errno.
 */
int memory_look(struct memory *memory, uint32_t process, struct pages_look *look, int64_t time_ns,
		int64_t end_ns);
