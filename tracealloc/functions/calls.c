#include "tracealloc/functions/functions.h"

#include "schemas/functions-plan.h"
#include "tracealloc/functions/allocators.h"
#include "tracealloc/hooks/hook.h"
#include "tracealloc/own-time.h"
#include "tracealloc/plugin/plugin.h"
#include "tracealloc/ring/clock.h"
#include "tracealloc/stack/thunk.h"

#if defined(__x86_64__)
#define N_PLACES      (4u * TA_MAX_THUNKS)
#define MAX_PROBES    64u
#define QUICK_BYTES   (3u * RING_RECORD_BYTES) /* that a call writes at most */
#define STATE_BYTES   4096u /* of x87, SSE, AVX and AVX-512 registers: 2,688 */
#define STATE_PARTS   0xe7u /* their bits in XCR0 */
#define N_EMPTY_CALLS 256u
#define LEGACY_BYTES  512u /* of FXSAVE; behind it lies XSAVE's header */

/* clang-format off */
/*
 * What is below the stack pointer when a stub has returned: signal handlers leave 128 bytes there
 * alone (System V ABI for AMD64, 3.2.2). The code that has called it jumps to the call before a
 * thunk (ENTER), and that calls the function's own instructions behind ENTER (stack/thunk.c): by
 * these two words. Where nothing is to be recorded, the stub itself returns to these.
 */
#define ROOM_FOR_WORDS	 "lea -16(%rsp), %rsp\n .cfi_adjust_cfa_offset 16\n"
#define ENTER		 "lea 8(%rsp), %rsp\n jmp *-24(%rsp)\n"
#define CALL_ENTER                                                                                 \
	"	lea 104(%rbp), %rsi\n"                                                            \
	"	call ta_function_enter\n"                                                         \
	"	mov 96(%rbp), %rcx\n"                                                             \
	"	add $9, %rcx\n" /* of ENTER */                                                 \
	"	mov 104(%rbp), %rdx\n"                                                            \
	"	sub $4, %rdx\n" /* TA_THUNK_CALL_BYTES */                                         \
	"	test %al, %al\n"                                                                  \
	"	jz 1f\n"                                                                          \
	"	mov %rdx, 88(%rbp)\n"                                                             \
	"	mov %rcx, 80(%rbp)\n"                                                             \
	"	jmp 2f\n"                                                                         \
	"1:	mov %rcx, 96(%rbp)\n"                                                             \
	"2:\n" TA_GIVE_BACK "	lea 16(%rsp), %rsp\n .cfi_adjust_cfa_offset -16\n	ret\n"

__attribute__((used, visibility("hidden"))) bool ta_function_enter(struct ta_function *function,
								   uintptr_t *slot);
static void ta_function_leave(uintptr_t *slot);
__attribute__((used, visibility("hidden"))) void ta_function_probe(const struct ta_function *probe,
								   uintptr_t *registers);
extern void ta_function_call_empty(uint64_t n) __attribute__((visibility("hidden")));
/* Without a name: analyze learns from its calls what ours take. */
struct ta_function ta_function_nothing __attribute__((used, visibility("hidden")));

__asm__(".text\n"
	".hidden ta_function_enter_stub\n"
	".globl ta_function_enter_stub\n"
	".type ta_function_enter_stub, @function\n"
	"ta_function_enter_stub:\n"
	".cfi_startproc\n"
	".cfi_def_cfa_offset 16\n" ROOM_FOR_WORDS TA_KEEP
	"	mov 96(%rbp), %rdi\n" /* behind the call in the code that the jump leads to */
	"	mov -14(%rdi), %rdi\n" CALL_ENTER ".cfi_endproc\n"
	".size ta_function_enter_stub, . - ta_function_enter_stub\n");

/*
 * Calls a function that does nothing but what an entered one does, so many times, with and without
 * other work behind each moment.
 */
__asm__(".text\n"
	".hidden ta_function_call_empty\n"
	".globl ta_function_call_empty\n"
	".type ta_function_call_empty, @function\n"
	"ta_function_call_empty:\n"
	".cfi_startproc\n" TA_PUSH("rbx") "	mov %rdi, %rbx\n"
	"1:	call ta_function_empty\n"
	"	mov %rbx, %rdi\n"
	"	call ta_own_work\n"
	"	dec %rbx\n"
	"	jnz 1b\n" TA_POP("rbx") "	ret\n"
	".cfi_endproc\n"
	".size ta_function_call_empty, . - ta_function_call_empty\n"
	".type ta_function_empty, @function\n"
	"ta_function_empty:\n"
	".cfi_startproc\n"
	"	call ta_function_enter_empty\n" ENTER "	mov %rbx, %rdi\n"
	"	call ta_own_work\n"
	"	ret\n"
	".cfi_endproc\n"
	".size ta_function_empty, . - ta_function_empty\n"
	".type ta_function_enter_empty, @function\n"
	"ta_function_enter_empty:\n"
	".cfi_startproc\n"
	".cfi_def_cfa_offset 16\n" ROOM_FOR_WORDS TA_KEEP
	"	lea ta_function_nothing(%rip), %rdi\n" CALL_ENTER ".cfi_endproc\n"
	".size ta_function_enter_empty, . - ta_function_enter_empty\n");

/*
 * Amid code all registers and the flags are kept, and handed over in the order of their numbers.
 * What was below the stack pointer gets the place of a call (meet_probe): so the rule that holds
 * here finds out of the code.
 */
__asm__(".text\n"
	".hidden ta_function_probe_stub\n"
	".globl ta_function_probe_stub\n"
	".type ta_function_probe_stub, @function\n"
	"ta_function_probe_stub:\n"
	".cfi_startproc\n"
	".cfi_def_cfa_offset 144\n"
	"pushfq\n .cfi_adjust_cfa_offset 8\n" TA_PUSH("r15") TA_PUSH("r14") TA_PUSH("r13")
	TA_PUSH("r12") TA_PUSH("r11") TA_PUSH("r10") TA_PUSH("r9") TA_PUSH("r8") TA_PUSH("rdi")
	TA_PUSH("rsi") TA_PUSH("rbp")
	".cfi_rel_offset %rbp, 0\n"
	TA_PUSH("rsp") TA_PUSH("rbx") TA_PUSH("rdx") TA_PUSH("rcx") TA_PUSH("rax")
	"	mov 144(%rsp), %rdi\n" /* its struct ta_function */
	"	mov %rsp, %rsi\n"
	"	mov %rsp, %rbp\n"
	".cfi_def_cfa_register %rbp\n"
	"	cld\n"
	"	and $-64, %rsp\n"
	"	call ta_function_probe\n"
	"	mov %rbp, %rsp\n"
	".cfi_def_cfa_register %rsp\n" TA_POP("rax") TA_POP("rcx") TA_POP("rdx") TA_POP("rbx")
	"	lea 8(%rsp), %rsp\n .cfi_adjust_cfa_offset -8\n" TA_POP("rbp")
	".cfi_same_value %rbp\n" TA_POP("rsi") TA_POP("rdi") TA_POP("r8") TA_POP("r9")
	TA_POP("r10") TA_POP("r11") TA_POP("r12") TA_POP("r13") TA_POP("r14") TA_POP("r15")
	"popfq\n .cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	".cfi_endproc\n"
	".size ta_function_probe_stub, . - ta_function_probe_stub\n");

/* clang-format on */

/* ---- Thunks ---- */

static _Atomic uint32_t *places; /* N_PLACES thunks, by what they are for; 0: none */
static uintptr_t *keys; /* by number of a thunk: its function, also when its recording has ended */
static _Atomic bool must_measure;

static const struct plan_rule no_rule;
struct ta_function ta_function_gone = { .rule = &no_rule }; /* no region: by the rare way */

/* Its address; a recording later it is the same. */
static uintptr_t key_of(const struct ta_function *function)
{
	return function->planned ? function->bias + function->planned->address : 0;
}

static bool is_for(uint32_t number, const struct ta_function *function, uintptr_t to)
{
	return ta_thunk_data[number].to == to && keys[number] == key_of(function);
}

static ta_always_inline bool write_record(const struct ta_hook *hook, uint64_t head,
					  uintptr_t address, uint64_t detail)
{
	struct ring_record *record = ta_record_reserve(hook->thread, hook->bits, sizeof(*record));

	if (ta_unlikely(!record))
		return false;
	ta_record_fill(record, head, ta_ticks_begin(), address, detail);
	return true;
}

/* What we have taken since the record before stands in the place of a call stack (ring.h). */
static ta_always_inline bool write_call(const struct ta_hook *hook, enum trace_call call,
					const uintptr_t *slot, uint64_t name_id)
{
	uint64_t own = ta_own_take(hook->thread, UINT32_MAX);

	return write_record(hook, RING_HEAD(TRACE_OP_NOTE, (uint32_t)call | hook->bits, 1, own),
			    (uintptr_t)slot, name_id);
}

static void tell_thunk(const struct ta_hook *hook, uint32_t number, uintptr_t to)
{
	write_record(hook, ta_hook_head(hook, TRACE_OP_NOTE, TRACE_CALL_FUNCTION_THUNK, 1),
		     ta_thunk_address(number), to);
}

/* A new one for a free place. It may be another thread's for something else; 0: there are none. */
static uint32_t make_thunk(const struct ta_hook *hook, struct ta_function *function, uintptr_t to,
			   _Atomic uint32_t *place)
{
	uint32_t made = ta_thunk_take(function, to), number = 0;

	if (!made)
		return 0;
	keys[made] = key_of(function);
	if (!atomic_compare_exchange_strong(place, &number, made))
		return number;
	tell_thunk(hook, made, to);
	return made;
}

/* The number of the thunk; 0: there are no more. */
static __attribute__((noinline)) uint32_t find_thunk(const struct ta_hook *hook,
						     struct ta_function *function, uintptr_t to)
{
	uint64_t hash =
		to * UINT64_C(0x9e3779b97f4a7c15) ^ key_of(function) * UINT64_C(0xc2b2ae3d27d4eb4f);

	hash ^= hash >> 29;
	for (uint32_t i = 0; i < MAX_PROBES; i++) {
		_Atomic uint32_t *place = &places[(hash + i) % N_PLACES];
		uint32_t number = atomic_load_explicit(place, memory_order_acquire);

		if (number == 0) {
			number = make_thunk(hook, function, to, place);
			if (number == 0)
				break;
		}
		if (!is_for(number, function, to))
			continue;
		if (ta_unlikely(ta_thunk_data[number].function == &ta_function_gone)) {
			ta_thunk_data[number].function = function;
			tell_thunk(hook, number, to);
		}
		atomic_store_explicit(&function->last, number, memory_order_relaxed);
		return number;
	}
	atomic_fetch_add_explicit(&ta_image.process->n_calls_unseen, 1, memory_order_relaxed);
	return 0;
}

static ta_always_inline uint32_t thunk_for(const struct ta_hook *hook, struct ta_function *function,
					   uintptr_t to)
{
	uint32_t number = atomic_load_explicit(&function->last, memory_order_relaxed);

	return ta_likely(ta_thunk_data[number].to == to) ? number : find_thunk(hook, function, to);
}

/* ---- Entering and leaving ---- */

static bool is_allocator(const struct ta_function *function)
{
	return function->rule && function != &ta_function_gone;
}

/* The function whose return this is has ended by jumping to another one. Where that goes on. */
static ta_always_inline uintptr_t end_before(const struct ta_hook *hook, const uintptr_t *slot)
{
	const struct ta_thunk_data *data = ta_thunk_data_of(*slot);

	if (!data->function->rule)
		write_call(hook, TRACE_CALL_FUNCTION_LEAVE, slot, data->function->name_id);
	return data->to;
}

static __attribute__((noinline)) bool enter_allocator(struct ta_function *function, uintptr_t *slot)
{
	uintptr_t to = *slot;
	struct ta_hook hook;
	uint32_t number = 0;

	if (!ta_hook_enter_kept(&hook, slot - 1, RING_EVENTS_HEAP))
		return false;
	if (ta_allocator_enter(&hook, function, slot)) {
		if (ta_thunk_is(to))
			to = end_before(&hook, slot);
		number = thunk_for(&hook, function, to);
		if (number) {
			to = ta_thunk_address(number);
			ta_allocator_wait(&hook, function, slot, to);
		}
	}
	ta_hook_leave(&hook);
	*slot = to;
	return number;
}

/* True: its return address is a thunk now. */
static ta_always_inline bool enter(struct ta_function *function, uintptr_t *slot)
{
	uintptr_t to = *slot;
	struct ta_hook hook;

	if (ta_unlikely(function->rule != NULL))
		return enter_allocator(function, slot);
	/* What an allocator's function jumps to hands out its block. */
	if (ta_unlikely(ta_thunk_is(to)) && is_allocator(ta_thunk_data_of(to)->function))
		return false;
	if (ta_unlikely(ta_image.flags & RING_FLAG_STEERED) && ta_pause_is_on(RING_EVENTS_REGIONS))
		return false;
	if (!ta_hook_enter_kept(&hook, slot - 1, RING_EVENTS_REGIONS))
		return false;
	if (ta_unlikely(ta_thunk_is(to)))
		to = end_before(&hook, slot);
	uint32_t number = thunk_for(&hook, function, to);
	if (ta_likely(number) &&
	    !write_call(&hook, TRACE_CALL_FUNCTION_ENTER, slot, function->name_id))
		number = 0;
	if (ta_likely(number))
		to = ta_thunk_address(number);
	ta_hook_leave(&hook);
	/* Last: by this word it is seen whether the hook is still running. */
	*slot = to;
	return number;
}

static ta_always_inline void leave(const struct ta_function *function, uintptr_t *slot)
{
	struct ta_hook hook;

	if (!ta_hook_enter_kept(&hook, slot - 1, RING_EVENTS_REGIONS))
		return;
	write_call(&hook, TRACE_CALL_FUNCTION_LEAVE, slot, function->name_id);
	ta_hook_leave(&hook);
}

/* Will nothing be called that may use vector registers? */
static ta_always_inline bool is_quick(uint32_t state)
{
	return ta_likely(
		(state & ~TA_PAUSES) == ta_tls.known && !ta_tls.guard && !ta_plugins_are_on &&
		ta_seat_is_own() &&
		atomic_load_explicit(&ta_tls.thread->chunk->reserved, memory_order_relaxed) <=
			TA_CHUNK_OUTER_LIMIT - QUICK_BYTES);
}

/*
 * The usual call, where all is known that enter() and leave() find out: a region, in a thread that
 * is in no hook and has room; the clock is a counter. It runs twice in each call: so nothing is
 * called, and no register has to be saved.
 */
static ta_always_inline bool is_usual(const struct ta_function *function, uint32_t state)
{
	return is_quick(state) && ta_likely(!function->rule) && ta_seat_is_own() &&
	       ta_likely(ta_image.wanted & RING_EVENTS_REGIONS) &&
	       ta_likely(ta_image.clock == RING_CLOCK_TICKS);
}

static ta_always_inline bool write_usual(enum trace_call call, const uintptr_t *slot,
					 uint64_t name_id)
{
	struct ta_thread *thread = ta_tls.thread;
	struct ring_record *record;

	ta_hook_guard(slot - 1);
	uint64_t own = ta_own_take(thread, UINT32_MAX);
	record = ta_record_take(thread, &thread->pending, sizeof(*record));
	if (ta_likely(record))
		ta_record_fill(record, RING_HEAD(TRACE_OP_NOTE, call, 1, own), ta_tsc_begin(),
			       (uintptr_t)slot, name_id);
	ta_compiler_barrier();
	ta_tls.guard = 0;
	return record;
}

/* May it write more than QUICK_BYTES? */
static ta_always_inline bool is_long(const struct ta_function *function)
{
	return ta_unlikely(function->rule != NULL) && function->rule->next;
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
	if (!places) {
		long memory =
			ta_map_private(N_PLACES * sizeof(*places) + TA_MAX_THUNKS * sizeof(*keys));

		if (memory < 0)
			return false;
		places = (_Atomic uint32_t *)memory;
		keys = (uintptr_t *)(places + N_PLACES);
	}
	return ta_thunk_begin(ta_function_leave);
}

/* What registers are saved and restored around takes more of the thread's time than usual. */
static uint64_t own_now(void)
{
	bool is_known = ta_image.is_measured && ta_tls.thread && ta_seat_is_own();

	return is_known ? ta_own_now(ta_tls.thread) : 0;
}

static void own_add(uint64_t since)
{
	if (since)
		ta_own_add(ta_tls.thread, since);
}

/* Never within a hook: plug-ins may need locks. */
static void ask_plugins(enum trace_asked when, const uintptr_t *slot)
{
	const struct ta_thread *thread = ta_tls.thread;

	if (ta_plugins_are_on && thread && !ta_tls.guard && ta_seat_is_own() &&
	    ta_plugins_have_room(thread, slot))
		ta_plugins_ask(when);
}

static bool is_in_plugin(void)
{
	return ta_plugins_are_on && ta_tls.thread && ta_tls.thread->asking;
}

static __attribute__((noinline)) bool enter_slow(struct ta_function *function, uintptr_t *slot)
{
	uint64_t since = own_now();
	struct vector_state state;

	save(&state);
	if (ta_unlikely(atomic_load_explicit(&must_measure, memory_order_relaxed)) &&
	    !ta_tls.guard && ta_seat_take() && atomic_exchange(&must_measure, false))
		ta_own_begin();
	own_add(since);
	if (ta_thunk_is(*slot))
		ask_plugins(TRACE_ASKED_REGION_END, slot); /* of what ends by jumping here */
	bool is_entered = enter(function, slot);
	if (is_entered && !function->rule)
		ask_plugins(TRACE_ASKED_REGION_BEGIN, slot);
	since = own_now();
	restore(&state);
	own_add(since);
	return is_entered;
}

static __attribute__((noinline)) void leave_slow(uintptr_t *slot)
{
	const struct ta_function *function = ta_thunk_data_of(*slot)->function;
	uint64_t since = own_now();
	struct vector_state state;

	save(&state);
	own_add(since);
	if (is_allocator(function))
		ta_allocator_leave(slot, false);
	else if (!function->rule) {
		ask_plugins(TRACE_ASKED_REGION_END, slot);
		leave(function, slot);
	}
	since = own_now();
	restore(&state);
	own_add(since);
}

static __attribute__((noinline)) bool enter_other(struct ta_function *function, uintptr_t *slot,
						  uint32_t state)
{
	if (is_quick(state) && !is_long(function))
		return enter(function, slot);
	return state != TA_OFF && !is_in_plugin() && enter_slow(function, slot);
}

/* As enter(). */
bool ta_function_enter(struct ta_function *function, uintptr_t *slot)
{
	uint32_t state = atomic_load_explicit(&ta_state.word, memory_order_relaxed);
	uint32_t number = atomic_load_explicit(&function->last, memory_order_relaxed);

	if (ta_unlikely(!is_usual(function, state) || ta_thunk_data[number].to != *slot ||
			ta_thunk_is(*slot) || ta_image.flags & RING_FLAG_STEERED))
		return enter_other(function, slot, state);
	if (ta_unlikely(!write_usual(TRACE_CALL_FUNCTION_ENTER, slot, function->name_id)))
		return false;
	*slot = ta_thunk_address(number); /* last: see enter() */
	return true;
}

static __attribute__((noinline)) void leave_other(uintptr_t *slot, uint32_t state)
{
	const struct ta_function *function = ta_thunk_data_of(*slot)->function;

	if (is_quick(state) && !function->rule)
		leave(function, slot);
	else if (state != TA_OFF && (state != ta_tls.seen || !is_quick(state) ||
				     !is_allocator(function) || !ta_allocator_leave(slot, true)))
		leave_slow(slot);
}

static void ta_function_leave(uintptr_t *slot)
{
	uint32_t state = atomic_load_explicit(&ta_state.word, memory_order_relaxed);
	const struct ta_function *function = ta_thunk_data_of(*slot)->function;

	if (ta_likely(is_usual(function, state)))
		write_usual(TRACE_CALL_FUNCTION_LEAVE, slot, function->name_id);
	else
		leave_other(slot, state);
}

void ta_function_measure(void)
{
	ta_function_call_empty(N_EMPTY_CALLS);
}

void ta_function_measure_soon(void)
{
	atomic_store(&must_measure, true);
}

void ta_function_end_tail(uintptr_t *slot)
{
	if (ta_likely(!ta_thunk_is(*slot)))
		return;
	const struct ta_thunk_data *data = ta_thunk_data_of(*slot);
	if (is_allocator(data->function))
		return;
	if (!data->function->rule)
		leave(data->function, slot);
	*slot = data->to;
}

/* ---- Probes ---- */

#define RSP	    4u
#define RBP	    5u
#define N_REGISTERS 16u
#define PROBE_BYTES 280u /* from the registers that the stub has kept to the stack pointer */

static uint64_t cut(uint64_t value, const struct plan_argument *argument)
{
	unsigned n_unused = 64 - 8 * argument->n_bytes;

	value <<= n_unused;
	return argument->is_signed ? (uint64_t)((int64_t)value >> n_unused) : value >> n_unused;
}

/* What lies there is read as the program would. Little-endian: no more than it has. */
static uint64_t value_of(const struct ta_function *probe, const struct plan_argument *argument,
			 const uintptr_t *registers)
{
	uintptr_t address = (uintptr_t)argument->add;
	uint64_t value = 0;

	switch (argument->kind) {
	case PLAN_ARGUMENT_CONSTANT:
		return cut(address, argument);
	case PLAN_ARGUMENT_REGISTER:
		return cut(registers[argument->base % N_REGISTERS] >> argument->shift, argument);
	case PLAN_ARGUMENT_MEMORY:
		if (argument->base < N_REGISTERS)
			address += registers[argument->base];
		if (argument->index < N_REGISTERS)
			address += registers[argument->index] << argument->shift;
		break;
	case PLAN_ARGUMENT_IN_FILE:
		address += probe->bias;
		break;
	default:
		return 0;
	}
	for (unsigned i = 0; i < argument->n_bytes; i++)
		value |= (uint64_t)((const uint8_t *)address)[i] << 8 * i;
	return cut(value, argument);
}

static void write_block(const struct ta_hook *hook, const struct ta_function *probe,
			const uint64_t *values)
{
	struct ring_record2 *record = ta_record_reserve(hook->thread, hook->bits, sizeof(*record));
	uint64_t ticks = ta_ticks_begin();

	if (ta_unlikely(!record))
		return;
	record->old_address = values[2];
	record->begin_ticks = ticks;
	record->old_size = 0;
	record->detail = probe->name_id;
	ta_record_fill(&record->base, ta_hook_head(hook, TRACE_OP_NOTE, TRACE_CALL_USDT_ALLOC, 2),
		       ticks, (uintptr_t)values[0], values[1]);
}

static void write_end(const struct ta_hook *hook, uint64_t block)
{
	struct ring_record *record = ta_record_reserve(hook->thread, hook->bits, sizeof(*record));

	if (ta_likely(record))
		ta_record_fill(record, ta_hook_head(hook, TRACE_OP_NOTE, TRACE_CALL_USDT_FREE, 1),
			       ta_ticks_begin(), (uintptr_t)block, 0);
}

/* Within a call that we record, such as malloc, the block is that call's. */
static void record_probe(const struct ta_function *probe, const uintptr_t *frame,
			 const uint64_t *values)
{
	bool is_end = probe->planned->kind == PLAN_PROBE_FREE;
	struct ta_hook hook;

	if (!values[0] || (!is_end && !values[1]) ||
	    !(is_end ? ta_hook_enter_end(&hook, frame, RING_EVENTS_HEAP)
		     : ta_hook_enter(&hook, frame, RING_EVENTS_HEAP)))
		return;
	if (!hook.bits && is_end)
		write_end(&hook, values[0]);
	if (!hook.bits && !is_end) {
		ta_hook_stack(&hook, frame);
		write_block(&hook, probe, values);
	}
	ta_hook_leave(&hook);
}

/*
 * Where a call would have put its return address and rbp they are put for as long as we run: so a
 * call stack begins at the probe. The two words are the program's (red zone), and given back.
 */
static __attribute__((noinline)) void meet_probe(const struct ta_function *probe,
						 uintptr_t *registers)
{
	uintptr_t sp = (uintptr_t)registers + PROBE_BYTES;
	uintptr_t *frame = (uintptr_t *)(sp - 2 * sizeof(*frame));
	uintptr_t kept[] = { frame[0], frame[1] };
	uint64_t values[PLAN_ARGUMENTS];

	registers[RSP] = sp;
	for (unsigned i = 0; i < PLAN_ARGUMENTS; i++)
		values[i] = value_of(probe, &probe->planned->arguments[i], registers);
	frame[0] = registers[RBP];
	frame[1] = probe->bias + probe->planned->behind;
	ta_compiler_barrier();
	record_probe(probe, frame, values);
	ta_compiler_barrier();
	frame[0] = kept[0];
	frame[1] = kept[1];
}

/* Nothing comes before vector registers are kept. */
void ta_function_probe(const struct ta_function *probe, uintptr_t *registers)
{
	struct vector_state state;

	if (atomic_load_explicit(&ta_state.word, memory_order_relaxed) == TA_OFF)
		return;
	save(&state);
	meet_probe(probe, registers);
	restore(&state);
}
#else
void ta_function_end_tail(uintptr_t *slot)
{
	(void)slot;
}
#endif
