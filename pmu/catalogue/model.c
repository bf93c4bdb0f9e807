#include "pmu/catalogue/model.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *const pmu_words[PMU_WORD_COUNT] = {
	[PMU_WORD_LOADS] = "loads",
	[PMU_WORD_STORES] = "stores",
	[PMU_WORD_LLC_MISS] = "llc-miss",
	[PMU_WORD_ALL_LOADS] = "all-loads",
};

enum pmu_word pmu_word_find(const char *text)
{
	for (int i = 0; i < PMU_WORD_COUNT; i++)
		if (strcmp(text, pmu_words[i]) == 0)
			return (enum pmu_word)i;
	return PMU_WORD_NONE;
}

/* ---- Processors ---- */

/* Kinds of core that share their memory events. */
#define NHM (1u << 0) /* Nehalem, Westmere */
#define SNB (1u << 1) /* Sandy Bridge, Ivy Bridge */
#define HSW (1u << 2) /* Haswell, Broadwell */
#define SKL (1u << 3) /* Skylake to Comet Lake, with Skylake-X and Cascade Lake */
#define ICL (1u << 4) /* Ice Lake, Tiger Lake, Rocket Lake, with Ice Lake-X */
#define GLC (1u << 5) /* Golden Cove and later: Sapphire Rapids, the big cores of Alder Lake ... */
#define GLM (1u << 6) /* Goldmont, Goldmont Plus */
#define TNT (1u << 7) /* Tremont */
#define GRT (1u << 8) /* Gracemont and later: Sierra Forest, the small cores of Alder Lake ... */
#define KNL (1u << 9) /* Knights Landing, Knights Mill */
#define AMD (1u << 10)
#define ARM (1u << 11)
#define P9  (1u << 12)
#define P10 (1u << 13)

#define MAX_MODELS 12

/*
 * Intel's family 6: arch/x86/include/asm/intel-family.h. Unused places stay 0, which is no model.
 */
static const struct processor {
	unsigned cores;
	unsigned small_cores; /* of a hybrid processor */
	uint8_t models[MAX_MODELS];
} processors[] = {
	{ NHM, 0, { 0x1a, 0x1e, 0x1f, 0x2e, 0x25, 0x2c, 0x2f } },
	{ SNB, 0, { 0x2a, 0x2d, 0x3a, 0x3e } },
	{ HSW, 0, { 0x3c, 0x3f, 0x45, 0x46, 0x3d, 0x47, 0x4f, 0x56 } },
	{ SKL, 0, { 0x4e, 0x5e, 0x55, 0x8e, 0x9e, 0xa5, 0xa6, 0x66 } },
	{ ICL, 0, { 0x7d, 0x7e, 0x6a, 0x6c, 0x8c, 0x8d, 0xa7 } },
	{ GLC, 0, { 0x8f, 0xcf, 0xad, 0xae } },
	{ GLC, GRT, { 0x97, 0x9a, 0xb7, 0xba, 0xbf, 0xaa, 0xac, 0xc5, 0xc6, 0xb5, 0xbd } },
	{ GLM, 0, { 0x5c, 0x5f, 0x7a } },
	{ TNT, 0, { 0x86, 0x96, 0x9c } },
	{ GRT, 0, { 0xbe, 0xaf, 0xb6 } },
	{ KNL, 0, { 0x57, 0x85 } },
};

static unsigned intel_cores(const struct pmu_host *host, bool is_small)
{
	for (size_t i = 0; i < COUNT(processors); i++)
		for (size_t k = 0; k < MAX_MODELS; k++)
			if (host->family == 6 && host->model &&
			    processors[i].models[k] == host->model)
				return is_small ? processors[i].small_cores : processors[i].cores;
	return 0;
}

static unsigned cores_of(const struct pmu_host *host, const char *pmu)
{
	switch (host->vendor) {
	case PMU_VENDOR_INTEL:
		return intel_cores(host, strcmp(pmu, "cpu_atom") == 0);
	case PMU_VENDOR_AMD:
		return AMD;
	case PMU_VENDOR_ARM:
		return ARM;
	case PMU_VENDOR_POWER:
		return host->family == 9 ? P9 : host->family == 10 ? P10 : 0;
	default:
		return 0;
	}
}

/* ---- Events ---- */

#define LATENCY 3 /* cycles: the least that the hardware takes (Intel SDM 3B, load latency) */

/*
 * Intel: https://github.com/intel/perfmon and arch/x86/events/intel/{core,ds}.c. AMD: ibs.c beside
 * them, PPR 17h IbsOpCtl (bit 19 counts micro-ops, bit 16 takes misses of L3 only). Arm:
 * drivers/perf/arm_spe_pmu.c. POWER: arch/powerpc/perf/power{9,10}-events-list.h.
 */
static const struct row {
	unsigned cores;
	enum pmu_word word;
	struct pmu_model_event event;
} rows[] = {
	{ NHM, PMU_WORD_LOADS, { "MEM_INST_RETIRED:LATENCY_ABOVE_THRESHOLD", 0x100b, LATENCY } },
	{ SNB | HSW | SKL | ICL | GLC,
	  PMU_WORD_LOADS,
	  { "MEM_TRANS_RETIRED:LOAD_LATENCY", 0x1cd, LATENCY } },
	{ GRT, PMU_WORD_LOADS, { "MEM_UOPS_RETIRED:LOAD_LATENCY", 0x5d0, LATENCY } },
	{ GLM | TNT, PMU_WORD_LOADS, { "MEM_UOPS_RETIRED:ALL_LOADS", 0x81d0 } },
	{ KNL, PMU_WORD_LOADS, { "MEM_UOPS_RETIRED:ALL_LOADS", 0x4004 } },
	{ AMD, PMU_WORD_LOADS, { "ibs_op/cnt_ctl=1/", 0 } },
	{ ARM, PMU_WORD_LOADS, { "arm_spe_0/ts_enable=1,jitter=1,load_filter=1/", 0 } },
	{ P9, PMU_WORD_LOADS, { "MEM_LOADS", 0x34340401e0 } },
	{ P10, PMU_WORD_LOADS, { "MEM_LOADS", 0x35340401e0 } },

	/* libpfm4 4.13 encodes STORE_SAMPLE as 0x3cd; ds.c and perfmon's JSON have umask 2. */
	{ GLC, PMU_WORD_STORES, { "MEM_TRANS_RETIRED:STORE_SAMPLE", 0x2cd, 0, true } },
	{ SNB, PMU_WORD_STORES, { "MEM_TRANS_RETIRED:PRECISE_STORE", 0x2cd } },
	{ HSW | GLM | TNT, PMU_WORD_STORES, { "MEM_UOPS_RETIRED:ALL_STORES", 0x82d0 } },
	{ SKL | ICL, PMU_WORD_STORES, { "MEM_INST_RETIRED:ALL_STORES", 0x82d0 } },
	{ GRT, PMU_WORD_STORES, { "MEM_UOPS_RETIRED:STORE_LATENCY", 0x6d0 } },
	{ KNL, PMU_WORD_STORES, { "MEM_UOPS_RETIRED:ALL_STORES", 0x8004 } },
	{ AMD, PMU_WORD_STORES, { "ibs_op/cnt_ctl=1/", 0 } },
	{ ARM, PMU_WORD_STORES, { "arm_spe_0/ts_enable=1,jitter=1,store_filter=1/", 0 } },
	{ P9, PMU_WORD_STORES, { "MEM_STORES", 0x343c0401e0 } },
	{ P10, PMU_WORD_STORES, { "MEM_STORES", 0x353c0401e0 } },

	{ NHM, PMU_WORD_LLC_MISS, { "MEM_LOAD_RETIRED:L3_MISS", 0x10cb } },
	{ SNB | HSW, PMU_WORD_LLC_MISS, { "MEM_LOAD_UOPS_RETIRED:L3_MISS", 0x20d1 } },
	{ SKL | ICL | GLC, PMU_WORD_LLC_MISS, { "MEM_LOAD_RETIRED:L3_MISS", 0x20d1 } },
	{ GLM | TNT | GRT, PMU_WORD_LLC_MISS, { "MEM_LOAD_UOPS_RETIRED:DRAM_HIT", 0x80d1 } },
	{ KNL, PMU_WORD_LLC_MISS, { "MEM_UOPS_RETIRED:L2_MISS_LOADS", 0x404 } },
	{ AMD, PMU_WORD_LLC_MISS, { "ibs_op/cnt_ctl=1,l3missonly=1/", 0 } },

	{ NHM, PMU_WORD_ALL_LOADS, { "MEM_INST_RETIRED:LOADS", 0x10b } },
	{ SNB | HSW | GLM | TNT | GRT,
	  PMU_WORD_ALL_LOADS,
	  { "MEM_UOPS_RETIRED:ALL_LOADS", 0x81d0 } },
	{ SKL | ICL | GLC, PMU_WORD_ALL_LOADS, { "MEM_INST_RETIRED:ALL_LOADS", 0x81d0 } },
	{ KNL, PMU_WORD_ALL_LOADS, { "MEM_UOPS_RETIRED:ALL_LOADS", 0x4004 } },
	{ P9, PMU_WORD_ALL_LOADS, { "PM_LD_CMPL", 0x4003e } },

	/* By name only. */
	{ GLC, PMU_WORD_NONE, { "mem-loads-aux", 0x8203 } },
	{ P9, PMU_WORD_NONE, { "PM_MRK_INST_CMPL", 0x401e0 } },
	{ P9, PMU_WORD_NONE, { "PM_MRK_LD_MISS_L1", 0x201e2 } },
	{ P9, PMU_WORD_NONE, { "PM_MRK_LSU_FIN", 0x40132 } },
	{ P9, PMU_WORD_NONE, { "PM_MRK_ST_CMPL", 0x301e2 } },
	{ P9, PMU_WORD_NONE, { "PM_MRK_DATA_FROM_MEMORY", 0x201e0 } },
	{ P9, PMU_WORD_NONE, { "PM_ST_FIN", 0x20016 } },
};

const struct pmu_model_event *pmu_model_event(const struct pmu_host *host, const char *pmu,
					      enum pmu_word word, const char *name, unsigned n)
{
	unsigned cores = cores_of(host, pmu);

	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct row *row = &rows[i];

		if (!(row->cores & cores) || (word != PMU_WORD_NONE && row->word != word) ||
		    (name && strcasecmp(row->event.name, name) != 0))
			continue;
		if (n-- == 0)
			return &row->event;
	}
	return NULL;
}

/* Names that a later processor has as an alias of its own stand first. */
static const char *const load_names[] = { "MEM_TRANS_RETIRED:LOAD_LATENCY",
					  "MEM_TRANS_RETIRED:LATENCY_ABOVE_THRESHOLD",
					  "MEM_INST_RETIRED:LATENCY_ABOVE_THRESHOLD",
					  "MEM_UOPS_RETIRED:LOAD_LATENCY",
					  "MEM_UOPS_RETIRED:ALL_LOADS",
					  NULL };
static const char *const store_names[] = { "MEM_TRANS_RETIRED:PRECISE_STORE",
					   "MEM_UOPS_RETIRED:STORE_LATENCY",
					   "MEM_INST_RETIRED:ALL_STORES",
					   "MEM_UOPS_RETIRED:ALL_STORES", NULL };
static const char *const miss_names[] = { "MEM_LOAD_RETIRED:L3_MISS",
					  "MEM_LOAD_UOPS_RETIRED:L3_MISS",
					  "MEM_LOAD_UOPS_RETIRED:DRAM_HIT",
					  "MEM_UOPS_RETIRED:L2_MISS_LOADS", NULL };
static const char *const all_names[] = { "MEM_INST_RETIRED:ALL_LOADS", "MEM_UOPS_RETIRED:ALL_LOADS",
					 "MEM_INST_RETIRED:LOADS", "PM_LD_CMPL", NULL };

const char *const *pmu_model_names(enum pmu_word word)
{
	static const char *const none[] = { NULL };
	static const char *const *const names[PMU_WORD_COUNT] = {
		[PMU_WORD_LOADS] = load_names,
		[PMU_WORD_STORES] = store_names,
		[PMU_WORD_LLC_MISS] = miss_names,
		[PMU_WORD_ALL_LOADS] = all_names,
	};

	return word == PMU_WORD_NONE ? none : names[word];
}

bool pmu_model_is_latency(const struct pmu_host *host, const struct pmu_event *event)
{
	static const struct {
		uint64_t code; /* event select and umask */
		unsigned cores;
	} events[] = {
		{ 0x1cd, SNB | HSW | SKL | ICL | GLC },
		{ 0x100b, NHM },
		{ 0x5d0, GRT },
	};
	unsigned cores = cores_of(host, event->pmu);

	if (!cores && host->vendor == PMU_VENDOR_INTEL)
		cores = GLC | GRT; /* newer than this table */
	for (size_t i = 0; i < COUNT(events); i++)
		if ((event->config & 0xffff) == events[i].code && (cores & events[i].cores))
			return true;
	return false;
}
