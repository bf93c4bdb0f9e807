#pragma once
/*
 * From the name of an event to what perf_event_open is asked for. A name is one of
 *
 *	loads  stores  llc-miss  all-loads	the best event for it that is known on this host
 *	r1cd  r1cd:u				a raw code of the processor, in hexadecimal
 *	cpu/event=0xcd,umask=1,ldlat=30/pp	a PMU's own fields, as perf has them
 *	mem-loads				a name that the kernel gives it (events/ in sysfs)
 *	MEM_TRANS_RETIRED:LOAD_LATENCY:ldlat=3	a name of libpfm4, "pmu::" before it or not
 *
 * and is looked for in this order: as it stands, sysfs, what libpfm4 has wrong, libpfm4, our own
 * table of what it lacks. That a name is found does not say that the event can be opened.
 *
 * Nothing is looked at but the host given (its sysfs tree, the processor's numbers) and libpfm4,
 * which is loaded when a name is asked for and not needed otherwise; its functions are not to be
 * called by two threads at once, so neither are these.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pmu/host.h"
#include "pmu/remedy.h"

/* For one name: hybrid processors have an event for each kind of core. */
#define PMU_MAX_EVENTS	     4
#define PMU_EVENT_NAME_BYTES 160
#define PMU_MAX_NEAREST	     5

struct pmu_event {
	char name
		[PMU_EVENT_NAME_BYTES]; /* with what was filled in: "cpu_core/mem-loads,ldlat=3/" */
	char pmu[32]; /* its folder in sysfs; "": of the type alone */
	uint32_t type;
	uint64_t config;
	uint64_t config1;
	uint64_t config2;
	uint8_t precise; /* asked for with p, pp, ppp or precise=; 0: nothing was */
	bool exclude_user; /* :k */
	bool exclude_kernel; /* :u */
	bool is_latency; /* samples loads by their latency: config1 is the least */
};

/*
 * Find an event by name. min_latency is put into events that have one and whose name does not say
 * it; 0 is the least that the hardware takes. Fills at most PMU_MAX_EVENTS and returns how many
 * (>= 1); or -ENOENT (in ret_refusal the nearest names), -EINVAL (what is wrong in the name).
 */
int pmu_catalogue_find(const struct pmu_host *host, const char *name, uint32_t min_latency,
		       struct pmu_event *ret_events, struct pmu_refusal *ret_refusal);

/*
 * The event that has to lead a group with this one: load latency on Intel's Sapphire Rapids, Alder
 * Lake and later, where the kernel has an event mem-loads-aux. Returns false when none is needed.
 * is_asked: the kernel has said so (ENODATA) though sysfs has no such event.
 */
bool pmu_catalogue_leader(const struct pmu_host *host, const struct pmu_event *event, bool is_asked,
			  struct pmu_event *ret_leader);

/* Whether libpfm4 could be loaded. */
bool pmu_catalogue_has_library(void);
