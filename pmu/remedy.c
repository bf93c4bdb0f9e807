#include "pmu/remedy.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/io.h"

#define PROC_FILE_MAX 65536

/* Numbers of linux/capability.h, which Debian 12 has; older ones lack PERFMON. */
#define CAPABILITY_IPC_LOCK  14
#define CAPABILITY_SYS_ADMIN 21
#define CAPABILITY_PERFMON   38

static long read_number(const char *path, long otherwise)
{
	auto_free char *text = NULL;
	char *end;

	if (io_read_file(path, PROC_FILE_MAX, &text, NULL) < 0)
		return otherwise;
	long value = strtol(text, &end, 10);
	return end == text ? otherwise : value;
}

/* The value of "\nkey:" in /proc/self/status, or 0. */
static uint64_t status_field(const char *status, const char *key, int base)
{
	const char *line = strstr(status, key);

	return line ? strtoull(line + strlen(key), NULL, base) : 0;
}

static void read_status(struct pmu_permissions *permissions)
{
	auto_free char *status = NULL;

	if (io_read_file("/proc/self/status", PROC_FILE_MAX, &status, NULL) < 0)
		return;
	uint64_t capabilities = status_field(status, "\nCapEff:", 16);
	permissions->has_sys_admin = capabilities >> CAPABILITY_SYS_ADMIN & 1;
	permissions->has_perfmon =
		permissions->has_sys_admin || capabilities >> CAPABILITY_PERFMON & 1;
	permissions->has_ipc_lock = capabilities >> CAPABILITY_IPC_LOCK & 1;
	permissions->has_seccomp = status_field(status, "\nSeccomp:", 10) != 0;
}

/* perf asks for capabilities in the first user namespace, which maps all ids to themselves. */
static bool is_in_user_namespace(void)
{
	auto_free char *map = NULL;
	unsigned long inside, outside, count;

	if (io_read_file("/proc/self/uid_map", PROC_FILE_MAX, &map, NULL) < 0)
		return false;
	if (sscanf(map, "%lu %lu %lu", &inside, &outside, &count) != 3)
		return false;
	return inside != 0 || outside != 0 || count != UINT32_MAX;
}

void pmu_permissions_read(struct pmu_permissions *ret_permissions)
{
	struct pmu_permissions permissions = {
		.paranoid = (int)read_number("/proc/sys/kernel/perf_event_paranoid", INT_MIN),
		.mlock_kb = read_number("/proc/sys/kernel/perf_event_mlock_kb", -1),
		.memlock_bytes = INT64_MAX,
		.in_user_namespace = is_in_user_namespace(),
	};
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		permissions.memlock_bytes = (int64_t)limit.rlim_cur;
	read_status(&permissions);
	*ret_permissions = permissions;
}

static bool always(const struct pmu_permissions *permissions)
{
	(void)permissions;
	return true;
}

/*
 * Mainline knows no value above 2. Debian's kernel has one, and asks for CAP_SYS_ADMIN there: tried
 * on
 * 6.1.192, CAP_PERFMON is refused (tests/platform/vm).
 */
static bool is_too_paranoid(const struct pmu_permissions *permissions)
{
	return permissions->paranoid > 2 &&
	       (!permissions->has_sys_admin || permissions->in_user_namespace);
}

/* perf_event_paranoid 2 is about users' code. */
static bool is_of_kernel(const struct pmu_permissions *permissions)
{
	return permissions->wants_kernel && permissions->paranoid > 1 &&
	       (!permissions->has_perfmon || permissions->in_user_namespace);
}

static bool is_filtered(const struct pmu_permissions *permissions)
{
	return permissions->has_seccomp;
}

static bool is_missing(const struct pmu_permissions *permissions)
{
	return permissions->paranoid == INT_MIN;
}

#define MAX_ERRORS 3

/*
 * The first case that fits explains. why may name the sysctls' values: %1$d paranoid, %2$ld
 * perf_event_mlock_kb, %3$lld RLIMIT_MEMLOCK in KiB.
 */
static const struct remedy_case {
	enum pmu_step step;
	int errors[MAX_ERRORS]; /* unused ones stay 0 */
	bool (*applies)(const struct pmu_permissions *permissions);
	const char *why;
	const char *fix;
} cases[] = {
	{ PMU_STEP_OPEN,
	  { EACCES, EPERM },
	  is_too_paranoid,
	  "kernel.perf_event_paranoid is %1$d: only root may sample, even its own programs",
	  "sudo sysctl kernel.perf_event_paranoid=2"
	  "   (or --source signal, which needs no permission)" },
	{ PMU_STEP_OPEN,
	  { EACCES, EPERM, ENOSYS },
	  is_filtered,
	  "a seccomp filter forbids perf_event_open (a container's default profile does)",
	  "start the container with --cap-add PERFMON, or with --security-opt seccomp=FILE that"
	  " allows perf_event_open; or --source signal, which needs no permission" },
	{ PMU_STEP_OPEN,
	  { EACCES, EPERM },
	  is_of_kernel,
	  "kernel.perf_event_paranoid is %1$d: samples of kernel code need 1 or less, or"
	  " CAP_PERFMON",
	  "sudo sysctl kernel.perf_event_paranoid=1, or sudo setcap cap_perfmon,cap_ipc_lock+ep"
	  " $(which memsight); --count user needs neither" },
	{ PMU_STEP_OPEN,
	  { EACCES, EPERM },
	  always,
	  "kernel.perf_event_paranoid is %1$d, which allows it: the program belongs to another"
	  " user, or a security module (SELinux, AppArmor, lockdown) forbids it",
	  "run memsight as the program's user, or sudo setcap cap_perfmon,cap_ipc_lock+ep"
	  " $(which memsight)" },
	{ PMU_STEP_OPEN,
	  { ENOSYS },
	  always,
	  "the kernel was built without perf events (CONFIG_PERF_EVENTS)",
	  "boot a kernel with CONFIG_PERF_EVENTS=y" },
	{ PMU_STEP_OPEN,
	  { ENOENT, EOPNOTSUPP, ENODEV },
	  is_missing,
	  "the kernel has no perf events (/proc/sys/kernel/perf_event_paranoid is not there)",
	  "boot a kernel with CONFIG_PERF_EVENTS=y" },
	{ PMU_STEP_OPEN,
	  { ENOENT, EOPNOTSUPP, ENODEV },
	  always,
	  "this machine has no such event: no PMU, as in most virtual machines, or another model",
	  "--source clock needs no PMU; in a virtual machine ask for a virtual PMU" },
	{ PMU_STEP_OPEN,
	  { EMFILE, ENFILE },
	  always,
	  "no file descriptors left: every source needs one for each CPU",
	  "ulimit -n 4096" },
	{ PMU_STEP_OPEN,
	  { EBUSY },
	  always,
	  "somebody else holds the counters (another profiler, the NMI watchdog)",
	  "end the other profiler, or sudo sysctl kernel.nmi_watchdog=0" },
	{ PMU_STEP_OPEN,
	  { ESRCH },
	  always,
	  "the program has already ended",
	  "run it under memsight record from its start" },
	{ PMU_STEP_OPEN,
	  { EINVAL, E2BIG },
	  always,
	  "the kernel does not know a setting that this source needs",
	  "use a newer kernel, or another --source" },
	{ PMU_STEP_MAP,
	  { EPERM },
	  always,
	  "no locked memory left for the sample rings: kernel.perf_event_mlock_kb is %2$ld for"
	  " each CPU, and ulimit -l is %3$lld KiB",
	  "ulimit -l unlimited, or sudo sysctl kernel.perf_event_mlock_kb=4096"
	  "   (or sudo setcap cap_perfmon,cap_ipc_lock+ep $(which memsight))" },
	{ PMU_STEP_MAP,
	  { ENOMEM },
	  always,
	  "no memory left for the sample rings",
	  "free memory, or raise the limit of the cgroup" },
};

static bool names_error(const struct remedy_case *remedy, int error)
{
	return array_find(remedy->errors, MAX_ERRORS, it, *it == error);
}

static const struct remedy_case *find_case(enum pmu_step step, int error,
					   const struct pmu_permissions *permissions)
{
	return array_find(cases, COUNT_OF(cases), it,
			  it->step == step && names_error(it, error) && it->applies(permissions));
}

int pmu_refuse(struct pmu_refusal *ret_refusal, int error, const char *format, ...)
{
	char text[1024]; /* names may be long: the fix must not be cut with them */
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	char *fix = strrchr(text, '\n');
	if (fix)
		*fix++ = '\0';
	*ret_refusal = (struct pmu_refusal){ .error = -error };
	snprintf(ret_refusal->why, sizeof(ret_refusal->why), "%.191s", text);
	snprintf(ret_refusal->fix, sizeof(ret_refusal->fix), "%.255s", fix ? fix : "");
	return error;
}

void pmu_remedy(enum pmu_step step, int error, const struct pmu_permissions *permissions,
		struct pmu_refusal *ret_refusal)
{
	const struct remedy_case *remedy = error ? find_case(step, error, permissions) : NULL;
	struct pmu_refusal refusal = { .error = error };

	if (remedy) {
		snprintf(refusal.why, sizeof(refusal.why), remedy->why, permissions->paranoid,
			 permissions->mlock_kb, (long long)permissions->memlock_bytes / 1024);
		snprintf(refusal.fix, sizeof(refusal.fix), "%s", remedy->fix);
	} else if (error) {
		snprintf(refusal.why, sizeof(refusal.why), "%s: %s",
			 step == PMU_STEP_OPEN ? "perf_event_open" : "mapping a sample ring",
			 strerrordesc_np(error) ? strerrordesc_np(error) : "unknown error");
		snprintf(refusal.fix, sizeof(refusal.fix), "use another --source");
	}
	*ret_refusal = refusal;
}
