#include "analyze/symbols/elf-file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/symbols/debug-file.h"
#include "common/cleanup.h"
#include "common/unwind-table.h"

#define DEBUG_FOLDER "/usr/lib/debug"

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = debug_file_find,
};

static void end_dwfl(struct object *object)
{
	if (object->dwfl)
		dwfl_end(object->dwfl);
	free(object->debug_file);
	object->dwfl = NULL;
	object->module = NULL;
	object->elf = NULL;
	object->debug_file = NULL;
}

void object_file_close(struct object *object)
{
	free(object->segments);
	object->segments = NULL;
	object->n_segments = 0;
	end_dwfl(object);
}

static bool has_build_id(const struct object *object)
{
	auto_free char *text = object->build_id ? debug_file_build_id(object->elf) : NULL;

	return !object->build_id || (text && strcmp(text, object->build_id) == 0);
}

/* Base 0 with p_vaddr added: module addresses are ELF addresses. Takes the descriptor over. */
static void report(struct object *object, const char *path, int fd)
{
	void **userdata;

	object->module = dwfl_report_elf(object->dwfl, path, path, fd, 0, true);
	if (!object->module) {
		close(fd);
		return;
	}
	dwfl_module_info(object->module, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
	*userdata = object;
	dwfl_report_end(object->dwfl, NULL, NULL);
}

/* The same, of an open file, which it takes over. */
static bool open_fd(struct object *object, const char *path, int fd)
{
	GElf_Addr bias = 0;

	object->dwfl = dwfl_begin(&callbacks);
	if (object->dwfl)
		report(object, path, fd);
	else
		close(fd);
	object->elf = object->module ? dwfl_module_getelf(object->module, &bias) : NULL;
	if (object->elf && bias == 0 && has_build_id(object)) {
		object->state = OBJECT_FOUND;
		return true;
	}
	object->state = object->elf ? OBJECT_REBUILT : OBJECT_NO_ELF;
	end_dwfl(object);
	return false;
}

/* Open path as the object's ELF; false when it is not that file. */
static bool open_elf(struct object *object, const char *path)
{
	int fd = path ? debug_file_open(path) : -1;

	return fd >= 0 && open_fd(object, path, fd);
}

static void read_segment(struct object *object, const GElf_Phdr *header)
{
	if (header->p_type == PT_TLS) {
		object->tls_address = header->p_vaddr;
		object->tls_bytes = header->p_memsz;
		object->tls_align = header->p_align;
	}
	if (header->p_type == PT_GNU_EH_FRAME)
		object->unwind_address = header->p_vaddr;
	if (header->p_type != PT_LOAD)
		return;
	object->segments[object->n_segments++] = (struct object_segment){
		.address = header->p_vaddr,
		.memory_bytes = header->p_memsz,
		.file_offset = header->p_offset,
		.file_bytes = header->p_filesz,
		.is_executable = header->p_flags & PF_X,
		.is_writable = header->p_flags & PF_W,
	};
}

static void read_segments(struct object *object)
{
	size_t n = 0;

	if (elf_getphdrnum(object->elf, &n) < 0)
		return;
	object->segments = calloc(n ? n : 1, sizeof(*object->segments));
	for (size_t i = 0; object->segments && i < n; i++) {
		GElf_Phdr header;

		if (gelf_getphdr(object->elf, (int)i, &header))
			read_segment(object, &header);
	}
}

static bool is_code(const GElf_Shdr *header)
{
	return header->sh_type == SHT_PROGBITS && header->sh_flags & SHF_EXECINSTR &&
	       header->sh_size;
}

/* Until November 2026 archives had zeros for instructions, which no code begins with. */
static bool begins_with_zeros(Elf *elf)
{
	static const char zeros[16];
	size_t image_bytes = 0;
	const char *image = elf_rawfile(elf, &image_bytes);
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while (image && (section = elf_nextscn(elf, section))) {
		if (!gelf_getshdr(section, &header) || !is_code(&header))
			continue;
		size_t n = header.sh_size < sizeof(zeros) ? header.sh_size : sizeof(zeros);
		return header.sh_offset < image_bytes && n <= image_bytes - header.sh_offset &&
		       memcmp(image + header.sh_offset, zeros, n) == 0;
	}
	return false;
}

/* A path below a folder; NULL for a relative path. */
static bool open_below(struct object *object, const char *folder)
{
	auto_free char *path = NULL;

	if (!folder || object->path[0] != '/' || asprintf(&path, "%s%s", folder, object->path) < 0)
		return false;
	return open_elf(object, path);
}

/*
 * A file that an archive has by its path: without the ".." that loaders leave in it
 * ($ORIGIN/../lib).
 */
static bool open_archived(struct object *object, const char *archive)
{
	auto_free char *plain = archive ? debug_file_plain_path(object->path) : NULL;
	auto_free char *path = NULL;

	if (!plain || object->path[0] != '/' || asprintf(&path, "%s%s", archive, plain) < 0)
		return false;
	return open_elf(object, path);
}

/* A relative path may lead elsewhere from here: only a build-id tells that it is the file. */
static bool open_relative(struct object *object)
{
	auto_free char *path = NULL;

	if (!object->build_id || !*object->directory ||
	    asprintf(&path, "%s/%s", *object->directory, object->path) < 0)
		return false;
	return open_elf(object, path);
}

/*
 * What the kernel calls a file that was removed, when another of the same build-id has its place.
 */
static bool open_deleted(struct object *object)
{
	static const char mark[] = " (deleted)";
	size_t n = strlen(object->path);
	size_t n_mark = sizeof(mark) - 1;

	if (!object->build_id || n <= n_mark || strcmp(object->path + n - n_mark, mark) != 0)
		return false;
	auto_free char *path = strndup(object->path, n - n_mark);
	return open_elf(object, path);
}

/* While a recording holds its files, also those of containers. */
static bool open_held(struct object *object)
{
	const struct symbol_places *places = object->places;
	int fd = places->open_loaded
			 ? places->open_loaded(places->files, object->path, object->build_id)
			 : -1;

	return fd >= 0 && open_fd(object, object->path, fd);
}

/*
 * The file that was loaded, where it lies now. Without a build-id it is told by its path alone:
 * where there is an archive, this may be another machine, whose file of that name is another one.
 */
static bool open_loaded(struct object *object)
{
	const struct symbol_places *places = object->places;

	if (open_held(object) || (!object->build_id && open_archived(object, places->archive)))
		return true;
	if (open_below(object, places->sysroot))
		return true;
	if ((places->sysroot || places->archive) && !object->build_id)
		return false;
	if (object->path[0] != '/')
		return open_relative(object);
	return open_elf(object, object->path) || open_deleted(object);
}

/* Any file of the build-id: a whole one, as archives have, or one with debug information only. */
static bool open_by_id(struct object *object, const char *folder)
{
	auto_free char *whole = debug_file_by_id(folder, object->build_id, "");
	auto_free char *debug = debug_file_by_id(folder, object->build_id, ".debug");
	enum object_state state = object->state;

	if (open_elf(object, whole)) {
		object->is_file = true;
		return true;
	}
	if (open_elf(object, debug))
		return true;
	object->state = state; /* what lies here tells nothing of the path */
	return false;
}

static bool fetch(struct object *object)
{
	char *path = NULL;
	enum object_state state = object->state;
	Dwfl *dwfl = dwfl_begin(&callbacks);

	debug_server_expect(object->server, dwfl, object->path);
	int fd = debug_server_fetch(object->server, dwfl, object->build_id, &path);
	bool is_open = fd >= 0 && open_fd(object, path, fd);
	dwfl_end(dwfl);
	free(path);
	object->is_file = is_open;
	if (!is_open)
		object->state = state;
	return is_open;
}

static bool open_anywhere(struct object *object)
{
	object->state = OBJECT_MISSING;
	object->is_file = open_loaded(object);
	if (object->is_file || !object->build_id)
		return object->is_file;
	for (size_t i = 0;; i++) {
		auto_free char *folder = debug_file_folder(object->places, i);
		if (!folder)
			break;
		if (open_by_id(object, folder))
			return true;
	}
	return open_by_id(object, DEBUG_FOLDER) || fetch(object);
}

bool object_open(struct object *object)
{
	if (object->is_opened)
		return object->elf;
	object->is_opened = true;
	elf_version(EV_CURRENT);
	if (open_anywhere(object)) {
		read_segments(object);
		object->lacks_code = object->is_file && begins_with_zeros(object->elf);
	}
	return object->elf;
}

static const struct object_segment *find_segment(const struct object *object, uint64_t address)
{
	for (size_t i = 0; i < object->n_segments; i++) {
		const struct object_segment *segment = &object->segments[i];

		if (address - segment->address < segment->memory_bytes)
			return segment;
	}
	return NULL;
}

const struct object_segment *object_segment_at(struct object *object, uint64_t address)
{
	return object_open(object) ? find_segment(object, address) : NULL;
}

size_t object_read(struct object *object, uint64_t address, void *bytes, size_t n_bytes)
{
	if (!object_open(object) || !object->is_file)
		return 0;

	const struct object_segment *segment = find_segment(object, address);
	size_t image_bytes = 0;
	const char *image = elf_rawfile(object->elf, &image_bytes);
	if (!segment || !image || (object->lacks_code && segment->is_executable) ||
	    address - segment->address >= segment->file_bytes)
		return 0;

	uint64_t within = address - segment->address;
	uint64_t offset = segment->file_offset + within;
	uint64_t n = segment->file_bytes - within;
	if (offset >= image_bytes)
		return 0;
	n = n < image_bytes - offset ? n : image_bytes - offset;
	n = n < n_bytes ? n : n_bytes;
	memcpy(bytes, image + offset, n);
	return n;
}

static size_t read_unwind(void *object, uint64_t address, void *bytes, size_t n_bytes)
{
	return object_read(object, address, bytes, n_bytes);
}

uint64_t object_function_begin(struct object *object, uint64_t address)
{
	if (!object_open(object) || !object->unwind_address)
		return 0;
	return unwind_table_begin(object->unwind_address, address, read_unwind, object);
}

bool object_is_constant(struct object *object, uint64_t address)
{
	const struct object_segment *segment = object_segment_at(object, address);

	return segment && !segment->is_writable;
}
