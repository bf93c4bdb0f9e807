#pragma once
/* Where files with symbols are looked for, beside the files that were loaded. */
#include <stdbool.h>

struct symbol_places {
	/*
	 * Folders, the last is NULL; NULL: none. In each of them DIR/.build-id/xx/yyyy.debug (and
	 * xx/yyyy, a whole file) is looked for, and DIR/PATH/NAME.debug and DIR/NAME.debug.
	 */
	const char *const *debug_dirs;
	const char *sysroot; /* the files that were loaded lie below it; NULL: none */
	const char *archive; /* an unpacked archive: a sysroot and a folder of debug files */
	/* as record --archive makes it; NULL: TRACE.symbols.tar.zst, if there */
	const char *archive_file;
	/*
	 * Open the file that a recorded process had mapped from path, while it can be had; build_id
	 * in hex, or NULL. A descriptor, which the caller closes, or -1. May be NULL.
	 */
	int (*open_loaded)(void *files, const char *path, const char *build_id);
	void *files;
	bool keep_mangled; /* names stay as linkers see them */
	/*
	 * Called while a file is fetched from a debuginfod server; n_all 0: not known. May be NULL.
	 */
	void (*fetching)(void *context, const char *path, long n_bytes, long n_all_bytes);
	void *context;
};
