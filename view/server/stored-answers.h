#pragma once
/*
 * Answers that are taken along in one file: as many as there is room for, the most wanted first.
 * Written as {"REQUEST": answer}, with the requests as the page writes them: "NAME?a=1&b=2",
 * parameters sorted by name.
 */
#include <stddef.h>
#include <stdint.h>

#include "view/json.h"

struct view_context;

struct view_stored {
	int64_t run_id; /* the one that is taken along in full */
	size_t max_bytes; /* of all answers together */
};

/*
 * Make the answers. What there was no room for is told in the answer "stored". Returns 0 with
 * *ret_json, to be dropped, or a negative errno (-EPROTO: SQLite tells; a message may be in the
 * context).
 */
int view_stored_make(struct view_context *context, const struct view_stored *stored,
		     struct json *ret_json);
