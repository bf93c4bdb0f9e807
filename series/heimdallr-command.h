#pragma once
/*
 * Heimdallr's way of saying what a series is: runs.sh RESULTS COUNT WORKLOAD... and its mode lines.
 */
#include "series/series.h"

/* The mode that Heimdallr's runs.sh has without being changed: mode hms mem cpu dry freq. */
#define SERIES_COMPAT_MODE "1loc_50 0 1 1 0 5000"

/*
 * Make a series of RESULTS, COUNT and whole command lines ("./foo -n 3"), in modes that
 * series_compat_modes() or series_compat_mode() adds. Runs go mode by mode, shuffled inside.
 * Returns 0, -EINVAL with one line in message, or -ENOMEM.
 */
int series_compat(char *const *operands, size_t n, struct series **ret_series, char *message);

/*
 * Add a mode of one line. dry takes away the interposer, freq 0 the sampler; both: the natural run.
 * hms asks for a heap in PMEM (HEIMDALLR_PMEMDIR and _PMEMSIZE, else /mnt/pmem and 4 GiB), mem
 * binds memory and the recorder's own, cpu the CPUs; "-" or "" is no binding. Blocks below
 * TRAC_THRESHOLD (0x1000 as in runs.sh) are not recorded. As above.
 */
int series_compat_mode(struct series *series, const char *line, char *message);

/* Add those of a file, one in a line; empty lines and # comments are left out. As above. */
int series_compat_modes(struct series *series, const char *path, char *message);
