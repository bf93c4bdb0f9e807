#include "tests/unit/pmu/machine.h"

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * arch/x86/events/intel/core.c: nhm, snb, hsw, glc and hybrid event attributes; format attributes
 * of arch/x86/events/core.c; amd/ibs.c; drivers/perf/arm_spe_pmu.c;
 * arch/powerpc/perf/isa207-common.h and power9-events-list.h. Numbers of dynamic types are as one
 * kernel happened to give them.
 */
#define INTEL_FORMAT(pmu)                                                                          \
	{ pmu "/format/event", "config:0-7\n" }, { pmu "/format/umask", "config:8-15\n" },         \
		{ pmu "/format/cmask", "config:24-31\n" },                                         \
		{ pmu "/format/ldlat", "config1:0-15\n" },                                         \
	{                                                                                          \
		pmu "/format/offcore_rsp", "config1:0-63\n"                                        \
	}

static const struct machine_file skx_files[] = {
	{ "cpu/type", "4\n" },
	INTEL_FORMAT("cpu"),
	{ "cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n" },
	{ "cpu/events/mem-stores", "event=0xd0,umask=0x82\n" },
	{ "cpu/events/cpu-cycles", "event=0x3c\n" },
	{ "uncore_imc_0/type", "17\n" },
	{ "uncore_imc_0/cpumask", "0\n" },
	{ "uncore_imc_0/format/event", "config:0-7\n" },
	{ NULL },
};

static const struct machine_file spr_files[] = {
	{ "cpu/type", "4\n" },
	INTEL_FORMAT("cpu"),
	{ "cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n" },
	{ "cpu/events/mem-loads-aux", "event=0x03,umask=0x82\n" },
	{ "cpu/events/mem-stores", "event=0xcd,umask=0x2\n" },
	{ NULL },
};

static const struct machine_file adl_files[] = {
	{ "cpu_atom/type", "10\n" },
	{ "cpu_atom/cpus", "1\n" },
	INTEL_FORMAT("cpu_atom"),
	{ "cpu_atom/events/mem-loads", "event=0xd0,umask=0x5,ldlat=3\n" },
	{ "cpu_atom/events/mem-stores", "event=0xd0,umask=0x6\n" },
	{ "cpu_core/type", "4\n" },
	{ "cpu_core/cpus", "0\n" },
	INTEL_FORMAT("cpu_core"),
	{ "cpu_core/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n" },
	{ "cpu_core/events/mem-loads-aux", "event=0x03,umask=0x82\n" },
	{ "cpu_core/events/mem-stores", "event=0xcd,umask=0x2\n" },
	{ NULL },
};

#define AMD_CPU                                                                                    \
	{ "cpu/type", "4\n" }, { "cpu/format/event", "config:0-7,32-35\n" },                       \
		{ "cpu/format/umask", "config:8-15\n" },                                           \
	{                                                                                          \
		"cpu/events/cpu-cycles", "event=0x76\n"                                            \
	}
#define IBS_OP                                                                                     \
	{ "ibs_op/type", "11\n" }, { "ibs_op/format/cnt_ctl", "config:19\n" },                     \
	{                                                                                          \
		"ibs_op/format/rand_en", "config:57\n"                                             \
	}

static const struct machine_file zen3_files[] = { AMD_CPU, IBS_OP, { NULL } };

static const struct machine_file zen4_files[] = {
	AMD_CPU,
	IBS_OP,
	{ "ibs_op/format/swfilt", "config2:0\n" },
	{ "ibs_op/format/l3missonly", "config:16\n" },
	{ "ibs_op/caps/zen4_ibs_extensions", "1\n" },
	{ NULL },
};

static const struct machine_file zen5_files[] = {
	AMD_CPU,
	IBS_OP,
	{ "ibs_op/format/swfilt", "config2:0\n" },
	{ "ibs_op/format/l3missonly", "config:16\n" },
	{ "ibs_op/format/ldlat", "config1:0-11\n" },
	{ "ibs_op/caps/zen4_ibs_extensions", "1\n" },
	{ NULL },
};

static const struct machine_file neoverse_files[] = {
	{ "armv8_pmuv3_0/type", "8\n" },
	{ "armv8_pmuv3_0/format/event", "config:0-15\n" },
	{ "armv8_pmuv3_0/events/mem_access", "event=0x0013\n" },
	{ "arm_spe_0/type", "9\n" },
	{ "arm_spe_0/cpumask", "0-1\n" },
	{ "arm_spe_0/caps/min_interval", "1024\n" },
	{ "arm_spe_0/format/ts_enable", "config:0\n" },
	{ "arm_spe_0/format/pa_enable", "config:1\n" },
	{ "arm_spe_0/format/pct_enable", "config:2\n" },
	{ "arm_spe_0/format/jitter", "config:16\n" },
	{ "arm_spe_0/format/branch_filter", "config:32\n" },
	{ "arm_spe_0/format/load_filter", "config:33\n" },
	{ "arm_spe_0/format/store_filter", "config:34\n" },
	{ "arm_spe_0/format/event_filter", "config1:0-63\n" },
	{ "arm_spe_0/format/min_latency", "config2:0-11\n" },
	{ NULL },
};

static const struct machine_file power9_files[] = {
	{ "cpu/type", "4\n" },
	{ "cpu/format/event", "config:0-49\n" },
	{ "cpu/events/mem-loads", "event=0x34340401e0\n" },
	{ "cpu/events/mem-stores", "event=0x343c0401e0\n" },
	{ NULL },
};

/* A virtual PMU without PEBS has no mem-loads; AMD's never shows IBS. */
static const struct machine_file vm_intel_files[] = {
	{ "cpu/type", "4\n" },
	{ "cpu/format/event", "config:0-7\n" },
	{ "cpu/format/umask", "config:8-15\n" },
	{ "cpu/events/cpu-cycles", "event=0x3c\n" },
	{ NULL },
};

static const struct machine_file vm_amd_files[] = { AMD_CPU, { NULL } };
static const struct machine_file nothing_files[] = { { NULL } };

static const struct machine machines[] = {
	{ "skx", PMU_VENDOR_INTEL, 6, 0x55, "skx", skx_files },
	{ "spr", PMU_VENDOR_INTEL, 6, 0x8f, "spr", spr_files },
	{ "adl", PMU_VENDOR_INTEL, 6, 0x97, NULL, adl_files },
	{ "zen3", PMU_VENDOR_AMD, 25, 1, "amd64_fam19h_zen3", zen3_files },
	{ "zen4", PMU_VENDOR_AMD, 25, 17, "amd64_fam19h_zen4", zen4_files },
	{ "zen5", PMU_VENDOR_AMD, 26, 2, NULL, zen5_files },
	{ "neoverse", PMU_VENDOR_ARM, 0, 0, NULL, neoverse_files },
	{ "power9", PMU_VENDOR_POWER, 9, 0, NULL, power9_files },
	{ "vm-intel", PMU_VENDOR_INTEL, 6, 0x55, "skx", vm_intel_files },
	{ "vm-amd", PMU_VENDOR_AMD, 25, 17, "amd64_fam19h_zen4", vm_amd_files },
	{ "nothing", PMU_VENDOR_OTHER, 0, 0, NULL, nothing_files },
};

const struct machine *machine_find(const char *name)
{
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
		if (strcmp(machines[i].name, name) == 0)
			return &machines[i];
	ck_abort_msg("no machine %s", name);
	return NULL;
}

static void write_file(const char *devices, const struct machine_file *file)
{
	char path[512];
	FILE *stream;

	snprintf(path, sizeof(path), "%s/%s", devices, file->path);
	for (char *slash = path + strlen(devices) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
	stream = fopen(path, "we");
	ck_assert_msg(stream != NULL, "cannot write %s", path);
	fputs(file->content, stream);
	fclose(stream);
}

void machine_make(const struct machine *machine, struct pmu_host *ret_host)
{
	const char *folder = getenv("TMPDIR");
	struct pmu_host host = { .vendor = machine->vendor,
				 .family = machine->family,
				 .model = machine->model };

	snprintf(host.devices, sizeof(host.devices), "%s/memsight-machine-XXXXXX",
		 folder ? folder : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(host.devices));
	/* A name that no PMU of libpfm4 has: otherwise it would look in those of this machine. */
	snprintf(host.library_pmu, sizeof(host.library_pmu), "%s",
		 machine->library_pmu ? machine->library_pmu : "none-of-them");
	for (const struct machine_file *file = machine->files; file->path; file++)
		write_file(host.devices, file);
	*ret_host = host;
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *walk)
{
	(void)stat;
	(void)type;
	(void)walk;
	return remove(path);
}

void machine_remove(const struct pmu_host *host)
{
	nftw(host->devices, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
