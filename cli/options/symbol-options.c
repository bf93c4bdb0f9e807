#include "cli/options/symbol-options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "common/text.h"

static void show_fetch(void *context, const char *path, long n_bytes, long n_all_bytes)
{
	(void)context;
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\rdebuginfod: %-40.40s %7.1f of %.1f MiB\r", text_base_name(path),
			(double)n_bytes / (1 << 20), (double)n_all_bytes / (1 << 20));
}

static int check_folder(const char *option, const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return cmd_fail("cannot use --%s %s: %s", option, path, strerror(errno));
	return S_ISDIR(st.st_mode) ? CMD_DONE : cmd_fail("--%s %s is not a folder", option, path);
}

int symbol_options_read(const struct option_set *options, struct symbol_places *ret_places)
{
	const char *const *dirs = option_texts(options, OPTION_DEBUG_DIR);
	const char *sysroot = option_text(options, OPTION_SYSROOT);
	const char *archive = option_text(options, OPTION_SYMBOLS);
	int status = sysroot ? check_folder("sysroot", sysroot) : CMD_DONE;

	for (const char *const *dir = dirs; dir && *dir && status == CMD_DONE; dir++)
		status = check_folder("debug-dir", *dir);
	if (status == CMD_DONE && archive && access(archive, R_OK) < 0)
		status = cmd_fail("cannot use --symbols %s: %s", archive, strerror(errno));
	*ret_places = (struct symbol_places){
		.archive_file = archive,
		.debug_dirs = dirs,
		.sysroot = sysroot,
		.keep_mangled = option_flag(options, OPTION_NO_DEMANGLE),
		.fetching = show_fetch,
	};
	return status;
}

bool symbol_options_are_given(const struct option_set *options)
{
	return option_origin(options, OPTION_DEBUG_DIR) == OPTION_FROM_LINE ||
	       option_origin(options, OPTION_SYSROOT) == OPTION_FROM_LINE ||
	       option_origin(options, OPTION_SYMBOLS) == OPTION_FROM_LINE ||
	       option_origin(options, OPTION_NO_DEMANGLE) == OPTION_FROM_LINE;
}
