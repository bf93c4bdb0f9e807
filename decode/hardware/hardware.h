#pragma once
/*
 * Accesses that processors sample in their own formats: AMD's IBS (registers) and Arm's SPE
 * (packets). Both become perf's data source word and an address, as the kernel or perf make them.
 * Hostile bytes: nothing is read outside of them. Pure functions.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hardware_access {
	uint64_t ip; /* 0: not told */
	uint64_t address;
	uint64_t physical_address;
	uint64_t data_src; /* DATA_SOURCE_*; a word as perf's */
	uint64_t ticks; /* SPE: of the generic timer; 0: not told */
	uint32_t context; /* SPE: CONTEXTIDR, on Linux the thread's id; 0: not told */
	uint32_t latency; /* cycles until the data was there; 0: not told */
	uint32_t total_latency; /* SPE: from dispatch to completion; 0: not told */
	uint16_t size; /* bytes; 0: not told */
	bool is_kernel;
	bool is_memory; /* a load or a store; else the rest says little */
	bool has_address;
	bool has_physical_address;
};

/*
 * Registers of one sample of IBS op, as PERF_SAMPLE_RAW has them: capabilities (4 bytes), then
 * IbsOpCtl, Rip, Data, Data2, Data3, DcLinAd, DcPhysAd ... (arch/x86/include/asm/amd-ibs.h). 0, or
 * -EBADMSG: too few bytes.
 */
int ibs_decode_op(const void *raw, size_t n_bytes, struct hardware_access *ret_access);

/* Walks over the packets of SPE. All zero but the bytes begins. */
struct spe_cursor {
	const uint8_t *bytes;
	size_t n_bytes;
	size_t at;
	uint64_t n_damaged; /* bytes that are no packet: stepped over */
};

/*
 * The next record: up to its timestamp or end packet. Returns 1, or 0 at the end of the bytes,
 * where a record that has no end yet is left (cursor->at is its begin). Layout: Arm ARM, chapter
 * D10, and tools/perf/util/arm-spe-decoder of Linux.
 */
int spe_decode_next(struct spe_cursor *cursor, struct hardware_access *ret_access);
