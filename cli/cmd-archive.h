#pragma once
#include <stdbool.h>

#include "analyze/symbols/search-paths.h"

/*
 * Make the archive of a trace and say what came of it (is_quiet: only what went wrong), all on
 * standard error. output NULL: beside the trace. Returns an exit status.
 */
int cmd_archive_trace(const char *trace, const char *output, const struct symbol_places *places,
		      bool is_quiet);
