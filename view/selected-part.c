#include "view/selected-part.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/selection/selection.h"
#include "store/database.h"
#include "store/statement.h"
#include "view/context.h"

struct view_part *view_part_free(struct view_part *part)
{
	if (!part)
		return NULL;
	db_close(part->db);
	free(part);
	return NULL;
}

static int count(struct view_context *context, struct view_part *part)
{
	const struct selection selection = {
		.runs = &part->span.run_id,
		.n_runs = 1,
		.from_ns = part->span.from_ns,
		.to_ns = part->span.to_ns,
	};
	const char *path = sqlite3_db_filename(db_handle(context->db), "main");
	int r = view_context_connect(context, path, &part->db);

	if (r == 0)
		r = selection_apply(part->db, &selection);
	if (r < 0 && part->db && sqlite3_errcode(db_handle(part->db)) == SQLITE_INTERRUPT)
		return -EINTR;
	if (r == -EINTR || r == -ENOMEM || r >= 0)
		return r;
	return view_context_refuse(context, -EIO, "the part of the run cannot be counted: %s",
				   part->db ? statement_message(db_handle(part->db))
					    : strerror(-r));
}

int view_part_take(struct view_context *context, const struct view_span *span)
{
	struct view_part *part = context->part;

	if (part && memcmp(&part->span, span, sizeof(*span)) == 0) {
		view_context_be_patient(context, db_handle(part->db));
		return 0;
	}
	context->part = view_part_free(part);
	part = calloc(1, sizeof(*part));
	if (!part)
		return -ENOMEM;
	part->span = *span;
	int r = count(context, part);
	if (r < 0)
		view_part_free(part);
	else
		context->part = part;
	return r;
}
