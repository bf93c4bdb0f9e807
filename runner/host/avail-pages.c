/*
 * By which ways this kernel tells which pages are touched: each is tried on this process. The
 * recording takes clear_refs and userfaultfd-wp; the others are told for who wants to know what a
 * newer kernel, a setting or root would give.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "pmu/source.h"
#include "runner/host/avail.h"

/* linux/userfaultfd.h of 6.7, and of the kernel that is to have RWP. */
#define USER_MODE_ONLY	  1
#define FEATURE_WP_ASYNC  (UINT64_C(1) << 15)
#define FEATURE_RWP_ASYNC (UINT64_C(1) << 18)

/* Does userfaultfd have a feature? 0 or a negative errno; -ENOTSUP: it works, and has it not. */
static int has_feature(uint64_t feature)
{
	struct uffdio_api api = { .api = UFFD_API };
	auto_close int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | USER_MODE_ONLY);

	if (fd < 0)
		return -errno;
	/* Asked for nothing it tells of all that there is. */
	if (ioctl(fd, UFFDIO_API, &api) < 0)
		return -errno;
	return api.features & feature ? 0 : -ENOTSUP;
}

static int can_open(const char *path, int flags)
{
	auto_close int fd = open(path, flags | O_CLOEXEC);

	return fd < 0 ? -errno : 0;
}

static int try_rwp(void)
{
	return has_feature(FEATURE_RWP_ASYNC);
}

static int try_wp(void)
{
	return has_feature(FEATURE_WP_ASYNC);
}

static int try_idle(void)
{
	return can_open("/sys/kernel/mm/page_idle/bitmap", O_RDWR);
}

static int try_damon(void)
{
	return can_open("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", O_RDWR);
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
	  "each page that is written, exactly; what --source pages takes beside",
	  "userfaultfd has no WP_ASYNC", "Linux 6.7 with CONFIG_USERFAULTFD",
	  "allow userfaultfd in the container's seccomp profile" },
	{ "page-idle", try_idle, "idle marks of physical pages; memsight does not use them",
	  "no /sys/kernel/mm/page_idle", "Linux with CONFIG_IDLE_PAGE_TRACKING",
	  "root may open /sys/kernel/mm/page_idle/bitmap" },
	{ "damon", try_damon, "accesses of regions, by sampling; memsight does not use it",
	  "no /sys/kernel/mm/damon", "Linux with CONFIG_DAMON_SYSFS and CONFIG_DAMON_VADDR",
	  "root may open /sys/kernel/mm/damon" },
};

static int give_marks(avail_sink sink, void *user)
{
	const struct access_source *source = pmu_source_find("pages");
	struct pmu_refusal refusal = { 0 };
	bool is_there = source->probe(source, NULL, &refusal) == 0;

	return sink(user,
		    &(struct avail_item){
			    "touched pages", "clear_refs", is_there,
			    is_there ? "how many pages of each mapping are read or written; what "
				       "--source pages takes"
				     : refusal.why,
			    is_there ? "" : refusal.fix });
}

int avail_page_ways(avail_sink sink, void *user)
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
