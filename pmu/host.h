#pragma once
/*
 * Which machine the events are for: where its kernel tells of PMUs, and which processor it is. The
 * catalogue's functions take a host and ask nothing else, so that tests can build any machine.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pmu_vendor {
	PMU_VENDOR_OTHER,
	PMU_VENDOR_INTEL,
	PMU_VENDOR_AMD, /* and Hygon, whose Dhyana is a Zen */
	PMU_VENDOR_ARM,
	PMU_VENDOR_POWER,
	PMU_VENDOR_COUNT
};

struct pmu_host {
	char devices[256]; /* "/sys/bus/event_source/devices" */
	enum pmu_vendor vendor;
	unsigned family; /* x86: as /proc/cpuinfo has it; POWER: 9 for POWER9 */
	unsigned model; /* x86 */
	bool is_virtual; /* a hypervisor runs it (x86 tells) */
	char library_pmu[32]; /* libpfm4's name of the PMU that names are looked for in; "": those
				 that it finds present */
};

/* What /proc/cpuinfo says, given as text. devices and library_pmu stay empty. Pure. */
void pmu_host_parse(const char *cpuinfo, struct pmu_host *ret_host);

/* This machine. Never fails: unknown stays PMU_VENDOR_OTHER. */
void pmu_host_read(struct pmu_host *ret_host);

/* "Intel", "AMD", "Arm", "POWER", or "another". */
const char *pmu_host_vendor(const struct pmu_host *host);
