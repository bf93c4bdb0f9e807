#pragma once
/*
 * How to go from a frame to its caller: one compact rule for each return address, worked out from
 * .eh_frame once and kept in a table of the process. The table has a fixed size, takes no lock and
 * is read by one load; a rule that was displaced is worked out again.
 *
 * A rule is one word. The low 34 bits tell the address: together with the place in the table they
 * are all of it (the hash can be inverted over the 48 bits of an address), so a wrong rule is never
 * taken for a right one. Above them: kind, words below the CFA where rbp is saved, and the offset.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tracealloc/state.h"

#define TA_RULE_ADDRESS_BITS 48u
#define TA_RULE_SETS_LOG2    14u
#define TA_RULE_TAG_BITS     (TA_RULE_ADDRESS_BITS - TA_RULE_SETS_LOG2)
#define TA_RULE_KIND_SHIFT   TA_RULE_TAG_BITS
#define TA_RULE_RBP_SHIFT    (TA_RULE_KIND_SHIFT + 3)
#define TA_RULE_OFFSET_SHIFT (TA_RULE_RBP_SHIFT + 8)

enum ta_rule_kind {
	TA_RULE_RSP, /* CFA = rsp + offset */
	TA_RULE_RBP, /* CFA = rbp + offset */
	TA_RULE_DEREF, /* CFA = what lies at rbp + offset: a frame that was aligned */
	TA_RULE_SIGNAL, /* returns into the kernel's signal trampoline */
	TA_RULE_OUTERMOST, /* nothing called it */
	TA_RULE_NONE, /* a call in code that says nothing about its frames */
	TA_RULE_STOP, /* cannot be followed; offset: enum trace_stop */
	TA_RULE_LARGE, /* does not fit: ta_rule_work_out() has it */
};

/* Values of the rbp field other than words below the CFA. */
enum ta_rule_rbp {
	TA_RULE_RBP_SAME = 0,
	TA_RULE_RBP_AT_RBP = 254, /* saved where rbp points to */
	TA_RULE_RBP_LOST = 255,
};

struct ta_rule {
	enum ta_rule_kind kind;
	uint32_t rbp; /* words below the CFA, or enum ta_rule_rbp */
	int64_t offset; /* bytes; of STOP: enum trace_stop */
};

struct ta_rule_set {
	_Atomic uint64_t way[2];
};
extern struct ta_rule_set ta_rules[1u << TA_RULE_SETS_LOG2] __attribute__((visibility("hidden")));

static inline enum ta_rule_kind ta_rule_kind(uint64_t rule)
{
	return (enum ta_rule_kind)(rule >> TA_RULE_KIND_SHIFT & 7);
}

static inline uint32_t ta_rule_rbp(uint64_t rule)
{
	return rule >> TA_RULE_RBP_SHIFT & 0xff;
}

static inline int64_t ta_rule_offset(uint64_t rule)
{
	return (int64_t)rule >> TA_RULE_OFFSET_SHIFT;
}

/* A hash without collisions over the bits of an address. */
static inline uint64_t ta_rule_hash(uintptr_t pc)
{
	return pc * UINT64_C(0x9e3779b97f4a7c15) & ((UINT64_C(1) << TA_RULE_ADDRESS_BITS) - 1);
}

/* Work the rule of a return address out and put it in the table. Offsets in words. */
uint64_t ta_rule_find_slow(uintptr_t pc);

/* The rule of a return address, as a word; offsets in words. Signal safe, lock-free. */
static inline uint64_t ta_rule_find(uintptr_t pc)
{
	uint64_t hash = ta_rule_hash(pc);
	struct ta_rule_set *set = &ta_rules[hash >> TA_RULE_TAG_BITS];
	uint64_t rule = atomic_load_explicit(&set->way[0], memory_order_relaxed);

	if (ta_likely((rule ^ hash) << (64 - TA_RULE_TAG_BITS) == 0))
		return rule;
	rule = atomic_load_explicit(&set->way[1], memory_order_relaxed);
	if (ta_likely((rule ^ hash) << (64 - TA_RULE_TAG_BITS) == 0))
		return rule;
	return ta_rule_find_slow(pc);
}

/*
 * The rule for pc, past the table. is_exact: pc - 1 was interrupted, so pc need not be behind a
 * call. TA_RULE_NONE also where no module is. Signal safe.
 */
struct ta_rule ta_rule_work_out(uintptr_t pc, bool is_exact);

/* Is pc behind a call instruction of a known module's code? */
bool ta_rule_is_return(uintptr_t pc);

/* A module was unloaded: its addresses may get another meaning. After the state word has moved. */
void ta_rule_forget(void);
