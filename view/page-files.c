#include "view/page-files.h"

#include <string.h>

const struct view_file *view_file_find(const char *name)
{
	for (const struct view_file *file = view_files; file->name; file++) {
		if (strcmp(file->name, name) == 0)
			return file;
	}
	return NULL;
}
