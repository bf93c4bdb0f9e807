/* Kinds of memory and NUMA nodes, as the helper and the kernel tell of them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "pmu/cpus.h"
#include "runner/host/avail-internal.h"
#include "runner/placement/kinds-helper.h"

#define MAX_FILE_BYTES (1u << 20)

/* "heap MODE NODES BYTES" of memsight-kinds. */
static void take_kind(void *user, const char *key, const char *value)
{
	char *about = user;
	unsigned long long bytes = 0;
	char nodes[256] = "";
	int mode = 0;

	if (strcmp(key, "heap") == 0 && sscanf(value, "%d %255s %llu", &mode, nodes, &bytes) >= 2)
		snprintf(about, AVAIL_TEXT_BYTES, "%s%s", strcmp(nodes, "-") == 0 ? "" : "nodes ",
			 strcmp(nodes, "-") == 0 ? "ordinary memory" : nodes);
}

static int look_at_kind(const struct avail *avail, const char *kind)
{
	auto_kinds_helper struct kinds_helper helper = { 0 };
	char problem[KINDS_HELPER_PROBLEM_BYTES] = "", about[AVAIL_TEXT_BYTES] = "";
	int err = kinds_helper_add(&helper, "heap", kind);

	if (err == 0)
		err = kinds_helper_run(&helper, take_kind, about, problem);
	return avail_give(avail, &(struct avail_item){ "heap kinds", kind, err == 0,
						       err == 0 ? about : problem, "" });
}

/* Whether mount options say that files are mapped without page cache: ext4 and xfs also write dax=never. */
static bool is_direct(const char *options)
{
	const char *dax = strstr(options, ",dax");

	return dax && (dax[4] == '\0' || dax[4] == ',' || strncmp(dax + 4, "=always", 7) == 0);
}

/* Mounted file systems with direct access: what pmem:DIR wants. */
static int look_at_pmem(const struct avail *avail)
{
	auto_free char *mounts = NULL;
	char name[AVAIL_TEXT_BYTES], folder[256], options[256];
	int err = 0, n = 0;

	if (io_read_file("/proc/self/mounts", MAX_FILE_BYTES, &mounts, NULL) < 0)
		return 0;
	for (char *line = strtok(mounts, "\n"); line && err == 0; line = strtok(NULL, "\n")) {
		if (sscanf(line, "%*s %255s %*s %255s", folder, options) != 2 ||
		    !is_direct(options))
			continue;
		snprintf(name, sizeof(name), "pmem:%s", folder);
		err = avail_give(avail,
				 &(struct avail_item){ "heap kinds", name, true,
						       "persistent memory, mounted with dax", "" });
		n++;
	}
	if (err == 0 && n == 0)
		err = avail_give(avail,
				 &(struct avail_item){ "heap kinds", "pmem:DIR,SIZE", true,
						       "a file in any folder; none here is mounted "
						       "with dax, so it is not persistent memory",
						       "" });
	return err;
}

int avail_kinds(const struct avail *avail)
{
	static const char *const kinds[] = { "default",		 "hbw",
					     "hbw-preferred",	 "kmem",
					     "highest-capacity", "lowest-latency" };
	int err = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && err == 0; i++)
		err = look_at_kind(avail, kinds[i]);
	return err == 0 ? look_at_pmem(avail) : err;
}

/* The number behind a word of a node's meminfo, in MiB. */
static unsigned long long meminfo_mib(const char *text, const char *word)
{
	const char *found = strstr(text, word);

	return found ? strtoull(found + strlen(word), NULL, 10) / 1024 : 0;
}

static int look_at_node(const struct avail *avail, int node)
{
	auto_free char *meminfo = NULL;
	auto_free char *cpus = NULL;
	char path[96], name[16], about[AVAIL_TEXT_BYTES];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/meminfo", node);
	if (io_read_file(path, MAX_FILE_BYTES, &meminfo, NULL) < 0)
		return 0;
	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", node);
	if (io_read_file(path, MAX_FILE_BYTES, &cpus, NULL) == 0)
		cpus[strcspn(cpus, "\n")] = '\0';
	snprintf(name, sizeof(name), "%d", node);
	snprintf(about, sizeof(about), "%llu of %llu MiB free, %s%.200s",
		 meminfo_mib(meminfo, "MemFree:"), meminfo_mib(meminfo, "MemTotal:"),
		 cpus && *cpus ? "CPUs " : "no CPUs", cpus ? cpus : "");
	return avail_give(avail, &(struct avail_item){ "nodes", name, true, about, "" });
}

int avail_nodes(const struct avail *avail)
{
	auto_free char *list = NULL;
	auto_free int *nodes = NULL;
	int n = 0, err = 0;

	if (io_read_file("/sys/devices/system/node/online", MAX_FILE_BYTES, &list, NULL) == 0)
		n = pmu_cpus_parse(list, &nodes);
	for (int i = 0; i < n && err == 0; i++)
		err = look_at_node(avail, nodes[i]);
	return err;
}
