#include "analyze/archive/archive.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/archive/archive-entry.h"
#include "analyze/archive/mapped-files.h"
#include "analyze/archive/tar.h"
#include "analyze/symbols/objects.h"
#include "common/cleanup.h"

char *archive_default_path(const char *trace)
{
	char *path = NULL;

	return asprintf(&path, "%s" ARCHIVE_SUFFIX, trace) < 0 ? NULL : path;
}

static void note_missing(struct archive_result *result, const struct object *object)
{
	if (object->path[0] != '/')
		return; /* "[vdso]": there never was a file */
	if (result->n_missing++ == 0)
		snprintf(result->missing, sizeof(result->missing), "%s", object->path);
}

static int add_files(struct tar_writer *tar, struct objects *objects, struct archive_result *result)
{
	struct archive_names names = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < objects_count(objects); i++) {
		struct object *object = objects_at(objects, i);

		if (object_open(object))
			r = archive_file_add(tar, &names, object, result);
		else
			note_missing(result, object);
		object_forget(object);
	}
	archive_names_finish(&names);
	return r;
}

static int write_tar(const char *path, struct objects *objects, struct archive_result *result)
{
	struct tar_writer *tar = NULL;
	struct stat st;
	int r = tar_create(path, &tar);

	if (r == 0)
		r = add_files(tar, objects, result);
	if (r == 0)
		r = tar_finish(tar);
	tar_close(tar);
	if (r == 0 && stat(path, &st) == 0)
		result->n_bytes = (uint64_t)st.st_size;
	return r;
}

int archive_write(const char *trace, const char *output, const struct symbol_places *places,
		  struct archive_result *ret_result, bool *ret_is_output)
{
	auto_free char *partial = NULL;
	struct archive_result result = { 0 };
	struct objects *objects = NULL;

	*ret_is_output = false;
	if (asprintf(&partial, "%s.partial", output) < 0)
		return -ENOMEM;
	int r = objects_create(places, &objects);
	if (r == 0)
		r = trace_files_read(trace, objects);
	if (r == 0) {
		*ret_is_output = true;
		r = write_tar(partial, objects, &result);
		if (r == 0 && rename(partial, output) < 0)
			r = -errno;
		if (r < 0)
			unlink(partial);
	}
	objects_destroy(objects);
	if (r == 0)
		*ret_result = result;
	return r;
}

int archive_unpack(const char *path, char **ret_folder)
{
	const char *base = getenv("TMPDIR");
	char *folder = NULL;

	if (access(path, R_OK) < 0)
		return -errno;
	if (asprintf(&folder, "%s/memsight-symbols-XXXXXX", base && *base ? base : "/tmp") < 0)
		return -ENOMEM;
	if (!mkdtemp(folder)) {
		free(folder);
		return -errno;
	}
	*ret_folder = folder;
	return tar_unpack(path, folder);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path) < 0 ? -errno : 0;
}

void archive_remove(char *folder)
{
	if (folder)
		nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	free(folder);
}
