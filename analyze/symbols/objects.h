#pragma once
/*
 * Files of code, each known once: by build-id, else by path. An object opens its ELF file when it
 * is first asked about its contents: the path when its build-id matches (or none is known), else
 * whatever has the build-id below the folders of symbol_places and /usr/lib/debug. One thread.
 */
#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/symbols/search-paths.h"

enum object_debug {
	OBJECT_UNSEEN, /* not looked at */
	OBJECT_NONE,
	OBJECT_SYMBOLS,
	OBJECT_LINES,
};

/* What is known of the file that was loaded. */
enum object_state {
	OBJECT_UNTRIED,
	OBJECT_FOUND, /* it, or another file of its build-id */
	OBJECT_MISSING,
	OBJECT_REBUILT, /* a file with another build-id lies at its path */
	OBJECT_NO_ELF, /* a file of another format does: a runtime's code */
};

/* A PT_LOAD segment. */
struct object_segment {
	uint64_t address; /* p_vaddr */
	uint64_t memory_bytes;
	uint64_t file_offset;
	uint64_t file_bytes;
	bool is_executable;
	bool is_writable;
};

struct symbol_table; /* symbol-table.h */
struct lines; /* lines.h */

struct object {
	char *name; /* build-id in hex, else path: frame.object */
	char *path;
	char *build_id; /* hex; NULL: not known */
	uint32_t number; /* from 0 */
	bool is_opened; /* tried */
	bool is_file; /* the file that was loaded, so that its bytes are the module's */
	bool lacks_code; /* out of an archive that was made without instructions */
	enum object_state state; /* as found when it was last opened */
	Dwfl *dwfl;
	const struct symbol_places *places;
	struct debug_server *server; /* of all objects */
	char *debug_file; /* that was found for it; NULL: none, or libdwfl found it */
	char **directory; /* of objects_set_directory() */
	Dwfl_Module *module;
	Elf *elf; /* of the file or its debug file; NULL: could not be opened */
	struct object_segment *segments;
	size_t n_segments;
	uint64_t unwind_address; /* of PT_GNU_EH_FRAME; 0: none */
	uint64_t tls_bytes; /* of PT_TLS */
	uint64_t tls_align;
	uint64_t tls_address;
	enum object_debug debug; /* as far as it was looked at */
	bool has_allocator_range; /* looked for; see allocator.h */
	uint64_t allocator_start;
	uint64_t allocator_end;
	struct symbol_table *symbols;
	struct lines *lines;
};

struct objects;

/*
 * places: where to look beside the usual folders; copied, what it points to must stay. NULL:
 * nowhere. Returns 0 or -ENOMEM.
 */
int objects_create(const struct symbol_places *places, struct objects **ret_objects);

/*
 * Others, none yet, that are looked for in the same places, while these and what they were told
 * last. -ENOTSUP: files may come from servers, or from who records them. Or -ENOMEM.
 */
int objects_create_twins(const struct objects *objects, struct objects **ret_twins);
struct objects *objects_destroy(struct objects *objects); /* accepts NULL, returns NULL */

/* Where relative paths start: the working folder of the run. Copied. Returns 0 or -ENOMEM. */
int objects_set_directory(struct objects *objects, const char *directory);

/* Look for files in an unpacked archive (archive.h), too. Copied. Returns 0 or -ENOMEM. */
int objects_set_archive(struct objects *objects, const char *folder);

/*
 * The object of this build-id (bytes, may be none) and path; made when it is new. Both are copied.
 * An absolute path takes the place of a relative one that was told before. The path need not be
 * NUL-terminated. Returns NULL only without memory.
 */
struct object *objects_get(struct objects *objects, const uint8_t *build_id, size_t build_id_bytes,
			   const char *path, size_t path_bytes);

/* The same with the names of the database: object = build-id in hex, or the path. */
struct object *objects_get_named(struct objects *objects, const char *name, const char *path);

/* Whether the object is the one of this build-id. */
bool object_has_build_id(const struct object *object, const uint8_t *build_id, size_t n_bytes);

/* How many there are, and number i. */
size_t objects_count(const struct objects *objects);
struct object *objects_at(const struct objects *objects, size_t i);

/* Open the ELF file if that was not tried yet. Returns whether it can be read. */
bool object_open(struct object *object);

/*
 * Copy bytes at an ELF address out of the file's PT_LOAD segments, as they were before relocation.
 * Returns how many of n_bytes are known from there on: 0 for other files than the module's own.
 */
size_t object_read(struct object *object, uint64_t address, void *bytes, size_t n_bytes);

/* The last begin of a function at or below an ELF address (unwind-table.h); 0: not known. */
uint64_t object_function_begin(struct object *object, uint64_t address);

/*
 * Close the file and free what was read from it; the next question opens it again. What is known of
 * its debug information stays. Strings that it gave are gone.
 */
void object_forget(struct object *object);

/* The PT_LOAD segment around an ELF address, or NULL. */
const struct object_segment *object_segment_at(struct object *object, uint64_t address);

/* Whether it is a program that needs neither loader nor libraries, position independent or not. */
bool object_is_static(struct object *object);

/* Whether an ELF address lies in a segment that is never written (nor relocated). */
bool object_is_constant(struct object *object, uint64_t address);
