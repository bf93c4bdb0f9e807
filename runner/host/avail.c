#include "runner/host/avail.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "pmu/catalogue/catalogue.h"
#include "pmu/count.h"
#include "pmu/cpus.h"
#include "pmu/page-marks.h"
#include "pmu/remedy.h"
#include "pmu/source.h"
#include "runner/placement/placement.h"
#include "runner/processes/page-state.h"

/* ---- Pages ---- */

/*
 * By which ways this kernel tells which pages are touched: each is tried on this process. The
 * recording takes clear_refs and userfaultfd-wp; the others are named for who wants to know what a
 * newer kernel, a setting or root would give.
 */

#define FEATURE_RWP_ASYNC (UINT64_C(1) << 18) /* of the kernel that is to have it */
#define DAMON		  "/sys/kernel/mm/damon/admin/kdamonds/"
#define MAX_DAMON_BYTES	  4096u

static int can_open(const char *path, int flags)
{
	auto_close int fd = open(path, flags | O_CLOEXEC);

	return fd < 0 ? -errno : 0;
}

static int try_rwp(void)
{
	return pages_userfaultfd_has(FEATURE_RWP_ASYNC);
}

static int try_wp(void)
{
	int err = pages_userfaultfd_has(PAGES_NOTES_WRITES);

	/* Which pages were written PAGEMAP_SCAN says. */
	return err == 0 && page_state_way() != TRACE_PAGES_SCAN ? -ENOTSUP : err;
}

static int try_idle(void)
{
	return can_open("/sys/kernel/mm/page_idle/bitmap", O_RDWR);
}

/*
 * Can it watch a process? What a kernel can only a context says, and to make one would disturb
 * others: without one that is there already it is not known, and believed.
 */
static int try_damon(void)
{
	int err = can_open(DAMON "nr_kdamonds", O_RDWR);
	auto_free char *text = NULL;
	glob_t found = { 0 };

	if (err == 0 && glob(DAMON "*/contexts/*/avail_operations", 0, NULL, &found) == 0 &&
	    io_read_file(found.gl_pathv[0], MAX_DAMON_BYTES, &text, NULL) == 0 &&
	    !strstr(text, "vaddr"))
		err = -ENOTSUP;
	globfree(&found);
	return err;
}

static const struct {
	const char *name;
	int (*try)(void);
	const char *about;
	const char *missing; /* the kernel has it not */
	const char *fix;
	const char *allow; /* it has, and refuses */
} ways[] = {
	{ "userfaultfd-rwp", try_rwp,
	  "each page that is read or written, exactly; memsight does not use it yet",
	  "userfaultfd has no RWP_ASYNC", "a newer Linux (merged upstream in August 2026)",
	  "allow userfaultfd in the container's seccomp profile" },
	{ "userfaultfd-wp", try_wp,
	  "each page that is written, exactly; what --source pages takes beside, or alone",
	  "userfaultfd has no WP_ASYNC, or pagemap no PAGEMAP_SCAN",
	  "Linux 6.7 with CONFIG_USERFAULTFD",
	  "allow userfaultfd in the container's seccomp profile" },
	{ "page-idle", try_idle, "idle marks of physical pages; memsight does not use them",
	  "no /sys/kernel/mm/page_idle", "Linux with CONFIG_IDLE_PAGE_TRACKING",
	  "root may open /sys/kernel/mm/page_idle/bitmap" },
	{ "damon", try_damon, "accesses of regions, by sampling; memsight does not use it",
	  "DAMON is not there, or watches physical memory only",
	  "Linux with CONFIG_DAMON_SYSFS and CONFIG_DAMON_VADDR",
	  "root may open /sys/kernel/mm/damon" },
};

static int give_marks(avail_sink sink, void *user)
{
	struct pmu_refusal refusal = { 0 };
	bool is_there = pages_probe_marks(&refusal) == 0;

	return sink(user,
		    &(struct avail_item){
			    "touched pages", "clear_refs", is_there,
			    is_there ? "how many pages of each mapping are read or written; what "
				       "--source pages takes"
				     : refusal.why,
			    is_there ? "" : refusal.fix });
}

/* Only by which ways touched pages are told: section "touched pages". Result likewise. */
static int avail_page_ways(avail_sink sink, void *user)
{
	int err = give_marks(sink, user);

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]) && err == 0; i++) {
		int tried = ways[i].try();
		bool is_missing = tried == -ENOTSUP || tried == -ENOENT || tried == -ENOSYS;
		char refused[AVAIL_TEXT_BYTES];

		snprintf(refused, sizeof(refused), "%s: refused (errno %d)", ways[i].about, -tried);
		err = sink(user, &(struct avail_item){ "touched pages", ways[i].name, tried == 0,
						       tried == 0   ? ways[i].about
						       : is_missing ? ways[i].missing
								    : refused,
						       tried == 0   ? ""
						       : is_missing ? ways[i].fix
								    : ways[i].allow });
	}
	return err;
}

#define MAX_FILE_BYTES (1u << 20)
#define SET_CAPABILITY "sudo setcap cap_perfmon,cap_ipc_lock+ep $(which memsight)"

/* Where things go. */
struct avail {
	avail_sink sink;
	void *user;
};

static int avail_give(const struct avail *avail, const struct avail_item *item)
{
	return avail->sink(avail->user, item);
}

/* ---- Sources, events and counters: opened on this process, and closed again ---- */

static int avail_sources(const struct avail *avail)
{
	struct access_options options = { .pid = getpid() };
	int err = 0;

	for (size_t i = 0; pmu_sources[i] && err == 0; i++) {
		const struct access_source *source = pmu_sources[i];
		struct pmu_refusal refusal = { 0 };

		if (source->role == ACCESS_ROLE_TASKS)
			continue;
		bool is_there = source->probe(source, &options, &refusal) == 0;
		err = avail_give(avail,
				 &(struct avail_item){ "sources", source->name, is_there,
						       is_there ? source->about : refusal.why,
						       is_there ? "" : refusal.fix });
	}
	return err;
}

static int avail_touched_pages(const struct avail *avail)
{
	return avail_page_ways(avail->sink, avail->user);
}

/* Whether a name can be counted on this process; whatever can be sampled can be counted. */
static int try_counter(const struct avail *avail, const char *section, const char *name,
		       const char *about)
{
	struct pmu_counters counters;
	struct avail_item item = { section, name, false, about, "" };

	pmu_counters_open(name, getpid(), &counters);
	item.is_there = counters.counters[0].fd >= 0;
	if (item.is_there && counters.counters[0].is_user_only)
		item.about = "in user mode only: perf_event_paranoid";
	if (!item.is_there) {
		item.about = counters.counters[0].refusal.why;
		item.fix = counters.counters[0].refusal.fix;
	}
	int err = avail_give(avail, &item);
	pmu_counters_close(&counters);
	return err;
}

static int avail_events(const struct avail *avail)
{
	static const char *const words[] = { "loads", "stores", "llc-miss", "all-loads" };
	struct pmu_host host;
	int err = 0;

	pmu_host_read(&host);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && err == 0; i++) {
		struct pmu_event events[PMU_MAX_EVENTS];
		struct pmu_refusal refusal = { 0 };

		if (pmu_catalogue_find(&host, words[i], 0, events, &refusal) > 0)
			err = try_counter(avail, "events", words[i], events[0].name);
		else
			err = avail_give(avail, &(struct avail_item){ "events", words[i], false,
								      refusal.why, refusal.fix });
	}
	return err;
}

static int avail_counters(const struct avail *avail)
{
	int err = 0;

	for (size_t i = 0; pmu_counter_kernel_name(i) && err == 0; i++)
		err = try_counter(avail, "counters", pmu_counter_kernel_name(i), "");
	return err;
}

/* ---- Kinds of memory and NUMA nodes, as the helper and the kernel tell of them ---- */

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

	err = err ?: kinds_helper_run(&helper, take_kind, about, problem);
	return avail_give(avail, &(struct avail_item){ "heap kinds", kind, err == 0,
						       err == 0 ? about : problem, "" });
}

/*
 * Whether mount options say that files are mapped without page cache: ext4 and xfs also write
 * dax=never.
 */
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

static int avail_kinds(const struct avail *avail)
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

static int avail_nodes(const struct avail *avail)
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

/* ---- What this user may do ---- */

static int give(const struct avail *avail, const char *name, bool is_there, const char *about,
		const char *fix)
{
	return avail_give(avail, &(struct avail_item){ "privileges", name, is_there, about,
						       is_there ? "" : fix });
}

static int give_memory(const struct avail *avail, const struct pmu_permissions *permissions)
{
	char about[AVAIL_TEXT_BYTES];

	if (permissions->memlock_bytes == INT64_MAX || permissions->has_ipc_lock)
		return give(avail, "locked-memory", true, "as much as is asked for", "");
	snprintf(about, sizeof(about),
		 "%" PRId64 " KiB, and %ld KiB for each CPU (perf_event_mlock_kb): rings are made "
		 "smaller",
		 permissions->memlock_bytes / 1024, permissions->mlock_kb);
	return give(avail, "locked-memory", true, about, "");
}

static int give_pages(const struct avail *avail)
{
	int way = page_state_way();

	return give(avail, "pages", way >= 0,
		    way == TRACE_PAGES_SCAN ? "which are resident: ioctl PAGEMAP_SCAN"
		    : way >= 0		    ? "which are resident: /proc/PID/pagemap, slower, and"
					      " without pages of zeros and huge pages"
					    : "/proc/PID/pagemap cannot be read",
		    "mount /proc, and Linux with CONFIG_PROC_PAGE_MONITOR");
}

static int avail_privileges(const struct avail *avail)
{
	struct pmu_permissions permissions;
	char about[AVAIL_TEXT_BYTES];

	pmu_permissions_read(&permissions);
	bool sees_kernel = permissions.has_sys_admin || permissions.paranoid < 2 ||
			   (permissions.has_perfmon && permissions.paranoid == 2);
	snprintf(about, sizeof(about), "uid %u%s%s", (unsigned)geteuid(),
		 permissions.has_sys_admin ? ", CAP_SYS_ADMIN"
		 : permissions.has_perfmon ? ", CAP_PERFMON"
					   : "",
		 permissions.in_user_namespace ? ", in a user namespace" : "");
	int err = give(avail, "user", true, about, "");
	snprintf(about, sizeof(about), "perf_event_paranoid is %d", permissions.paranoid);
	if (err == 0)
		err = give(avail, "samples", permissions.has_sys_admin || permissions.paranoid < 3,
			   about, "sudo sysctl kernel.perf_event_paranoid=2");
	if (err == 0)
		err = give(avail, "kernel-samples", sees_kernel, about,
			   "sudo sysctl kernel.perf_event_paranoid=1, or 2 and " SET_CAPABILITY);
	if (err == 0)
		err = give(avail, "physical-addresses", permissions.has_perfmon,
			   permissions.has_perfmon ? "CAP_PERFMON" : "only with CAP_PERFMON",
			   SET_CAPABILITY);
	if (err == 0)
		err = give(avail, "no-seccomp", !permissions.has_seccomp,
			   permissions.has_seccomp ? "a seccomp filter binds this process"
						   : "no seccomp filter",
			   "allow perf_event_open in the container's seccomp profile");
	err = err ?: give_pages(avail);
	return err == 0 ? give_memory(avail, &permissions) : err;
}

int avail_look(avail_sink sink, void *user)
{
	static int (*const sections[])(const struct avail *) = {
		avail_sources, avail_touched_pages, avail_events,     avail_counters,
		avail_kinds,   avail_nodes,	    avail_privileges,
	};
	struct avail avail = { sink, user };
	int err = 0;

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]) && err == 0; i++)
		err = sections[i](&avail);
	return err;
}
