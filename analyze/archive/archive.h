#pragma once
/*
 * What analyze needs of the files that a program loaded, in one file beside the trace: symbols,
 * debug information, unwind tables, and instructions, since a sample is followed into code that was
 * never sampled itself; all but variables. A tar file in zstd, laid out as --debug-dir and
 * --sysroot take it: .build-id/xx/yyyy (the file), .build-id/xx/yyyy.debug (its debug file, and
 * what debug files share), and PATH for files that were told without a build-id.
 */
#include <stdint.h>

#include "analyze/symbols/search-paths.h"

#define ARCHIVE_SUFFIX ".symbols.tar.zst"

/* "TRACE.symbols.tar.zst", allocated; NULL without memory. */
char *archive_default_path(const char *trace);

struct archive_result {
	uint64_t n_files; /* programs and libraries */
	uint64_t n_debug_files;
	uint64_t n_missing; /* files that are gone, or were rebuilt */
	char missing[256]; /* the path of one of them; "": none */
	uint64_t n_bytes; /* of the archive */
};

/*
 * Make the archive of a trace; the file appears under its name when it is whole. places: where to
 * look beside the usual folders. Returns 0, what trace_reader_open() returns, or a negative errno
 * of writing, with *ret_is_output set then.
 */
int archive_write(const char *trace, const char *output, const struct symbol_places *places,
		  struct archive_result *ret_result, bool *ret_is_output);

/*
 * Unpack into a new folder below $TMPDIR or /tmp. *ret_folder is allocated, also when it is only
 * there in part; archive_remove() removes it. Returns 0 or as tar_unpack().
 */
int archive_unpack(const char *path, char **ret_folder);
void archive_remove(char *folder); /* accepts NULL; frees it */
