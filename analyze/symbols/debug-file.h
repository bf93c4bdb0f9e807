#pragma once
/* Which file holds the debug information of another one. */
#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/symbols/objects.h"
#include "analyze/symbols/search-paths.h"

/* The callback of libdwfl: *userdata is the object. Its places first, then libdwfl's own rules. */
int debug_file_find(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
		    const char *file_name, const char *link, GElf_Word checksum, char **ret_path);

/*
 * Folder number i (from 0) of those in which debug files are looked for, allocated; NULL behind the
 * last one, or without memory.
 */
char *debug_file_folder(const struct symbol_places *places, size_t i);

/*
 * "FOLDER/.build-id/xx/yyyyENDING", allocated; NULL without memory, and for a build-id that is too
 * short.
 */
char *debug_file_by_id(const char *folder, const char *build_id, const char *ending);

/*
 * An absolute path without "." and "..", allocated; NULL without memory. As text: the folders need
 * not be there, and whoever packs a file and whoever looks for it agree.
 */
char *debug_file_plain_path(const char *path);

/* Open a file that is a file (a pipe of that name would hang us). A descriptor or -1. */
int debug_file_open(const char *path);

/* The build-id of an ELF file as hex, allocated; NULL: it has none. */
char *debug_file_build_id(Elf *elf);

/* Lower-case hex of some bytes, allocated; NULL without memory. */
char *object_file_hex(const uint8_t *bytes, size_t n_bytes);

/*
 * Servers of debug files (debuginfod), asked only where DEBUGINFOD_URLS names some. libdwfl asks
 * for debug files by itself; here it is kept from waiting for ever, and programs that are gone are
 * asked for. libdebuginfod is loaded when it is needed: it needs libcurl, which no recording should
 * load.
 */

/* One over all objects of an import. */
struct debug_server {
	const struct symbol_places *places;
	const char *path; /* of the file that is asked for */
	int64_t began_ns; /* CLOCK_MONOTONIC; of the question, or when bytes last came */
	long n_bytes;
	bool has_given_up; /* it did not answer in time: not asked again */
};

/* Whether one may be asked at all. */
bool debug_server_is_named(void);

void debug_server_init(struct debug_server *server, const struct symbol_places *places);

/* Before libdwfl may ask, for the file that was loaded from path (which must stay). */
void debug_server_expect(struct debug_server *server, Dwfl *dwfl, const char *path);

/*
 * Ask for the whole file of a build-id (hex). Returns a descriptor and its path, allocated, or -1.
 */
int debug_server_fetch(struct debug_server *server, Dwfl *dwfl, const char *build_id,
		       char **ret_path);
