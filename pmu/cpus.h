#pragma once
/*
 * Which CPUs an event has to be opened on.
 */
#include <stddef.h>

/*
 * Parse a list as in /sys/devices/system/cpu/online, "0-3,8,10-11\n", into an allocated array in
 * the order of the list; the caller frees *ret_cpus. Returns how many, or -EINVAL for anything that
 * is no such list (or names a CPU above 65535), -ENOMEM.
 */
int pmu_cpus_parse(const char *list, int **ret_cpus);

/* The CPUs that are online now. Returns how many (>= 1); the caller frees *ret_cpus. -ENOMEM. */
int pmu_cpus_online(int **ret_cpus);
