#include "tracealloc/own-time.h"

#include "tracealloc/hooks/hook.h"
#include "tracealloc/plugin/note.h"

#define N_EMPTY	     128u
#define N_READINGS   32u
#define WORKS_PER_MS 10000u

void (*ta_own_more)(void);

/* ---- Empty hooks: as those of heap.c and api.c, but that nothing is between their halves ---- */

__attribute__((used)) void ta_own_work(uint64_t n)
{
	uint64_t begin, now;

	if (n % 2)
		return;
	begin = ta_ticks_begin();
	do {
		now = ta_ticks_begin();
	} while (now - begin < ta_image.ticks_per_ms / WORKS_PER_MS);
	if (ta_tls.thread && ta_seat_is_own())
		ta_local_fetch_add(&ta_tls.thread->own_ticks, now - begin);
}

static ta_always_inline void fill(const struct ta_hook *hook, enum trace_own what, uint64_t ticks)
{
	struct ring_record *record = ta_record_reserve(hook->thread, hook->bits, sizeof(*record));

	if (ta_likely(record))
		ta_record_fill(record, ta_hook_head(hook, TRACE_OP_NOTE, TRACE_CALL_OWN_TIME, 1),
			       ticks, what, ta_own_take(hook->thread, UINT64_MAX));
}

static __attribute__((noinline)) void empty_block(void)
{
	const uintptr_t *frame = TA_FRAME();
	struct ta_hook hook;

	if (!ta_hook_enter(&hook, frame, RING_EVENTS_HEAP))
		return;
	/* Nobody has rules for all code that is around us there. */
	if (!TA_IS_AGENT && !ta_image.is_late)
		ta_hook_stack(&hook, frame);
	fill(&hook, TRACE_OWN_BLOCK, ta_ticks_end());
	ta_hook_leave(&hook);
}

static __attribute__((noinline)) void empty_end(void)
{
	struct ta_hook hook;

	if (!ta_hook_enter_end(&hook, TA_FRAME(), RING_EVENTS_HEAP))
		return;
	fill(&hook, TRACE_OWN_END, ta_ticks_begin());
	ta_hook_leave(&hook);
}

static __attribute__((noinline)) void empty_region(void)
{
	struct ta_name name = ta_name_of("a region");
	struct ta_hook hook;

	if (!ta_hook_enter_kept(&hook, TA_FRAME(), RING_EVENTS_REGIONS))
		return;
	/* As where the chain has its text. */
	if (hook.thread->texts[name.id & (TA_TEXTS - 1)] != name.id)
		ta_note_write(&hook, TRACE_OP_NOTE, TRACE_CALL_OWN_TIME,
			      ta_own_take(hook.thread, UINT64_MAX), TRACE_OWN_REGION, 0);
	ta_hook_leave(&hook);
}

/* The least of some: all others were interrupted. */
static uint32_t reading_ticks(void)
{
	uint64_t least = UINT32_MAX, before = ta_ticks_begin();

	for (unsigned i = 0; i < N_READINGS; i++) {
		uint64_t now = ta_ticks_begin();

		least = now - before < least ? now - before : least;
		before = now;
	}
	return (uint32_t)least;
}

void ta_own_begin(void)
{
	static void (*const empty[])(void) = { empty_block, empty_end, empty_region };

	if (ta_image.is_measured)
		return;
	ta_image.is_measured = true;
	ta_image.stacks = ta_own_stacks(ta_image.stacks);
	ta_image.reading_ticks = reading_ticks();
	for (unsigned i = 0; i < sizeof(empty) / sizeof(empty[0]); i++) {
		for (unsigned k = 0; k < N_EMPTY; k++) {
			empty[i]();
			ta_own_work(k);
		}
	}
	if (ta_own_more)
		ta_own_more();
	if (ta_tls.thread && ta_seat_is_own())
		ta_own_take(ta_tls.thread, UINT64_MAX);
}
