/* AMD's instruction-based sampling, after perf_ibs_get_data_src() of arch/x86/events/amd/ibs.c. */
#include <errno.h>
#include <string.h>

#include "decode/hardware/hardware.h"
#include "perf/data-source.h"

/* Registers in the order of the raw sample. */
enum {
	REGISTER_CTL,
	REGISTER_RIP,
	REGISTER_DATA,
	REGISTER_DATA2,
	REGISTER_DATA3,
	REGISTER_LINEAR,
	REGISTER_PHYSICAL,
	REGISTER_COUNT,
};

#define CAPS_ZEN4	 (1u << 11) /* IBS_CAPS_ZEN4: data sources of 5 bits */
#define DATA_RIP_INVALID 38

/* IbsOpData3. */
enum {
	DATA3_LOAD = 0,
	DATA3_STORE = 1,
	DATA3_L1_TLB_MISS = 2,
	DATA3_L2_TLB_MISS = 3,
	DATA3_CACHE_MISS = 7,
	DATA3_UNCACHED = 14,
	DATA3_LOCKED = 15,
	DATA3_NO_MAB = 16,
	DATA3_LINEAR_VALID = 17,
	DATA3_PHYSICAL_VALID = 18,
	DATA3_L2_MISS = 20,
	DATA3_PREFETCH = 21,
	DATA3_WIDTH = 22, /* 4 bits */
	DATA3_LATENCY = 32, /* 16 bits */
};

static bool bit(uint64_t word, unsigned at)
{
	return word >> at & 1;
}

/* A level by its bits and its number. */
#define LEVEL(bits, number)                                                                        \
	((uint64_t)(DATA_SOURCE_LVL_HIT | (bits)) << DATA_SOURCE_LVL_SHIFT |                       \
	 (uint64_t)(number) << DATA_SOURCE_NUM_SHIFT)
#define REMOTE	   (UINT64_C(1) << DATA_SOURCE_REMOTE_SHIFT)
#define HOPS(n)	   ((uint64_t)(n) << DATA_SOURCE_HOPS_SHIFT)
#define LEVEL_NONE ((uint64_t)DATA_SOURCE_LVL_NA << DATA_SOURCE_LVL_SHIFT)

/*
 * By DataSrc: Zen 4 and later (5 bits), and before (3 bits). Socket or node behind RmtNode is not
 * told.
 */
static uint64_t level_of_zen4(unsigned source, bool is_remote)
{
	switch (source) {
	case 1:
		return LEVEL(DATA_SOURCE_LVL_L3, DATA_SOURCE_NUM_L3);
	case 2: /* another cache of this node */
		return LEVEL(DATA_SOURCE_LVL_REM_CCE1, DATA_SOURCE_NUM_ANY_CACHE) | REMOTE |
		       HOPS(1);
	case 3:
		return is_remote ? LEVEL(DATA_SOURCE_LVL_REM_RAM1, DATA_SOURCE_NUM_RAM) | REMOTE
				 : LEVEL(DATA_SOURCE_LVL_LOC_RAM, DATA_SOURCE_NUM_RAM);
	case 5: /* a cache of another node */
		return LEVEL(DATA_SOURCE_LVL_REM_CCE2, DATA_SOURCE_NUM_ANY_CACHE) | REMOTE |
		       HOPS(2);
	case 6:
		return LEVEL(0, DATA_SOURCE_NUM_PMEM) | (is_remote ? REMOTE : 0);
	case 7:
		return LEVEL(DATA_SOURCE_LVL_IO, DATA_SOURCE_NUM_IO);
	case 8:
		return LEVEL(0, DATA_SOURCE_NUM_CXL) | (is_remote ? REMOTE : 0);
	default:
		return LEVEL_NONE;
	}
}

static uint64_t level_of_zen(unsigned source, bool is_remote)
{
	switch (source) {
	case 1: /* this cache or one nearby: not told apart */
		return LEVEL(DATA_SOURCE_LVL_L3 | DATA_SOURCE_LVL_REM_CCE1, 0);
	case 2:
		return LEVEL(DATA_SOURCE_LVL_REM_CCE1, DATA_SOURCE_NUM_ANY_CACHE) | REMOTE |
		       HOPS(1);
	case 3:
		return is_remote ? LEVEL(DATA_SOURCE_LVL_REM_RAM1, DATA_SOURCE_NUM_RAM) | REMOTE
				 : LEVEL(DATA_SOURCE_LVL_LOC_RAM, DATA_SOURCE_NUM_RAM);
	case 7:
		return LEVEL(DATA_SOURCE_LVL_IO, DATA_SOURCE_NUM_IO);
	default:
		return LEVEL_NONE;
	}
}

static uint64_t level_of(uint32_t caps, const uint64_t registers[])
{
	uint64_t data2 = registers[REGISTER_DATA2];
	uint64_t data3 = registers[REGISTER_DATA3];
	unsigned source = (unsigned)data2 & 7;
	bool is_remote = bit(data2, 4);

	if (bit(data3, DATA3_UNCACHED))
		return LEVEL(DATA_SOURCE_LVL_UNC, DATA_SOURCE_NUM_UNC);
	if (!bit(data3, DATA3_CACHE_MISS))
		return LEVEL(DATA_SOURCE_LVL_L1, DATA_SOURCE_NUM_L1);
	if (!bit(data3, DATA3_L2_MISS))
		return LEVEL(DATA_SOURCE_LVL_L2, DATA_SOURCE_NUM_L2);
	uint64_t level = caps & CAPS_ZEN4 ? level_of_zen4(source | (unsigned)(data2 >> 6 & 3) << 3,
							  is_remote)
					  : level_of_zen(source, is_remote);
	/* Where a store's line came from is not told. */
	if (bit(data3, DATA3_LOAD) && level != LEVEL_NONE)
		return level;
	return bit(data3, DATA3_NO_MAB) ? LEVEL(DATA_SOURCE_LVL_LFB, DATA_SOURCE_NUM_LFB)
					: LEVEL_NONE;
}

static uint64_t tlb_of(uint64_t data3)
{
	uint64_t tlb = DATA_SOURCE_TLB_L1 | DATA_SOURCE_TLB_HIT;

	if (!bit(data3, DATA3_LINEAR_VALID))
		tlb = DATA_SOURCE_TLB_NA;
	else if (bit(data3, DATA3_L1_TLB_MISS))
		tlb = DATA_SOURCE_TLB_L2 |
		      (bit(data3, DATA3_L2_TLB_MISS) ? DATA_SOURCE_TLB_MISS : DATA_SOURCE_TLB_HIT);
	return tlb << DATA_SOURCE_TLB_SHIFT;
}

static uint64_t data_src_of(uint32_t caps, const uint64_t registers[])
{
	uint64_t data3 = registers[REGISTER_DATA3];
	uint64_t op = (bit(data3, DATA3_LOAD) ? DATA_SOURCE_OP_LOAD : 0) |
		      (bit(data3, DATA3_STORE) ? DATA_SOURCE_OP_STORE : 0) |
		      (bit(data3, DATA3_PREFETCH) ? DATA_SOURCE_OP_PREFETCH : 0);

	return op | level_of(caps, registers) | tlb_of(data3) |
	       (uint64_t)DATA_SOURCE_SNOOP_NA << DATA_SOURCE_SNOOP_SHIFT |
	       (bit(data3, DATA3_LOCKED) ? UINT64_C(2) : 0) << DATA_SOURCE_LOCK_SHIFT |
	       UINT64_C(1) << DATA_SOURCE_BLK_SHIFT;
}

int ibs_decode_op(const void *raw, size_t n_bytes, struct hardware_access *ret_access)
{
	uint64_t registers[REGISTER_COUNT];
	uint32_t caps;

	if (n_bytes < sizeof(caps) + sizeof(registers))
		return -EBADMSG;
	memcpy(&caps, raw, sizeof(caps));
	memcpy(registers, (const uint8_t *)raw + sizeof(caps), sizeof(registers));
	uint64_t data3 = registers[REGISTER_DATA3];
	unsigned width = (unsigned)(data3 >> DATA3_WIDTH) & 15;

	*ret_access = (struct hardware_access){
		.ip = bit(registers[REGISTER_DATA], DATA_RIP_INVALID) ? 0 : registers[REGISTER_RIP],
		.is_memory = bit(data3, DATA3_LOAD) || bit(data3, DATA3_STORE),
		.data_src = DATA_SOURCE_NONE,
	};
	if (!ret_access->is_memory)
		return 0;
	ret_access->has_address = bit(data3, DATA3_LINEAR_VALID);
	ret_access->has_physical_address = bit(data3, DATA3_PHYSICAL_VALID);
	ret_access->address = ret_access->has_address ? registers[REGISTER_LINEAR] : 0;
	ret_access->physical_address =
		ret_access->has_physical_address ? registers[REGISTER_PHYSICAL] : 0;
	ret_access->size = width && width <= 7 ? (uint16_t)(1u << (width - 1)) : 0;
	/* Of loads that missed only: of stores the field means nothing. */
	if (bit(data3, DATA3_LOAD) && bit(data3, DATA3_CACHE_MISS))
		ret_access->latency = (uint32_t)(data3 >> DATA3_LATENCY) & 0xffff;
	ret_access->data_src = data_src_of(caps, registers);
	return 0;
}
