#pragma once
/*
 * What perf's data source word says (union perf_mem_data_src of linux/perf_event.h), in words.
 * Levels that Debian 12's header lacks are here as later kernels number them. The word is a number:
 * files of the other byte order have their fields at the same bits once its bytes are swapped. Pure
 * functions.
 */
#include <stdbool.h>
#include <stdint.h>

/* Places of the fields. */
#define DATA_SOURCE_LVL_SHIFT	 5
#define DATA_SOURCE_SNOOP_SHIFT	 19
#define DATA_SOURCE_LOCK_SHIFT	 24
#define DATA_SOURCE_TLB_SHIFT	 26
#define DATA_SOURCE_NUM_SHIFT	 33
#define DATA_SOURCE_REMOTE_SHIFT 37
#define DATA_SOURCE_SNOOPX_SHIFT 38
#define DATA_SOURCE_BLK_SHIFT	 40
#define DATA_SOURCE_HOPS_SHIFT	 43

enum data_source_op { /* bits */
		      DATA_SOURCE_OP_NA = 1,
		      DATA_SOURCE_OP_LOAD = 2,
		      DATA_SOURCE_OP_STORE = 4,
		      DATA_SOURCE_OP_PREFETCH = 8,
		      DATA_SOURCE_OP_EXEC = 16,
};

enum data_source_lvl { /* bits */
		       DATA_SOURCE_LVL_NA = 0x01,
		       DATA_SOURCE_LVL_HIT = 0x02,
		       DATA_SOURCE_LVL_MISS = 0x04,
		       DATA_SOURCE_LVL_L1 = 0x08,
		       DATA_SOURCE_LVL_LFB = 0x10,
		       DATA_SOURCE_LVL_L2 = 0x20,
		       DATA_SOURCE_LVL_L3 = 0x40,
		       DATA_SOURCE_LVL_LOC_RAM = 0x80,
		       DATA_SOURCE_LVL_REM_RAM1 = 0x100,
		       DATA_SOURCE_LVL_REM_RAM2 = 0x200,
		       DATA_SOURCE_LVL_REM_CCE1 = 0x400,
		       DATA_SOURCE_LVL_REM_CCE2 = 0x800,
		       DATA_SOURCE_LVL_IO = 0x1000,
		       DATA_SOURCE_LVL_UNC = 0x2000,
};

enum data_source_num {
	DATA_SOURCE_NUM_L1 = 1,
	DATA_SOURCE_NUM_L2 = 2,
	DATA_SOURCE_NUM_L3 = 3,
	DATA_SOURCE_NUM_L4 = 4,
	DATA_SOURCE_NUM_L2_MHB = 5,
	DATA_SOURCE_NUM_MSC = 6,
	DATA_SOURCE_NUM_UNC = 8,
	DATA_SOURCE_NUM_CXL = 9,
	DATA_SOURCE_NUM_IO = 10,
	DATA_SOURCE_NUM_ANY_CACHE = 11,
	DATA_SOURCE_NUM_LFB = 12,
	DATA_SOURCE_NUM_RAM = 13,
	DATA_SOURCE_NUM_PMEM = 14,
	DATA_SOURCE_NUM_NA = 15,
};

enum data_source_snoop { /* bits */
			 DATA_SOURCE_SNOOP_NA = 1,
			 DATA_SOURCE_SNOOP_NONE = 2,
			 DATA_SOURCE_SNOOP_HIT = 4,
			 DATA_SOURCE_SNOOP_MISS = 8,
			 DATA_SOURCE_SNOOP_HITM = 16,
};

enum data_source_tlb { /* bits */
		       DATA_SOURCE_TLB_NA = 1,
		       DATA_SOURCE_TLB_HIT = 2,
		       DATA_SOURCE_TLB_MISS = 4,
		       DATA_SOURCE_TLB_L1 = 8,
		       DATA_SOURCE_TLB_L2 = 16,
		       DATA_SOURCE_TLB_WALKER = 32,
		       DATA_SOURCE_TLB_OS = 64,
};

/* "Not known" in all of them, as the kernel writes it (PERF_MEM_NA). */
#define DATA_SOURCE_NONE UINT64_C(0x1e05080021)

/* Texts are "" where nothing is known. */
struct data_source {
	char op[24]; /* "load", "store", "prefetch", "exec"; several joined by " and " */
	char level[48]; /* "L1", "LFB/MAB", "RAM" ...; several joined by " or " */
	const char *hit; /* "hit", "miss" */
	char snoop[24]; /* "none", "hit", "miss", "HitM", "forwarded", "peer" */
	char tlb[40]; /* "L1 or L2 hit", "L2 miss", "walker hit" */
	const char *blocked; /* "data", "address": why the load had to wait */
	int8_t is_write; /* as data_source_is_write() has it */
	int8_t is_locked; /* -1: not known */
	int8_t is_remote; /* -1: not known */
	int8_t hops; /* -1: not known; 0: none, 1: another core, 2: node, 3: socket, 4: board */
};

void data_source_decode(uint64_t word, struct data_source *ret_source);

/* Whether an access writes: 1, 0; -1: it is neither a load nor a store alone. */
static inline int8_t data_source_is_write(uint64_t word)
{
	bool is_load = word & DATA_SOURCE_OP_LOAD, is_store = word & DATA_SOURCE_OP_STORE;

	return is_load == is_store ? -1 : is_store;
}

/* Whether an access found its line modified in another cache. */
static inline bool data_source_is_hitm(uint64_t word)
{
	uint64_t snoop = word >> DATA_SOURCE_SNOOP_SHIFT;

	return snoop & DATA_SOURCE_SNOOP_HITM && !(snoop & DATA_SOURCE_SNOOP_NA);
}

/* Whether a word says more than that it knows nothing. */
bool data_source_is_known(uint64_t word);
