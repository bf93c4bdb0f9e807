/*
 * Names to encodings, on machines built of folders. Expected codes are those of the kernel
 * (arch/x86/events/intel/core.c and ds.c, arch/powerpc/perf) and of Intel's perfmon JSON files.
 */
#include <check.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmu/catalogue/catalogue.h"
#include "pmu/catalogue/sysfs.h"
#include "tests/unit/pmu/machine.h"
#include "tests/support/suite.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static struct pmu_host host;

static void build(const char *name)
{
	machine_make(machine_find(name), &host);
}

static void teardown(void)
{
	if (host.devices[0])
		machine_remove(&host);
	host = (struct pmu_host){ 0 };
}

static int find(const char *name, uint32_t latency, struct pmu_event *events)
{
	struct pmu_refusal refusal = { 0 };
	int n = pmu_catalogue_find(&host, name, latency, events, &refusal);

	ck_assert_msg(n >= 1, "%s: %s; %s", name, refusal.why, refusal.fix);
	return n;
}

/* ---- Each processor's own names, without any sysfs: what libpfm4 and our table give ---- */

static const struct {
	const char *pmu; /* of libpfm4 */
	unsigned model; /* family 6; 0: not Intel */
	const char *name;
	uint64_t config, config1;
} encodings[] = {
	{ "nhm", 0x1a, "loads", 0x100b, 3 },
	{ "nhm", 0x1a, "MEM_INST_RETIRED:LATENCY_ABOVE_THRESHOLD", 0x100b, 3 },
	{ "nhm", 0x1a, "llc-miss", 0x10cb, 0 },
	{ "nhm", 0x1a, "all-loads", 0x10b, 0 },
	{ "wsm", 0x2c, "loads", 0x100b, 3 },
	{ "wsm", 0x2c, "llc-miss", 0x10cb, 0 },
	{ "snb", 0x2a, "loads", 0x1cd, 3 },
	{ "snb", 0x2a, "stores", 0x2cd, 0 },
	{ "snb", 0x2a, "llc-miss", 0x20d1, 0 },
	{ "snb", 0x2a, "MEM_UOPS_RETIRED:ALL_STORES", 0x82d0, 0 },
	{ "ivb", 0x3a, "loads", 0x1cd, 3 },
	{ "ivb", 0x3a, "stores", 0x2cd, 0 },
	{ "ivb", 0x3a, "llc-miss", 0x20d1, 0 },
	{ "hsw", 0x3c, "loads", 0x1cd, 3 },
	{ "hsw", 0x3c, "stores", 0x82d0, 0 },
	{ "hsw", 0x3c, "llc-miss", 0x20d1, 0 },
	{ "hsw", 0x3c, "all-loads", 0x81d0, 0 },
	{ "bdw", 0x3d, "loads", 0x1cd, 3 },
	{ "bdw", 0x3d, "stores", 0x82d0, 0 },
	{ "skl", 0x5e, "loads", 0x1cd, 3 },
	{ "skl", 0x5e, "stores", 0x82d0, 0 },
	{ "skl", 0x5e, "llc-miss", 0x20d1, 0 },
	{ "skl", 0x5e, "MEM_TRANS_RETIRED:LATENCY_ABOVE_THRESHOLD", 0x1cd, 3 },
	{ "skx", 0x55, "loads", 0x1cd, 3 },
	{ "skx", 0x55, "stores", 0x82d0, 0 },
	{ "clx", 0x55, "loads", 0x1cd, 3 },
	{ "clx", 0x55, "stores", 0x82d0, 0 },
	{ "icl", 0x7e, "loads", 0x1cd, 3 },
	{ "icl", 0x7e, "stores", 0x82d0, 0 },
	{ "icx", 0x6a, "loads", 0x1cd, 3 },
	{ "icx", 0x6a, "stores", 0x82d0, 0 },
	{ "icx", 0x6a, "all-loads", 0x81d0, 0 },
	{ "spr", 0x8f, "loads", 0x1cd, 3 },
	{ "spr", 0x8f, "stores", 0x2cd, 0 },
	{ "spr", 0x8f, "MEM_TRANS_RETIRED:STORE_SAMPLE", 0x2cd, 0 },
	{ "spr", 0x8f, "spr::MEM_TRANS_RETIRED:STORE_SAMPLE", 0x2cd, 0 },
	{ "spr", 0x8f, "mem-loads-aux", 0x8203, 0 },
	{ "spr", 0x8f, "llc-miss", 0x20d1, 0 },
	{ "glm", 0x5c, "loads", 0x81d0, 0 },
	{ "glm", 0x5c, "stores", 0x82d0, 0 },
	{ "tmt", 0x86, "loads", 0x81d0, 0 },
	{ "tmt", 0x86, "stores", 0x82d0, 0 },
	{ "knl", 0x57, "loads", 0x4004, 0 },
	{ "knl", 0x57, "stores", 0x8004, 0 },
	{ "knl", 0x57, "llc-miss", 0x404, 0 },
	/* libpfm4 4.13 has neither emerald nor granite rapids, nor the small cores. */
	{ "none", 0xcf, "loads", 0x1cd, 3 },
	{ "none", 0xcf, "stores", 0x2cd, 0 },
	{ "none", 0xad, "loads", 0x1cd, 3 },
	{ "none", 0xaf, "loads", 0x5d0, 3 },
	{ "none", 0xaf, "stores", 0x6d0, 0 },
	{ "none", 0xaf, "MEM_UOPS_RETIRED:STORE_LATENCY", 0x6d0, 0 },
	/* PPR of the families: LsDispatch, PMCx029. */
	{ "amd64_fam17h_zen1", 0, "LS_DISPATCH:LD_DISPATCH", 0x129, 0 },
	{ "amd64_fam17h_zen2", 0, "LS_DISPATCH:LD_DISPATCH", 0x129, 0 },
	{ "amd64_fam19h_zen3", 0, "LS_DISPATCH:LD_DISPATCH", 0x129, 0 },
	{ "amd64_fam19h_zen4", 0, "LS_DISPATCH:STORE_DISPATCH", 0x229, 0 },
	{ "skx", 0x55, "r81d0", 0x81d0, 0 },
	{ "skx", 0x55, "r1cd", 0x1cd, 3 },
	{ "skx", 0x55, "r5301cb", 0x5301cb, 0 },
};

START_TEST(each_processor_has_its_own_codes)
{
	struct pmu_event events[PMU_MAX_EVENTS];

	build("nothing");
	host.vendor = encodings[_i].model ? PMU_VENDOR_INTEL : PMU_VENDOR_AMD;
	host.family = encodings[_i].model ? 6 : 0;
	host.model = encodings[_i].model;
	snprintf(host.library_pmu, sizeof(host.library_pmu), "%s", encodings[_i].pmu);
	ck_assert_int_eq(find(encodings[_i].name, 0, events), 1);
	ck_assert_uint_eq(events[0].type, PERF_TYPE_RAW);
	ck_assert_uint_eq(events[0].config, encodings[_i].config);
	ck_assert_uint_eq(events[0].config1, encodings[_i].config1);
	ck_assert_uint_eq(events[0].precise, 0);
	ck_assert_int_eq(events[0].is_latency, encodings[_i].config1 == 3);
}
END_TEST

/* ---- Machines with their sysfs ---- */

static const struct {
	const char *machine, *name;
	uint32_t latency;
	int n;
	struct pmu_event events[2]; /* name too */
} found[] = {
	{ "skx",
	  "loads",
	  0,
	  1,
	  { { .name = "cpu/mem-loads/",
	      .pmu = "cpu",
	      .type = 4,
	      .config = 0x1cd,
	      .config1 = 3 } } },
	{ "skx",
	  "loads",
	  50,
	  1,
	  { { .name = "cpu/mem-loads/",
	      .pmu = "cpu",
	      .type = 4,
	      .config = 0x1cd,
	      .config1 = 50 } } },
	{ "skx",
	  "mem-loads",
	  2,
	  1,
	  { { .name = "cpu/mem-loads/",
	      .pmu = "cpu",
	      .type = 4,
	      .config = 0x1cd,
	      .config1 = 3 } } },
	{ "skx",
	  "cpu/mem-loads,ldlat=30/P",
	  99,
	  1,
	  { { .name = "cpu/mem-loads,ldlat=30/",
	      .pmu = "cpu",
	      .type = 4,
	      .config = 0x1cd,
	      .config1 = 30,
	      .precise = 3 } } },
	{ "skx",
	  "cpu/event=0xcd,umask=0x1,ldlat=0x10/pp",
	  0,
	  1,
	  { { .name = "cpu/event=0xcd,umask=0x1,ldlat=0x10/",
	      .pmu = "cpu",
	      .type = 4,
	      .config = 0x1cd,
	      .config1 = 16,
	      .precise = 2 } } },
	{ "skx",
	  "cpu/config=0x81d0,config1=010,config2=7/",
	  0,
	  1,
	  { { .name = "cpu/config=0x81d0,config1=010,config2=7/",
	      .pmu = "cpu",
	      .type = 4,
	      .config = 0x81d0,
	      .config1 = 10,
	      .config2 = 7 } } },
	{ "skx",
	  "uncore_imc_0/event=4/",
	  0,
	  1,
	  { { .name = "uncore_imc_0/event=4/", .pmu = "uncore_imc_0", .type = 17, .config = 4 } } },
	{ "skx",
	  "stores",
	  0,
	  1,
	  { { .name = "cpu/mem-stores/", .pmu = "cpu", .type = 4, .config = 0x82d0 } } },
	{ "skx",
	  "llc-miss",
	  0,
	  1,
	  { { .name = "MEM_LOAD_RETIRED:L3_MISS", .type = 4, .config = 0x20d1 } } },
	{ "skx",
	  "MEM_TRANS_RETIRED:LOAD_LATENCY:ldlat=64:u",
	  0,
	  1,
	  { { .name = "MEM_TRANS_RETIRED:LOAD_LATENCY:ldlat=64",
	      .type = 4,
	      .config = 0x1cd,
	      .config1 = 64,
	      .exclude_kernel = true } } },
	{ "skx",
	  "r81d0:kp",
	  0,
	  1,
	  { { .name = "r81d0",
	      .type = 4,
	      .config = 0x81d0,
	      .exclude_user = true,
	      .precise = 1 } } },
	{ "spr",
	  "stores",
	  0,
	  1,
	  { { .name = "cpu/mem-stores/", .pmu = "cpu", .type = 4, .config = 0x2cd } } },
	{ "adl",
	  "loads",
	  0,
	  2,
	  { { .name = "cpu_atom/mem-loads/",
	      .pmu = "cpu_atom",
	      .type = 10,
	      .config = 0x5d0,
	      .config1 = 3 },
	    { .name = "cpu_core/mem-loads/",
	      .pmu = "cpu_core",
	      .type = 4,
	      .config = 0x1cd,
	      .config1 = 3 } } },
	{ "adl",
	  "stores",
	  0,
	  2,
	  { { .name = "cpu_atom/mem-stores/", .pmu = "cpu_atom", .type = 10, .config = 0x6d0 },
	    { .name = "cpu_core/mem-stores/", .pmu = "cpu_core", .type = 4, .config = 0x2cd } } },
	{ "adl",
	  "llc-miss",
	  0,
	  2,
	  { { .name = "MEM_LOAD_RETIRED:L3_MISS", .pmu = "cpu_core", .type = 4, .config = 0x20d1 },
	    { .name = "MEM_LOAD_UOPS_RETIRED:DRAM_HIT",
	      .pmu = "cpu_atom",
	      .type = 10,
	      .config = 0x80d1 } } },
	{ "zen4",
	  "loads",
	  0,
	  1,
	  { { .name = "ibs_op/cnt_ctl=1/", .pmu = "ibs_op", .type = 11, .config = 1u << 19 } } },
	{ "zen4",
	  "llc-miss",
	  0,
	  1,
	  { { .name = "ibs_op/cnt_ctl=1,l3missonly=1/",
	      .pmu = "ibs_op",
	      .type = 11,
	      .config = 1u << 19 | 1u << 16 } } },
	{ "zen4",
	  "cpu/event=0x76,umask=0/",
	  0,
	  1,
	  { { .name = "cpu/event=0x76,umask=0/", .pmu = "cpu", .type = 4, .config = 0x76 } } },
	/* A field in two pieces: the low eight bits of the value lie low, the others at 32. */
	{ "zen4",
	  "cpu/event=0x1ab/",
	  0,
	  1,
	  { { .name = "cpu/event=0x1ab/",
	      .pmu = "cpu",
	      .type = 4,
	      .config = UINT64_C(0x1000000ab) } } },
	{ "zen5",
	  "ibs_op/cnt_ctl,swfilt,ldlat=128/",
	  0,
	  1,
	  { { .name = "ibs_op/cnt_ctl,swfilt,ldlat=128/",
	      .pmu = "ibs_op",
	      .type = 11,
	      .config = 1u << 19,
	      .config1 = 128,
	      .config2 = 1 } } },
	{ "neoverse",
	  "loads",
	  0,
	  1,
	  { { .name = "arm_spe_0/ts_enable=1,jitter=1,load_filter=1/",
	      .pmu = "arm_spe_0",
	      .type = 9,
	      .config = UINT64_C(1) << 33 | 1u << 16 | 1 } } },
	{ "neoverse",
	  "mem_access",
	  0,
	  1,
	  { { .name = "armv8_pmuv3_0/mem_access/",
	      .pmu = "armv8_pmuv3_0",
	      .type = 8,
	      .config = 0x13 } } },
	{ "power9",
	  "loads",
	  0,
	  1,
	  { { .name = "cpu/mem-loads/",
	      .pmu = "cpu",
	      .type = 4,
	      .config = UINT64_C(0x34340401e0) } } },
	{ "power9",
	  "stores",
	  0,
	  1,
	  { { .name = "cpu/mem-stores/",
	      .pmu = "cpu",
	      .type = 4,
	      .config = UINT64_C(0x343c0401e0) } } },
	{ "power9", "r4003E", 0, 1, { { .name = "r4003E", .type = 4, .config = 0x4003e } } },
	{ "power9", "r20016", 0, 1, { { .name = "r20016", .type = 4, .config = 0x20016 } } },
	{ "power9",
	  "PM_MRK_LD_MISS_L1",
	  0,
	  1,
	  { { .name = "PM_MRK_LD_MISS_L1", .type = 4, .config = 0x201e2 } } },
	{ "vm-intel",
	  "loads",
	  0,
	  1,
	  { { .name = "MEM_TRANS_RETIRED:LOAD_LATENCY",
	      .type = 4,
	      .config = 0x1cd,
	      .config1 = 3 } } },
};

START_TEST(a_machine_s_names_are_found)
{
	struct pmu_event events[PMU_MAX_EVENTS];

	build(found[_i].machine);
	ck_assert_int_eq(find(found[_i].name, found[_i].latency, events), found[_i].n);
	for (int i = 0; i < found[_i].n; i++) {
		const struct pmu_event *is = &events[i], *wanted = &found[_i].events[i];

		ck_assert_str_eq(is->name, wanted->name);
		ck_assert_str_eq(is->pmu, wanted->pmu);
		ck_assert_uint_eq(is->type, wanted->type);
		ck_assert_uint_eq(is->config, wanted->config);
		ck_assert_uint_eq(is->config1, wanted->config1);
		ck_assert_uint_eq(is->config2, wanted->config2);
		ck_assert_uint_eq(is->precise, wanted->precise);
		ck_assert_int_eq(is->exclude_user, wanted->exclude_user);
		ck_assert_int_eq(is->exclude_kernel, wanted->exclude_kernel);
	}
}
END_TEST

/* ---- Who needs a leader ---- */

static const struct {
	const char *machine, *name;
	bool is_asked, has_leader;
	uint32_t type;
} leaders[] = {
	{ "spr", "loads", false, true, 4 },
	{ "spr", "r1cd", false, true, 4 },
	{ "spr", "MEM_TRANS_RETIRED:LOAD_LATENCY", false, true, 4 },
	{ "spr", "stores", false, false, 0 },
	{ "spr", "all-loads", false, false, 0 },
	{ "skx", "loads", false, false, 0 },
	{ "skx", "loads", true, true, 4 }, /* the kernel says so, sysfs does not */
	{ "adl", "cpu_core/mem-loads/", false, true, 4 },
	{ "adl", "cpu_atom/mem-loads/", false, false, 0 },
	{ "zen4", "loads", true, false, 0 },
};

START_TEST(load_latency_gets_a_leader_where_the_kernel_has_one)
{
	struct pmu_event events[PMU_MAX_EVENTS], leader;

	build(leaders[_i].machine);
	ck_assert_int_eq(find(leaders[_i].name, 0, events), 1);
	ck_assert_int_eq(pmu_catalogue_leader(&host, &events[0], leaders[_i].is_asked, &leader),
			 leaders[_i].has_leader);
	if (!leaders[_i].has_leader)
		return;
	ck_assert_uint_eq(leader.config, 0x8203);
	ck_assert_uint_eq(leader.type, leaders[_i].type);
}
END_TEST

/* ---- Refusals ---- */

static const struct {
	const char *machine, *name;
	int error;
	const char *why, *fix;
} refusals[] = {
	{ "skx", "laods", -ENOENT, "no event laods", "loads" },
	{ "skx", "mem-load", -ENOENT, "mem-load", "mem-loads" },
	{ "skx", "MEM_TRANS_RETIRED:LOAD_LATENC", -EINVAL, "LOAD_LATENC", "libpfm4" },
	{ "skx", "MEM_TRANS_RETIERD:LOAD_LATENCY", -ENOENT, "MEM_TRANS_RETIERD",
	  "MEM_TRANS_RETIRED:LOAD_LATENCY" },
	{ "skx", "MEM_TRANS_RETIRED:LOAD_LATENCY:ldlat=65536", -EINVAL, "ldlat=65536", "libpfm4" },
	{ "skx", "cpu/event=0x1cd/", -EINVAL, "event=0x1cd", "format" },
	{ "skx", "cpu/evnt=0xcd/", -EINVAL, "evnt=0xcd", "format" },
	{ "skx", "cpu/event=cd/", -EINVAL, "event=cd", "format" },
	{ "skx", "cpu/event=-1/", -EINVAL, "event=-1", "format" },
	{ "skx", "cpu/event=99999999999999999999/", -EINVAL, "event=9999", "format" },
	{ "skx", "cpu/event=1/z", -EINVAL, "z is not", "format" },
	{ "skx", "cpu/event=1", -EINVAL, "no second /", "format" },
	{ "skx", "cpuu/event=1/", -ENOENT, "no PMU cpuu", "ls " },
	{ "skx", "../event=1/", -ENOENT, "no PMU ..", "ls " },
	{ "skx", "cpu/../../x/", -EINVAL, "", "" },
	{ "skx", "", -ENOENT, "no event", "rXXXX" },
	{ "skx", "rxyz", -ENOENT, "rxyz", "" },
	{ "skx", "r11112222333344445", -ENOENT, "r1111", "" },
	{ "vm-amd", "stores", -ENOENT, "no event for stores is known on this processor (AMD)",
	  "--source clock" },
	{ "nothing", "loads", -ENOENT, "no event for loads", "--source clock" },
	{ "power9", "PM_MRK_LD_MIS_L1", -ENOENT, "PM_MRK_LD_MIS_L1", "PM_MRK_LD_MISS_L1" },
};

START_TEST(a_bad_name_is_refused_and_the_nearest_are_told)
{
	struct pmu_event events[PMU_MAX_EVENTS];
	struct pmu_refusal refusal;
	const char *nearest;

	build(refusals[_i].machine);
	ck_assert_int_eq(pmu_catalogue_find(&host, refusals[_i].name, 0, events, &refusal),
			 refusals[_i].error);
	ck_assert_int_eq(refusal.error, -refusals[_i].error);
	ck_assert_msg(strstr(refusal.why, refusals[_i].why), "'%s' says nothing of '%s'",
		      refusal.why, refusals[_i].why);
	ck_assert_msg(strstr(refusal.fix, refusals[_i].fix), "'%s' says nothing of '%s'",
		      refusal.fix, refusals[_i].fix);
	nearest = strstr(refusal.fix, "the nearest names are ");
	for (int n = 1; nearest && (nearest = strchr(nearest, ',')); nearest++)
		ck_assert_int_lt(n++, PMU_MAX_NEAREST);
}
END_TEST

START_TEST(a_long_name_is_refused)
{
	struct pmu_event events[PMU_MAX_EVENTS];
	struct pmu_refusal refusal;
	char name[1000];

	build("skx");
	memset(name, 'r', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	ck_assert_int_eq(pmu_catalogue_find(&host, name, 0, events, &refusal), -ENOENT);
	memcpy(name, "cpu/event=", 10);
	ck_assert_int_eq(pmu_catalogue_find(&host, name, 0, events, &refusal), -ENOENT);
}
END_TEST

/* ---- CPUs ---- */

static const struct {
	const char *machine, *pmu;
	int n, first;
} cpus_of[] = {
	{ "adl", "cpu_core", 1, 0 },	   { "adl", "cpu_atom", 1, 1 }, { "skx", "cpu", 0, 0 },
	{ "neoverse", "arm_spe_0", 2, 0 }, { "skx", "", 0, 0 },
};

START_TEST(a_pmu_s_cpus_are_those_of_its_file)
{
	int *cpus = NULL;

	build(cpus_of[_i].machine);
	ck_assert_int_eq(pmu_sysfs_cpus(&host, cpus_of[_i].pmu, &cpus), cpus_of[_i].n);
	if (cpus_of[_i].n)
		ck_assert_int_eq(cpus[0], cpus_of[_i].first);
	free(cpus);
}
END_TEST

/* ---- Who the processor is ---- */

static const struct {
	const char *cpuinfo;
	enum pmu_vendor vendor;
	unsigned family, model;
	bool is_virtual;
} processors[] = {
	{ "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n"
	  "model name\t: Intel(R) Xeon(R) Gold 6248\nflags\t\t: fpu vme hypervisor lahf_lm\n",
	  PMU_VENDOR_INTEL, 6, 85, true },
	{ "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
	  "model name\t: x\nflags\t\t: fpu hypervisors\n\nprocessor\t: 1\nflags\t: hypervisor\n",
	  PMU_VENDOR_INTEL, 6, 143, false },
	{ "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n",
	  PMU_VENDOR_AMD, 25, 17, false },
	{ "processor\t: 0\nvendor_id\t: HygonGenuine\ncpu family\t: 24\nmodel\t\t: 0\n",
	  PMU_VENDOR_AMD, 24, 0, false },
	{ "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp\nCPU implementer\t: 0x41\n",
	  PMU_VENDOR_ARM, 0, 0, false },
	{ "processor\t: 0\ncpu\t\t: POWER9 (raw), altivec supported\nclock\t\t: 3000MHz\n",
	  PMU_VENDOR_POWER, 9, 0, false },
	{ "processor\t: 0\ncpu\t\t: POWER10 (architected)\n", PMU_VENDOR_POWER, 10, 0, false },
	{ "", PMU_VENDOR_OTHER, 0, 0, false },
	{ "vendor_id", PMU_VENDOR_OTHER, 0, 0, false },
	{ "vendor_id\t: 0x123\nflags", PMU_VENDOR_OTHER, 0, 0, false },
};

START_TEST(a_processor_is_known_by_what_the_kernel_tells)
{
	struct pmu_host parsed;

	pmu_host_parse(processors[_i].cpuinfo, &parsed);
	ck_assert_int_eq(parsed.vendor, processors[_i].vendor);
	ck_assert_uint_eq(parsed.family, processors[_i].family);
	ck_assert_uint_eq(parsed.model, processors[_i].model);
	ck_assert_int_eq(parsed.is_virtual, processors[_i].is_virtual);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("catalogue");
	TCase *tcase = tcase_create("catalogue");

	setenv("LIBPFM_ENCODE_INACTIVE", "1", 1); /* before the library is loaded */
	if (!pmu_catalogue_has_library()) {
		puts("cannot be measured here: memsight was built, or runs, without libpfm4");
		return 77;
	}
	tcase_add_checked_fixture(tcase, NULL, teardown);
	tcase_add_loop_test(tcase, each_processor_has_its_own_codes, 0, COUNT(encodings));
	tcase_add_loop_test(tcase, a_machine_s_names_are_found, 0, COUNT(found));
	tcase_add_loop_test(tcase, load_latency_gets_a_leader_where_the_kernel_has_one, 0,
			    COUNT(leaders));
	tcase_add_loop_test(tcase, a_bad_name_is_refused_and_the_nearest_are_told, 0,
			    COUNT(refusals));
	tcase_add_test(tcase, a_long_name_is_refused);
	tcase_add_loop_test(tcase, a_pmu_s_cpus_are_those_of_its_file, 0, COUNT(cpus_of));
	tcase_add_loop_test(tcase, a_processor_is_known_by_what_the_kernel_tells, 0,
			    COUNT(processors));
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
