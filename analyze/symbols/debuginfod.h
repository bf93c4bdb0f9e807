#pragma once
/*
 * Servers of debug files (debuginfod), asked only where DEBUGINFOD_URLS names some. libdwfl asks
 * for debug files by itself; here it is kept from waiting for ever, and programs that are gone are
 * asked for. libdebuginfod is loaded when it is needed: it needs libcurl, which no recording should
 * load.
 */
#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stdint.h>

#include "analyze/symbols/search-paths.h"

/* One over all objects of an import. */
struct debug_server {
	const struct symbol_places *places;
	const char *path; /* of the file that is asked for */
	int64_t began_ns; /* CLOCK_MONOTONIC; of the question, or when bytes last came */
	long n_bytes;
	bool has_given_up; /* it did not answer in time: not asked again */
};

void debug_server_init(struct debug_server *server, const struct symbol_places *places);

/* Before libdwfl may ask, for the file that was loaded from path (which must stay). */
void debug_server_expect(struct debug_server *server, Dwfl *dwfl, const char *path);

/*
 * Ask for the whole file of a build-id (hex). Returns a descriptor and its path, allocated, or -1.
 */
int debug_server_fetch(struct debug_server *server, Dwfl *dwfl, const char *build_id,
		       char **ret_path);
