#pragma once
/*
 * Names of libpfm4, which knows the processors' own event lists. The library is loaded when the
 * first name is asked for: it has 41,000 relocations (0.3 ms), and whoever samples by the clock
 * needs no name. Built without its headers, or on a host without it, no name is found.
 */
#include <stdbool.h>

#include "pmu/catalogue/catalogue.h"

/*
 * Encode "EVENT:UMASK:modifier=value" or "pmu::EVENT..." for perf_event_open: type, config,
 * config1, config2, precise, exclude_* (only where the name says :u or :k), name. Returns 0;
 * -ENOENT: no such event; -EINVAL: the event is there, but not this umask or modifier; -ENOSYS: no
 * library.
 */
int pmu_names_encode(const struct pmu_host *host, const char *name, struct pmu_event *ret_event);

/*
 * Call each(context, name) for every event, and event with umask, of the PMUs that pmu_names_encode
 * looks in. The name is valid during the call only. Without the library: not at all.
 */
void pmu_names_each(const struct pmu_host *host, void (*each)(void *context, const char *name),
		    void *context);
