#pragma once
/*
 * Why perf_event_open was refused, and the one thing to do about it. Text for a person, one line
 * each; the caller prints or stores it.
 */
#include <stdbool.h>
#include <stdint.h>

struct pmu_refusal {
	int error; /* positive errno; 0: nothing was refused */
	char why[192]; /* "perf_event_paranoid is 3: ..." */
	char fix[256]; /* "sudo sysctl kernel.perf_event_paranoid=2", or what else helps */
};

/*
 * Refuse with a negative errno, which is returned. The text made by the format is why; behind its
 * last line break, if it has one, stands what the user can do.
 */
__attribute__((format(printf, 3, 4))) int pmu_refuse(struct pmu_refusal *ret_refusal, int error,
						     const char *format, ...);

/* Where the refusal happened: the same errno means different things. */
enum pmu_step {
	PMU_STEP_OPEN, /* perf_event_open */
	PMU_STEP_MAP, /* mmap of the ring */
};

/* What decides about a refusal; pmu_permissions_read() looks it up. */
struct pmu_permissions {
	int paranoid; /* kernel.perf_event_paranoid; INT_MIN: the file is not there */
	long mlock_kb; /* kernel.perf_event_mlock_kb; -1: not there */
	int64_t memlock_bytes; /* RLIMIT_MEMLOCK; INT64_MAX: unlimited */
	bool has_perfmon; /* CAP_PERFMON or CAP_SYS_ADMIN is effective */
	bool has_sys_admin; /* Debian's kernel asks for it where paranoid is above 2 */
	bool has_ipc_lock; /* CAP_IPC_LOCK is effective */
	bool has_seccomp; /* a seccomp filter or strict mode binds this process */
	/* samples of kernel code only were asked for; the caller knows, nothing looks it up */
	bool wants_kernel;
	bool in_user_namespace; /* a container's root: its capabilities do not count for perf */
};

/* Look all of it up in /proc for the calling process. Never fails: unknown stays unknown. */
void pmu_permissions_read(struct pmu_permissions *ret_permissions);

/*
 * Explain a refusal. error is a positive errno. With error 0 both texts are empty. Pure: the same
 * arguments give the same text, so that every case can be tested. Thread safe.
 */
void pmu_remedy(enum pmu_step step, int error, const struct pmu_permissions *permissions,
		struct pmu_refusal *ret_refusal);
