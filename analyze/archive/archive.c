#include "analyze/archive/archive.h"

#include <elfutils/libdw.h>
#include <errno.h>
#include <ftw.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/archive/tar.h"
#include "analyze/symbols/debug-file.h"
#include "analyze/symbols/objects.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "perf/record.h"
#include "trace/reader.h"

/* What the archive has already: names of its entries, and for each path the entry. */
struct archive_names {
	char **items; /* owned */
	size_t n;
	size_t n_allocated;
};
void archive_names_finish(struct archive_names *names);

#define MAX_SOURCES 256u

struct files {
	struct objects *objects;
	/* What the records of a source hold, by its number: that is enough to find its maps. */
	struct pmu_format formats[MAX_SOURCES];
};

static int add(struct files *files, const void *build_id, size_t n_build_id, const char *path,
	       size_t n_path)
{
	if (n_path < 2 || path[0] != '/' || path[1] == '/')
		n_path = n_build_id ? n_path : 0; /* "[vdso]", "//anon" */
	if (n_path == 0)
		return 0;
	return objects_get(files->objects, build_id, n_build_id, path, n_path) ? 0 : -ENOMEM;
}

static int on_module(struct files *files, const struct trace_record *record)
{
	size_t n_build_id;
	size_t n_path;
	const char *build_id = trace_record_string(record, 0, &n_build_id);
	const char *path = trace_record_string(record, 1, &n_path);

	return add(files, build_id, n_build_id, path, n_path);
}

static int on_mapping(struct files *files, const struct trace_record *record)
{
	const struct trace_mapping *map = (const struct trace_mapping *)record;
	size_t n_path;
	const char *path = trace_record_string(record, 0, &n_path);

	return map->prot & PROT_EXEC ? add(files, NULL, 0, path, n_path) : 0;
}

static int on_source(struct files *files, const struct trace_record *record)
{
	const struct trace_source *source = (const struct trace_source *)record;

	if (source->source_id < MAX_SOURCES)
		files->formats[source->source_id] = (struct pmu_format){
			.sample_type = source->sample_type,
			.regs_user = source->regs_user,
		};
	return 0;
}

/* Relative paths start at the run's working folder. */
static int on_run(struct files *files, const struct trace_record *record)
{
	size_t n_bytes;
	const char *text = trace_record_string(record, 3, &n_bytes);
	auto_free char *directory = strndup(text, n_bytes);

	return directory ? objects_set_directory(files->objects, directory) : -ENOMEM;
}

static int read_record(struct files *files, const struct trace_record *record)
{
	switch (record->type) {
	case TRACE_RECORD_MODULE:
		return on_module(files, record);
	case TRACE_RECORD_MAPPING:
		return on_mapping(files, record);
	case TRACE_RECORD_SOURCE:
		return on_source(files, record);
	case TRACE_RECORD_RUN:
		return on_run(files, record);
	default:
		return 0;
	}
}

static int read_records(struct files *files, const struct trace_item *item)
{
	const struct trace_record *record = NULL;
	int r = 0;

	while (r == 0 && (record = trace_record_next(item, record)))
		r = read_record(files, record);
	return r;
}

static int read_perf(struct files *files, const struct trace_item *item)
{
	const char *bytes = item->perf;
	int r;

	if (item->stream_id >= MAX_SOURCES)
		return 0;
	for (size_t at = 0; at < item->n; at += (size_t)r) {
		struct pmu_record record;

		r = pmu_record_parse(&files->formats[item->stream_id], bytes + at, item->n - at,
				     &record);
		if (r <= 0 && r != -EILSEQ)
			break;
		if (r > 0 && record.is_known && record.type == PERF_RECORD_MMAP2 &&
		    record.map.prot & PROT_EXEC &&
		    add(files, record.map.build_id, record.map.build_id_bytes, record.map.path,
			strlen(record.map.path)) < 0)
			return -ENOMEM;
		r = record.bytes;
	}
	return 0;
}

/*
 * Make an object of each file whose code the processes of a trace had mapped, as its records tell.
 * Reads the whole trace. Returns 0 or a negative errno.
 */
static int trace_files_read(const char *trace, struct objects *objects)
{
	auto_free struct files *files = calloc(1, sizeof(*files));
	struct trace_reader *reader = NULL;
	struct trace_item item;
	int r = files ? trace_reader_open(trace, &reader) : -ENOMEM;

	if (r < 0)
		return r;
	files->objects = objects;
	while (r >= 0 && (r = trace_reader_next(reader, &item)) > 0) {
		if (item.type == TRACE_FRAME_RECORDS)
			r = read_records(files, &item);
		else if (item.type == TRACE_FRAME_PERF)
			r = read_perf(files, &item);
	}
	trace_reader_close(reader);
	return r;
}

/* One program or library on its way into an archive. */

#define PIECE_BYTES 65536u

/* Bytes of a file that analyze needs not. */
struct hole {
	uint64_t start;
	uint64_t end;
};

struct image {
	const char *bytes;
	size_t n_bytes;
	struct hole *holes; /* owned */
	size_t n_holes;
	size_t n_allocated;
};

void archive_names_finish(struct archive_names *names)
{
	array_free(names->items, names->n, it, free(*it));
}

/* Returns 1 when the name is new, 0 when it was there, or a negative errno. */
static int take_name(struct archive_names *names, const char *name)
{
	for (size_t i = 0; i < names->n; i++) {
		if (strcmp(names->items[i], name) == 0)
			return 0;
	}
	char *copy = strdup(name);
	if (!copy || grow_one(&names->items, names->n, &names->n_allocated) < 0)
		return free(copy), -ENOMEM;
	names->items[names->n++] = copy;
	return 1;
}

/* Variables as they begin: samples tell what they are when they are used. */
static bool is_hole(const GElf_Shdr *header)
{
	return header->sh_type == SHT_PROGBITS && header->sh_flags & SHF_ALLOC &&
	       header->sh_flags & SHF_WRITE;
}

static int find_holes(Elf *elf, struct image *image)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;

		if (!gelf_getshdr(section, &header) || !is_hole(&header) ||
		    header.sh_offset > image->n_bytes ||
		    header.sh_size > image->n_bytes - header.sh_offset)
			continue;
		if (grow_one(&image->holes, image->n_holes, &image->n_allocated) < 0)
			return -ENOMEM;
		image->holes[image->n_holes++] =
			(struct hole){ header.sh_offset, header.sh_offset + header.sh_size };
	}
	return 0;
}

/* Bytes of the image from an offset on, with zeros in its holes. */
static void copy_piece(const struct image *image, uint64_t offset, char *piece, size_t n_bytes)
{
	memcpy(piece, image->bytes + offset, n_bytes);
	for (size_t i = 0; i < image->n_holes; i++) {
		uint64_t start = image->holes[i].start;
		uint64_t end = image->holes[i].end;

		start = start > offset ? start - offset : 0;
		end = end > offset ? end - offset : 0;
		end = end < n_bytes ? end : n_bytes;
		if (start < end)
			memset(piece + start, 0, (size_t)(end - start));
	}
}

static int write_image(struct tar_writer *tar, const char *name, const struct image *image)
{
	char piece[PIECE_BYTES];
	int r = tar_begin(tar, name, image->n_bytes);

	for (size_t at = 0; r == 0 && at < image->n_bytes; at += sizeof(piece)) {
		size_t n = image->n_bytes - at;

		n = n < sizeof(piece) ? n : sizeof(piece);
		copy_piece(image, at, piece, n);
		r = tar_write(tar, piece, n);
	}
	return r;
}

static int write_elf(struct tar_writer *tar, const char *name, Elf *elf)
{
	struct image image = { 0 };

	image.bytes = elf_rawfile(elf, &image.n_bytes);
	int r = image.bytes ? find_holes(elf, &image) : -EIO;
	r = r ?: write_image(tar, name, &image);
	free(image.holes);
	return r;
}

/* ".build-id/xx/yyyyENDING"; NULL without memory or a build-id. */
static char *name_by_id(const char *build_id, const char *ending)
{
	char *name = build_id ? debug_file_by_id("", build_id, ending) : NULL;

	if (name)
		memmove(name, name + 1, strlen(name));
	return name;
}

/* Add a file under its build-id unless it is there. Returns 1 when it was added. */
static int add_debug(struct tar_writer *tar, struct archive_names *names, Elf *elf)
{
	auto_free char *build_id = elf ? debug_file_build_id(elf) : NULL;
	auto_free char *name = name_by_id(build_id, ".debug");
	int r = name ? take_name(names, name) : 0;

	if (r > 0)
		r = write_elf(tar, name, elf);
	return r < 0 ? r : 1;
}

/* The debug file that libdwfl took, whether for lines or for symbols alone. */
static int add_own_debug(struct tar_writer *tar, struct archive_names *names, struct object *object,
			 struct archive_result *result)
{
	const char *path = NULL;

	dwfl_module_info(object->module, NULL, NULL, NULL, NULL, NULL, NULL, &path);
	auto_close int fd = path ? debug_file_open(path) : -1;
	Elf *elf = fd >= 0 ? elf_begin(fd, ELF_C_READ_MMAP, NULL) : NULL;
	int r = elf ? add_debug(tar, names, elf) : 0;

	elf_end(elf);
	result->n_debug_files += r > 0;
	return r < 0 ? r : 0;
}

static int add_debug_files(struct tar_writer *tar, struct archive_names *names,
			   struct object *object, struct archive_result *result)
{
	Dwarf_Addr bias;
	Dwarf *dwarf = dwfl_module_getdwarf(object->module, &bias);
	Dwarf *shared = dwarf ? dwarf_getalt(dwarf) : NULL;

	dwfl_module_getsymtab(object->module);
	int r = add_own_debug(tar, names, object, result);
	if (r == 0 && shared)
		r = add_debug(tar, names, dwarf_getelf(shared));
	return r < 0 ? r : 0;
}

/* A file that is told by its path is looked for there. */
static int add_path(struct tar_writer *tar, struct archive_names *names, const char *path,
		    const char *target)
{
	auto_free char *plain = debug_file_plain_path(path);
	if (!plain)
		return -ENOMEM;

	int r = path[0] == '/' && *plain ? take_name(names, plain + 1) : 0;
	return r > 0 ? tar_link(tar, plain + 1, target) : r;
}

/* Add an open object, with its debug files. Returns 0 or a negative errno. */
static int archive_file_add(struct tar_writer *tar, struct archive_names *names,
			    struct object *object, struct archive_result *result)
{
	auto_free char *build_id = debug_file_build_id(object->elf);
	auto_free char *by_id = name_by_id(build_id, object->is_file ? "" : ".debug");
	auto_free char *plain = debug_file_plain_path(object->path);
	if (!plain)
		return -ENOMEM;

	const char *name = by_id ? by_id : plain + 1;
	int r = take_name(names, name);
	if (r > 0) {
		result->n_files++;
		r = write_elf(tar, name, object->elf);
		r = r ?: add_debug_files(tar, names, object, result);
	}
	if (r >= 0 && by_id && !object->build_id)
		r = add_path(tar, names, object->path, by_id);
	return r < 0 ? r : 0;
}

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
	int r = tar_create(path, &tar) ?: add_files(tar, objects, result) ?: tar_finish(tar);

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
	int r = objects_create(places, &objects) ?: trace_files_read(trace, objects);
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
	if (!mkdtemp(folder))
		return free(folder), -errno;
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
