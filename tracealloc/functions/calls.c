#include "tracealloc/functions/functions.h"

#include "tracealloc/hooks/hook.h"
#include "tracealloc/ring/clock.h"
#include "tracealloc/stack/thunk.h"

#if defined(__x86_64__)
#define N_PLACES      (4u * TA_MAX_THUNKS)
#define MAX_PROBES    64u
#define QUICK_BYTES   (3u * RING_RECORD_BYTES) /* that a call writes at most */
#define STATE_BYTES   4096u /* of x87, SSE, AVX and AVX-512 registers: 2,688 */
#define STATE_PARTS   0xe7u /* their bits in XCR0 */
#define N_EMPTY_CALLS 512u
#define LEGACY_BYTES  512u /* of FXSAVE; behind it lies XSAVE's header */

/* clang-format off */
/*
 * What a call may clobber is kept, vector registers by who needs it: of a function whose code is
 * known compilers keep values even in these. Where a stub is interrupted, the frame around it is
 * that of who has called the function.
 */
#define PUSH(name) "push %" name "\n .cfi_adjust_cfa_offset 8\n"
#define POP(name)  "pop %" name "\n .cfi_adjust_cfa_offset -8\n"
#define KEEP                                                                                       \
	PUSH("rax") PUSH("rcx") PUSH("rdx") PUSH("rsi") PUSH("rdi") PUSH("r8") PUSH("r9")          \
	PUSH("r10") PUSH("r11") PUSH("rbp")                                                        \
	"mov %rsp, %rbp\n"                                                                         \
	".cfi_def_cfa_register %rbp\n"                                                             \
	"and $-16, %rsp\n"
#define GIVE_BACK                                                                                  \
	"mov %rbp, %rsp\n"                                                                         \
	".cfi_def_cfa_register %rsp\n"                                                             \
	POP("rbp") POP("r11") POP("r10") POP("r9") POP("r8") POP("rdi") POP("rsi") POP("rdx")      \
	POP("rcx") POP("rax")                                                                      \
	"ret\n"

__attribute__((used, visibility("hidden"))) void ta_function_enter(struct ta_function *function,
								   uintptr_t *slot);
__attribute__((used, visibility("hidden"))) void ta_function_leave(uintptr_t *slot);
extern const char ta_function_leave_stub[] __attribute__((visibility("hidden")));
extern void ta_function_call_empty(uint64_t n) __attribute__((visibility("hidden")));
/* Without a name: analyze learns from its calls what ours take. */
struct ta_function ta_function_nothing __attribute__((used, visibility("hidden")));

__asm__(".text\n"
	".hidden ta_function_enter_stub\n"
	".globl ta_function_enter_stub\n"
	".type ta_function_enter_stub, @function\n"
	"ta_function_enter_stub:\n"
	".cfi_startproc\n"
	".cfi_def_cfa_offset 16\n" KEEP
	"	mov 80(%rbp), %rdi\n" /* behind the call in the code that the jump leads to */
	"	mov -14(%rdi), %rdi\n"
	"	lea 88(%rbp), %rsi\n"
	"	call ta_function_enter\n" GIVE_BACK ".cfi_endproc\n"
	".size ta_function_enter_stub, . - ta_function_enter_stub\n"
	".hidden ta_function_leave_stub\n"
	".globl ta_function_leave_stub\n"
	".type ta_function_leave_stub, @function\n"
	"ta_function_leave_stub:\n"
	".cfi_startproc\n" KEEP "	lea 80(%rbp), %rdi\n"
	"	call ta_function_leave\n" GIVE_BACK ".cfi_endproc\n"
	".size ta_function_leave_stub, . - ta_function_leave_stub\n");

/* Calls a function that does nothing but what an entered one does, so many times. */
__asm__(".text\n"
	".type ta_function_call_empty, @function\n"
	"ta_function_call_empty:\n"
	".cfi_startproc\n" PUSH("rbx") "	mov %rdi, %rbx\n"
	"1:	call ta_function_empty\n"
	"	dec %rbx\n"
	"	jnz 1b\n" POP("rbx") "	ret\n"
	".cfi_endproc\n"
	".size ta_function_call_empty, . - ta_function_call_empty\n"
	".type ta_function_empty, @function\n"
	"ta_function_empty:\n"
	".cfi_startproc\n"
	"	call ta_function_enter_empty\n"
	"	ret\n"
	".cfi_endproc\n"
	".size ta_function_empty, . - ta_function_empty\n"
	".type ta_function_enter_empty, @function\n"
	"ta_function_enter_empty:\n"
	".cfi_startproc\n"
	".cfi_def_cfa_offset 16\n" KEEP
	"	lea ta_function_nothing(%rip), %rdi\n"
	"	lea 88(%rbp), %rsi\n"
	"	call ta_function_enter\n" GIVE_BACK ".cfi_endproc\n"
	".size ta_function_enter_empty, . - ta_function_enter_empty\n");

/* clang-format on */

/* ---- Thunks ---- */

static _Atomic uint32_t *places; /* N_PLACES thunks, by what they are for; 0: none */

static bool write_call(const struct ta_hook *hook, enum trace_call call, uintptr_t slot,
		       uint64_t detail)
{
	struct ring_record *record = ta_record_reserve(hook->thread, hook->bits, sizeof(*record));

	if (ta_unlikely(!record))
		return false;
	ta_record_fill(record, ta_hook_head(hook, TRACE_OP_NOTE, call, 1), ta_ticks_begin(), slot,
		       detail);
	return true;
}

/* The number of the thunk; 0: there are no more. */
static __attribute__((noinline)) uint32_t find_thunk(const struct ta_hook *hook,
						     struct ta_function *function, uintptr_t to)
{
	uint64_t hash = to * UINT64_C(0x9e3779b97f4a7c15) ^
			(uintptr_t)function * UINT64_C(0xc2b2ae3d27d4eb4f);

	hash ^= hash >> 29;
	for (uint32_t i = 0; i < MAX_PROBES; i++) {
		_Atomic uint32_t *place = &places[(hash + i) % N_PLACES];
		uint32_t number = atomic_load_explicit(place, memory_order_acquire);

		if (number == 0) {
			uint32_t made = ta_thunk_take(function, to);

			if (made && atomic_compare_exchange_strong(place, &number, made)) {
				write_call(hook, TRACE_CALL_FUNCTION_THUNK, ta_thunk_address(made),
					   to);
				number = made;
			}
		}
		if (number == 0)
			break;
		if (ta_thunk_data[number].to == to && ta_thunk_data[number].function == function) {
			atomic_store_explicit(&function->last, number, memory_order_relaxed);
			return number;
		}
	}
	atomic_fetch_add_explicit(&ta_image.process->n_calls_unseen, 1, memory_order_relaxed);
	return 0;
}

/* ---- Entering and leaving ---- */

static ta_always_inline void enter(struct ta_function *function, uintptr_t *slot)
{
	uint32_t number = atomic_load_explicit(&function->last, memory_order_relaxed);
	uintptr_t to = *slot;
	struct ta_hook hook;

	if (!ta_hook_enter_kept(&hook, slot - 1, RING_EVENTS_REGIONS))
		return;
	if (ta_unlikely(ta_thunk_is(to))) {
		write_call(&hook, TRACE_CALL_FUNCTION_LEAVE, (uintptr_t)slot,
			   ta_thunk_data_of(to)->function->name_id);
		to = ta_thunk_data_of(to)->to;
	}
	if (ta_unlikely(ta_thunk_data[number].to != to))
		number = find_thunk(&hook, function, to);
	if (ta_likely(number) &&
	    write_call(&hook, TRACE_CALL_FUNCTION_ENTER, (uintptr_t)slot, function->name_id))
		to = ta_thunk_address(number);
	ta_hook_leave(&hook);
	/* Last: by this word it is seen whether the hook is still running. */
	*slot = to;
}

static ta_always_inline void leave(uintptr_t *slot)
{
	struct ta_hook hook;

	if (!ta_hook_enter_kept(&hook, slot - 1, RING_EVENTS_REGIONS))
		return;
	write_call(&hook, TRACE_CALL_FUNCTION_LEAVE, (uintptr_t)slot,
		   ta_thunk_data_of(*slot)->function->name_id);
	ta_hook_leave(&hook);
}

/* Will nothing be called that may use vector registers? */
static ta_always_inline bool is_quick(uint32_t state)
{
	return ta_likely(
		(state & ~TA_PAUSES) == ta_tls.known && !ta_tls.guard &&
		atomic_load_explicit(&ta_tls.thread->chunk->reserved, memory_order_relaxed) <=
			TA_CHUNK_OUTER_LIMIT - QUICK_BYTES);
}

struct vector_state {
	_Alignas(64) uint8_t bytes[STATE_BYTES];
};

static uint64_t state_parts; /* 0: there is FXSAVE only */

/* Intel SDM volume 1, chapter 13: the header must be zero but for what XSAVE writes. */
static ta_always_inline void save(struct vector_state *state)
{
	volatile uint64_t *header = (volatile uint64_t *)(state->bytes + LEGACY_BYTES);

	for (unsigned i = 0; i < 8; i++)
		header[i] = 0;
	if (state_parts)
		__asm__ volatile("xsave64 %0"
				 : "+m"(*state)
				 : "a"((uint32_t)state_parts), "d"(0)
				 : "memory");
	else
		__asm__ volatile("fxsave64 %0" : "+m"(*state) : : "memory");
}

static ta_always_inline void restore(const struct vector_state *state)
{
	if (state_parts)
		__asm__ volatile("xrstor64 %0"
				 :
				 : "m"(*state), "a"((uint32_t)state_parts), "d"(0)
				 : "memory");
	else
		__asm__ volatile("fxrstor64 %0" : : "m"(*state) : "memory");
}

/* CPUID leaf 1, ECX bit 27: OSXSAVE; XGETBV of XCR0. */
bool ta_function_begin(void)
{
	uint32_t a = 1, b, c = 0, d;

	__asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	if (c >> 27 & 1) {
		__asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
		state_parts = a & STATE_PARTS;
	}
	long memory = ta_map_private(N_PLACES * sizeof(*places));

	if (memory < 0)
		return false;
	places = (_Atomic uint32_t *)memory;
	return ta_thunk_begin(ta_function_leave_stub);
}

static __attribute__((noinline)) void enter_slow(struct ta_function *function, uintptr_t *slot)
{
	struct vector_state state;

	save(&state);
	enter(function, slot);
	restore(&state);
}

static __attribute__((noinline)) void leave_slow(uintptr_t *slot)
{
	struct vector_state state;

	save(&state);
	leave(slot);
	restore(&state);
}

void ta_function_enter(struct ta_function *function, uintptr_t *slot)
{
	uint32_t state = atomic_load_explicit(&ta_state.word, memory_order_relaxed);

	if (is_quick(state))
		enter(function, slot);
	else if (state != TA_OFF)
		enter_slow(function, slot);
}

void ta_function_leave(uintptr_t *slot)
{
	uint32_t state = atomic_load_explicit(&ta_state.word, memory_order_relaxed);

	if (is_quick(state))
		leave(slot);
	else if (state != TA_OFF)
		leave_slow(slot);
}

void ta_function_measure(void)
{
	ta_function_call_empty(N_EMPTY_CALLS);
}

void ta_function_end_tail(uintptr_t *slot)
{
	if (ta_likely(!ta_thunk_is(*slot)))
		return;
	leave(slot);
	*slot = ta_thunk_data_of(*slot)->to;
}
#else
void ta_function_end_tail(uintptr_t *slot)
{
	(void)slot;
}
#endif
