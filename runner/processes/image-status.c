/* How a process ended that is not our child: nobody gives us its wait status. */
#include <linux/ioctl.h>
#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "runner/processes/image-proc.h"

#define MAX_STAT_BYTES	  4096
#define FLAGS_FIELD	  9 /* proc_pid_stat(5) */
#define N_THREADS_FIELD	  20
#define EXIT_CODE_FIELD	  52
#define FIRST_BEHIND_COMM 3
#define FLAG_EXITING	  0x4u /* PF_EXITING of linux/sched.h: zombies have it, too */

/* linux/pidfd.h of 6.15 and later; Debian 12's is older. */
struct pidfd_exit_info {
	__u64 mask;
	__u64 cgroup_id;
	__u32 ids[11];
	__s32 exit_code;
	__u32 coredump_mask;
	__u32 spare;
};
_Static_assert(sizeof(struct pidfd_exit_info) == 72, "struct pidfd_info is ABI");
#define PIDFD_EXIT_BIT	    (UINT64_C(1) << 3)
#define PIDFD_GET_EXIT_INFO _IOWR(0xff, 11, struct pidfd_exit_info)

/* The fields of /proc/PID/stat from the state on. NULL: it is gone. */
static const char *read_stat(pid_t pid, char **ret_text)
{
	char path[32];
	const char *state;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (io_read_file(path, MAX_STAT_BYTES, ret_text, NULL) < 0)
		return NULL;
	state = strrchr(*ret_text, ')');
	return state && state[1] ? state + 2 : NULL;
}

/* A field behind the state; NULL: there is none. */
static const char *find_field(const char *state, int number)
{
	for (int field = FIRST_BEHIND_COMM; state && field < number; field++) {
		state = strchr(state, ' ');
		state = state ? state + 1 : NULL;
	}
	return state;
}

bool image_is_zombie(pid_t pid)
{
	auto_free char *text = NULL;
	const char *state = read_stat(pid, &text);

	return state && state[0] == 'Z';
}

bool image_is_stopped(pid_t pid)
{
	auto_free char *text = NULL;
	const char *state = read_stat(pid, &text);

	return state && state[0] == 'T';
}

/* Its first thread may have ended alone: others go on for as long as they like. */
bool image_is_ending(pid_t pid)
{
	auto_free char *text = NULL;
	const char *state = read_stat(pid, &text);
	const char *flags = find_field(state, FLAGS_FIELD);
	const char *n_threads = find_field(state, N_THREADS_FIELD);

	return flags && n_threads && strtoul(flags, NULL, 10) & FLAG_EXITING &&
	       atoi(n_threads) <= 1;
}

/* As long as nobody has waited for it. */
static int status_of_zombie(pid_t pid)
{
	auto_free char *text = NULL;
	const char *state = read_stat(pid, &text);
	const char *status = state && state[0] == 'Z' ? find_field(state, EXIT_CODE_FIELD) : NULL;

	return status ? atoi(status) : IMAGE_STATUS_UNKNOWN;
}

/* Afterwards; the kernel keeps it for whoever holds a pidfd. */
static int status_of_reaped(int pidfd)
{
	struct pidfd_exit_info info = { .mask = PIDFD_EXIT_BIT };

	if (pidfd < 0 || ioctl(pidfd, PIDFD_GET_EXIT_INFO, &info) < 0 ||
	    !(info.mask & PIDFD_EXIT_BIT))
		return IMAGE_STATUS_UNKNOWN;
	return info.exit_code;
}

int image_end_status(const struct image *image)
{
	int status = status_of_reaped(image->pidfd);

	/* Mostly somebody has waited for it by now; or has just when we looked. */
	if (status < 0)
		status = status_of_zombie(image->pid);
	return status >= 0 ? status : status_of_reaped(image->pidfd);
}
