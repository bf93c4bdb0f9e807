#pragma once
/*
 * The source `watch`: the processor's 4 debug registers, in every thread of a process and of its
 * later children. Each access to the watched bytes by user code is a sample with the address of its
 * register's range and the ip of the *next* instruction (the trap comes behind the access).
 *
 * The registers are opened unarmed with the stream and armed later, in all threads at once: the
 * kernel hands PERF_EVENT_IOC_MODIFY_ATTRIBUTES on to inherited events. An unarmed one costs
 * nothing while the program runs, an armed one 3.5 us for each access (see pmu_watch_hit_ns()) and
 * nothing else.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pmu/source.h"

#define PMU_WATCH_REGISTERS 4u

/*
 * What one register watches: 1, 2, 4 or 8 bytes at an address that is a multiple of their number.
 */
struct pmu_watch_range {
	uint64_t address;
	uint32_t n_bytes;
	bool is_write_only; /* else reads and writes: x86 has no watch for reads alone */
};

/*
 * Cover [address, address + n_bytes) by as few such ranges as it takes. Returns how many, or 0 when
 * n_max are not enough (or n_bytes is 0).
 */
unsigned pmu_watch_cover(uint64_t address, uint64_t n_bytes, bool is_write_only,
			 struct pmu_watch_range *ret_ranges, unsigned n_max);

/*
 * How many registers a stream of pmu_source_watch has: fewer than 4 where somebody else holds some.
 */
unsigned pmu_watch_registers(const struct access_stream *stream);

/*
 * What an access to watched bytes costs a program here, in ns: measured when the stream was
 * opened, with accesses of our own. A virtual machine may take 30 times what its processor takes.
 */
uint32_t pmu_watch_hit_ns(const struct access_stream *stream);

/*
 * So many accesses fill half a ring. Who finds more at once must take it that others found no room,
 * and cost the program their time all the same.
 */
uint32_t pmu_watch_ring_hits(const struct access_stream *stream);

/* Arm a register; one that is armed watches something else from now on. 0 or a negative errno. */
int pmu_watch_arm(struct access_stream *stream, unsigned number,
		  const struct pmu_watch_range *range);

/* Watch nothing with it. 0 or a negative errno. */
int pmu_watch_disarm(struct access_stream *stream, unsigned number);

extern const struct access_source pmu_source_watch;
