#pragma once
/*
 * Who probably made the blocks that were there before an attach: what was in the live blocks when
 * the process was left (TRACE_RECORD_CONTENTS) is brought together with the blocks that are live at
 * the end of the trace, and guess-model.h compares. Written to the tables `probable_site` and
 * `probable_test`, never among what is known. One thread.
 */
#include <stdint.h>

#include "analyze/live/block-tree.h"
#include "analyze/process/processes.h"
#include "schemas/trace-contents.h"

struct db;
struct guesses;

/* NULL without memory. Accepts NULL, returns NULL. */
struct guesses *guesses_create(void);
struct guesses *guesses_destroy(struct guesses *guesses);

/* A part of what was in the blocks of a process. 0 or a negative errno; -EBADMSG: damaged. */
int guesses_add(struct guesses *guesses, const struct trace_contents *contents);

/* A block of an image that is live at its end, with its row of `stack` (0: none). */
void guesses_note(struct guesses *guesses, uint32_t process, const struct heap_block *block,
		  int64_t stack_id);

/* When the rows of `stack` are there. 0 or a negative errno. */
int guesses_write(struct guesses *guesses, struct db *db, int64_t run_id,
		  const struct tasks *tasks);
