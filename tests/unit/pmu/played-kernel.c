#include "tests/unit/pmu/played-kernel.h"

#include <check.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct played_kernel kernel;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

static bool is_latency_code(const struct perf_event_attr *attr)
{
	return (attr->config & 0xffff) == 0x1cd;
}

static bool has_leader(const struct perf_event_attr *attr, int leader_fd)
{
	for (int i = 0; i < kernel.n; i++)
		if (kernel.opened[i].fd == leader_fd && kernel.opened[i].attr.config == 0x8203)
			/* core.c: "All events in a group should have the same clock". */
			return kernel.opened[i].attr.use_clockid == attr->use_clockid &&
			       kernel.opened[i].attr.clockid == attr->clockid;
	return false;
}

/* In the order of the kernel: attributes, rights, then the driver. */
static int answer(const struct perf_event_attr *attr, int leader_fd)
{
	uint64_t both = PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT;

	if (attr->sample_type & kernel.unknown || (attr->sample_type & both) == both)
		return EINVAL;
	if (attr->sample_type & kernel.forbidden)
		return EACCES;
	if (!attr->exclude_kernel && kernel.forbids_kernel)
		return EACCES;
	if (kernel.error)
		return kernel.error;
	if (attr->precise_ip > kernel.most_precise)
		return EOPNOTSUPP;
	if (kernel.has_no_latency && is_latency_code(attr))
		return ENOENT;
	if (kernel.has_no_filter && (attr->exclude_kernel || attr->exclude_user))
		return EINVAL;
	if (kernel.is_ibs && (attr->exclude_hv || attr->exclude_guest || attr->exclude_idle ||
			      (!attr->freq && attr->sample_period % 16)))
		return EINVAL;
	if (kernel.needs_leader && is_latency_code(attr) &&
	    (attr->sample_type & PERF_SAMPLE_DATA_SRC) && !has_leader(attr, leader_fd))
		return ENODATA;
	return 0;
}

static long open_event(const struct perf_event_attr *attr, pid_t pid, int cpu, int leader_fd)
{
	struct opened *opened = &kernel.opened[kernel.n];

	errno = answer(attr, leader_fd);
	if (errno)
		return -1;
	ck_assert_int_lt(kernel.n, MAX_OPENED);
	*opened = (struct opened){ .attr = *attr,
				   .cpu = cpu,
				   .leader_fd = leader_fd,
				   .fd = memfd_create("event", MFD_CLOEXEC),
				   .pid = pid };
	ck_assert_int_ge(opened->fd, 0);
	ck_assert_int_eq(ftruncate(opened->fd, FILE_BYTES), 0);
	kernel.n++;
	return opened->fd;
}

/* Nothing else that is linked here calls syscall(). */
long __wrap_syscall(long number, ...)
{
	va_list arguments;

	ck_assert_int_eq(number, SYS_perf_event_open);
	va_start(arguments, number);
	const struct perf_event_attr *attr = va_arg(arguments, const struct perf_event_attr *);
	pid_t pid = va_arg(arguments, pid_t);
	int cpu = va_arg(arguments, int);
	int leader_fd = va_arg(arguments, int);
	unsigned long flags = va_arg(arguments, unsigned long);
	va_end(arguments);
	if (attr->type != PERF_TYPE_SOFTWARE)
		return open_event(attr, pid, cpu, leader_fd);
	return __real_syscall(number, attr, pid, cpu, leader_fd, flags);
}

int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;

	va_start(arguments, request);
	unsigned long argument = va_arg(arguments, unsigned long);
	va_end(arguments);
	for (int i = 0; i < kernel.n; i++) {
		if (kernel.opened[i].fd != fd)
			continue;
		kernel.opened[i].last_request = request;
		if (request == PERF_EVENT_IOC_SET_OUTPUT)
			kernel.opened[i].output_fd = (int)argument;
		return 0;
	}
	return __real_ioctl(fd, request, argument);
}
