#include "pmu/host.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/io.h"

#define DEVICES "/sys/bus/event_source/devices"
/*
 * The first CPU tells it; the kernel interrupts each CPU whose lines are read to ask for its clock.
 */
#define CPUINFO_BYTES 8192

static const char *const vendor_names[PMU_VENDOR_COUNT] = {
	[PMU_VENDOR_OTHER] = "another", [PMU_VENDOR_INTEL] = "Intel", [PMU_VENDOR_AMD] = "AMD",
	[PMU_VENDOR_ARM] = "Arm",	[PMU_VENDOR_POWER] = "POWER",
};

/* The value of the first line "key<tab>: value", or NULL. It goes on to the end of the text. */
static const char *field(const char *cpuinfo, const char *key)
{
	size_t n = strlen(key);

	for (const char *line = cpuinfo; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, n) != 0 || !strchr("\t :", line[n]))
			continue;
		const char *colon = line + strcspn(line, ":\n");
		return *colon == ':' ? colon + 1 + strspn(colon + 1, " \t") : NULL;
	}
	return NULL;
}

static bool begins(const char *value, const char *word)
{
	return value && strncmp(value, word, strlen(word)) == 0;
}

static unsigned number(const char *value)
{
	return value ? (unsigned)strtoul(value, NULL, 10) : 0;
}

static bool has_flag(const char *cpuinfo, const char *flag)
{
	const char *flags = field(cpuinfo, "flags");
	size_t n = strlen(flag), length = flags ? strcspn(flags, "\n") : 0;

	for (size_t i = 0; i + n <= length; i++)
		if ((i == 0 || flags[i - 1] == ' ') && strncmp(flags + i, flag, n) == 0 &&
		    (i + n == length || flags[i + n] == ' '))
			return true;
	return false;
}

void pmu_host_parse(const char *cpuinfo, struct pmu_host *ret_host)
{
	const char *vendor = field(cpuinfo, "vendor_id");
	const char *cpu = field(cpuinfo, "cpu"); /* of POWER only: "POWER9 (raw), altivec ..." */
	struct pmu_host host = { 0 };

	if (begins(vendor, "GenuineIntel"))
		host.vendor = PMU_VENDOR_INTEL;
	else if (begins(vendor, "AuthenticAMD") || begins(vendor, "HygonGenuine"))
		host.vendor = PMU_VENDOR_AMD;
	else if (field(cpuinfo, "CPU implementer"))
		host.vendor = PMU_VENDOR_ARM;
	else if (begins(cpu, "POWER"))
		host.vendor = PMU_VENDOR_POWER;
	if (host.vendor == PMU_VENDOR_POWER) {
		host.family = number(cpu + strlen("POWER"));
	} else {
		host.family = number(field(cpuinfo, "cpu family"));
		host.model = number(field(cpuinfo, "model"));
	}
	host.is_virtual = has_flag(cpuinfo, "hypervisor");
	*ret_host = host;
}

void pmu_host_read(struct pmu_host *ret_host)
{
	auto_close int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
	char cpuinfo[CPUINFO_BYTES];
	ssize_t n = fd < 0 ? -1 : io_read_full(fd, cpuinfo, sizeof(cpuinfo) - 1);
	struct pmu_host host = { 0 };

	if (n > 0) {
		cpuinfo[n] = '\0';
		pmu_host_parse(cpuinfo, &host);
	}
	snprintf(host.devices, sizeof(host.devices), "%s", DEVICES);
	*ret_host = host;
}

const char *pmu_host_vendor(const struct pmu_host *host)
{
	return vendor_names[host->vendor];
}
