#pragma once
/*
 * What --source pages can have on this host, each tried on this process: marks that the processor
 * sets in page tables, and what userfaultfd notes. Any thread; no state.
 */
#include <stdint.h>

#include "pmu/source.h"

/* UFFD_FEATURE_WP_ASYNC of linux/userfaultfd.h (6.7): writes to each page are noted. */
#define PAGES_NOTES_WRITES (UINT64_C(1) << 15)

/*
 * Marks of touched pages come and go: by /proc/PID/clear_refs and `Referenced' of smaps. Returns 0,
 * or a negative errno with why and what helps.
 */
int pages_probe_marks(struct pmu_refusal *ret_refusal);

/*
 * Has userfaultfd a feature, for memory of the program alone (UFFD_USER_MODE_ONLY)? Returns 0,
 * -ENOTSUP where it works without, or another negative errno. A seccomp filter may kill who asks.
 */
int pages_userfaultfd_has(uint64_t feature);
