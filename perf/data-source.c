#include "perf/data-source.h"

#include <stdio.h>
#include <string.h>

#define REMOTE_LEVELS                                                                              \
	(DATA_SOURCE_LVL_REM_RAM1 | DATA_SOURCE_LVL_REM_RAM2 | DATA_SOURCE_LVL_REM_CCE1 |          \
	 DATA_SOURCE_LVL_REM_CCE2)
#define LOCAL_LEVELS                                                                               \
	(DATA_SOURCE_LVL_L1 | DATA_SOURCE_LVL_LFB | DATA_SOURCE_LVL_L2 | DATA_SOURCE_LVL_L3 |      \
	 DATA_SOURCE_LVL_LOC_RAM)

struct name {
	uint32_t bit;
	const char *text;
};

static const struct name ops[] = {
	{ DATA_SOURCE_OP_LOAD, "load" },
	{ DATA_SOURCE_OP_STORE, "store" },
	{ DATA_SOURCE_OP_PREFETCH, "prefetch" },
	{ DATA_SOURCE_OP_EXEC, "exec" },
	{ 0, NULL },
};

static const struct name levels[] = {
	{ DATA_SOURCE_LVL_L1, "L1" },
	{ DATA_SOURCE_LVL_LFB, "LFB/MAB" },
	{ DATA_SOURCE_LVL_L2, "L2" },
	{ DATA_SOURCE_LVL_L3, "L3" },
	{ DATA_SOURCE_LVL_LOC_RAM, "RAM" },
	{ DATA_SOURCE_LVL_REM_RAM1, "remote RAM" },
	{ DATA_SOURCE_LVL_REM_RAM2, "remote RAM" },
	{ DATA_SOURCE_LVL_REM_CCE1, "remote cache" },
	{ DATA_SOURCE_LVL_REM_CCE2, "remote cache" },
	{ DATA_SOURCE_LVL_IO, "I/O" },
	{ DATA_SOURCE_LVL_UNC, "uncached" },
	{ 0, NULL },
};

static const struct name snoops[] = {
	{ DATA_SOURCE_SNOOP_NONE, "none" },
	{ DATA_SOURCE_SNOOP_HIT, "hit" },
	{ DATA_SOURCE_SNOOP_MISS, "miss" },
	{ DATA_SOURCE_SNOOP_HITM, "HitM" },
	{ 1u << 5, "forwarded" }, /* snoopx, behind the five bits */
	{ 1u << 6, "peer" },
	{ 0, NULL },
};

static const struct name tlb_levels[] = {
	{ DATA_SOURCE_TLB_L1, "L1" },
	{ DATA_SOURCE_TLB_L2, "L2" },
	{ DATA_SOURCE_TLB_WALKER, "walker" },
	{ DATA_SOURCE_TLB_OS, "OS fault handler" },
	{ 0, NULL },
};

static const char *const numbers[16] = {
	[DATA_SOURCE_NUM_L1] = "L1",	     [DATA_SOURCE_NUM_L2] = "L2",
	[DATA_SOURCE_NUM_L3] = "L3",	     [DATA_SOURCE_NUM_L4] = "L4",
	[DATA_SOURCE_NUM_L2_MHB] = "L2 MHB", [DATA_SOURCE_NUM_MSC] = "memory-side cache",
	[DATA_SOURCE_NUM_UNC] = "uncached",  [DATA_SOURCE_NUM_CXL] = "CXL",
	[DATA_SOURCE_NUM_IO] = "I/O",	     [DATA_SOURCE_NUM_ANY_CACHE] = "cache",
	[DATA_SOURCE_NUM_LFB] = "LFB/MAB",   [DATA_SOURCE_NUM_RAM] = "RAM",
	[DATA_SOURCE_NUM_PMEM] = "PMEM",
};

static uint32_t field(uint64_t word, unsigned shift, unsigned n_bits)
{
	return (uint32_t)(word >> shift) & ((1u << n_bits) - 1);
}

/* The names of the bits that are set, joined; one name once. */
static void join(char *text, size_t room, uint32_t bits, const struct name *names, const char *glue)
{
	size_t n = strlen(text);

	for (; names->text; names++) {
		if (!(bits & names->bit) || strstr(text, names->text))
			continue;
		n += (size_t)snprintf(text + n, room - n, "%s%s", n ? glue : "", names->text);
		if (n >= room)
			return;
	}
}

/* The number says it best; kernels before 4.14 have the bits only, and some say more by them. */
static void decode_level(uint64_t word, struct data_source *source)
{
	uint32_t lvl = field(word, DATA_SOURCE_LVL_SHIFT, 14);
	uint32_t number = field(word, DATA_SOURCE_NUM_SHIFT, 4);
	bool is_remote = field(word, DATA_SOURCE_REMOTE_SHIFT, 1);

	if (numbers[number])
		snprintf(source->level, sizeof(source->level), "%s%s", is_remote ? "remote " : "",
			 numbers[number]);
	else
		join(source->level, sizeof(source->level), lvl, levels, " or ");
	if (lvl & DATA_SOURCE_LVL_HIT)
		source->hit = "hit";
	else if (lvl & DATA_SOURCE_LVL_MISS)
		source->hit = "miss";
	if (is_remote || (lvl & REMOTE_LEVELS && !(lvl & LOCAL_LEVELS)))
		source->is_remote = 1;
	else if (source->level[0] && !(lvl & REMOTE_LEVELS))
		source->is_remote = 0;
}

static void decode_hops(uint64_t word, struct data_source *source)
{
	uint32_t hops = field(word, DATA_SOURCE_HOPS_SHIFT, 3);
	uint32_t lvl = field(word, DATA_SOURCE_LVL_SHIFT, 14);

	if (hops)
		source->hops = (int8_t)hops;
	else if (lvl & (DATA_SOURCE_LVL_REM_RAM2 | DATA_SOURCE_LVL_REM_CCE2))
		source->hops = 3;
	else if (source->is_remote == 0)
		source->hops = 0;
}

static void decode_tlb(uint64_t word, struct data_source *source)
{
	uint32_t tlb = field(word, DATA_SOURCE_TLB_SHIFT, 7);

	if (tlb & DATA_SOURCE_TLB_NA)
		return;
	join(source->tlb, sizeof(source->tlb) - 5, tlb, tlb_levels, " or ");
	if (tlb & (DATA_SOURCE_TLB_HIT | DATA_SOURCE_TLB_MISS) && source->tlb[0])
		strcat(source->tlb, tlb & DATA_SOURCE_TLB_HIT ? " hit" : " miss");
}

void data_source_decode(uint64_t word, struct data_source *ret_source)
{
	static const char *const blocks[] = {
		"", "", "data", "data", "address", "address", "data and address", "data and address"
	};
	uint32_t op = field(word, 0, 5);
	uint32_t lock = field(word, DATA_SOURCE_LOCK_SHIFT, 2);
	uint32_t snoop = field(word, DATA_SOURCE_SNOOP_SHIFT, 5) |
			 field(word, DATA_SOURCE_SNOOPX_SHIFT, 2) << 5;

	*ret_source = (struct data_source){ .hit = "", .is_remote = -1, .hops = -1 };
	join(ret_source->op, sizeof(ret_source->op), op, ops, " and ");
	ret_source->is_write = data_source_is_write(word);
	decode_level(word, ret_source);
	decode_hops(word, ret_source);
	if (!(snoop & DATA_SOURCE_SNOOP_NA) || snoop >> 5)
		join(ret_source->snoop, sizeof(ret_source->snoop), snoop, snoops, " and ");
	decode_tlb(word, ret_source);
	ret_source->blocked = blocks[field(word, DATA_SOURCE_BLK_SHIFT, 3)];
	ret_source->is_locked = lock & 1 ? -1 : lock == 2;
}

bool data_source_is_known(uint64_t word)
{
	uint32_t op = field(word, 0, 5);

	/* Kernels before 5.12 leave the fields that came later 0. */
	return word != 0 && !((op & DATA_SOURCE_OP_NA) &&
			      (field(word, DATA_SOURCE_LVL_SHIFT, 14) & DATA_SOURCE_LVL_NA));
}
