#pragma once
/*
 * Live totals of a recording (docs/live.md): what the recorder keeps in a memory file, and hands to
 * `memsight top` over the recording's socket (CONTROL_TOTALS). One writer; readers only look, and
 * may see one event's sums half done. Same build only.
 */
#include <stdatomic.h>
#include <stdint.h>

#define LIVE_MAGIC	 UINT32_C(0x4556494c) /* "LIVE" */
#define LIVE_MAX_SITES	 65536u /* the first one takes all that have no place */
#define LIVE_MAX_THREADS 4096u /* here the last one does */
#define LIVE_FRAMES	 30u

/*
 * Blocks of one call stack in one process image. Live bytes are sums over blocks of size / p, where
 * p is the chance that a block of its time and size was followed (1, 1/2, 1/4 ...; large ones: 1);
 * `variance` is that of live_bytes (Horvitz and Thompson 1952: sum of size^2 (1 - p) / p^2), 0:
 * exact. Counts of allocations are always exact.
 */
struct live_site {
	_Atomic uint64_t live_bytes;
	_Atomic uint64_t n_live;
	_Atomic double variance;
	_Atomic uint64_t
		old_bytes; /* of live_bytes, by blocks older than live_header.old_seconds */
	_Atomic uint64_t age_ms; /* added over live blocks, as of the last look (each second) */
	_Atomic uint64_t n_allocations;
	_Atomic uint64_t allocated_bytes;
	uint32_t process_id; /* of the trace */
	uint32_t pid;
	/* Once n_frames is there, all above and below is. */
	uint32_t n_all_frames; /* of the stack; only the innermost ones are here */
	_Atomic uint32_t n_frames;
	uint64_t pcs[LIVE_FRAMES]; /* return addresses, the innermost first */
};
_Static_assert(sizeof(struct live_site) == 312, "no holes");

struct live_thread {
	_Atomic uint64_t n_allocations;
	_Atomic uint64_t allocated_bytes;
	_Atomic uint64_t n_frees;
	uint32_t pid;
	uint32_t tid; /* 0: not known */
	char name[16]; /* NUL-padded */
};

struct live_header {
	uint32_t magic;
	uint32_t old_seconds; /* blocks that are older are `old' */
	_Atomic uint64_t live_bytes; /* of all sites, as there */
	_Atomic uint64_t n_live;
	_Atomic double variance;
	_Atomic uint64_t old_bytes;
	_Atomic uint64_t n_allocations;
	_Atomic uint64_t allocated_bytes;
	_Atomic uint64_t n_frees;
	_Atomic uint64_t rss_bytes; /* of all processes, added up; ten times a second */
	_Atomic uint64_t n_lost; /* events that were not recorded: sums are too high or too low */
	_Atomic uint64_t n_left_out; /* blocks that there was no memory to follow */
	_Atomic uint64_t looked_ns; /* CLOCK_MONOTONIC of the last look at ages */
	_Atomic uint32_t n_sites;
	_Atomic uint32_t n_threads; /* ever */
	_Atomic uint32_t n_processes; /* that live */
	_Atomic uint32_t shift; /* of new blocks one in 2^shift is followed */
	_Atomic uint32_t is_paused;
	uint32_t reserved[3];
	struct live_thread threads[LIVE_MAX_THREADS];
	struct live_site sites[LIVE_MAX_SITES];
};
