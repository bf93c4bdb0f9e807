#pragma once
/* The page as one file. */
#include <stdbool.h>
#include <stdint.h>

#include "view/context.h"

#define VIEW_EXPORT_MAX_BYTES 5000000u

struct view_export {
	struct view_files files;
	int64_t run_id;
	int64_t from_ns; /* the part of the run that is counted: 0 to INT64_MAX is all of it */
	int64_t to_ns; /* not included */
	const char
		*output; /* written in whole or not at all, for those who may read the database */
	bool force; /* may take the place of a file */
};

/*
 * Write it. Returns 0; -EEXIST; -EPROTO with the message of SQLite in message (of 160 bytes);
 * -EFBIG when the page alone is larger than it may be; or another negative errno.
 */
int view_export_write(const struct view_export *export, char *message);
