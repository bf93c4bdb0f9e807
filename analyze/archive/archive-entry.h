#pragma once
/* One program or library on its way into an archive. Used by archive.c only. */
#include <stddef.h>
#include <stdint.h>

#include "analyze/archive/archive.h"
#include "analyze/archive/tar.h"
#include "analyze/symbols/objects.h"

/* What the archive has already: names of its entries, and for each path the entry. */
struct archive_names {
	char **items; /* owned */
	size_t n;
	size_t n_allocated;
};
void archive_names_finish(struct archive_names *names);

/* Add an open object, with its debug files. Returns 0 or a negative errno. */
int archive_file_add(struct tar_writer *tar, struct archive_names *names, struct object *object,
		     struct archive_result *result);
