#pragma once
/* Answers of schemas/view.def: each is a function in a table. */
#include <stdint.h>

#include "report/text/json.h"
#include "view/context.h"
#include "view/request.h"

/* What an answer is made from. */
struct view_question {
	struct view_context *context;
	sqlite3 *db;
	const struct view_values *values;
	int64_t run; /* run.id; where the answer is of one */
	struct json json; /* what the answer is written to */
};

/*
 * Answer. *ret_text is allocated JSON of *ret_n_bytes, NUL-terminated, also of an error. Returns
 * the status: 200, 400, 404, 500, 503; 499 when the context's patience is over: nobody wants the
 * text. With no memory at all *ret_text is NULL.
 */
unsigned view_answer_make(struct view_context *context, enum view_answer answer,
			  const struct view_values *values, char **ret_text, size_t *ret_n_bytes);

/* {"error": message}, allocated; NULL without memory. */
char *view_error_text(const char *message, size_t *ret_n_bytes);
