#include "runner/host/host-facts.h"

#include <dirent.h>
#include <gnu/libc-version.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "common/cleanup.h"
#include "common/io.h"
#include "pmu/cpus.h"

#define FILE_MAX_BYTES (1u << 20)

/* Where facts go, and what stopped them. */
struct giving {
	run_fact_sink sink;
	void *context;
};

struct fact {
	const char *key;
	int (*give)(const struct giving *giving, const struct fact *fact);
	const char *argument;
};

static int give(const struct giving *giving, const char *key, const char *value)
{
	return value && *value ? giving->sink(giving->context, key, value) : 0;
}

static int give_number(const struct giving *giving, const char *key, unsigned long long number)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", number);
	return give(giving, key, text);
}

/* The whole text of a file without blanks at its end; NULL when it cannot be read. */
static char *file_text(const char *path)
{
	char *text = NULL;
	size_t n;

	if (io_read_file(path, FILE_MAX_BYTES, &text, &n) < 0)
		return NULL;
	while (n > 0 && strchr(" \t\n", text[n - 1]))
		text[--n] = '\0';
	return text;
}

/* ---- Kinds of facts ---- */

static int give_file(const struct giving *giving, const struct fact *fact)
{
	auto_free char *text = file_text(fact->argument);

	return give(giving, fact->key, text);
}

/* "always [madvise] never": the word in brackets. */
static int give_choice(const struct giving *giving, const struct fact *fact)
{
	auto_free char *text = file_text(fact->argument);
	char *word = text ? strchr(text, '[') : NULL;
	char *end = word ? strchr(word, ']') : NULL;

	if (!end)
		return 0;
	*end = '\0';
	return give(giving, fact->key, word + 1);
}

/* The list in a file, "0-3,8", as the number of its members. */
static int give_list_length(const struct giving *giving, const struct fact *fact)
{
	auto_free char *text = file_text(fact->argument);
	auto_free int *members = NULL;
	int n = text ? pmu_cpus_parse(text, &members) : 0;

	return n > 0 ? give_number(giving, fact->key, (unsigned long long)n) : 0;
}

static int give_kernel(const struct giving *giving, const struct fact *fact)
{
	struct utsname name;
	char text[sizeof(name.sysname) + sizeof(name.release) + sizeof(name.version) + 4];

	if (uname(&name) < 0)
		return 0;
	snprintf(text, sizeof(text), "%s %s %s", name.sysname, name.release, name.version);
	return give(giving, fact->key, text);
}

static int give_machine(const struct giving *giving, const struct fact *fact)
{
	struct utsname name;

	return uname(&name) < 0 ? 0 : give(giving, fact->key, name.machine);
}

static int give_hostname(const struct giving *giving, const struct fact *fact)
{
	struct utsname name;

	return uname(&name) < 0 ? 0 : give(giving, fact->key, name.nodename);
}

/* The first line of /proc/cpuinfo with that key, without key and colon; NULL when there is none. */
static char *cpuinfo_value(const char *key)
{
	auto_fclose FILE *file = fopen("/proc/cpuinfo", "re");
	auto_free char *line = NULL;
	size_t room = 0;

	while (file && getline(&line, &room, file) > 0) {
		char *colon = strchr(line, ':');

		if (!colon || strncmp(line, key, strlen(key)) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';
		return strdup(colon + 1 + (colon[1] == ' '));
	}
	return NULL;
}

static int give_cpuinfo(const struct giving *giving, const struct fact *fact)
{
	auto_free char *value = cpuinfo_value(fact->argument);

	return give(giving, fact->key, value);
}

/* "yes" when the CPU has both flags that make the TSC a clock. */
static int give_invariant_tsc(const struct giving *giving, const struct fact *fact)
{
	auto_free char *flags = cpuinfo_value("flags");

	if (!flags)
		return 0;
	return give(giving, fact->key,
		    strstr(flags, " constant_tsc") && strstr(flags, " nonstop_tsc") ? "yes" : "no");
}

#if defined(__x86_64__)
/* CPUID leaf 1 says whether there is one, leaf 0x40000000 its signature of 12 bytes. */
static int give_hypervisor(const struct giving *giving, const struct fact *fact)
{
	unsigned eax, ebx, ecx, edx;
	unsigned words[3];
	char name[sizeof(words) + 1] = "";

	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx >> 31 & 1))
		return give(giving, fact->key, "none");
	__cpuid(0x40000000, eax, words[0], words[1], words[2]);
	memcpy(name, words, sizeof(words));
	return give(giving, fact->key, *name ? name : "unknown");
}
#else
static int give_hypervisor(const struct giving *giving, const struct fact *fact)
{
	auto_free char *text = file_text("/sys/hypervisor/type");

	return give(giving, fact->key, text);
}
#endif

/* Names of folders that only hardware makes. */
static bool is_hardware_pmu(const char *name)
{
	return strcmp(name, "cpu") == 0 || strncmp(name, "cpu_", 4) == 0 ||
	       strncmp(name, "ibs_op", 6) == 0 || strncmp(name, "arm_spe_", 8) == 0 ||
	       strncmp(name, "armv", 4) == 0;
}

static void append_word(char *text, size_t room, const char *word)
{
	size_t used = strlen(text);

	if (used + strlen(word) + 2 <= room)
		snprintf(text + used, room - used, "%s%s", used ? " " : "", word);
}

static int give_pmu(const struct giving *giving, const struct fact *fact)
{
	auto_folder DIR *folder = opendir(fact->argument);
	struct dirent *entry;
	char names[256] = "";

	while (folder && (entry = readdir(folder)))
		if (is_hardware_pmu(entry->d_name))
			append_word(names, sizeof(names), entry->d_name);
	return give(giving, fact->key, *names ? names : "none");
}

/* intel_pstate says no_turbo, others boost. */
static int give_turbo(const struct giving *giving, const struct fact *fact)
{
	auto_free char *no_turbo = file_text("/sys/devices/system/cpu/intel_pstate/no_turbo");
	auto_free char *boost = file_text("/sys/devices/system/cpu/cpufreq/boost");

	if (no_turbo)
		return give(giving, fact->key, strcmp(no_turbo, "0") == 0 ? "on" : "off");
	return boost ? give(giving, fact->key, strcmp(boost, "1") == 0 ? "on" : "off") : 0;
}

/* "MemTotal:   123 kB" of a meminfo text, in bytes; of a node each line begins with "Node 0 ". */
static bool meminfo_bytes(const char *text, const char *key, unsigned long long *ret_bytes)
{
	const char *found = strstr(text, key);

	if (!found || sscanf(found + strlen(key), " %llu", ret_bytes) != 1)
		return false;
	*ret_bytes *= 1024;
	return true;
}

static int give_meminfo(const struct giving *giving, const struct fact *fact)
{
	auto_free char *text = file_text("/proc/meminfo");
	unsigned long long bytes;

	if (!text || !meminfo_bytes(text, fact->argument, &bytes))
		return 0;
	return give_number(giving, fact->key, bytes);
}

/* Key "node%d.mem_free_bytes", argument as in meminfo: one fact for each node. */
static int give_node_meminfo(const struct giving *giving, const struct fact *fact)
{
	auto_free char *list = file_text("/sys/devices/system/node/online");
	auto_free int *nodes = NULL;
	int n = list ? pmu_cpus_parse(list, &nodes) : 0;
	int r = 0;

	for (int i = 0; r >= 0 && i < n; i++) {
		auto_free char *text = NULL;
		unsigned long long bytes;
		char path[96], key[64];

		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/meminfo", nodes[i]);
		snprintf(key, sizeof(key), "node%d.%s", nodes[i], fact->key);
		text = file_text(path);
		if (text && meminfo_bytes(text, fact->argument, &bytes))
			r = give_number(giving, key, bytes);
	}
	return r;
}

static int give_load(const struct giving *giving, const struct fact *fact)
{
	double load[3];
	char text[64];

	if (getloadavg(load, 3) != 3)
		return 0;
	snprintf(text, sizeof(text), "%.2f %.2f %.2f", load[0], load[1], load[2]);
	return give(giving, fact->key, text);
}

/* The warmest zone, in degrees Celsius. */
static int give_temperature(const struct giving *giving, const struct fact *fact)
{
	long warmest = 0;
	char text[32], path[64];

	for (int zone = 0; zone < 64; zone++) {
		snprintf(path, sizeof(path), "/sys/class/thermal/thermal_zone%d/temp", zone);

		auto_free char *degrees = file_text(path);

		if (!degrees)
			break;
		if (atol(degrees) > warmest)
			warmest = atol(degrees);
	}
	snprintf(text, sizeof(text), "%.1f", (double)warmest / 1000);
	return warmest > 0 ? give(giving, fact->key, text) : 0;
}

static int give_glibc(const struct giving *giving, const struct fact *fact)
{
	return give(giving, fact->key, gnu_get_libc_version());
}

static int give_text(const struct giving *giving, const struct fact *fact)
{
	return give(giving, fact->key, fact->argument);
}

static int give_page_bytes(const struct giving *giving, const struct fact *fact)
{
	return give_number(giving, fact->key, (unsigned long long)sysconf(_SC_PAGESIZE));
}

static int give_uid(const struct giving *giving, const struct fact *fact)
{
	return give_number(giving, fact->key, geteuid());
}

static int give_environment(const struct giving *giving, const struct fact *fact)
{
	const char *value = getenv(fact->argument);

	return value ? giving->sink(giving->context, fact->key, value) : 0;
}

#define CPU_SYS "/sys/devices/system/cpu/"
#define KERNEL	"/proc/sys/kernel/"
#define THP	"/sys/kernel/mm/transparent_hugepage/"
#define ENVIRONMENT(name)                                                                          \
	{                                                                                          \
		"env." name, give_environment, name                                                \
	}

/*
 * Only variables that change how memory is used or tell the place in a job, where they are set, be
 * it to nothing: others are private.
 */
static const struct fact facts[] = {
	{ "memsight_version", give_text, MEMSIGHT_VERSION },
	{ "hostname", give_hostname, NULL },
	{ "kernel", give_kernel, NULL },
	{ "machine", give_machine, NULL },
	{ "glibc", give_glibc, NULL },
	{ "uid", give_uid, NULL },
	{ "cpu_model", give_cpuinfo, "model name" },
	{ "cpu_microcode", give_cpuinfo, "microcode" },
	{ "cpus_online", give_list_length, CPU_SYS "online" },
	{ "smt", give_file, CPU_SYS "smt/active" },
	{ "hypervisor", give_hypervisor, NULL },
	{ "invariant_tsc", give_invariant_tsc, NULL },
	{ "clocksource", give_file,
	  "/sys/devices/system/clocksource/clocksource0/current_clocksource" },
	{ "pmu", give_pmu, "/sys/bus/event_source/devices" },
	{ "numa_nodes", give_list_length, "/sys/devices/system/node/online" },
	{ "governor", give_file, CPU_SYS "cpu0/cpufreq/scaling_governor" },
	{ "turbo", give_turbo, NULL },
	{ "page_bytes", give_page_bytes, NULL },
	{ "thp", give_choice, THP "enabled" },
	{ "thp_defrag", give_choice, THP "defrag" },
	{ "numa_balancing", give_file, KERNEL "numa_balancing" },
	{ "randomize_va_space", give_file, KERNEL "randomize_va_space" },
	{ "overcommit_memory", give_file, "/proc/sys/vm/overcommit_memory" },
	{ "swappiness", give_file, "/proc/sys/vm/swappiness" },
	{ "perf_event_paranoid", give_file, KERNEL "perf_event_paranoid" },
	{ "perf_event_max_sample_rate", give_file, KERNEL "perf_event_max_sample_rate" },
	{ "perf_cpu_time_max_percent", give_file, KERNEL "perf_cpu_time_max_percent" },
	{ "perf_event_mlock_kb", give_file, KERNEL "perf_event_mlock_kb" },
	{ "yama_ptrace_scope", give_file, KERNEL "yama/ptrace_scope" },
	{ "mem_total_bytes", give_meminfo, "MemTotal:" },
	{ "mem_available_bytes", give_meminfo, "MemAvailable:" },
	{ "swap_free_bytes", give_meminfo, "SwapFree:" },
	{ "mem_total_bytes", give_node_meminfo, "MemTotal:" },
	{ "mem_free_bytes", give_node_meminfo, "MemFree:" },
	{ "load_average", give_load, NULL },
	{ "temperature_celsius", give_temperature, NULL },
	ENVIRONMENT("PYTHONMALLOC"),
	ENVIRONMENT("PYTHONHASHSEED"),
	ENVIRONMENT("GLIBC_TUNABLES"),
	ENVIRONMENT("MALLOC_ARENA_MAX"),
	ENVIRONMENT("MALLOC_MMAP_THRESHOLD_"),
	ENVIRONMENT("MALLOC_TRIM_THRESHOLD_"),
	ENVIRONMENT("MALLOC_CONF"),
	ENVIRONMENT("LD_PRELOAD"),
	ENVIRONMENT("OMP_NUM_THREADS"),
	ENVIRONMENT("OMP_PROC_BIND"),
	ENVIRONMENT("OMP_PLACES"),
	ENVIRONMENT("SLURM_JOB_ID"),
	ENVIRONMENT("SLURM_PROCID"),
	ENVIRONMENT("OMPI_COMM_WORLD_RANK"),
	ENVIRONMENT("PMI_RANK"),
	ENVIRONMENT("HEIMDALLR_PMEMDIR"),
	ENVIRONMENT("HEIMDALLR_PMEMSIZE"),
	ENVIRONMENT("GOMP_CPU_AFFINITY"),
	ENVIRONMENT("LD_BIND_NOW"),
	ENVIRONMENT("KMP_AFFINITY"),
	ENVIRONMENT("LANG"),
	ENVIRONMENT("LC_ALL"),
	ENVIRONMENT("LD_LIBRARY_PATH"),
	ENVIRONMENT("MEMKIND_ARENA_NUM_PER_KIND"),
	ENVIRONMENT("MEMKIND_DAX_KMEM_NODES"),
	ENVIRONMENT("MEMKIND_HBW_NODES"),
	ENVIRONMENT("TRAC_PMEMDIR"),
	ENVIRONMENT("TRAC_PMEMSIZE"),
	ENVIRONMENT("TRAC_STACKLEVELS"),
	ENVIRONMENT("TRAC_THRESHOLD"),
	ENVIRONMENT("MEMSIGHT_OPTIONS"),
	ENVIRONMENT("SLURM_NTASKS"),
	ENVIRONMENT("OMPI_COMM_WORLD_SIZE"),
	ENVIRONMENT("PATH"),
};

int run_facts(run_fact_sink sink, void *context)
{
	const struct giving giving = { sink, context };

	for (size_t i = 0; i < sizeof(facts) / sizeof(*facts); i++) {
		int r = facts[i].give(&giving, &facts[i]);

		if (r < 0)
			return r;
	}
	return 0;
}
