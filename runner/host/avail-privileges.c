/* What this user may do. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "pmu/remedy.h"
#include "runner/host/avail-internal.h"

#define SET_CAPABILITY "sudo setcap cap_perfmon,cap_ipc_lock+ep $(which memsight)"

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

int avail_privileges(const struct avail *avail)
{
	struct pmu_permissions permissions;
	char about[AVAIL_TEXT_BYTES];
	bool sees_kernel;
	int err;

	pmu_permissions_read(&permissions);
	sees_kernel = permissions.has_sys_admin || permissions.paranoid < 2 ||
		      (permissions.has_perfmon && permissions.paranoid == 2);
	snprintf(about, sizeof(about), "uid %u%s%s", (unsigned)geteuid(),
		 permissions.has_sys_admin ? ", CAP_SYS_ADMIN"
		 : permissions.has_perfmon ? ", CAP_PERFMON"
					   : "",
		 permissions.in_user_namespace ? ", in a user namespace" : "");
	err = give(avail, "user", true, about, "");
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
	return err == 0 ? give_memory(avail, &permissions) : err;
}
