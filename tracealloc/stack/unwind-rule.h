#pragma once
/*
 * How to go from a frame to its caller: one compact rule for each return address, worked out from
 * .eh_frame once and kept in a table of the process. The table takes no lock and is read by one
 * load; a rule that was displaced is worked out again. It begins small, since most programs are
 * short: each page of it that is touched costs them two page faults. One that displaces rules
 * becomes a large one.
 *
 * A rule is one word. The low bits tell the address: they are its upper ones, and together with
 * the place in the table they are all of it, so a wrong rule is never taken for a right one. Above
 * them: kind, words below the CFA where rbp is saved, and the offset.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tracealloc/state.h"

/*
 * x86-64: of 15 libraries and programs with 130,000 rows none saves rbp more than 6 words below the
 * CFA. Elsewhere a frame record lies at the lower end of its frame, and its table is large from the
 * start.
 */
#if defined(__x86_64__)
#define TA_RULE_RBP_BITS     4u
#define TA_RULE_ADDRESS_BITS 47u
#define TA_RULE_LEAST_LOG2   9u
#else
#define TA_RULE_RBP_BITS     8u
#define TA_RULE_ADDRESS_BITS 48u
#define TA_RULE_LEAST_LOG2   14u
#endif
#define TA_RULE_MOST_LOG2    14u
#define TA_RULE_TAG_BITS     (TA_RULE_ADDRESS_BITS - TA_RULE_LEAST_LOG2)
#define TA_RULE_KIND_SHIFT   TA_RULE_TAG_BITS
#define TA_RULE_RBP_SHIFT    (TA_RULE_KIND_SHIFT + 4)
#define TA_RULE_OFFSET_SHIFT (TA_RULE_RBP_SHIFT + TA_RULE_RBP_BITS)

enum ta_rule_kind {
	TA_RULE_RSP, /* CFA = rsp + offset */
	TA_RULE_RBP, /* CFA = rbp + offset */
	TA_RULE_DEREF, /* CFA = what lies at rbp + offset: a frame that was aligned */
	TA_RULE_SIGNAL, /* returns into the kernel's signal trampoline */
	TA_RULE_OUTERMOST, /* nothing called it */
	TA_RULE_NONE, /* a call in code that says nothing about its frames */
	TA_RULE_STOP, /* cannot be followed; offset: enum trace_stop */
	TA_RULE_LARGE, /* does not fit: ta_rule_work_out() has it */
	TA_RULE_ODD_RBP = 8, /* added in a word: its rbp field is one of enum ta_rule_rbp */
	/* Never in a word, which has LARGE instead: */
	TA_RULE_SAVED =
		16, /* CFA = what lies at rsp or rbp + offset, + plus: rsp was saved there */
	TA_RULE_INTERRUPTED, /* CFA = a register that only a signal frame tells + offset */
};

/* Values of the rbp field other than words below the CFA. */
enum ta_rule_rbp {
	TA_RULE_RBP_SAME = 0,
	TA_RULE_RBP_MOST = 253,
	TA_RULE_RBP_AT_RBP = 254, /* saved where rbp points to */
	TA_RULE_RBP_LOST = 255,
	TA_RULE_RBP_MASK = (1 << TA_RULE_RBP_BITS) - 1, /* of a word */
};

struct ta_rule {
	enum ta_rule_kind kind;
	uint32_t rbp; /* words below the CFA, or enum ta_rule_rbp */
	int64_t offset; /* bytes; of STOP: enum trace_stop */
	uint32_t base; /* of SAVED and INTERRUPTED: DWARF's number of the register */
	int64_t plus; /* of SAVED: bytes */
};

/*
 * A table of n sets of two rules lies from word 2 n on: the first rules of all sets, then the
 * second ones. Of the words between the tables no page is ever touched.
 */
extern _Atomic uint64_t ta_rules[4u << TA_RULE_MOST_LOG2] __attribute__((visibility("hidden")));
extern _Atomic uint32_t ta_rule_sets __attribute__((visibility("hidden"))); /* a power of 2 */

static inline uint32_t ta_rule_n_sets(void)
{
	return atomic_load_explicit(&ta_rule_sets, memory_order_acquire);
}

/* With TA_RULE_ODD_RBP where that applies. */
static inline uint32_t ta_rule_full_kind(uint64_t rule)
{
	return rule >> TA_RULE_KIND_SHIFT & 15;
}

static inline enum ta_rule_kind ta_rule_kind(uint64_t rule)
{
	return (enum ta_rule_kind)(rule >> TA_RULE_KIND_SHIFT & 7);
}

/* Of a rule that is not odd. */
static inline uint32_t ta_rule_rbp(uint64_t rule)
{
	return rule >> TA_RULE_RBP_SHIFT & TA_RULE_RBP_MASK;
}

/* Of any rule. */
static inline uint32_t ta_rule_any_rbp(uint64_t rule)
{
	return ta_rule_rbp(rule) |
	       (ta_rule_full_kind(rule) & TA_RULE_ODD_RBP ? 0xff & ~TA_RULE_RBP_MASK : 0u);
}

static inline int64_t ta_rule_offset(uint64_t rule)
{
	return (int64_t)rule >> TA_RULE_OFFSET_SHIFT;
}

/* Where the rule of an address lies. Neighbours in code are neighbours in the table. */
static inline size_t ta_rule_set(uintptr_t pc, uint32_t n_sets)
{
	return (pc ^ pc >> (TA_RULE_MOST_LOG2 + 3)) & (n_sets - 1);
}

/* No code lies outside, and an empty place of the table is no rule of what lies inside. */
static inline bool ta_rule_is_address(uintptr_t pc)
{
	return (pc - (UINT64_C(1) << TA_RULE_MOST_LOG2)) >> TA_RULE_ADDRESS_BITS == 0;
}

/* Is this word the rule of the address? */
static inline bool ta_rule_is_of(uint64_t rule, uintptr_t pc)
{
	return (rule ^ pc >> TA_RULE_LEAST_LOG2) << (64 - TA_RULE_TAG_BITS) == 0;
}

/* Work the rule of a return address out and put it in the table. Offsets in words. */
uint64_t ta_rule_find_slow(uintptr_t pc);

/* Where the rule is most of the time. It may be that of another address. */
static inline uint64_t ta_rule_find_first(uint32_t n_sets, uintptr_t pc)
{
	return atomic_load_explicit(&ta_rules[(size_t)2 * n_sets + ta_rule_set(pc, n_sets)],
				    memory_order_relaxed);
}

/* Where it is when another address has taken its place. */
static inline uint64_t ta_rule_find_second(uint32_t n_sets, uintptr_t pc)
{
	return atomic_load_explicit(&ta_rules[(size_t)3 * n_sets + ta_rule_set(pc, n_sets)],
				    memory_order_relaxed);
}

/* The rule of a return address, if the table has it. Signal safe, lock-free. */
static inline bool ta_rule_recall(uintptr_t pc, uint64_t *ret_rule)
{
	uint32_t n_sets = ta_rule_n_sets();
	uint64_t rule = ta_rule_find_first(n_sets, pc);

	if (ta_unlikely(!ta_rule_is_address(pc)))
		return false;
	if (ta_unlikely(!ta_rule_is_of(rule, pc)))
		rule = ta_rule_find_second(n_sets, pc);
	*ret_rule = rule;
	return ta_likely(ta_rule_is_of(rule, pc));
}

/* The rule of a return address, as a word; offsets in words. Signal safe, lock-free. */
static inline uint64_t ta_rule_find(uintptr_t pc)
{
	uint64_t rule;

	return ta_rule_recall(pc, &rule) ? rule : ta_rule_find_slow(pc);
}

/*
 * The rule for pc, past the table. is_exact: pc - 1 was interrupted, so pc need not be behind a
 * call. TA_RULE_NONE also where no module is. Signal safe.
 */
struct ta_rule ta_rule_work_out(uintptr_t pc, bool is_exact);

struct ta_module;

/* Where the executable segment that holds the byte before pc starts and ends. */
bool ta_rule_find_code(const struct ta_module *module, uintptr_t pc, uintptr_t *ret_start,
		       uintptr_t *ret_end);

/* Does a call instruction of the module's code end at pc? */
bool ta_rule_follows_call(const struct ta_module *module, uintptr_t pc);

/*
 * Is pc the C library's own function, and not behind a call? makecontext has put it there, as what
 * a coroutine returns to.
 */
bool ta_rule_is_context_end(const struct ta_module *module, uintptr_t pc);

/* Is pc behind a call instruction of a known module's code? */
bool ta_rule_is_return(uintptr_t pc);

/* A module was unloaded: its addresses may get another meaning. After the state word has moved. */
void ta_rule_forget(void);
