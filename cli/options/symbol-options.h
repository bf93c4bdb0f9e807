#pragma once
/*
 * --debug-dir, --sysroot, --symbols, --no-demangle: where names of functions and lines come from.
 */
#include "analyze/symbols/search-paths.h"
#include "cli/options/option.h"

/*
 * What the options ask for; it refers to them. Says in one line which folder is not there. Returns
 * an exit status. A fetch from a debuginfod server is shown on a terminal.
 */
int symbol_options_read(const struct option_set *options, struct symbol_places *ret_places);

/* Whether this command line has one of them: a database that is there was made without. */
bool symbol_options_are_given(const struct option_set *options);
