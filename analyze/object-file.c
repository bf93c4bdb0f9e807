#include "analyze/object-file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/lines.h"
#include "analyze/symbol-table.h"
#include "common/cleanup.h"

#define DEBUG_FOLDER "/usr/lib/debug/.build-id"

char *object_file_hex(const uint8_t *bytes, size_t n_bytes)
{
	char *text = malloc(2 * n_bytes + 1);

	if (!text)
		return NULL;
	for (size_t i = 0; i < n_bytes; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	text[2 * n_bytes] = '\0';
	return text;
}

static const Dwfl_Callbacks callbacks_default = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
};

static void end_dwfl(struct object *object)
{
	if (object->dwfl)
		dwfl_end(object->dwfl);
	free(object->callbacks);
	object->dwfl = NULL;
	object->module = NULL;
	object->elf = NULL;
	object->callbacks = NULL;
}

void object_file_close(struct object *object)
{
	object->lines = lines_destroy(object->lines);
	object->symbols = symbol_table_destroy(object->symbols);
	free(object->segments);
	object->segments = NULL;
	object->n_segments = 0;
	end_dwfl(object);
}

/* A file that is a file: a pipe of that name would hang us. Returns a descriptor or -1. */
static int open_regular(const char *path)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;

	if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
		return -1;
	return steal_fd(&fd);
}

static bool has_build_id(struct object *object)
{
	const unsigned char *bits = NULL;
	GElf_Addr address;

	if (!object->build_id)
		return true;

	int n = dwfl_module_build_id(object->module, &bits, &address);
	auto_free char *text = n > 0 ? object_file_hex(bits, (size_t)n) : NULL;
	return text && strcmp(text, object->build_id) == 0;
}

/* Open path as the object's ELF; false when it is not that file. */
static bool open_elf(struct object *object, const char *path)
{
	auto_close int fd = open_regular(path);
	if (fd < 0)
		return false;

	object->callbacks = malloc(sizeof(*object->callbacks));
	if (!object->callbacks)
		return false;
	*object->callbacks = callbacks_default;
	object->callbacks->debuginfo_path = object->debug_path;
	object->dwfl = dwfl_begin(object->callbacks);
	if (object->dwfl) {
		/* Base 0 with p_vaddr added: module addresses are ELF addresses. */
		object->module = dwfl_report_elf(object->dwfl, path, path, fd, 0, true);
		if (object->module) {
			steal_fd(&fd); /* libdwfl's now */
			dwfl_report_end(object->dwfl, NULL, NULL);
		}
	}

	GElf_Addr bias = 0;
	object->elf = object->module ? dwfl_module_getelf(object->module, &bias) : NULL;
	if (object->elf && bias == 0 && has_build_id(object))
		return true;
	end_dwfl(object);
	return false;
}

static void read_segment(struct object *object, const GElf_Phdr *header)
{
	if (header->p_type == PT_TLS) {
		object->tls_address = header->p_vaddr;
		object->tls_bytes = header->p_memsz;
		object->tls_align = header->p_align;
	}
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

/* A relative path may lead elsewhere from here: only a build-id tells that it is the file. */
static bool open_path(struct object *object)
{
	char *whole = NULL;
	bool is_open;

	if (object->path[0] == '/')
		return open_elf(object, object->path);
	if (!object->build_id || !*object->directory ||
	    asprintf(&whole, "%s/%s", *object->directory, object->path) < 0)
		return false;
	is_open = open_elf(object, whole);
	free(whole);
	return is_open;
}

bool object_open(struct object *object)
{
	if (object->is_opened)
		return object->elf;
	object->is_opened = true;
	elf_version(EV_CURRENT);

	if (open_path(object)) {
		object->is_file = true;
	} else if (object->build_id && strlen(object->build_id) > 2) {
		char path[sizeof(DEBUG_FOLDER) + 160];

		snprintf(path, sizeof(path), DEBUG_FOLDER "/%.2s/%.128s.debug", object->build_id,
			 object->build_id + 2);
		open_elf(object, path);
	}
	if (object->elf)
		read_segments(object);
	return object->elf;
}

void object_forget(struct object *object)
{
	object_file_close(object);
	object->is_opened = false;
	object->is_file = false;
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
	if (!segment || !image || address - segment->address >= segment->file_bytes)
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

bool object_is_constant(struct object *object, uint64_t address)
{
	const struct object_segment *segment = object_segment_at(object, address);

	return segment && !segment->is_writable;
}
