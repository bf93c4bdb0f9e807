#include "tracealloc/hooks/hook.h"

#include <errno.h>

#include "tracealloc/hooks/real.h"
#include "tracealloc/image.h"
#include "tracealloc/ring/chunk.h"
#include "tracealloc/pick/usdt.h"

/* Without a known stack: how far above a guard a hook may start and still mean "unwound". */
#define NEAR_BYTES (256u << 10)

/*
 * Has the stack been unwound past the hook that set the guard? A hook that is called from inside
 * it starts further down, and finds the return address of the first still in its place. A handler
 * on an alternate stack may start anywhere: outside the thread's own stack it counts as nested.
 */
static bool is_stale(const struct ta_thread *thread, uintptr_t guard, uintptr_t frame)
{
	guard &= ~TA_GUARD_STACK;
	if (!thread || guard < thread->stack_start || guard >= thread->stack_end)
		return frame >= guard && frame - guard < NEAR_BYTES;
	if (frame >= guard)
		return frame < thread->stack_end;
	if (!TA_PLACE_IS_WORD)
		return *ta_tls.guard_word != ta_tls.guard_pc;
	return ((const uintptr_t *)guard)[1] != ta_tls.guard_pc;
}

/* A hook inside a hook: it records when the thread has a chain of this image. */
static struct ta_hook enter_nested(uint32_t state)
{
	struct ta_thread *thread = ta_tls.thread;

	/* What a C library does for itself comes to hooks at entries, too: part of the call. */
	if (TA_IS_AGENT)
		return (struct ta_hook){ .thread = NULL };
	/* An epoch may have been added since the outermost hook began; a fork sets TA_ASK. */
	if (!(state & TA_ON) || !thread || ta_tls.known == (uint32_t)TA_SEEN_NONE) {
		if (state != TA_OFF)
			ta_image_count_late();
		return (struct ta_hook){ .thread = NULL };
	}
	return (struct ta_hook){ .thread = thread, .bits = TA_NESTED_BITS };
}

/* Attach, or wait until the thread that attaches is ready. Returns the new state. */
static uint32_t settle_state(uint32_t state)
{
	while (!(state & TA_ON) && state != TA_OFF) {
		if (state == TA_ASK &&
		    atomic_compare_exchange_strong(&ta_state.word, &state, TA_BUSY))
			ta_image_attach();
		state = ta_image_wait();
	}
	return state;
}

/* Make the thread fit the state: give it a chain, or let it forget its stacks. */
static bool settle_thread(uint32_t state)
{
	if (ta_tls.ended)
		return false;
	if (!ta_tls.thread) {
		bool is_first = ta_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0) == ta_image.pid;

		if (!ta_thread_begin(is_first))
			return false;
	} else if (ta_tls.known != (uint32_t)TA_SEEN_NONE) {
		ta_stack_forget(ta_tls.thread);
	}
	ta_tls.known = state;
	ta_tls.seen = ta_tls.pause_depth ? (uint32_t)TA_SEEN_PAUSED : state;
	return true;
}

static struct ta_hook enter_outermost(const uintptr_t *frame, bool is_kept)
{
	if (ta_tls.guard && ta_tls.thread)
		ta_record_repair(ta_tls.thread);
	ta_hook_guard(frame);
	uint32_t state = settle_state(atomic_load(&ta_state.word));
	/* Others may be late with the order before. */
	while (ta_pause_is_lifted(state)) {
		ta_pause_obey();
		state = settle_state(atomic_load(&ta_state.word));
	}
	bool is_paused = (state & TA_PAUSED) && !is_kept;
	state &= ~TA_PAUSES;
	bool ok = state != TA_OFF && !is_paused && (state == ta_tls.known || settle_thread(state));
	if (!ok && state != TA_OFF && !is_paused)
		ta_image_count_late();
	if (ok)
		ta_pause_tell();
	if (ok)
		return (struct ta_hook){ .thread = ta_tls.thread };
	ta_tls.guard = 0;
	return (struct ta_hook){ .thread = NULL };
}

struct ta_hook ta_hook_enter_slow(const uintptr_t *frame, bool is_kept)
{
	uint32_t state = atomic_load_explicit(&ta_state.word, memory_order_relaxed);
	struct ta_hook hook;

	if (!ta_seat_take())
		return (struct ta_hook){ .thread = NULL };
	if (ta_real_is_resolving() || (ta_tls.thread && ta_tls.thread->asking))
		return (struct ta_hook){ .thread = NULL };
	if (ta_unlikely(ta_tls.is_sealed)) {
		ta_image_count_sealed();
		return (struct ta_hook){ .thread = NULL };
	}
	if (ta_tls.pause_depth && !is_kept && (state & TA_ON))
		return (struct ta_hook){ .thread = NULL };
	int saved = errno;
	if (ta_tls.guard && !is_stale(ta_tls.thread, ta_tls.guard, ta_frame_place(frame)))
		hook = enter_nested(state);
	else
		hook = enter_outermost(frame, is_kept);
	errno = saved;
	return hook;
}

bool ta_hook_enter_kept(struct ta_hook *hook, const uintptr_t *frame, uint32_t events)
{
	uint32_t state = atomic_load_explicit(&ta_state.word, memory_order_relaxed);

	if (state == TA_OFF)
		return false;
	if (ta_likely((state & ~TA_PAUSES) == ta_tls.known && !ta_tls.guard && ta_seat_is_own())) {
		ta_hook_guard(frame);
		*hook = (struct ta_hook){ .thread = ta_tls.thread };
	} else {
		*hook = ta_hook_enter_slow(frame, true);
	}
	if (ta_likely(hook->thread && (ta_image.wanted & events)))
		return true;
	if (hook->thread && !hook->bits)
		ta_tls.guard = 0;
	return false;
}

/*
 * What picks cost the program: the collector may want fewer of them. One that took longer than a
 * millisecond was mostly not running.
 */
static void count_cost(uint64_t begin)
{
	if (ta_pick_is_all())
		return;
	uint64_t ticks = ta_ticks_end() - begin;
	if (ticks > ta_image.ticks_per_ms)
		ticks = ta_image.ticks_per_ms;
	atomic_fetch_add_explicit(&ta_image.process->pick_ticks, ticks, memory_order_relaxed);
}

struct ta_hook ta_hook_pick(struct ta_hook hook, const uintptr_t *frame, size_t size)
{
	if (!ta_image.picked)
		return hook;
	uint64_t begin = ta_ticks_begin();
	hook.every = ta_pick_take(size);
	if (!hook.every)
		return hook;
	if (!hook.bits)
		hook.thread->pick_site = frame[1];
	ta_hook_stack(&hook, frame);
	count_cost(begin);
	return hook;
}

void ta_hook_fire(const struct ta_hook *hook, const void *block, size_t size)
{
	if (!(ta_image.flags & RING_FLAG_USDT))
		return;
	hook->thread->fired_end = NULL;
	ta_usdt_alloc(block, size, hook->bits ? 0 : hook->thread->pick_site, hook->every);
}

/*
 * The end of a block reaches us twice where an operator delete comes back to our free, and is one
 * of a block that has no event where that was born in a pause; the set of picks knows better.
 */
static bool is_fired_already(const void *block)
{
	struct ta_thread *thread = ta_tls.thread;
	bool is_second = ta_tls.guard && thread && thread->fired_end == block;

	if (thread && !is_second)
		thread->fired_end = block;
	return is_second || ta_pause_has(block);
}

bool ta_hook_end_picked(const void *block)
{
	if (!ta_pick_remove(block))
		return false;
	if (ta_image.flags & RING_FLAG_USDT && !(ta_pick_is_all() && is_fired_already(block)))
		ta_usdt_free(block);
	return true;
}

static void record_picked(const struct ta_hook *hook, enum trace_call call, const void *block,
			  size_t size)
{
	uint64_t begin = ta_ticks_begin(), now;
	struct ring_record2 *record;

	/* Before the record: nobody but us knows the block yet. */
	if (!ta_pick_insert(block)) {
		ta_chunk_count_dropped();
		return;
	}
	record = ta_record_reserve(hook->thread, hook->bits, sizeof(*record));
	if (!record) {
		ta_pick_remove(block);
		return;
	}
	now = ta_ticks_end(); /* not before it is reserved: what is older may be committed */
	record->old_address = 0;
	record->begin_ticks = now;
	record->old_size = 0;
	record->detail = hook->every;
	ta_record_fill(&record->base, ta_hook_head(hook, TRACE_OP_ALLOC, call, 2), now,
		       (uintptr_t)block, size);
	count_cost(begin);
	ta_hook_fire(hook, block, size);
}

void ta_hook_end_rare(struct ta_hook hook, enum trace_call call, const void *block, size_t size)
{
	if (block && hook.every && ta_pick_is_all()) {
		ta_hook_alloc(&hook, call, block, size);
		ta_hook_fire(&hook, block, size);
	} else if (block && hook.every) {
		record_picked(&hook, call, block, size);
	} else if (block && !ta_image.picked) {
		atomic_fetch_add_explicit(&ta_image.process->n_below_min, 1, memory_order_relaxed);
	}
	ta_hook_leave(&hook);
}
