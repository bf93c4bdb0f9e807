#pragma once
/*
 * From a raw clock sample to memory accesses: which addresses the code at ip touches, now and in
 * the instructions that follow, as far as the sampled registers determine it.
 *
 * The registers of a sample are the state just before the instruction at ip. Its operands are
 * therefore exact. From there the code is emulated forward: registers, flags, stores of the window,
 * the sampled stack bytes and constant data feed each other; whatever is not known stays unknown,
 * bit for bit, and is never guessed. Three assumptions are made, and only these: no signal handler
 * or other thread changes the words that the window itself has stored or that lie on the sampled
 * stack; a store to an unknown address does not hit return addresses or registers saved by
 * push (ret, pop and leave still read those; any other load of the stack is then unknown); nor
 * does it hit arguments on the stack of a function that makes no pointer into its frame.
 *
 *	decode_create(DECODE_MACHINE_X86_64, &memory, 0, &decoder);
 *	decode_window(decoder, &sample, DECODE_MAX_INSTRUCTIONS, &window);
 *	decode_charge(&window, &charge);
 *	for (i = 0; i < window.n_accesses; i++)
 *		... window.accesses[i].share ...
 *	decode_destroy(decoder);
 *
 * Loops whose ways nothing decides are weighed by where the samples so far were (is_expected): give
 * samples in order of time, each once.
 *
 * A pure library: no files, no perf, no globals. One decoder serves one thread at a time; any
 * number of decoders may be used side by side. Not for signal handlers.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ELF e_machine of the traced program; it need not be the machine that decodes. */
#define DECODE_MACHINE_X86_64 62

#define DECODE_N_REGS		18u /* bits of DECODE_REGS_MASK, in this order */
#define DECODE_REGS_MASK	UINT64_C(0xff03ff) /* perf's sample_regs_user */
#define DECODE_STACK_BYTES	256u /* stack bytes beyond these are not used */
#define DECODE_BELOW_BYTES	128u /* nor these: the red zone, System V ABI, 3.2.2 */
#define DECODE_MAX_INSTRUCTIONS 512u
#define DECODE_MAX_ACCESSES	(2 * DECODE_MAX_INSTRUCTIONS)
#define DECODE_LOOK_AHEAD	64u /* instructions charged when no loop closed */
#define DECODE_MAX_BEHIND	8u /* instructions before ip that are looked at */
#define DECODE_MAX_TURN		128u /* the same, where they are of one turn of a loop */
#define DECODE_CACHE_ENTRIES	16384u /* the default */

/* Indices into decode_sample.regs: PERF_REG_X86_* without the segment registers. */
enum decode_reg {
	DECODE_AX,
	DECODE_BX,
	DECODE_CX,
	DECODE_DX,
	DECODE_SI,
	DECODE_DI,
	DECODE_BP,
	DECODE_SP,
	DECODE_IP,
	DECODE_FLAGS,
	DECODE_R8,
	DECODE_R15 = DECODE_R8 + 7,
};

/*
 * Copy up to n_bytes of the program's memory at address into bytes. Returns how many bytes from
 * address on are known (0: none, at most n_bytes). user, process and time are passed on unread.
 */
typedef size_t (*decode_read)(void *user, uint32_t process, uint64_t address, uint64_t time,
			      void *bytes, size_t n_bytes);

/*
 * Which of its versions the code of the page around address is in at that time: while the number is
 * the same the code callback gives the same bytes. Any numbers; 0 for a page that does not change.
 */
typedef uint32_t (*decode_version)(void *user, uint32_t process, uint64_t address, uint64_t time);

/*
 * The last address at or below one where a function surely begins, as tables of its module say.
 * 0: none is known.
 */
typedef uint64_t (*decode_begin)(void *user, uint32_t process, uint64_t address, uint64_t time);

/* What the decoder may see of the traced program. Copied by decode_create. */
struct decode_memory {
	decode_read code; /* executable bytes */
	decode_read constant; /* data that never changes while it is mapped; NULL: none is known */
	/*
	 * Other data, as it surely was at that time, and is until the window itself stores there;
	 * asked for as long as the window has stored nowhere unknown. NULL: none is known.
	 */
	decode_read data;
	decode_version version; /* NULL: code does not change, but for decode_invalidate() */
	decode_begin begin; /* NULL: not known of any function */
	void *user;
};

/* Vector registers, where a sample has them: the first n_bytes of the first n_regs are known. */
struct decode_vectors {
	uint32_t n_regs; /* 16, or 32 with AVX-512 */
	uint32_t n_bytes; /* 16, 32 or 64 */
	uint32_t n_masks; /* 8 with AVX-512, else 0 */
	uint8_t regs[32][64];
	uint64_t masks[8];
};

/* One raw sample of a thread in 64-bit mode. */
struct decode_sample {
	uint64_t ip;
	uint64_t regs[DECODE_N_REGS]; /* by enum decode_reg; [DECODE_IP] is not read */
	uint64_t fs_base; /* 0: not known */
	const void *stack; /* bytes at regs[DECODE_SP]; may be NULL */
	uint32_t stack_bytes;
	/* bytes that end at regs[DECODE_SP]: the variables of functions that call none */
	uint32_t below_bytes;
	const void *below; /* NULL: not known */
	const struct decode_vectors *vectors; /* NULL: not known */
	uint32_t process; /* any number that tells address spaces apart */
	uint64_t time; /* in the unit of the caller's callbacks */
};

enum decode_state {
	DECODE_RESOLVED, /* address and count are exact */
	DECODE_FIRST_ONLY, /* so is the first element; how many follow is not known: count is 1 */
	DECODE_MASKED, /* elements of the range, which ones depends on a mask that is not known */
	/* a gather's base, or a string of maybe no element: tells not whose it is */
	DECODE_BASE_ONLY,
	DECODE_WITHIN, /* somewhere in the `range` bytes at address: an index of few bits is open */
	DECODE_UNKNOWN_REGISTER, /* address 0: depends on something not known */
	DECODE_UNKNOWN_SEGMENT, /* address 0: fs without fs_base, or gs */
	/* not known, address is that of another turn of the loop, mostly; of time in loops whose
	 * variables no sample has, of code that need not have run, and of stalled */
	DECODE_NEXT_TURN,
	/* not known, address is what it would be if all that is not known were 1 where it is of 4
	 * bytes, else 0: near the begin of an array whose index is open */
	DECODE_FROM_BASE,
	/* in a closed loop: not known, behind has that of the turn before; no share */
	DECODE_TURN_BEFORE,
	DECODE_STATE_COUNT,
};

/* Whether address is one that is surely accessed; else it is nobody's. */
static inline bool decode_state_has_address(unsigned state)
{
	return state <= DECODE_FIRST_ONLY;
}

/* One memory operand of one instruction in the window. */
struct decode_access {
	uint64_t ip; /* of the instruction */
	uint64_t address; /* lowest byte of the range of count * size bytes; see DECODE_WITHIN */
	uint32_t size; /* bytes of one element; 0: Zydis does not tell (AMX tiles) */
	uint32_t count; /* elements: repetitions of a rep, lanes of a gather, else 1 */
	uint32_t range; /* bytes at address of which it accesses some: DECODE_WITHIN; else 0 */
	/* of the instruction: 0 is the one at ip; in behind 1 is the one before it */
	uint16_t position;
	uint8_t state; /* enum decode_state */
	uint8_t n_parts; /* it is one of so many that are one access; 0: it is one itself */
	bool is_read;
	bool is_write; /* both: read-modify-write */
	float share; /* of the sample's weight; written by decode_charge */
};

/* Why the window ends where it does. */
enum decode_end {
	DECODE_END_LOOP, /* back at ip with the same stack pointer: one iteration */
	DECODE_END_LIMIT, /* max_instructions */
	DECODE_END_UNKNOWN_BRANCH, /* a condition that is not known */
	DECODE_END_UNKNOWN_TARGET, /* an indirect jump or call to an unknown address */
	DECODE_END_RETURN, /* a ret to an unknown address */
	DECODE_END_SYSCALL, /* the kernel takes over: syscall, int, transactions */
	DECODE_END_TRAP, /* an instruction that faults in user mode: ud2, hlt, div by 0 */
	DECODE_END_NO_CODE, /* the code callback has no bytes here */
	DECODE_END_BAD_CODE, /* bytes that are no instruction */
	DECODE_END_COUNT,
};

/* What is known of the instruction that finished last before the sample. */
enum decode_stall {
	DECODE_STALL_ACCESS, /* it touches memory: stalled[] */
	DECODE_STALL_CODE, /* it touches none */
	/* which one it was cannot be told: several ways lead to ip, or none is known */
	DECODE_STALL_UNKNOWN,
	DECODE_STALL_COUNT,
};

#define DECODE_MAX_STALLED 16u /* lanes of a gather */

/* Ways to divide a sample's time, from the best down. Bits of a mask. */
enum decode_estimator {
	DECODE_BY_WINDOW = 1 << 0, /* over one iteration of its loop, where that is known */
	DECODE_BY_BLOCK = 1 << 1, /* over its basic block, before and after ip */
	DECODE_BY_LOOK_AHEAD = 1 << 2, /* over the next DECODE_LOOK_AHEAD instructions */
	DECODE_BY_OPERAND =
		1 << 3, /* the operands at ip only: to compare with, it misplaces time */
};
#define DECODE_ESTIMATORS (DECODE_BY_WINDOW | DECODE_BY_BLOCK | DECODE_BY_LOOK_AHEAD)

/* The accesses of the window in program order. About 40 KiB: not for small stacks. */
struct decode_window {
	unsigned estimators; /* of the decoder when it was made: what decode_charge may use */
	enum decode_end end;
	uint32_t n_instructions; /* executed in the window; of exactly one iteration at END_LOOP */
	uint64_t end_ip; /* where it ends: not executed (NO_CODE, BAD_CODE), or the last one */
	uint64_t previous_ip; /* of the instruction before that one */
	uint32_t n_block; /* of these, up to the end of ip's basic block */
	bool is_repeating; /* ip is at a string instruction with a repeat prefix */
	uint32_t n_accesses;
	struct decode_access accesses[DECODE_MAX_ACCESSES];
	/*
	 * Where no loop closed: what the instructions of ip's block before ip accessed, nearest
	 * first. The timer's interrupt often lands right behind the access that was waited for.
	 * In a closed loop: those of them that tell what is DECODE_TURN_BEFORE in accesses.
	 */
	uint32_t n_behind;
	struct decode_access behind[2 * DECODE_MAX_TURN];
	/*
	 * It ends at a branch that is not known, and from where that leads to what lies in behind
	 * is one turn of a loop up to ip, and the window the rest of it.
	 */
	bool is_turn;
	/*
	 * Ways that are open come back to ip, and what is known of how often each is taken tells
	 * how often an access runs: its share before decode_charge(). Behind accesses are n_likely
	 * more, of code that may run or not: they have an address where all ways give the same.
	 */
	bool is_expected;
	uint32_t n_likely;
	/*
	 * A timer's interrupt is taken when the instruction that was waited for has finished: what
	 * the time was lost on is the instruction that ran right before ip (measured on a chase of
	 * pointers: 99.6 %), with the comparison that a branch is one operation with. Its operands
	 * are found by undoing it on the registers at ip; one that has replaced its own base is not
	 * known. Where several ways lead to ip, those are ruled out that could not leave registers
	 * and flags as they are.
	 */
	enum decode_stall stall;
	uint64_t stall_ip; /* 0: not known */
	uint32_t n_stalled;
	struct decode_access stalled[DECODE_MAX_STALLED]; /* shares add up to 1 */
	uint64_t head_ip; /* the lowest address of the window: names the loop at END_LOOP */
};

struct decoder;

/*
 * The estimators of a text such as "window,block", or 0 for one that is not such a list. The names
 * are "window", "block", "look-ahead" and "operand".
 */
unsigned decode_estimators_parse(const char *list);

/* The names in a mask, with commas between; a buffer of DECODE_ESTIMATORS_BYTES takes every one. */
#define DECODE_ESTIMATORS_BYTES 40u
void decode_estimators_print(unsigned estimators, char ret_text[DECODE_ESTIMATORS_BYTES]);

/*
 * Make a decoder for programs of machine (ELF e_machine). It keeps up to cache_entries decoded
 * instructions (0: DECODE_CACHE_ENTRIES; about 112 bytes each, rounded up to a power of two).
 * The caller destroys *ret_decoder. Returns 0, -EOPNOTSUPP for other machines, -EINVAL without a
 * code callback, or -ENOMEM.
 */
int decode_create(unsigned machine, const struct decode_memory *memory, size_t cache_entries,
		  struct decoder **ret_decoder);

/* Free the decoder; NULL is allowed. Returns NULL. */
struct decoder *decode_destroy(struct decoder *decoder);

/* For auto_decoder: destroy *decoder. */
static inline void decode_cleanup(struct decoder **decoder)
{
	*decoder = decode_destroy(*decoder);
}
#define auto_decoder __attribute__((cleanup(decode_cleanup)))

/*
 * Whether windows guess where arrays begin whose index is open (DECODE_FROM_BASE), in code without
 * optimisation. Not unless told.
 */
void decode_set_guessing(struct decoder *decoder, bool is_guessing);

/* Which estimators windows are made for; DECODE_ESTIMATORS unless told. */
void decode_set_estimators(struct decoder *decoder, unsigned estimators);

/*
 * Windows from here on are without what lies before ip and what was waited for
 * (DECODE_STALL_UNKNOWN), in half the time; or with it again.
 */
void decode_set_ahead_only(struct decoder *decoder, bool is_ahead_only);

/*
 * Forget the decoded instructions of process that overlap [start, end): other code was mapped
 * there. Call it in time order with decode_window. A whole process is (process, 0, UINT64_MAX).
 */
void decode_invalidate(struct decoder *decoder, uint32_t process, uint64_t start, uint64_t end);

/*
 * Emulate from the sample until its ip and stack pointer return, or something else of enum
 * decode_end happens, at most max_instructions (1 to DECODE_MAX_INSTRUCTIONS). The operands at ip
 * are the accesses at position 0. All shares are 0 until decode_charge. Returns 0, or -EINVAL for
 * a bad max_instructions. An ip without code is not an error: the window is empty (NO_CODE).
 */
int decode_window(struct decoder *decoder, const struct decode_sample *sample,
		  unsigned max_instructions, struct decode_window *ret_window);

/* How many instructions were decoded (not found in the cache) so far. */
uint64_t decode_n_decoded(const struct decoder *decoder);

/* How often a loop ran between two samples of a thread. */
enum decode_count {
	DECODE_COUNT_NONE, /* the first sample is in no loop with a register that counts it, or the
			    * later one is elsewhere */
	DECODE_COUNT_EXACT,
	DECODE_COUNT_REFUTED, /* registers contradict each other: the loop was left in between, or
			       * such a register starts anew now and then */
};

/*
 * The iterations of the loop around `from` (whose window ended with DECODE_END_LOOP) up to `to`, a
 * later sample of the same thread and process: from the registers that each iteration changes by
 * the same constant and nothing else changes. All of them must agree, and what the loop does not
 * write must be the same. Not sure alone: where a wrapped counter happens to lie ahead it is taken
 * for few iterations, but lies behind, and is refuted, as often; a loop that is refuted now and
 * then has no rate.
 */
enum decode_count decode_iterations(struct decoder *decoder, const struct decode_sample *from,
				    const struct decode_sample *to, double *ret_iterations);

#define DECODE_MAX_PICKED 64u

/* The way between two samples, instruction by instruction. */
struct decode_way {
	uint64_t n_instructions;
	uint64_t n_accesses;
	uint64_t n_emulated; /* instructions that it took to find out; written on failure too */
	uint32_t n_picked;
	struct decode_access picked[DECODE_MAX_PICKED]; /* of the accesses, drawn at random */
};

/*
 * Emulate from one sample to a later one of the same thread, at most max_instructions. It is there
 * when all that is known of registers and stack is as sampled, and it does not come to be so again
 * in as many instructions. Draws are the same for the same samples. Returns 0; -EAGAIN when
 * something stopped it that is not known, -ERANGE beyond max_instructions, -EINVAL when it cannot
 * be told when it was there.
 */
int decode_replay(struct decoder *decoder, const struct decode_sample *from,
		  const struct decode_sample *to, uint64_t max_instructions,
		  struct decode_way *ret_way);

/* What the weight (time) of a sample is divided over. */
enum decode_basis {
	DECODE_BASIS_LOOP, /* the accesses of one iteration of its loop */
	/* the same, where it is not known whether another follows, or how often a string repeats */
	DECODE_BASIS_TURN,
	DECODE_BASIS_BLOCK, /* the accesses of its basic block, before and after ip */
	DECODE_BASIS_LOOK_AHEAD, /* the accesses of the next DECODE_LOOK_AHEAD instructions */
	DECODE_BASIS_OPERAND, /* the operands at ip */
	DECODE_BASIS_CODE, /* no access in the whole window: the time is the code's */
	DECODE_BASIS_NONE, /* no code at ip, or what follows is not known: nothing can be said */
	DECODE_BASIS_COUNT,
};

/* The shares of one sample; resolved + unresolved + code = 1. */
struct decode_charge {
	enum decode_basis basis;
	uint32_t n_charged; /* accesses[0..n_charged) have a share, the others 0 */
	uint32_t n_behind; /* behind[0..n_behind) have a share */
	uint32_t n_exact; /* accesses[0..n_exact) are the operands at ip: role exact */
	float exact_share; /* of each of those (1 / n_exact), 0 without operand at ip */
	float resolved_share; /* sum over the states that have an address */
	float unresolved_share; /* sum over the other states; 1 for BASIS_NONE */
	float code_share; /* 1 for BASIS_CODE */
};

/*
 * Divide one sample's weight over the accesses of its window, in proportion to their counts, by the
 * first of the window's estimators that applies: of the whole iteration when the loop closed, else
 * of the basic block around ip, or, where that has none, of the first DECODE_LOOK_AHEAD
 * instructions. A window that ended early without an access says nothing (NONE): time is the code's
 * only where it is known to touch no data. Writes the share of each access. An unresolved access
 * keeps its share (to be imputed, or shown as unresolved), so nothing is lost. A string instruction
 * is interrupted between two of its repetitions: where their number is not known, a sample at one
 * is its own. The shares are of time, never of access counts. Measured where counts are known
 * (prototype, ten loops): a closed loop has the exact mix of accesses (0 to 0.1 points off); the
 * look-ahead was 0.5 to 4 points off, 28 where most operands are loaded pointers.
 */
void decode_charge(struct decode_window *window, struct decode_charge *ret_charge);
