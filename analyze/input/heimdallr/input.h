#pragma once
/*
 * A folder of Heimdallr's as a feed: what its logs say, merged by time, as a trace would say it.
 *
 * Its frees are logged after the real free, so that a block may be born at an address that is still
 * taken: the import looks HEIMDALLR_SKEW_NS ahead for the free. The frees at exit are left out:
 * these blocks were live at exit.
 */
#include "analyze/input/input.h"

#define HEIMDALLR_SKEW_NS UINT64_C(100000000)

/* Returns 0, -ENOENT: it is no such folder, or a negative errno. */
int heimdallr_open(const char *path, struct feed *feed);
