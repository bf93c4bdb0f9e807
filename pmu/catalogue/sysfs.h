#pragma once
/*
 * What the kernel tells of its PMUs in sysfs: DEVICES/PMU/type, format/FIELD ("config:0-7,32-35"),
 * events/NAME ("event=0xcd,umask=0x1"), cpus. Pure functions of that folder. Layout: kernel,
 * Documentation/ABI/testing/sysfs-bus-event_source-devices-{events,format}.
 */
#include <stdbool.h>
#include <stdint.h>

#include "pmu/catalogue/catalogue.h"

/* Does DEVICES/PMU/path exist ("" is the PMU itself)? */
bool pmu_sysfs_has(const struct pmu_host *host, const char *pmu, const char *path);

/* The number in DEVICES/PMU/path. Returns 0 or a negative errno. */
int pmu_sysfs_number(const struct pmu_host *host, const char *pmu, const char *path, uint64_t *ret);

/*
 * Fill event->type, pmu and the fields that text sets: "event=0xcd,umask=1", "mem-loads,ldlat=30",
 * "config1=3", "r1cd"; an empty one sets none. Returns 0; -ENOENT: no such PMU; -EINVAL: no such
 * field, no number, or one that the field cannot hold. *ret_bad (at least 64 bytes) is the term at
 * fault.
 */
int pmu_sysfs_terms(const struct pmu_host *host, const char *pmu, const char *text,
		    struct pmu_event *event, char *ret_bad);

/* Call each(context, pmu) for every PMU in order of their names, until it returns other than 0. */
int pmu_sysfs_each_pmu(const struct pmu_host *host, int (*each)(void *context, const char *pmu),
		       void *context);

/* The same for every name in DEVICES/PMU/events. */
int pmu_sysfs_each_event(const struct pmu_host *host, const char *pmu,
			 int (*each)(void *context, const char *name), void *context);

/*
 * The CPUs that a PMU is for (its file cpus or cpumask), into an allocated array for the caller to
 * free. Returns how many; 0: all; or a negative errno.
 */
int pmu_sysfs_cpus(const struct pmu_host *host, const char *pmu, int **ret_cpus);
