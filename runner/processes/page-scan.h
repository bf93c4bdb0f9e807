#pragma once
/*
 * ioctl PAGEMAP_SCAN of /proc/PID/pagemap as linux/fs.h of 6.7 and later has it, and PROCMAP_QUERY
 * of /proc/PID/maps as that of 6.11 and later; Debian 12's is older.
 * Documentation/admin-guide/mm/pagemap.rst, Documentation/filesystems/proc.rst
 */
#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

struct page_scan_region {
	__u64 start;
	__u64 end;
	__u64 categories;
};

struct page_scan {
	__u64 size;
	__u64 flags;
	__u64 start;
	__u64 end;
	__u64 walk_end;
	__u64 vec;
	__u64 vec_len;
	__u64 max_pages;
	__u64 category_inverted;
	__u64 category_mask;
	__u64 category_anyof_mask;
	__u64 return_mask;
};
_Static_assert(sizeof(struct page_scan) == 96, "struct pm_scan_arg is ABI");

#define PAGE_SCAN _IOWR('f', 16, struct page_scan)

/* flags: protect what is found; -EPERM where userfaultfd does not watch */
#define PAGE_SCAN_PROTECT (1u << 0)
#define PAGE_SCAN_CHECK	  (1u << 1)

/* categories */
#define PAGE_SCAN_WRITTEN (1u << 1)
#define PAGE_SCAN_FILE	  (1u << 2)
#define PAGE_SCAN_PRESENT (1u << 3)
#define PAGE_SCAN_SWAPPED (1u << 4)
#define PAGE_SCAN_ZERO	  (1u << 5)
#define PAGE_SCAN_HUGE	  (1u << 6)

/*
 * What one call has named, n regions in order of address: of the pages from request->start up to
 * request->walk_end. May set max_pages of the next call. Returns 0, a negative errno, or 1: there
 * shall be no next call.
 */
typedef int (*page_scan_take)(void *user, struct page_scan *request,
			      const struct page_scan_region *regions, size_t n);

/*
 * Ask for the pages from request->start up to request->end by as many calls as it takes; table is
 * /proc/PID/pagemap. The caller has set what is asked, all but size and vec. Behind it all up to
 * walk_end was taken, also on failure. Returns 0, the kernel's negative errno, or what take
 * returned. Any thread.
 */
int page_scan_range(int table, struct page_scan *request, page_scan_take take, void *user);

/*
 * What a look has found, in order of address, as varints (trace/varint.h): how many pages behind
 * the last run a run begins, and so on. All zero is empty.
 */
struct page_runs {
	uint8_t *bytes;
	size_t n_bytes;
	size_t n_allocated;
};

/* Add n numbers. Returns 0, -ENOMEM, or -E2BIG: there are 64 MiB. */
int page_runs_put(struct page_runs *runs, const uint64_t *numbers, size_t n);

/* Which mapping lies at an address. */
struct map_query {
	__u64 size;
	__u64 flags;
	__u64 address;
	__u64 start; /* from here on the kernel answers */
	__u64 end;
	__u64 others[4]; /* flags, page size, offset and inode of the mapping */
	__u32 device[2];
	__u32 name_sizes[2]; /* 0: neither name nor build-id is wanted, ... */
	__u64 names[2]; /* ... so there is no place for them */
};
_Static_assert(sizeof(struct map_query) == 104, "struct procmap_query is ABI");

#define MAP_QUERY	     _IOWR('f', 17, struct map_query)
#define MAP_QUERY_EXECUTABLE UINT64_C(0x04) /* in flags: of others nothing is said */
