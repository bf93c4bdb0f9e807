/*
 * By which ways this kernel tells which pages are touched: each is tried on this process. The
 * recording takes clear_refs and userfaultfd-wp; the others are named for who wants to know what a
 * newer kernel, a setting or root would give.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "pmu/page-marks.h"
#include "runner/host/avail.h"
#include "runner/processes/page-state.h"

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
