#pragma once
/*
 * Thunks: return addresses that stand for those of the program while a function that is recorded as
 * a region runs (functions/functions.h). Each is for one return address and one function, and is
 * never given back. All of them are covered by one rule for unwinders: the frame of a thunk is
 * empty, and its return address stands beside it. So exceptions, pthread_exit and backtrace() find
 * their way by themselves; nothing is kept for each call.
 *
 * Who reads a return address from a stack asks ta_thunk_return(). x86-64.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ta_function;
struct plan_function;

/* A file whose functions are changed. */
struct ta_place {
	uintptr_t bias;
	uintptr_t start;
	uintptr_t end;
	const struct plan_function *planned; /* its functions, by address */
	uint32_t n;
	uint8_t *area; /* what their jumps lead to; NULL: nothing yet */
	size_t area_bytes;
	uint8_t *trips; /* behind it: counters, where calls are only counted */
	bool has_probes;
	_Atomic bool is_there;
};

/* All of them; set once. */
struct ta_places {
	const struct ta_place *items;
	uint32_t n;
};
extern struct ta_places ta_places __attribute__((visibility("hidden")));

#if defined(__x86_64__)
#define TA_THUNK_BYTES 16u
#define TA_THUNK_ROOM  (2u * TA_THUNK_BYTES * TA_MAX_THUNKS) /* with what stands beside them */
#define TA_MAX_THUNKS  65536u /* ta_thunk_data begins so many of them behind the first */

extern const uint8_t ta_thunks[] __attribute__((visibility("hidden")));

/* What stands beside a thunk. */
struct ta_thunk_data {
	uintptr_t to; /* where it leads */
	struct ta_function *function;
};
extern struct ta_thunk_data ta_thunk_data[] __attribute__((visibility("hidden")));

static inline bool ta_thunk_is(uintptr_t pc)
{
	return __builtin_expect(pc - (uintptr_t)ta_thunks < TA_THUNK_BYTES * TA_MAX_THUNKS, 0);
}

/* Beside which pc, an address within it, lies. */
static inline struct ta_thunk_data *ta_thunk_data_of(uintptr_t pc)
{
	return &ta_thunk_data[(pc - (uintptr_t)ta_thunks) / TA_THUNK_BYTES];
}

/* The address that a call would have returned to; any other is as it is. Signal safe. */
static inline uintptr_t ta_thunk_return(uintptr_t pc)
{
	return ta_thunk_is(pc) ? ta_thunk_data_of(pc)->to : pc;
}

static inline uintptr_t ta_thunk_address(uint32_t number)
{
	return (uintptr_t)ta_thunks + number * TA_THUNK_BYTES;
}

/*
 * Before the first one. They call `leave` with where the return address lies, and go where they
 * lead to. False: there is no memory. May be called again.
 */
bool ta_thunk_begin(void (*leave)(uintptr_t *slot));

/* clang-format off */
/*
 * In assembly, what a call may clobber is kept, vector registers by who needs it: of a function
 * whose code is known compilers keep values even in these. Where a stub is interrupted, the frame
 * around it is that of who has called the function.
 */
#define TA_PUSH(name) "push %" name "\n .cfi_adjust_cfa_offset 8\n"
#define TA_POP(name)  "pop %" name "\n .cfi_adjust_cfa_offset -8\n"
#define TA_KEEP                                                                                    \
	TA_PUSH("rax") TA_PUSH("rcx") TA_PUSH("rdx") TA_PUSH("rsi") TA_PUSH("rdi")                 \
	TA_PUSH("r8") TA_PUSH("r9") TA_PUSH("r10") TA_PUSH("r11") TA_PUSH("rbp")                   \
	"mov %rsp, %rbp\n"                                                                         \
	".cfi_def_cfa_register %rbp\n"                                                             \
	"and $-16, %rsp\n"
#define TA_GIVE_BACK                                                                               \
	"mov %rbp, %rsp\n"                                                                         \
	".cfi_def_cfa_register %rsp\n"                                                             \
	TA_POP("rbp") TA_POP("r11") TA_POP("r10") TA_POP("r9") TA_POP("r8")                        \
	TA_POP("rdi") TA_POP("rsi") TA_POP("rdx") TA_POP("rcx") TA_POP("rax")
/* clang-format on */

/* The number of a new one; 0: there are no more. Signal safe. */
uint32_t ta_thunk_take(struct ta_function *function, uintptr_t to);

/* The recording has ended: all are for the same function from now on, and lead where they did. */
void ta_thunk_forget(struct ta_function *gone);
#else
#define TA_THUNK_ROOM 0u

static inline uintptr_t ta_thunk_return(uintptr_t pc)
{
	return pc;
}
#endif

/*
 * Does pc lie behind a call that has been moved elsewhere, so that what stands before it is no call
 * any more? Signal safe.
 */
bool ta_thunk_follows_call(uintptr_t pc);
