#pragma once
#include "analyze/symbols/objects.h"

/*
 * Make an object of each file whose code the processes of a trace had mapped, as its records tell.
 * Reads the whole trace. Returns 0 or a negative errno.
 */
int trace_files_read(const char *trace, struct objects *objects);
