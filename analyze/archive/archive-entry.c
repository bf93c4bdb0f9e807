#include "analyze/archive/archive-entry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <elfutils/libdw.h>

#include "analyze/symbols/debug-file.h"
#include "common/array.h"
#include "common/cleanup.h"

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
	for (size_t i = 0; i < names->n; i++)
		free(names->items[i]);
	free(names->items);
}

/* Returns 1 when the name is new, 0 when it was there, or a negative errno. */
static int take_name(struct archive_names *names, const char *name)
{
	for (size_t i = 0; i < names->n; i++) {
		if (strcmp(names->items[i], name) == 0)
			return 0;
	}
	char *copy = strdup(name);
	if (!copy ||
	    grow_array(&names->items, names->n, &names->n_allocated, sizeof(*names->items)) < 0) {
		free(copy);
		return -ENOMEM;
	}
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
		if (grow_array(&image->holes, image->n_holes, &image->n_allocated,
			       sizeof(*image->holes)) < 0)
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
	if (r == 0)
		r = write_image(tar, name, &image);
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

int archive_file_add(struct tar_writer *tar, struct archive_names *names, struct object *object,
		     struct archive_result *result)
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
		if (r == 0)
			r = add_debug_files(tar, names, object, result);
	}
	if (r >= 0 && by_id && !object->build_id)
		r = add_path(tar, names, object->path, by_id);
	return r < 0 ? r : 0;
}
